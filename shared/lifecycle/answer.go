package lifecycle

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Events about questions to people. Like [EventSignalReceived] they change no state.
const (
	EventInputAnswered  = "input.answered"  // somebody has answered
	EventInputReminded  = "input.reminded"  // nobody has answered yet
	EventInputEscalated = "input.escalated" // more people may answer now
)

// answer accepts an answer to a waiting step run, or refuses it. It first checks the key: a
// repeated request has already been accepted, whatever has happened to the step run since. Then
// anything that is due is decided alone, so that nobody is told of a deadline that is not stored.
func (d *decider) answer(c Command) error {
	a := c.Answer
	if known := d.knownAnswer(a); known != nil {
		if known.Digest != a.Digest {
			return workflow.Errorf(workflow.CodeIdempotencyMismatch, "the Idempotency-Key belongs to another answer")
		}
		d.repeated = true
		return nil
	}
	if a.Next && !d.execution.Stepping {
		return d.notStepping()
	}
	if d.somethingIsDue() {
		d.decision.CommandPending = true
		return nil
	}
	r, err := d.mayAnswer(a, c.Actor)
	switch {
	case err != nil:
		return err
	case !a.ByToken && r.BearerOf(c.Actor, d.now) != "":
		return refusedAnswer("used", fmt.Sprintf("%s has made a token with which %s answers step %q of execution %s", c.Actor, r.BearerOf(c.Actor, d.now), r.Label, d.execution.ID))
	case d.facts.Resolution == nil:
		d.need(Need{Kind: NeedResolution})
		return nil
	}
	f := d.facts.Answer
	switch {
	case f == nil || f.StepRunSeq != r.Seq:
		d.need(Need{Kind: NeedAnswer, StepRunSeq: r.Seq})
		return nil
	case f.Problem != nil:
		return f.Problem
	}
	answer := workflow.Answer{By: c.Actor, At: d.now, Key: a.Key, Digest: a.Digest, Rejects: f.Rejects, Value: f.Value}
	if a.ByToken {
		answer.Via, answer.TokenBy = workflow.AnswerByToken, a.TokenBy
	}
	if err := d.refuseForRoom(r, answer); err != nil {
		return err
	}
	d.thread = d.threadOf(r)
	d.takeAnswer(r, c, answer)
	d.thread = nil
	return nil
}

// asksPeople reports whether a step run, which may be nil, waits for people to answer.
func (d *decider) asksPeople(r *workflow.StepRun) bool {
	return r != nil && d.execution.TakesAnswers() && r.Waiting() && r.Wait.Need > 0
}

// mayAnswer returns the step run that an answer is for, if it accepts an answer from the actor.
func (d *decider) mayAnswer(a *Answer, actor string) (*workflow.StepRun, error) {
	r := d.execution.StepRunBySeq(a.StepRunSeq)
	switch {
	case !d.asksPeople(r):
		return nil, d.answerRefusal(r)
	case a.ByToken && a.Generation != r.Wait.Generation:
		return nil, refusedAnswer("revoked", fmt.Sprintf("the token for step %q of execution %s has been revoked", r.Label, d.execution.ID))
	case a.ByToken && !a.ExpiresAt.IsZero() && !d.now.Before(a.ExpiresAt):
		return nil, refusedAnswer("expired", fmt.Sprintf("the token for step %q of execution %s expired at %s", r.Label, d.execution.ID, a.ExpiresAt.Format(time.RFC3339)))
	case r.HasAnswered(actor):
		return nil, refusedAnswer("used", fmt.Sprintf("%s has answered step %q of execution %s already", actor, r.Label, d.execution.ID))
	case r.HasUsedRight(cmp.Or(a.TokenBy, actor)):
		return nil, refusedAnswer("used", fmt.Sprintf("step %q of execution %s has been answered with the right of %s already", r.Label, d.execution.ID, cmp.Or(a.TokenBy, actor)))
	}
	return r, nil
}

