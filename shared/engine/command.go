package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Cancel ends a run early and cleanly. It answers once the request is committed;
// what has been claimed stops at its next heartbeat. A run that is over, or that
// is already ending, refuses with CodeIllegalTransition.
func (e *Engine) Cancel(ctx context.Context, c workflow.Caller, id string, req views.CancelRequest) (*workflow.Execution, error) {
	switch req.Rollback {
	case "", workflow.RollbackAuto, workflow.RollbackNever:
	default:
		return nil, workflow.Invalid("the request is not valid", []workflow.Issue{{
			Path: "rollback", Code: "enum", Message: "want auto or never",
		}})
	}
	return e.applyCommand(ctx, c, id, lifecycle.Command{
		Kind: lifecycle.CommandCancel, Source: "user", Reason: req.Reason, Rollback: req.Rollback, Cascade: req.Cascades(),
	})
}

// Acknowledge says that an operator has looked at a run that ended unsafely, and
// releases its locks.
func (e *Engine) Acknowledge(ctx context.Context, c workflow.Caller, id, reason string) (*workflow.Execution, error) {
	return e.applyCommand(ctx, c, id, lifecycle.Command{Kind: lifecycle.CommandAcknowledge, Reason: reason})
}

// Retry begins another try of a run that has failed. Locks that are still held
// stay; otherwise they are taken anew.
func (e *Engine) Retry(ctx context.Context, c workflow.Caller, id string, req views.RetryRequest) (*workflow.Execution, error) {
	return e.applyCommand(ctx, c, id, lifecycle.Command{
		Kind: lifecycle.CommandRetry, Reason: req.Reason, FromStep: req.From, Entities: string(req.Entities),
	})
}

// Resume ends the wait of a run that would otherwise go on by itself: for a
// moment, or for the next attempt of failed jobs.
func (e *Engine) Resume(ctx context.Context, c workflow.Caller, id, reason string) (*workflow.Execution, error) {
	return e.applyCommand(ctx, c, id, lifecycle.Command{Kind: lifecycle.CommandResume, Reason: reason})
}

// Unlock lets go of the locks of a run that has ended and keeps them until it is
// acknowledged. Its state stays; whatever still works for it is fenced off.
func (e *Engine) Unlock(ctx context.Context, c workflow.Caller, id, reason string) (*workflow.Execution, error) {
	return e.applyCommand(ctx, c, id, lifecycle.Command{Kind: lifecycle.CommandUnlock, Reason: reason})
}

// applyCommand decides the verb on the state as stored. A lost race decides it anew,
// so that it is refused if the state it meets then does not allow it.
func (e *Engine) applyCommand(ctx context.Context, c workflow.Caller, id string, cmd lifecycle.Command) (*workflow.Execution, error) {
	cmd.Actor = c.Actor
	w := e.newWorkspace(c.Tenant, id)
	if err := w.load(ctx); err != nil {
		return nil, err
	}
	err := w.advance(ctx, &cmd)
	if err != nil && !w.commandCommitted {
		return nil, err
	}
	if err != nil {
		// The verb stands; going on from it is what failed, and is done again.
		w.sendWakeups(ctx, "itself", []workflow.Wakeup{wakeup(w.execution, "command")})
	}
	return w.execution, nil
}
