package lifecycle

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// applyCommand applies an operator's verb, or refuses it by the law, naming the state
// the execution is in.
func (d *decider) applyCommand(c Command) error {
	if !d.execution.DiscardedAt.IsZero() {
		return workflow.Errorf(workflow.CodeNotFound, "execution %s has been removed: its retention is over", d.execution.ID)
	}
	data := map[string]any{"reason": c.Reason}
	if d.execution.State == sm.ExecutionFailedUnsafe && (c.Kind == CommandAcknowledge || c.Kind == CommandUnlock || c.Kind == CommandRetry) {
		closed, ok, err := d.closeUnresolved(c)
		if !ok {
			return err
		}
		if len(closed) > 0 {
			data["found"] = closed
		}
	}
	switch c.Kind {
	case CommandCancel:
		if _, err := sm.TransitionExecution(d.execution.State, sm.EventCancelRequested, sm.ExecutionCancelling); err != nil {
			return d.refusal(c, err)
		}
		d.execution.Cancellation = &workflow.Cancellation{Source: c.Source, Reason: c.Reason, By: c.Actor, At: d.now, Rollback: c.Rollback, Cascade: c.Cascade}
		d.execution.Cause, d.execution.Reason = workflow.CauseCancelled, c.Reason
		if d.execution.Reason == "" {
			d.execution.Reason = "cancelled by " + c.Actor
		}
		d.execution.BlockedBy, d.execution.Wait = nil, nil
		d.transition(sm.EventCancelRequested, sm.ExecutionCancelling, c.Actor, map[string]any{"reason": c.Reason, "source": c.Source})
		d.stopAll()
	case CommandAcknowledge:
		to := sm.ExecutionFailedUnsafeAck
		if d.execution.State == sm.ExecutionCancelled {
			to = sm.ExecutionCancelledAck
		}
		if _, err := sm.TransitionExecution(d.execution.State, sm.EventExecutionAcknowledged, to); err != nil {
			return d.refusal(c, err)
		}
		d.transition(sm.EventExecutionAcknowledged, to, c.Actor, data)
		d.decision.WakeWaiters = true
	case CommandBreak:
		d.breakExecution(c)
	case CommandRetry:
		if err := d.beginRetry(c, data); err != nil {
			return err
		}
	case CommandResume:
		if err := d.resume(c); err != nil {
			return err
		}
	case CommandUnlock:
		if err := d.releaseLocks(c, data); err != nil {
			return err
		}
	default:
		return workflow.Errorf(workflow.CodeInvalid, "unknown command %q", c.Kind)
	}
	return d.err
}

// breakExecution fails a run that cannot go on for a reason inside the engine: safe
// before RUNNING, when nothing has been executed; later it is closed and
// classified like any other failure. One that cannot even be closed, classified or
// rolled back is left to an operator, with its locks.
func (d *decider) breakExecution(c Command) {
	why := &workflow.Failure{Code: string(workflow.CodeInternal), Message: c.Reason}
	if d.execution.State == sm.ExecutionCompleted {
		// Its jobs are done; what cannot be done is to write down what they have found.
		d.execution.UpdatesApplied, d.execution.Error, d.changed = true, &workflow.Failure{Code: CodeUpdatesNotApplied, Message: c.Reason}, true
		return
	}
	d.setFailure(workflow.CauseInternal, why)
	d.execution.Wait = nil
	data := map[string]any{"reason": c.Reason}
	switch d.execution.State {
	case sm.ExecutionError, sm.ExecutionCancelling, sm.ExecutionRollback:
		d.cancelOpenStepRuns()
		d.execution.Cause, d.execution.Error, d.execution.Reason = workflow.CauseInternal, why, why.Message
		d.end(sm.EventExecutionBroken, sm.ExecutionFailedUnsafe, data)
	case sm.ExecutionRunning, sm.ExecutionWaiting:
		d.transition(sm.EventExecutionBroken, sm.ExecutionError, "", data)
		d.stopAll()
	default:
		d.transition(sm.EventExecutionBroken, sm.ExecutionFailedSafe, "", data)
	}
}

func (d *decider) refusal(c Command, err error) error {
	return &workflow.Error{
		Code:    workflow.CodeIllegalTransition,
		Message: fmt.Sprintf("cannot %s execution %s in state %s", c.Kind, d.execution.ID, d.execution.State),
		Cause:   err,
	}
}

// driveCancelling drives CANCELLING: first nothing more may start and everything started
// must have stopped, then what was done is undone if that was asked for.
func (d *decider) driveCancelling() {
	if !d.closeOpenSteps() {
		return
	}
	mode := d.config().Rollback
	if d.execution.Cancellation.Rollback == workflow.RollbackNever {
		mode = workflow.RollbackNever
	}
	if v, _ := d.classifyChanges(mode); v == reversibleChanges {
		d.transition(sm.EventRollbackStarted, sm.ExecutionRollback, "", nil)
		return
	}
	d.end(sm.EventExecutionCancelled, sm.ExecutionCancelled, nil)
}
