package lifecycle

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// startChild begins a step run that starts a child execution. The step run is committed first. The
// id of the child is derived from the step run, so that there is only one child even if the start
// is repeated.
func (d *decider) startChild(at int, plan *Plan, r workflow.StepRun) {
	n := &d.facts.Resolution.Program.Nodes[at]
	ref, err := d.referenced(n, cmp.Or(plan.Starts, n.Reference.Workflow))
	if err != nil {
		d.err = err
		return
	}
	r = d.newStepRun(at, "", plan, r)
	if n.Compensate != nil {
		undo, err := d.referenced(n, n.Compensate.Workflow)
		if err != nil {
			d.err = err
			return
		}
		r.Compensation = &workflow.Compensation{Workflow: undo}
	}
	r.Child = &workflow.Child{
		ID: workflow.DerivedID(d.now, fmt.Sprintf("%s.%d", d.execution.ID, r.Seq)), Workflow: ref, Mode: n.Reference.Mode,
		Abandon: n.Reference.OnParentClose == workflow.OnParentCloseAbandon,
	}
	d.appendStepRun(r)
	d.waitForChildren(map[string]any{"kind": workflow.WaitChild, "step": n.Label, "child": r.Child.ID})
}

// waitForChildren waits for what the last step run starts after the commit. A branch lets the others
// go on, and the execution waits when none of them is at work.
func (d *decider) waitForChildren(data map[string]any) {
	r := d.execution.LastStepRun()
	if d.thread == nil {
		d.execution.Wait = d.waitOf(r)
		d.transition(sm.EventExecutionPaused, sm.ExecutionWaiting, "", data)
	}
	d.decision.DispatchSeq = r.Seq
	d.waitUntil(d.now.Add(d.policy.PollInterval))
}

// referenced returns the exact reference of the definition that a step starts, from the reference
// as written.
func (d *decider) referenced(n *spec.Node, written string) (workflow.Ref, error) {
	ref, err := workflow.ParseRef(written)
	if err != nil {
		return ref, workflow.Errorf(workflow.CodeInternal, "step %s: %w", n.Label, err)
	}
	ref.Version = d.execution.Workflows[written]
	return ref, nil
}

// followOnlyChild follows the child, or the set of children, for which the execution waits.
func (d *decider) followOnlyChild() {
	if d.facts.Resolution == nil {
		d.need(Need{Kind: NeedResolution})
		return
	}
	open := d.openStepRuns()
	if len(open) != 1 || open[0].Child == nil {
		d.err = workflow.Errorf(workflow.CodeInternal, "the execution waits for a child that it has not started")
		return
	}
	if !d.followChild(open[0]) {
		d.waitUntil(d.now.Add(d.policy.PollInterval))
	}
}

// followChild waits for the child of a step run to end: well, once it has settled, or badly. It
// reports whether there is something else to do than to wait for it.
func (d *decider) followChild(r *workflow.StepRun) bool {
	switch {
	case r.IsSet():
		return d.followChildren(r)
	case r.Closing:
		return d.endWithChild(r)
	}
	n, handled := d.node(r), d.thread != nil || d.facts.Resolution.Program.FailureHandler(r.StepIndex) >= 0
	c := d.childStatus(r, NeedChild)
	switch {
	case c == nil:
	case c.Refused:
		r.Failure = c.Failure
		d.closeStepRun(r)
	case r.Child.Mode == workflow.ModeFireAndForget:
		d.resumeFromChild(r, c)
		d.exitStepRun(r, sm.StepCompleted)
		d.continueAfter(r)
	case c.Over:
		d.closeStepRun(r)
	case d.stepTimedOut(r) && handled:
		r.Failure = stepTimeoutFailure(r, n.StepTimeout)
		d.stopStepRun(r)
	case d.stepTimedOut(r):
		d.execution.Wait = nil
		d.failExecution(r, workflow.CauseTimeout, stepTimeoutFailure(r, n.StepTimeout), 0)
	case c.WaitsForPerson:
		return d.recordAsk(r, &workflow.ChildAsk{ID: r.Child.ID, Reason: c.Asks}, nil)
	default:
		return d.recordAsk(r, nil, nil)
	}
	return true
}

// maxToldEvents is the number of events after which an execution no longer records that its child
// waits for a person. A child that keeps asking must not use up its parent's space for events.
const maxToldEvents = workflow.MaxEvents / 2

