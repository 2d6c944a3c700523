package lifecycle

import (
	"cmp"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// cancel begins the cancellation of an execution.
func (d *decider) cancel(c Command) error {
	if _, err := sm.TransitionExecution(d.execution.State, sm.EventCancelRequested, sm.ExecutionCancelling); err != nil {
		return d.refusal(c, err)
	}
	d.execution.Cancellation = &workflow.Cancellation{Source: c.Source, Reason: c.Reason, By: c.Actor, At: d.now, Rollback: c.Rollback, Cascade: c.Cascade}
	d.recordCancelled()
	d.execution.BlockedBy, d.execution.Wait = nil, nil
	d.transition(sm.EventCancelRequested, sm.ExecutionCancelling, c.Actor, map[string]any{"reason": c.Reason, "source": c.Source})
	d.stopAll()
	return nil
}

// recordCancelled records that the execution ends because it was cancelled.
func (d *decider) recordCancelled() {
	c := d.execution.Cancellation
	d.execution.Cause, d.execution.Reason = workflow.CauseCancelled, cmp.Or(c.Reason, "cancelled by "+c.By)
}

// IsCancelled reports whether somebody has cancelled the execution. An execution that timed out has
// failed.
func IsCancelled(x *workflow.Execution) bool { return isCancellation(x.Cancellation) }

// isCancellation reports whether there is a cancellation with a source other than the timeout.
func isCancellation(c *workflow.Cancellation) bool {
	return c != nil && c.Source != workflow.CancelledByTimeout
}

// driveCancelling drives CANCELLING. First everything that was started must stop. Then changes are
// rolled back, if that was requested and is possible.
func (d *decider) driveCancelling() {
	if !d.closeOpenSteps() {
		return
	}
	if d.execution.StartedAt.IsZero() { // it holds no locks for a rollback
		d.endBeforeRunning(sm.EventExecutionCancelled, sm.ExecutionCancelled, nil)
		return
	}
	mode := d.config().Rollback
	if d.execution.Cancellation.Rollback == workflow.RollbackNever {
		mode = workflow.RollbackNever
	}
	switch v, _ := classifyChanges(d.execution, mode); v {
	case reversibleChanges:
		d.transition(sm.EventRollbackStarted, sm.ExecutionRollback, "", nil)
		return
	case irreversibleChanges:
		if d.facts.Resolution == nil || isEntityNotHeld(d.execution.Error) {
			break
		}
		o := d.outcomes(true)
		if o == nil {
			return
		}
		d.execution.Result = o.Result // which entities were changed; all stay locked until an operator has looked
	}
	d.end(sm.EventExecutionCancelled, sm.ExecutionCancelled, nil)
}
