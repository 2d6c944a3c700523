package oracle

import (
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
)

// lawEscalates is the law about unanswered questions.
const lawEscalates = "a question that nobody answers is asked again, and of others, when its definition says"

// mayAnswerLate reports whether the sender of an answer may give it because nobody else has
// answered for so long.
func (w *waits) mayAnswerLate(a *Answer, ask *defgen.FlowAsk, long time.Duration) bool {
	starter := w.x.CreatedBy
	if ask.NotStarter && (a.By == starter || w.rightOf(a) == starter) || !ask.Fits(a.N) {
		return false
	}
	return slices.ContainsFunc(ask.Escalate, func(e defgen.FlowEscalation) bool {
		return long >= e.After-2*w.Skew && allows(e, w.rightOf(a), a.Roles)
	})
}

// checkEscalated judges the reminders and escalations that a write adds to a step run. When the
// step run lapses, it also requires that the executions of its escalations were started.
func (w *waits) checkEscalated(before *workflow.Execution, old, r *workflow.StepRun, s *defgen.FlowStep) {
	if old == nil || !old.Open() {
		return
	}
	reminded := 0
	for _, e := range w.x.Events {
		if e.Step != r.Label || e.Sequence <= before.Sequence || e.Type != "input.reminded" && e.Type != "input.escalated" {
			continue
		}
		data, _ := decode(e.Data).(map[string]any)
		after := []time.Duration{}
		number, _ := data["reminder"].(float64)
		if after = s.Ask.Remind; e.Type == "input.escalated" {
			number, _ = data["level"].(float64)
			after = nil
			for _, level := range s.Ask.Escalate {
				after = append(after, level.After)
			}
		}
		n := int(number)
		if n < 1 || n > len(after) || w.Now.Sub(r.Wait.Since) < after[n-1]-2*w.Skew {
			w.Failf(lawEscalates, "%s of %s at step %s: %s after the beginning, and %v", e.Type, w.x.ID, r.Label, w.Now.Sub(r.Wait.Since), after)
			return
		}
		if e.Type == "input.reminded" {
			reminded = max(reminded, n)
			continue
		}
		if n <= len(w.escalated[r.Seq]) {
			w.Failf(lawEscalates, "level %d of step run %d of %s comes twice", n, r.Seq, w.x.ID)
		}
		for len(w.escalated[r.Seq]) < n {
			w.escalated[r.Seq] = append(w.escalated[r.Seq], w.Now)
		}
	}
	if reminded > 0 {
		if reminded <= w.reminded[r.Seq] {
			w.Failf(lawEscalates, "reminder %d of step run %d of %s comes twice", reminded, r.Seq, w.x.ID)
		}
		w.reminded[r.Seq] = reminded
	}
	if why := w.x.Error; r.Status == sm.StepCancelled || why != nil && why.Step != r.Label {
		return // it has ended for another reason
	}
	if r.Open() || r.Wait.Decided || len(r.Answers) > 0 || w.x.Cancellation != nil || r.EndedAt.Before(r.Wait.Until) {
		return
	}
	for n := range w.escalated[r.Seq] { // it has lapsed
		if s.Ask.Escalate[n].Starts && !slices.Contains(w.paged[r.Seq], n+1) {
			w.Failf(lawEscalates, "step run %d of %s has lapsed at level %d, for which nothing was started", r.Seq, w.x.ID, n+1)
		}
	}
}

// paging judges an execution that an escalation starts.
func (w *waits) paging(first *workflow.Execution, seq int) {
	parameters, _ := decode(first.Input.Parameters).(map[string]any)
	number, _ := parameters["n"].(float64)
	level := int(number)
	r := w.x.StepRunBySeq(seq)
	var s *defgen.FlowStep
	if r != nil {
		s = w.definition.Find(r.Label)
	}
	switch {
	case s != nil && s.Starts:
		if first.Workflow.Name != defgen.Started || first.Awaited() == s.Forget || r.Child == nil || r.Child.ID != first.ID {
			w.Failf(lawEscalates, "%s (%s) is started by step run %d of %s, which starts another", first.ID, first.Workflow, seq, w.x.ID)
		}
		return
	case s == nil || s.Ask == nil || level < 1 || level > len(s.Ask.Escalate) || !s.Ask.Escalate[level-1].Starts || first.Workflow.Name != defgen.Escalated:
		w.Failf(lawEscalates, "%s (%s) is started by step run %d of %s with %v, which starts nothing like that", first.ID, first.Workflow, seq, w.x.ID, parameters)
	case level > len(w.escalated[seq]):
		w.Failf(lawEscalates, "%s is started for level %d of step run %d of %s, which is not committed", first.ID, level, seq, w.x.ID)
	case slices.Contains(w.paged[seq], level):
		w.Failf(lawEscalates, "%s is started for level %d of step run %d of %s, which has started one", first.ID, level, seq, w.x.ID)
	}
	w.paged[seq] = append(w.paged[seq], level)
}

// AnswerRefused is called when somebody's answer was refused. It is a violation if an escalation
// that was committed before the answer was sent allows the answer.
func (o *Oracle) AnswerRefused(sent Answer, refused error) {
	w := o.waitsOf(sent.Execution)
	if w == nil || !workflow.Is(refused, workflow.CodeForbidden) || sent.Token {
		return
	}
	ask := w.definition.Find(sent.Step).Ask
	if ask.NotStarter && sent.By == w.x.CreatedBy {
		return
	}
	for i := range w.x.StepRuns {
		r := &w.x.StepRuns[i]
		if r.Label != sent.Step || !r.Waiting() || sent.Visit > 0 && sent.Visit != r.Ordinal {
			continue
		}
		for n, at := range w.escalated[r.Seq] {
			if at.Before(sent.Since) && allows(ask.Escalate[n], sent.By, sent.Roles) {
				w.Failf(lawEscalates, "%+v was refused, although level %d lets him answer since %s: %v", sent, n+1, at, refused)
			}
		}
	}
}

// allows reports whether a level of escalation lets somebody answer.
func allows(e defgen.FlowEscalation, who string, roles []string) bool {
	return e.Actor != "" && e.Actor == who || e.Role != "" && slices.Contains(roles, e.Role)
}
