package lifecycle

import (
	"errors"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// applyCommand applies a command, or refuses it with an error that names the state of
// the execution.
func (d *decider) applyCommand(c Command) error {
	if !d.execution.DiscardedAt.IsZero() {
		return workflow.Errorf(workflow.CodeNotFound, "execution %s has been removed: its retention is over", d.execution.ID)
	}
	c.Reason = workflow.Truncate(c.Reason, workflow.MaxReasonBytes)
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
	var err error
	switch c.Kind {
	case CommandCancel:
		err = d.cancel(c)
	case CommandAcknowledge:
		err = d.acknowledge(c, data)
	case CommandBreak:
		d.breakExecution(c)
	case CommandRetry:
		if c.Rollback != "" {
			err = d.retryRollback(c, data)
		} else {
			err = d.beginRetry(c, data)
		}
	case CommandResume:
		err = d.resume(c)
	case CommandUnlock:
		err = d.releaseLocks(c, data)
	case CommandRerun:
		err = d.recordRerun(c)
	case CommandAnswer:
		err = d.answer(c)
	case CommandNext:
		err = d.next(c, data)
	case CommandRewind:
		err = d.rewind(c, data)
	case CommandIssueToken:
		err = d.issueToken(c)
	case CommandRevoke:
		err = d.revokeTokens(c)
	default:
		err = workflow.Errorf(workflow.CodeInvalid, "unknown command %q", c.Kind)
	}
	if err != nil {
		return err
	}
	return d.err
}

// refusal refuses a command for the state of the execution, for the reason that the transition table
// gives.
func (d *decider) refusal(c Command, err error) error {
	message := fmt.Sprintf("cannot %s execution %s in state %s", c.Kind.verb(), d.execution.ID, d.execution.State)
	var refused *sm.TransitionError
	if errors.As(err, &refused) {
		message += ": " + refused.Reason
	}
	return &workflow.Error{Code: workflow.CodeIllegalTransition, Message: message}
}

// acknowledge closes an ended execution that an operator has checked, which releases its locks. If
// the operator has checked only some of its entities, it releases those, and the execution keeps
// its state until no others are left.
func (d *decider) acknowledge(c Command, data map[string]any) error {
	to := sm.ExecutionFailedUnsafeAck
	if d.execution.State == sm.ExecutionCancelled {
		to = sm.ExecutionCancelledAck
	}
	if _, err := sm.TransitionExecution(d.execution.State, sm.EventExecutionAcknowledged, to); err != nil {
		return d.refusal(c, err)
	}
	if len(c.Only) > 0 {
		if ok, err := d.releaseNamed(c, data); !ok {
			return err
		}
		if d.execution.Kept.Len() > 0 {
			to = d.execution.State
		}
	}
	d.transition(sm.EventExecutionAcknowledged, to, c.Actor, data)
	d.decision.WakeWaiters = true
	return nil
}

// releaseLocks releases the locks of an ended execution, or of some of its entities, before it is
// acknowledged. With the last of them it increases the lock epoch, so that the execution no
// longer holds any lock, and no place of a concurrency limit.
func (d *decider) releaseLocks(c Command, data map[string]any) error {
	if _, err := sm.TransitionExecution(d.execution.State, sm.EventLockReleased, d.execution.State); err != nil {
		return d.refusal(c, err)
	}
	if d.holdsNothing() && !d.execution.Unlocked && d.facts.Resolution == nil {
		d.need(Need{Kind: NeedResolution}) // the definition says whether it still has a place of a concurrency limit
		return nil
	}
	if d.holdsNothing() && (d.execution.Unlocked || d.config().Concurrency == nil) {
		return &workflow.Error{Code: workflow.CodeIllegalTransition, Message: fmt.Sprintf("execution %s in state %s holds no locks any more", d.execution.ID, d.execution.State)}
	}
	if len(c.Only) > 0 {
		if ok, err := d.releaseNamed(c, data); !ok {
			return err
		}
	} else if d.execution.Kept != nil {
		d.keepOnly(workflow.Places{})
	}
	if len(c.Only) == 0 || d.holdsNothing() {
		d.execution.Epoch++
		d.execution.Unlocked = true
	}
	d.transition(sm.EventLockReleased, d.execution.State, c.Actor, data)
	d.decision.WakeWaiters = true
	return nil
}

// resume ends a wait for a condition, for notBefore, for a delay or for the starter. A wait for a
// child ends only with the child.
func (d *decider) resume(c Command) error {
	data := map[string]any{"reason": c.Reason}
	switch w := d.execution.Wait; {
	case d.execution.State == sm.ExecutionBlockedWaiting && d.execution.Hold:
		d.release(c, data)
		return nil
	case d.execution.State == sm.ExecutionBlockedWaiting:
		d.execution.Wait = nil
		d.transition(sm.EventExecutionReady, sm.ExecutionReady, c.Actor, data)
		return nil
	case d.execution.State == sm.ExecutionRunning && c.FromStep != "": // a branch may wait while others work
		return d.resumeWait(c, data)
	case d.execution.State != sm.ExecutionWaiting || w == nil:
		_, err := sm.TransitionExecution(d.execution.State, sm.EventExecutionResumed, sm.ExecutionRunning)
		return d.refusal(c, err)
	case len(d.waitingStepRuns())+len(d.delayedThreads()) > 0 && (c.FromStep != "" || w.Kind != workflow.WaitChild && w.Kind != workflow.WaitChildInput):
		return d.resumeWait(c, data)
	case w.Kind == workflow.WaitStep:
		return d.next(c, data)
	case w.Kind != workflow.WaitTimer && w.Child == "":
		return &workflow.Error{
			Code:    workflow.CodeIllegalTransition,
			Message: fmt.Sprintf("execution %s in state %s waits for the executions that step %q started: cancel or retry those%s", d.execution.ID, d.execution.State, w.Step, d.timersToEnd(c)),
		}
	case w.Kind != workflow.WaitTimer:
		return &workflow.Error{
			Code:    workflow.CodeIllegalTransition,
			Message: fmt.Sprintf("execution %s in state %s waits for execution %s: cancel or retry that one%s", d.execution.ID, d.execution.State, w.Child, d.timersToEnd(c)),
		}
	}
	d.endDelay(c.Actor, data)
	return nil
}

// breakExecution fails an execution that cannot continue because of an error in the engine. Before
// RUNNING it fails safely, because nothing was executed. Later it is closed and classified like any
// other failure. If even closing, classifying or rolling back is impossible, it is left to an
// operator, with its locks.
func (d *decider) breakExecution(c Command) {
	why := executionFailure(&workflow.Failure{Code: workflow.CodeInternal.OfFailure(), Message: c.Reason})
	if d.execution.State == sm.ExecutionCompleted {
		// Its jobs are done; only their updates cannot be written.
		d.execution.UpdatesApplied, d.execution.Error, d.changed = true, executionFailure(&workflow.Failure{Code: workflow.FailureUpdatesNotApplied, Message: c.Reason}), true
		return
	}
	d.setFailure(workflow.CauseInternal, why)
	d.execution.Wait, d.thread = nil, nil
	data := map[string]any{"reason": c.Reason}
	switch d.execution.State {
	case sm.ExecutionError, sm.ExecutionCancelling, sm.ExecutionRollback:
		d.cancelOpenStepRuns()
		for c := d.openContainer(); c != nil; c = d.openContainer() { // its definition may not be readable
			d.exitStepRun(c, sm.StepCancelled)
		}
		d.execution.Threads = nil
		d.execution.Cause, d.execution.Error, d.execution.Reason = workflow.CauseInternal, why, why.Message
		d.end(sm.EventExecutionBroken, sm.ExecutionFailedUnsafe, data)
	case sm.ExecutionRunning, sm.ExecutionWaiting:
		d.transition(sm.EventExecutionBroken, sm.ExecutionError, "", data)
		d.stopAll()
	default:
		d.failBeforeRunning(sm.EventExecutionBroken, data)
	}
}
