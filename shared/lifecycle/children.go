package lifecycle

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A step with foreach that starts executions has a set of children: one for each item. They are
// numbered like lanes of packs, and like a lane, each is added to a done set when it is over. The
// done set only tells when to look, because a failed child may be retried. The result of the step
// run is read from the children after it was closed.

// ChildSet describes the set of children of a step run.
type ChildSet struct {
	StepRunSeq int
	Done       int               // children that are over, or will never exist
	Failed     int               // those of them that did not end well
	Checked    bool              // the counts are read from the children themselves, not from the done sets
	Refused    bool              // there are no children; Failure says why
	Failure    *workflow.Failure // of the first child that did not end well, among the children that were read

	// Looked means that children were read that may wait for a person. Asking lists those that do,
	// AskingID is the first of them, and Asks is its question.
	Looked   bool
	Asking   []int
	AskingID string
	Asks     string

	// The following is known only for a closed step run. Open is how many children are not over or,
	// in fire-and-forget mode, have not asked whether they may begin; they are in none of the
	// Counts.
	Open       int
	Counts     workflow.Counts
	HasChanges bool              // a child has executed something that is not pure and was not undone
	Partial    bool              // a completed child has only partly succeeded
	Results    *workflow.Value   // a list: the result of each item's child
	Problem    *workflow.Failure // why there are no results
}

// startChildren begins a step run that starts a child for each item. Once the step run is
// committed, as many children are started as the window allows, and one more whenever one is over.
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
	d.waitForChildren(map[string]any{"kind": workflow.WaitChild, "step": n.Label, "children": r.Jobs})
}

// followChildren waits for a set of children: until all are over, or too many have failed. As for
// items that a block is called for, failures that something handles, or that end a branch, do not
// end the step before its last child. It reports whether there is something else to do than to
// wait.
func (d *decider) followChildren(r *workflow.StepRun) bool {
	if r.Closing {
		return d.endWithChildren(r)
	}
	s := d.childSet(r, NeedChildren)
	if s == nil {
		return true
	}
	n, handled := d.node(r), d.thread != nil || d.facts.Resolution.Program.FailureHandler(r.StepIndex) >= 0
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
	case !s.Looked:
		return false
	case len(s.Asking) > 0:
		return d.recordAsk(r, &workflow.ChildAsk{ID: s.AskingID, Reason: s.Asks}, s.Asking)
	default:
		return d.recordAsk(r, nil, nil)
	}
	return true
}

// childSet returns what is known of the step run's children, or nil after asking for it.
func (d *decider) childSet(r *workflow.StepRun, kind NeedKind) *ChildSet {
	if s := d.facts.Children[r.Seq]; s != nil {
		return s
	}
	d.need(Need{Kind: kind, StepRunSeq: r.Seq})
	return nil
}

// endWithChildren ends a step run that is closed, with what its children have come to by now. It
// reports whether there is something else to do than to wait for that.
func (d *decider) endWithChildren(r *workflow.StepRun) bool {
	s := d.childSet(r, NeedChildrenClose)
	if s == nil {
		return true
	}
	if s.Open > 0 && !r.LetGo {
		return false
	}
	d.leaveWaiting(sm.EventExecutionResumed, "", map[string]any{"children": r.Jobs})
	d.recordChildren(r, s)
	if r.Failure == nil && d.branchCloses() {
		d.exitStepRun(r, d.statusOfClosed(r))
		return true
	}
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
		return true
	}
	cause := workflow.CauseChildFailed
	switch why.Code {
	case workflow.FailureLimit, workflow.FailureLimitValue, workflow.FailureLimitDepth:
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
	return true
}

// closeChildren ends a step run whose children may still be running, because the execution is
// ending. It reports whether the step run has ended.
func (d *decider) closeChildren(r *workflow.StepRun, status sm.StepState) bool {
	s := d.childSet(r, NeedChildrenClose)
	if s == nil || s.Open > 0 && !r.LetGo {
		return false
	}
	d.recordChildren(r, s)
	if r.Child.Mode == workflow.ModeFireAndForget && r.Counts.OK == r.Jobs {
		status = sm.StepCompleted
	}
	d.exitStepRun(r, status)
	return true
}

// recordChildren stores the results of a step run's children. Changes that they have made remain,
// and their parent cannot undo them. Children that were let go are judged as in detachedStatus.
func (d *decider) recordChildren(r *workflow.StepRun, s *ChildSet) {
	child := *r.Child
	child.Asks, child.Ask = nil, nil
	r.Child, r.Value, r.Counts = &child, s.Results, s.Counts
	r.Pure, r.Reversible = !s.HasChanges, false
	switch {
	case s.Open == 0:
	case d.detachedStatus(r).HasChanges:
		r.Pure, r.InDoubt = false, true
		r.Counts.Failed += s.Open
	default:
		r.Counts.NotExecuted += s.Open
	}
	if r.Child.Mode == workflow.ModeFireAndForget {
		r.Pure = true // the parent is not responsible for them
	}
	if r.Counts.Failed > 0 && r.Counts.Failure == nil {
		r.Counts.Failure = tooManyFailed(r, r.Counts.Failed)
	}
}

// tooManyFailed returns why a step run fails when too many of its children did not end well.
func tooManyFailed(r *workflow.StepRun, failed int) *workflow.Failure {
	return &workflow.Failure{Code: string(workflow.CauseChildFailed), Step: r.Label, Message: fmt.Sprintf("%d of the %d executions that step %q started did not end well", failed, r.Jobs, r.Label)}
}
