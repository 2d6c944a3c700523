package lifecycle

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// command applies an operator's verb, or refuses it by the law, naming the state
// the execution is in.
func (d *decider) command(c Command) error {
	switch c.Kind {
	case CommandCancel:
		if _, err := sm.MoveExecution(d.x.State, sm.EventCancelRequested, sm.ExecutionCancelling); err != nil {
			return d.refusal(c, err)
		}
		d.x.Cancellation = &workflow.Cancellation{Source: c.Source, Reason: c.Reason, By: c.Actor, At: d.now, Rollback: c.Rollback, Cascade: c.Cascade}
		d.x.Cause, d.x.Reason = workflow.CauseCancelled, c.Reason
		if d.x.Reason == "" {
			d.x.Reason = "cancelled by " + c.Actor
		}
		d.x.BlockedBy, d.x.Wait = nil, nil
		d.move(sm.EventCancelRequested, sm.ExecutionCancelling, c.Actor, map[string]any{"reason": c.Reason, "source": c.Source})
		d.stopAll()
	case CommandAcknowledge:
		to := sm.ExecutionFailedUnsafeAck
		if d.x.State == sm.ExecutionCancelled {
			to = sm.ExecutionCancelledAck
		}
		if _, err := sm.MoveExecution(d.x.State, sm.EventExecutionAcknowledged, to); err != nil {
			return d.refusal(c, err)
		}
		d.move(sm.EventExecutionAcknowledged, to, c.Actor, map[string]any{"reason": c.Reason})
		d.out.Release = true
	case CommandBreak:
		d.breakRun(c)
	case CommandRetry:
		if err := d.retry(c); err != nil {
			return err
		}
	case CommandResume:
		if err := d.resumeNow(c); err != nil {
			return err
		}
	case CommandUnlock:
		if err := d.unlock(c); err != nil {
			return err
		}
	default:
		return workflow.Errorf(workflow.CodeInvalid, "unknown command %q", c.Kind)
	}
	return d.err
}

// breakRun fails a run that cannot go on for a reason inside the engine: safe
// before RUNNING, when nothing has been executed; later it is closed and
// classified like any other failure.
func (d *decider) breakRun(c Command) {
	d.fail(workflow.CauseInternal, &workflow.Failure{Code: string(workflow.CodeInternal), Message: c.Reason})
	to := sm.ExecutionError
	if d.x.StartedAt.IsZero() {
		to = sm.ExecutionFailedSafe
	}
	d.x.Wait = nil
	d.move(sm.EventExecutionBroken, to, "", map[string]any{"reason": c.Reason})
	if d.err == nil && to == sm.ExecutionError {
		d.stopAll()
	}
}

func (d *decider) refusal(c Command, err error) error {
	return &workflow.Error{
		Code:    workflow.CodeIllegalTransition,
		Message: fmt.Sprintf("cannot %s execution %s in state %s", c.Kind, d.x.ID, d.x.State),
		Cause:   err,
	}
}

// cancel drives CANCELLING: first nothing more may start and everything started
// must have stopped, then what was done is undone if that was asked for.
func (d *decider) cancel() {
	if !d.closed() {
		return
	}
	mode := d.config().Rollback
	if d.x.Cancellation.Rollback == workflow.RollbackNever {
		mode = workflow.RollbackNever
	}
	if v, _ := d.verdict(mode); v == reversible {
		d.move(sm.EventRollbackStarted, sm.ExecutionRollback, "", nil)
		return
	}
	d.end(sm.EventExecutionCancelled, sm.ExecutionCancelled, nil)
}
