package oracle

import (
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// flow follows the order in which the steps of an execution are entered.
type flow struct {
	next      int         // the step that is entered next; stopped if there is none
	around    []int       // surrounding steps that a retry enters first
	iteration map[int]int // the repetition that is next or open, by step that repeats
	pipeline  int         // the pipeline that is open
	dueAt     time.Time   // the earliest time at which it was known that the next step is due
	resumed   bool        // an operator has ended the delay
	opened    bool        // an operator has ended the wait for the start time
	begun     bool
}

// stopped is the next step of an execution that enters no more.
const stopped = -1

// beginTry continues at a step, after the steps around it.
func (f *flow) beginTry(x *execution, t *try) {
	*f = flow{next: t.from, iteration: map[int]int{}, dueAt: x.KnownSince, opened: f.opened, begun: true}
	for _, outer := range t.begin[:len(t.begin)-1] {
		f.around = append(f.around, outer.node)
		if x.program.nodes[outer.node].Repeat != nil {
			f.iteration[outer.node] = outer.repetition
		}
	}
}

// followStepRuns follows the step runs that a commit adds and ends.
func (x *execution) followStepRuns(before, after *workflow.Execution) {
	f := &x.flow
	if !f.begun {
		*f = flow{iteration: map[int]int{}, begun: true}
	}
	if after.State == sm.ExecutionRunning && before.State != after.State && before.State != sm.ExecutionWaiting {
		f.dueAt = x.KnownSince
	}
	for _, e := range after.Events {
		if e.Sequence > before.Sequence && e.Actor != "" {
			f.resumed = f.resumed || sm.Event(e.Type) == sm.EventExecutionResumed
			f.opened = f.opened || sm.Event(e.Type) == sm.EventExecutionReady
		}
	}
	if opens := x.request.NotBefore; len(after.StepRuns) > len(before.StepRuns) && !f.opened && x.Now.Before(opens.Add(-2*x.Skew)) {
		x.Failf(lawPause, "%s enters a step at %s, but must not begin before %s", x.x.ID, x.Now, opens)
	}
	for i := range after.StepRuns {
		r := &after.StepRuns[i]
		if !r.Forward() {
			continue
		}
		wasOpen := false
		if i < len(before.StepRuns) {
			if wasOpen = before.StepRuns[i].Open(); !wasOpen {
				continue
			}
		}
		n := x.program.find(r.Label)
		if n < 0 {
			x.Failf(lawOrder, "%s has no step %q", x.x.ID, r.Label)
			return
		}
		if !wasOpen {
			x.entered(r, n)
		}
		if after.Probe && r.Status == sm.StepCancelled && x.program.contains(n) {
			continue // a probe ends steps that it has not executed as a whole
		}
		if !r.Open() {
			p := x.planOf(r)
			if x.unjudged {
				return
			}
			ruleFor(x.program.nodes[n].Body).ended(x, r, n, p)
			if !x.opens(r, n) { // else it ends with its nested steps
				x.left(r, n)
			}
		}
	}
}

// entered requires that an entered step is the next one, and that its delay is over.
func (x *execution) entered(r *workflow.StepRun, n int) {
	f := &x.flow
	inPipeline := f.pipeline != 0 && f.pipeline == r.Pipeline
	if len(f.around) == 0 && f.next != n && !inPipeline {
		x.passOver(r)
	}
	want, around := f.next, len(f.around) > 0
	if around {
		want, f.around = f.around[0], f.around[1:]
	}
	if inPipeline && n == want {
		f.next = n + 1
		return
	}
	if n != want {
		x.Failf(lawOrder, "%s enters step %s as step run %d, but the next one is %s", x.x.ID, r.Label, r.Seq, x.nameOf(want))
		return
	}
	if step := &x.program.nodes[n]; step.Repeat != nil {
		f.iteration[n] = max(1, f.iteration[n])
		if r.Iteration != f.iteration[n] {
			x.Failf(lawOrder, "%s enters step %s for the %d. time, but it has to be the %d.", x.x.ID, r.Label, r.Iteration, f.iteration[n])
		}
	}
	if !around { // a retry within it does not begin it
		x.checkPause(r, n)
	}
	switch {
	case r.Pipeline != 0:
		f.pipeline, f.next = r.Pipeline, n+1
	case x.opens(r, n):
		if f.next == n {
			f.next = n + 1
		}
		f.dueAt = x.KnownSince
	}
}

// opens reports whether the step runs of nested steps follow a step run.
func (x *execution) opens(r *workflow.StepRun, n int) bool {
	p := x.planOf(r)
	return x.program.contains(n) && p.problem == "" && len(p.jobs) > 0
}

// passOver skips a repetition in which nobody takes part, and which has no step run.
func (x *execution) passOver(r *workflow.StepRun) {
	f := &x.flow
	for f.next != stopped && f.next < len(x.program.nodes) && f.iteration[f.next] > 1 {
		n := f.next
		again := workflow.StepRun{Seq: r.Seq, Try: r.Try, Label: x.program.nodes[n].label, Iteration: f.iteration[n]}
		if p := x.newPlan(&again); len(p.jobs)+len(p.unmet) > 0 || p.problem != "" {
			return
		}
		f.after(x, n)
	}
}

// left continues behind a step run that has ended.
func (x *execution) left(r *workflow.StepRun, n int) {
	f := &x.flow
	inPipeline := r.Pipeline != 0
	last := !inPipeline || !slices.ContainsFunc(x.x.StepRuns, func(o workflow.StepRun) bool { return o.Pipeline == r.Pipeline && o.Seq > r.Seq })
	switch h := x.program.handler(n); {
	case r.Status == sm.StepCompleted || r.Status == sm.StepSkipped:
		if !last {
			return
		}
		if f.breakOut(x, r, n) {
			break
		}
		if again := x.program.nodes[n].Repeat; again != nil && r.Status == sm.StepCompleted && r.Iteration < again.Count {
			f.iteration[n] = r.Iteration + 1
			f.next = n
			break
		}
		f.after(x, n)
	case r.Status == sm.StepCancelled: // because of another step run of its pipeline, which decides what is next
	case h < 0:
		f.next = stopped
		return
	case r.Status == sm.StepFailed && h == n && !last:
		return // the others in its pipeline continue
	default:
		f.after(x, h)
	}
	f.dueAt, f.resumed = x.KnownSince, false
	if last {
		f.pipeline = 0
	}
}

// after continues behind a step that has ended, and behind the surrounding steps that end with it.
func (f *flow) after(x *execution, n int) {
	f.next = x.program.nodes[n].end
	for ended := n; ended < f.next; ended++ {
		delete(f.iteration, ended)
	}
	outer := x.program.nodes[n].parent
	if outer < 0 || f.next < x.program.nodes[outer].end {
		return
	}
	if again := x.program.nodes[outer].Repeat; again != nil && f.iteration[outer] < again.Count {
		f.iteration[outer]++
		f.next = outer
		return
	}
	f.after(x, outer)
}

func (x *execution) nameOf(n int) string {
	switch {
	case n == stopped:
		return "none, because the execution fails"
	case n >= len(x.program.nodes):
		return "none, because all are over"
	}
	return x.program.nodes[n].label
}

// checkComplete requires that an execution that completes has passed all steps.
func (x *execution) checkComplete() {
	x.passOver(&workflow.StepRun{Seq: x.x.StepRunSeq + 1, Try: x.x.Try})
	if next := x.flow.next; x.x.Probe && next >= 0 && next < len(x.program.nodes) && !x.program.contains(next) {
		if b := x.program.block(next); b == nil || b.Name != "pure" {
			return // it ends before the first step that is not pure
		}
	}
	if x.flow.next != len(x.program.nodes) {
		x.Failf(lawOrder, "%s has completed, but the next step is %s", x.x.ID, x.nameOf(x.flow.next))
	}
}

// told returns the outcome of the entity at a place.
func told(x *workflow.Execution, place int) workflow.EntityOutcome {
	if x.Result == nil {
		return workflow.EntitySucceeded
	}
	return x.Result.Sets.Of(place)
}

// checkPause requires that a step with something to do is entered only after its delay.
func (x *execution) checkPause(r *workflow.StepRun, n int) {
	step := &x.program.nodes[n]
	delay := step.Delay
	if r.Iteration > 1 {
		delay = step.Repeat.Delay
	}
	if delay == 0 || x.flow.resumed || r.Status == sm.StepSkipped || r.Status == sm.StepFailed || len(x.planOf(r).jobs) == 0 {
		return
	}
	if took := x.Now.Sub(x.flow.dueAt); took < delay-2*x.Skew {
		x.Failf(lawPause, "%s enters step %s %s after it was due, but its delay is %s", x.x.ID, r.Label, took, delay)
	}
}

// checkRetryPause requires that a job is retried only after the delay of its retry.
func (x *execution) checkRetryPause(r *workflow.StepRun, c Call, attempt int) {
	_, index, _ := parseJob(c.Job)
	before := x.calls[workflow.JobID(x.x.ID, r.Seq, index, attempt-1)]
	n := x.program.find(r.Label)
	if before == nil || before.returnedAt.IsZero() || n < 0 {
		return
	}
	b := x.program.block(n)
	if b == nil || b.Retry == nil {
		x.Failf(lawPause, "job %s is tried again, but step %s has no retry", c.Job, r.Label)
		return
	}
	if took := x.Now.Sub(before.returnedAt); took < b.Retry.Delay-2*x.Skew {
		x.Failf(lawPause, "job %s of step %s is tried again after %s, but the delay is %s", c.Job, r.Label, took, b.Retry.Delay)
	}
}
