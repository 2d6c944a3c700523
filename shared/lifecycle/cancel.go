package lifecycle

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/lifecycle/visits"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// command applies an operator's verb, or refuses it by the law, naming the state
// the execution is in.
func (d *decider) command(c Command) error {
	if !d.X.DiscardAt.IsZero() {
		return workflow.Errorf(workflow.CodeNotFound, "execution %s has been removed: its retention is over", d.X.ID)
	}
	data := map[string]any{"reason": c.Reason}
	if d.X.State == sm.ExecutionFailedUnsafe && (c.Kind == CommandAcknowledge || c.Kind == CommandUnlock || c.Kind == CommandRetry) {
		found, ok, err := d.tied(c)
		if !ok {
			return err
		}
		if len(found) > 0 {
			data["found"] = found
		}
	}
	switch c.Kind {
	case CommandCancel:
		if _, err := sm.MoveExecution(d.X.State, sm.EventCancelRequested, sm.ExecutionCancelling); err != nil {
			return d.refusal(c, err)
		}
		d.X.Cancellation = &workflow.Cancellation{Source: c.Source, Reason: c.Reason, By: c.Actor, At: d.Now, Rollback: c.Rollback, Cascade: c.Cascade}
		d.X.Cause, d.X.Reason = workflow.CauseCancelled, c.Reason
		if d.X.Reason == "" {
			d.X.Reason = "cancelled by " + c.Actor
		}
		d.X.BlockedBy, d.X.Wait = nil, nil
		d.Move(sm.EventCancelRequested, sm.ExecutionCancelling, c.Actor, map[string]any{"reason": c.Reason, "source": c.Source})
		d.StopAll()
	case CommandAcknowledge:
		to := sm.ExecutionFailedUnsafeAck
		if d.X.State == sm.ExecutionCancelled {
			to = sm.ExecutionCancelledAck
		}
		if _, err := sm.MoveExecution(d.X.State, sm.EventExecutionAcknowledged, to); err != nil {
			return d.refusal(c, err)
		}
		d.Move(sm.EventExecutionAcknowledged, to, c.Actor, data)
		d.Out.Release = true
	case CommandBreak:
		d.breakRun(c)
	case CommandRetry:
		if err := d.retry(c, data); err != nil {
			return err
		}
	case CommandResume:
		if err := d.resumeNow(c); err != nil {
			return err
		}
	case CommandUnlock:
		if err := d.unlock(c, data); err != nil {
			return err
		}
	default:
		return workflow.Errorf(workflow.CodeInvalid, "unknown command %q", c.Kind)
	}
	return d.Err
}

// breakRun fails a run that cannot go on for a reason inside the engine: safe
// before RUNNING, when nothing has been executed; later it is closed and
// classified like any other failure. One that cannot even be closed, classified or
// rolled back is left to an operator, with its locks.
func (d *decider) breakRun(c Command) {
	why := &workflow.Failure{Code: string(workflow.CodeInternal), Message: c.Reason}
	if d.X.State == sm.ExecutionCompleted {
		// Its jobs are done; what cannot be done is to write down what they have found.
		d.X.Applied, d.X.Error, d.Changed = true, &workflow.Failure{Code: CodeNotApplied, Message: c.Reason}, true
		return
	}
	d.Fail(workflow.CauseInternal, why)
	d.X.Wait = nil
	data := map[string]any{"reason": c.Reason}
	switch d.X.State {
	case sm.ExecutionError, sm.ExecutionCancelling, sm.ExecutionRollback:
		d.abandon()
		d.X.Cause, d.X.Error, d.X.Reason = workflow.CauseInternal, why, why.Message
		d.End(sm.EventExecutionBroken, sm.ExecutionFailedUnsafe, data)
	case sm.ExecutionRunning, sm.ExecutionWaiting:
		d.Move(sm.EventExecutionBroken, sm.ExecutionError, "", data)
		d.StopAll()
	default:
		d.Move(sm.EventExecutionBroken, sm.ExecutionFailedSafe, "", data)
	}
}

func (d *decider) refusal(c Command, err error) error {
	return &workflow.Error{
		Code:    workflow.CodeIllegalTransition,
		Message: fmt.Sprintf("cannot %s execution %s in state %s", c.Kind, d.X.ID, d.X.State),
		Cause:   err,
	}
}

// cancel drives CANCELLING: first nothing more may start and everything started
// must have stopped, then what was done is undone if that was asked for.
func (d *decider) cancel() {
	if !d.Closed() {
		return
	}
	mode := d.Config().Rollback
	if d.X.Cancellation.Rollback == workflow.RollbackNever {
		mode = workflow.RollbackNever
	}
	if v, _ := d.Judge(mode); v == visits.Reversible {
		d.Move(sm.EventRollbackStarted, sm.ExecutionRollback, "", nil)
		return
	}
	d.End(sm.EventExecutionCancelled, sm.ExecutionCancelled, nil)
}