// WaitsForPerson reports whether an execution waits for a person to answer or to let it continue,
// or for a child that does.
func WaitsForPerson(x *workflow.Execution) bool {
	return x.State == sm.ExecutionWaiting && x.Wait != nil && slices.Contains([]workflow.WaitKind{workflow.WaitInput, workflow.WaitStep, workflow.WaitChildInput}, x.Wait.Kind)
}

// recordAsk notes whether children of a step run wait for a person, and says so in the wait of the
// execution. It reports whether that has changed. Then children are read again after the commit:
// another handler may have read them later, and have found nothing to change before that.
// docs/models/asks.pml is the model of this.
func (d *decider) recordAsk(r *workflow.StepRun, ask *workflow.ChildAsk, lanes []int) bool {
	old := r.Child.Ask
	if slices.Equal(lanes, r.Child.Asks) && (old == nil) == (ask == nil) && (ask == nil || old.ID == ask.ID && old.Reason == ask.Reason) {
		return false
	}
	if (old == nil) != (ask == nil) && d.execution.Sequence >= maxToldEvents {
		return false
	}
	child := *r.Child
	if child.Ask, child.Asks = ask, lanes; ask != nil {
		if ask.Since = d.now; old != nil && r.IsSet() {
			ask.Since = old.Since
		}
	}
	r.Child, d.changed = &child, true
	if d.execution.State == sm.ExecutionWaiting {
		d.refreshWait()
	}
	d.commitFirst()
	return true
}

// refreshWait makes the wait of an execution that waits that of the step run whose wait is shown
// first now.
func (d *decider) refreshWait() {
	was := d.execution.Wait.Kind
	w := d.shownWait()
	if d.execution.Wait = w; w.Kind == was {
		return
	}
	d.transition(sm.EventExecutionPaused, sm.ExecutionWaiting, "", pauseData(w))
}

// closeStepRun closes a step run whose child is over, or will never exist. What is known about the
// child no longer counts after the commit, because somebody may have retried it before.
func (d *decider) closeStepRun(r *workflow.StepRun) {
	r.Closing, d.changed = true, true
	d.commitFirst()
}

// endWithChild ends a step run that is closed, with what its child has come to by now. It reports
// whether there is something else to do than to wait for that.
func (d *decider) endWithChild(r *workflow.StepRun) bool {
	var c *ChildStatus
	if r.LetGo {
		c = d.detachedStatus(r)
	} else if c = d.childStatus(r, NeedChildClose); c == nil {
		return true
	}
	if !c.Absent && !c.Over && !r.LetGo {
		return false
	}
	d.resumeFromChild(r, c)
	switch why := r.Failure; {
	case why == nil && d.branchCloses():
		d.exitStepRun(r, d.statusOfClosed(r))
	case why != nil:
		cause := workflow.CauseChildFailed
		switch why.Code {
		case workflow.FailureLimit:
			cause = workflow.CauseLimit
		case workflow.FailureTimeout:
			cause = workflow.CauseTimeout
		}
		d.failStepRun(r, cause, why)
	case c.TooDeep != nil:
		d.failStepRun(r, workflow.CauseLimit, c.TooDeep)
	case c.State == sm.ExecutionCompletedAck:
		d.exitStepRun(r, sm.StepCompleted)
		d.continueAfter(r)
	default:
		d.failStepRun(r, workflow.CauseChildFailed, childFailure(r, c))
	}
	return true
}

// branchCloses reports whether the branch that makes a transition is being closed.
func (d *decider) branchCloses() bool {
	return d.thread != nil && d.execution.StepRunBySeq(d.thread.In).Closing
}

// statusOfClosed is how a step run with children ends whose branch was closed.
func (d *decider) statusOfClosed(r *workflow.StepRun) sm.StepState {
	if r.Counts.OK == max(1, r.Jobs) {
		return sm.StepCompleted
	}
	return sm.StepCancelled
}

// detachedStatus returns the status that the parent records for a child that continues without it.
// The child may change something at any time, so its work counts as remaining changes, unless
// whoever cancelled the parent asked for that.
func (d *decider) detachedStatus(r *workflow.StepRun) *ChildStatus {
	c := d.execution.Cancellation
	return &ChildStatus{StepRunSeq: r.Seq, State: r.Child.State, HasChanges: !isCancellation(c), Absent: isCancellation(c)}
}