// CheckToken returns the step run that the bearer of a token may answer now. It changes nothing:
// somebody who only asks is told of a passed deadline of this step run before it is stored. Other
// due work does not concern the bearer.
func CheckToken(x *workflow.Execution, a *Answer, actor string, now time.Time) (*workflow.StepRun, error) {
	d := &decider{execution: x, now: now}
	r, err := d.mayAnswer(a, actor)
	if err != nil {
		return nil, err
	}
	if until, what := d.closesAt(r); !now.Before(until) {
		return nil, refusedAnswer("closed", fmt.Sprintf("%s was %s", what, until.Format(time.RFC3339)))
	}
	return r, nil
}

// closesAt returns until when a waiting step run takes answers, and what ends it then: its own
// deadline, that of the execution, or that of surrounding branches.
func (d *decider) closesAt(r *workflow.StepRun) (until time.Time, what string) {
	until, what = r.Wait.Until, fmt.Sprintf("the deadline of step %q", r.Label)
	if hasDeadline(d.execution) && d.execution.Deadline.Before(until) {
		until, what = d.execution.Deadline, "the deadline of the execution"
	}
	for f := d.execution.StepRunBySeq(r.In); f != nil; f = d.execution.StepRunBySeq(f.In) {
		if at := branchDeadline(d.execution, f); !at.IsZero() && at.Before(until) {
			until, what = at, fmt.Sprintf("the time of step %q", f.Label)
		}
	}
	return until, what
}

// knownAnswer returns the answer that the same request has given before; nil if there is none.
func (d *decider) knownAnswer(a *Answer) *workflow.Answer {
	for i := range d.execution.StepRuns {
		r := &d.execution.StepRuns[i]
		if a.Named && r.Seq != a.StepRunSeq {
			continue
		}
		for k := range r.Answers {
			if r.Answers[k].Key == a.Key {
				return &r.Answers[k]
			}
		}
	}
	return nil
}

// somethingIsDue reports whether a deadline of the execution, of one of its waits or of branches
// has passed, so that the next decision is about that.
func (d *decider) somethingIsDue() bool {
	if hasDeadline(d.execution) && !d.now.Before(d.execution.Deadline) {
		return true
	}
	if !d.execution.TakesAnswers() {
		return false
	}
	for _, r := range d.waitingStepRuns() {
		if !d.now.Before(r.Wait.Until) {
			return true
		}
	}
	for i := range d.execution.StepRuns {
		if f := &d.execution.StepRuns[i]; f.Open() {
			if at := branchDeadline(d.execution, f); !at.IsZero() && !d.now.Before(at) {
				return true
			}
		}
	}
	return false
}

// answerRefusal returns why a step run takes no answer.
func (d *decider) answerRefusal(r *workflow.StepRun) error {
	x := d.execution
	text := fmt.Sprintf("cannot answer execution %s in state %s: ", x.ID, x.State)
	switch {
	case r == nil:
		text += "it has not asked for input"
	case r.Wait != nil && (r.Wait.Lapsed || !r.Wait.Decided && !r.Open() && !r.EndedAt.Before(r.Wait.Until)):
		text += fmt.Sprintf("the deadline of step %q was %s", r.Label, r.Wait.Until.Format(time.RFC3339))
	case r.Wait != nil && r.Wait.Decided:
		text += fmt.Sprintf("step %q has been answered", r.Label)
	case r.Open() && r.Closing:
		text += fmt.Sprintf("step %q is being stopped", r.Label)
	default:
		text += fmt.Sprintf("step %q does not wait for input", r.Label)
	}
	return refusedAnswer("closed", text)
}

// answerIssues are the issues of refused answers, by code.
var answerIssues = map[string]string{
	"closed":  "the step takes no answer, or none any more",
	"used":    "one person counts once: you have answered, or let another one answer, already",
	"revoked": "the token has been revoked: ask for another one",
	"expired": "the token has expired: ask for another one",
}

func refusedAnswer(code, text string) error {
	return &workflow.Error{Code: workflow.CodeIllegalTransition, Message: text, Issues: []workflow.Issue{{Path: "input", Code: code, Message: answerIssues[code]}}}
}

