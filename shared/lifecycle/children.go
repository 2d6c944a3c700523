package lifecycle

import (
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A step with foreach that starts executions has a set of children: one for each item. They are
// numbered like lanes of packs, and like a lane each is added to a done set when it is over.
// That set says when to look, and no more: a child that has failed may be tried again. What a
// step run has come to is read from the children, after it was closed.

// ChildSet is what is known of the children of a step run that has a set of them.
type ChildSet struct {
	StepRunSeq int
	Done       int               // how many are over, or will never be
	Failed     int               // how many of these did not end well
	Checked    bool              // both are what the children say now, and not what they have noted when they ended
	Refused    bool              // there are no children: Failure says why
	Failure    *workflow.Failure // of the first child that did not end well, as far as the children were read

	// Looked says that children were read that may wait for a person. Asking are those that
	// do, AskingID is the first of them, and Asks is what it asks.
	Looked   bool
	Asking   []int
	AskingID string
	Asks     string

	// What follows is known of a step run that is closed. Open is how many are not over, or, where
	// nobody waits for them, have not asked whether they may begin; they are in none of the Counts.
	Open       int
	Counts     workflow.Counts
	HasChanges bool              // of any: something that is not pure was executed and has not been undone
	Partial    bool              // one of those that completed has not wholly succeeded
	Results    *workflow.Value   // of a list: what the child of each item has come to
	Problem    *workflow.Failure // why there are no results
}

// startChildren begins a step run that starts a child for each item. As many as the window allows
// are started once the step run is committed, and one more whenever one is over.
func (d *decider) startChildren(at int, plan *Plan, r workflow.StepRun) {
	n := &d.facts.Resolution.Program.Nodes[at]
	ref, err := d.referenced(n, n.Reference.Workflow)
	if err != nil {
		d.err = err
		return
	}
	r = d.newStepRun(at, "", plan, r)
	r.Child = &workflow.Child{Workflow: ref, Mode: n.Reference.Mode, Abandon: n.Reference.OnParentClose == workflow.OnParentCloseAbandon, Set: true}
	r.PackSize, r.Only = 1, plan.Only
	r.Window = d.facts.Resolution.Program.MaxInFlight(at)
	if r.Window == 0 {
		r.Window = workflow.DefaultChildrenInFlight
	}
	r.Window = min(r.Window, r.Jobs, workflow.MaxChildrenInFlight)
	d.appendStepRun(r)
	d.execution.Wait = &workflow.Wait{Kind: workflow.WaitChild, Since: d.now, Step: n.Label}
	d.transition(sm.EventExecutionPaused, sm.ExecutionWaiting, "", map[string]any{"kind": workflow.WaitChild, "step": n.Label, "children": r.Jobs})
	d.decision.DispatchSeq = r.Seq
	d.waitUntil(d.now.Add(d.policy.PollInterval))
}

// followChildren waits for a set of children: until all are over, or too many have failed. As for
// items that a block is called for, failures that something handles do not end the step before
// its last child.
func (d *decider) followChildren(r *workflow.StepRun) {
	if r.Closing {
		d.endWithChildren(r)
		return
	}
	s := d.childSet(r, NeedChildren)
	if s == nil {
		return
	}
	n, handled := d.node(r), d.facts.Resolution.Program.FailureHandler(r.StepIndex) >= 0
	full, tooMany := s.Done == r.Jobs, !handled && !d.tolerates(r, n, s.Failed, r.Jobs)
	switch {
	case s.Refused:
		r.Failure = s.Failure
		d.closeStepRun(r)
	case (full || tooMany) && s.Failed > 0 && !s.Checked:
		d.need(Need{Kind: NeedFailedChildren, StepRunSeq: r.Seq})
	case r.Child.Mode == workflow.ModeFireAndForget && full:
		child := *r.Child
		child.Started = true
		r.Child = &child
		d.closeStepRun(r)
	case tooMany:
		r.Failure = tooManyFailed(r, s.Failed)
		d.stopStepRun(r)
	case full:
		d.closeStepRun(r)
	case d.stepTimedOut(r) && handled:
		r.Failure = stepTimeoutFailure(r, n.StepTimeout)
		d.stopStepRun(r)
	case d.stepTimedOut(r):
		d.execution.Wait = nil
		d.failExecution(r, workflow.CauseTimeout, stepTimeoutFailure(r, n.StepTimeout), 0)
	case !d.tellChildrenWait(r, s):
		d.waitUntil(d.now.Add(d.policy.PollInterval))
	}
}

// childSet returns what is known of the step run's children, or nil after asking for it.
func (d *decider) childSet(r *workflow.StepRun, kind NeedKind) *ChildSet {
	if s := d.facts.Children; s != nil && s.StepRunSeq == r.Seq {
		return s
	}
	d.need(Need{Kind: kind, StepRunSeq: r.Seq})
	return nil
}

// tellChildrenWait says in the wait of the execution which of its children wait for a person. It
// reports whether that has changed; then children are read again after the commit, as
// tellChildWait says.
func (d *decider) tellChildrenWait(r *workflow.StepRun, s *ChildSet) bool {
	w := *d.execution.Wait
	if !s.Looked || slices.Equal(s.Asking, r.Child.Asks) && w.Reason == s.Asks {
		return false
	}
	kind := workflow.WaitChild
	if len(s.Asking) > 0 {
		kind = workflow.WaitChildInput
	}
	same := w.Kind == kind
	if !same && d.execution.Sequence >= maxToldEvents {
		return false
	}
	child := *r.Child
	child.Asks = s.Asking
	r.Child = &child
	if !same {
		w.Since = d.now
	}
	w.Kind, w.Child, w.Reason = kind, s.AskingID, s.Asks
	d.execution.Wait, d.changed = &w, true
	if !same {
		d.transition(sm.EventExecutionPaused, sm.ExecutionWaiting, "", map[string]any{"kind": kind, "step": w.Step})
	}
	d.commitFirst()
	return true
}

// endWithChildren ends a step run that is closed, with what its children have come to by now.
func (d *decider) endWithChildren(r *workflow.StepRun) {
	s := d.childSet(r, NeedChildrenClose)
	if s == nil {
		return
	}
	if s.Open > 0 && !r.LetGo {
		d.waitUntil(d.now.Add(d.policy.PollInterval))
		return
	}
	d.execution.Wait = nil
	d.transition(sm.EventExecutionResumed, sm.ExecutionRunning, "", map[string]any{"children": r.Jobs})
	d.recordChildren(r, s)
	n, failed := d.node(r), r.Jobs-r.Counts.OK
	why := r.Failure
	if why == nil && s.Problem != nil {
		why = s.Problem
	}
	if why == nil && failed > 0 && !d.tolerates(r, n, failed, r.Jobs) {
		why = tooManyFailed(r, failed)
	}
	if why == nil {
		r.Child.Partial = s.Partial || failed > 0
		d.exitStepRun(r, sm.StepCompleted)
		d.continueAfter(r)
		return
	}
	cause := workflow.CauseChildFailed
	switch why.Code {
	case workflow.FailureLimit, workflow.FailureLimitValue:
		cause = workflow.CauseLimit
	case workflow.FailureTimeout:
		cause = workflow.CauseTimeout
	case string(workflow.CauseChildFailed):
		if s.Failure != nil {
			why = &workflow.Failure{Code: why.Code, Step: r.Label, Entity: s.Failure.Entity, Message: s.Failure.Message}
		}
		if r.Failure != nil {
			r.Failure = why
		}
	}
	d.failStepRun(r, cause, why)
}

// closeChildren ends a step run whose children may still be at work, because the execution is
// ending. It reports whether the step run has ended.
func (d *decider) closeChildren(r *workflow.StepRun, status sm.StepState) bool {
	s := d.childSet(r, NeedChildrenClose)
	if s == nil {
		return false
	}
	if s.Open > 0 && !r.LetGo {
		d.waitUntil(d.now.Add(d.policy.PollInterval))
		return false
	}
	d.recordChildren(r, s)
	if r.Child.Mode == workflow.ModeFireAndForget && r.Counts.OK == r.Jobs {
		status = sm.StepCompleted
	}
	d.exitStepRun(r, status)
	return true
}

// recordChildren stores what the children of a step run have come to. Changes that they have made
// remain, and their parent cannot undo them. Those that were let go are judged as
// leftToItself says.
func (d *decider) recordChildren(r *workflow.StepRun, s *ChildSet) {
	child := *r.Child
	child.Asks = nil
	r.Child, r.Value, r.Counts = &child, s.Results, s.Counts
	r.Pure, r.Reversible = !s.HasChanges, false
	switch {
	case s.Open == 0:
	case d.leftToItself(r).HasChanges:
		r.Pure, r.InDoubt = false, true
		r.Counts.Failed += s.Open
	default:
		r.Counts.NotExecuted += s.Open
	}
	if r.Child.Mode == workflow.ModeFireAndForget {
		r.Pure = true // nobody answers for them
	}
	if r.Counts.Failed > 0 && r.Counts.Failure == nil {
		r.Counts.Failure = tooManyFailed(r, r.Counts.Failed)
	}
}

// tooManyFailed is why a step run fails too many of whose children did not end well.
func tooManyFailed(r *workflow.StepRun, failed int) *workflow.Failure {
	return &workflow.Failure{Code: string(workflow.CauseChildFailed), Step: r.Label, Message: fmt.Sprintf("%d of the %d executions that step %q started did not end well", failed, r.Jobs, r.Label)}
}