// childStatus returns the status of the step run's child, or nil after asking for it.
func (d *decider) childStatus(r *workflow.StepRun, kind NeedKind) *ChildStatus {
	if c := d.facts.Child[r.Seq]; c != nil {
		return c
	}
	d.need(Need{Kind: kind, StepRunSeq: r.Seq})
	return nil
}

// resumeFromChild leaves WAITING, if the execution waits, with the result of the child.
func (d *decider) resumeFromChild(r *workflow.StepRun, c *ChildStatus) {
	d.leaveWaiting(sm.EventExecutionResumed, "", map[string]any{"child": r.Child.ID, "state": c.State})
	d.recordChildEnd(r, c)
}

// recordChildEnd stores the result of a child. Changes that the child has made remain, and its
// parent cannot undo them, unless the step names a workflow that does.
func (d *decider) recordChildEnd(r *workflow.StepRun, c *ChildStatus) {
	child := *r.Child
	child.State, child.Partial, child.Ask = c.State, c.Partial, nil
	r.Child, r.Value = &child, c.Output
	r.Jobs, r.Pure, r.Reversible = 1, !c.HasChanges, false
	r.InDoubt = r.LetGo && c.HasChanges
	switch {
	case c.Absent && r.Failure != nil:
		r.Counts = workflow.Counts{Failed: 1, Unsent: 1, Failure: r.Failure}
	case c.Absent:
		r.Counts = workflow.Counts{NotExecuted: 1}
	case r.Child.Mode == workflow.ModeFireAndForget:
		r.Pure, r.Counts = true, workflow.Counts{OK: 1}
	case c.State == sm.ExecutionCompletedAck:
		r.Counts, r.Reversible = workflow.Counts{OK: 1}, r.Compensation != nil
	case c.HasChanges && r.LetGo && r.Failure != nil:
		r.Counts = workflow.Counts{Failed: 1, Failure: r.Failure}
	case c.HasChanges:
		r.Counts = workflow.Counts{Failed: 1, Failure: childFailure(r, c)}
	case c.State == sm.ExecutionCancelledAck:
		r.Counts = workflow.Counts{NotExecuted: 1}
	default: // it failed and left nothing behind
		r.Counts = workflow.Counts{Failed: 1, Unsent: 1, Failure: childFailure(r, c)}
	}
}

func childFailure(r *workflow.StepRun, c *ChildStatus) *workflow.Failure {
	why := &workflow.Failure{Code: string(workflow.CauseChildFailed), Step: r.Label,
		Message: fmt.Sprintf("execution %s, which step %q started, ended in %s", r.Child.ID, r.Label, c.State)}
	if r.LetGo {
		why.Message = fmt.Sprintf("execution %s, which step %q started, goes on by itself", r.Child.ID, r.Label)
	}
	if c.Failure != nil {
		why.Message += ": " + c.Failure.Message
		why.Entity = c.Failure.Entity
	}
	return why
}

// detaches reports whether the child continues without the parent when its step run is closed early:
// because the cancellation does not cascade, or because the definition abandons it.
func (d *decider) detaches(r *workflow.StepRun) bool {
	if r.Child == nil || r.Child.Mode == workflow.ModeFireAndForget {
		return false
	}
	c := d.execution.Cancellation
	return r.Child.Abandon || isCancellation(c) && !c.Cascade
}

// closeChild ends a step run whose child may still be running, because the execution is ending. The
// child notices that the step run is closed and cancels itself, unless it was let go, or has begun
// in fire-and-forget mode. closeChild reports whether the step run has ended.
func (d *decider) closeChild(r *workflow.StepRun, status sm.StepState) bool {
	if r.LetGo {
		d.recordChildEnd(r, d.detachedStatus(r))
		d.exitStepRun(r, status)
		return true
	}
	c := d.childStatus(r, NeedChildClose)
	if c == nil || !c.Absent && !c.Over {
		return false
	}
	d.recordChildEnd(r, c)
	if r.Child.Mode == workflow.ModeFireAndForget && r.Counts.OK > 0 { // the step only has to start it, and that is done
		status = sm.StepCompleted
	}
	d.exitStepRun(r, status)
	return true
}