// takeAnswer records an answer. The decisive answer ends the step run in the same commit, unless
// one of its jobs is still running.
func (d *decider) takeAnswer(r *workflow.StepRun, c Command, answer workflow.Answer) {
	r.Answers = append(r.Answers[:len(r.Answers):len(r.Answers)], answer)
	approvals := 0
	for i := range r.Answers {
		if !r.Answers[i].Rejects {
			approvals++
		}
	}
	data := map[string]any{"answers": len(r.Answers), "need": r.Wait.Need}
	if answer.Via != "" {
		data["via"] = answer.Via
	}
	if answer.TokenBy != "" {
		data["tokenBy"] = answer.TokenBy
	}
	if r.Wait.Approval {
		data["approved"] = !answer.Rejects
	}
	if c.Reason != "" {
		data["reason"] = c.Reason
	}
	d.record(workflow.Event{Layer: string(sm.LayerStep), Type: EventInputAnswered, Step: r.Label, Actor: c.Actor}, data)
	if !answer.Rejects && approvals < r.Wait.Need {
		return
	}
	decided := *r.Wait
	decided.Decided = true
	r.Wait = &decided
	if c.Answer.Next {
		d.enterFollowing(c.All)
	}
	d.leaveWaiting(sm.EventExecutionResumed, c.Actor, map[string]any{"step": r.Label})
	if !answer.Rejects {
		value := answer.Value
		if r.Wait.Approval {
			value = nil // its result combines all answers
		}
		d.completeWait(r, value)
		return
	}
	d.rejectWait(r, fmt.Sprintf("step %q was rejected by %s", r.Label, c.Actor))
}

// rejectWait ends a step run that was rejected. It fails, unless the definition says where the
// execution goes on.
func (d *decider) rejectWait(r *workflow.StepRun, message string) {
	why := &workflow.Failure{Code: workflow.FailureRejected, Step: r.Label, Message: message}
	if to := d.node(r).OnReject; to != nil {
		d.endWaitAt(r, why, to)
		return
	}
	d.failStepRun(r, workflow.CauseStepFailed, why)
}

// nextDue returns when the next reminder or escalation of a wait is due; zero for never.
func nextDue(ask *spec.Ask, w *workflow.StepWait) (at time.Time) {
	if w.Reminded < len(ask.Remind) {
		at = w.Since.Add(ask.Remind[w.Reminded].Std())
	}
	if w.Level < len(ask.Escalate) {
		if next := w.Since.Add(ask.Escalate[w.Level].After.Std()); at.IsZero() || next.Before(at) {
			at = next
		}
	}
	return at
}

// escalate records the reminders and the escalation level that are due. The level is committed
// before its executions are started, with a timer that is near, whatever else is due next.
func (d *decider) escalate(r *workflow.StepRun) {
	ask, w := d.node(r).Waits().Asks(), *r.Wait
	for w.Reminded < len(ask.Remind) && !d.now.Before(w.Since.Add(ask.Remind[w.Reminded].Std())) {
		w.Reminded++
	}
	for w.Level < len(ask.Escalate) && !d.now.Before(w.Since.Add(ask.Escalate[w.Level].After.Std())) {
		w.Level++
	}
	if w.Reminded > r.Wait.Reminded {
		d.record(workflow.Event{Layer: string(sm.LayerStep), Type: EventInputReminded, Step: r.Label}, map[string]any{"reminder": w.Reminded})
	}
	escalated := w.Level > r.Wait.Level
	if escalated {
		d.record(workflow.Event{Layer: string(sm.LayerStep), Type: EventInputEscalated, Step: r.Label}, map[string]any{"level": w.Level})
	}
	w.Next = nextDue(ask, &w)
	r.Wait, d.changed = &w, true
	if escalated {
		d.commitFirst()
	}
}

// page reports whether the executions of the committed levels have been started.
func (d *decider) page(r *workflow.StepRun) bool {
	if d.facts.Escalated[r.Seq] < r.Wait.Level {
		d.need(Need{Kind: NeedEscalated, StepRunSeq: r.Seq, Level: r.Wait.Level})
		return false
	}
	w := *r.Wait
	w.Paged = w.Level
	r.Wait, d.changed, d.paused = &w, true, d.execution.State == sm.ExecutionWaiting
	return true
}
