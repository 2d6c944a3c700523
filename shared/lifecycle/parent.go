package lifecycle

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A child that its parent waits for checks in with it: before it begins, after each retry, and
// whenever its timer fires or the parent sends a message. The parent closes the step run before it
// reads its children for the last time. So a child either exists by then, and the parent waits for
// it, or it finds the step run closed and ends without having done anything.
//
// A child in fire-and-forget mode checks in once, before it begins. The parent waits until each
// child has done that, and then knows which of them begin. docs/models/family.pml models this.

// Parent is what a child has read about the step run that waits for it.
type Parent struct {
	Status   ParentStatus
	Rollback workflow.RollbackMode // rollback mode with which the parent was cancelled
	Undoes   bool                  // the step run undoes another
}

// ParentStatus says whether the step run of the parent waits.
type ParentStatus string

// Statuses of a parent. A parent that no longer exists has let its children go.
const (
	ParentOpen   ParentStatus = "open"
	ParentClosed ParentStatus = "closed" // the child must end: nothing of it may happen after the end of the step run
	ParentLetGo  ParentStatus = "letGo"  // a child that has begun goes on
)

// ParentOf returns the status of a parent for a child that knows it as by; parent is nil if it does
// not exist. A step run belongs to one try, so an open one belongs to the current try. If a step
// run in fire-and-forget mode has started all its children, it does not keep any of them from
// beginning.
func ParentOf(parent *workflow.Execution, by *workflow.Parent) *Parent {
	if parent == nil || by.Waits && !parent.DiscardedAt.IsZero() {
		return &Parent{Status: ParentLetGo}
	}
	p := &Parent{Status: ParentClosed}
	if parent.Cancellation != nil {
		p.Rollback = parent.Cancellation.Rollback
	}
	switch r := parent.StepRunBySeq(by.StepRunSeq); {
	case r == nil:
	case r.Child == nil: // the step run waits for people, and this child is an escalation of it
		p.Status = ParentOpen
	case r.LetGo:
		p.Status = ParentLetGo
	case r.Kind == workflow.JobRollback && !r.Open():
		p.Undoes = true
	case parent.WorksOn(r) && r.Open() && !r.Closing, !by.Waits && (r.Child.Started || r.Status == sm.StepCompleted):
		p.Status = ParentOpen
	}
	return p
}

// parent returns what is known about the parent, or nil after asking for it.
func (d *decider) parent() *Parent {
	if d.facts.Parent == nil {
		d.need(Need{Kind: NeedParent})
	}
	return d.facts.Parent
}

// closedByParent cancels an execution whose parent no longer waits for it. It reports whether there
// is something else to do before the execution continues. If the execution has yet to check in,
// this happens only after that is committed, see checkIn.
func (d *decider) closedByParent() bool {
	x := d.execution
	if !x.Awaited() || MustCheckIn(x) || d.facts.Parent == nil && (d.changed || !d.timerFired && !d.facts.FromParent) {
		return false
	}
	if _, err := sm.TransitionExecution(x.State, sm.EventCancelRequested, sm.ExecutionCancelling); err != nil {
		return false
	}
	p := d.parent()
	if p == nil {
		return true
	}
	return d.cancelForParent(p)
}

// cancelForParent cancels a child that its parent no longer waits for, unless it was let go after
// it had begun. It reports whether it did.
func (d *decider) cancelForParent(p *Parent) bool {
	x := d.execution
	reason := fmt.Sprintf("execution %s, which started this one, does not wait for it any more", x.Parent.Execution)
	switch {
	case p.Status == ParentOpen, p.Status == ParentLetGo && x.State != sm.ExecutionNew:
		return false
	case !x.Awaited():
		reason = fmt.Sprintf("execution %s, which started this one, ended that step before this one began", x.Parent.Execution)
	case p.Status == ParentLetGo:
		reason = fmt.Sprintf("execution %s, which started this one, let it go before it began", x.Parent.Execution)
	}
	d.err = d.cancel(Command{
		Kind: CommandCancel, Source: workflow.CancelledByParent, Reason: reason, Rollback: p.Rollback, Cascade: true, Actor: "execution/" + x.Parent.Execution,
	})
	return true
}

// mayRetryUnder refuses a retry of a child in two cases: it would find the step run of its parent
// closed, or it would begin under the locks that it holds, and so before it has checked in. It
// reports false without an error if a fact is missing.
func (d *decider) mayRetryUnder(to sm.ExecutionState) (bool, error) {
	x := d.execution
	if !x.Awaited() {
		return true, nil
	}
	switch p := d.parent(); {
	case p == nil:
		return false, nil
	case p.Status == ParentClosed && p.Undoes:
		return false, workflow.Errorf(workflow.CodeIllegalTransition,
			"execution %s was started to undo what execution %s had done, whose rollback has ended: retry that one with rollback, which starts another execution, or undo by hand what remains, and acknowledge both", x.ID, x.Parent.Execution)
	case p.Status == ParentClosed && to == sm.ExecutionRollback:
		return false, workflow.Errorf(workflow.CodeIllegalTransition,
			"execution %s was started by execution %s, which does not wait for it any more, and nothing of it happens after that: undo by hand what remains, and acknowledge both", x.ID, x.Parent.Execution)
	case p.Status == ParentClosed:
		return false, workflow.Errorf(workflow.CodeIllegalTransition,
			"execution %s was started by execution %s, which does not wait for it any more: retry that one, which starts another execution, or start one of your own", x.ID, x.Parent.Execution)
	case p.Status == ParentOpen && to == sm.ExecutionRollback:
		return false, workflow.Errorf(workflow.CodeIllegalTransition,
			"execution %s, which waits for execution %s, is about to end that step, and nothing of it may happen after that: undo by hand what remains, and acknowledge it", x.Parent.Execution, x.ID)
	case p.Status == ParentOpen && to == sm.ExecutionRunning:
		return false, workflow.Errorf(workflow.CodeIllegalTransition,
			"execution %s holds locks, and a retry asks execution %s, which waits for it, before it takes locks: acknowledge it, which releases them, and retry it after that", x.ID, x.Parent.Execution)
	}
	return true, nil
}

// NeverBegins reports whether a child found the step run of its parent closed before it began.
func NeverBegins(x *workflow.Execution) bool {
	return x.StartedAt.IsZero() && x.Cancellation != nil && x.Cancellation.Source == workflow.CancelledByParent
}

// IsOver reports whether an execution does nothing more by itself: it has settled, or it waits for
// an operator.
func IsOver(x *workflow.Execution) bool {
	return sm.Acknowledged(x.State) || x.State == sm.ExecutionFailedUnsafe || x.State == sm.ExecutionCancelled && HasChanges(x)
}
