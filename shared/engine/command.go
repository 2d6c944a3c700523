package engine

import (
	"cmp"
	"context"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Cancel ends an execution early and cleanly. It returns once the request is committed; claimed
// jobs stop at their next heartbeat. If the execution has ended or is already ending, it returns
// CodeIllegalTransition.
func (e *Engine) Cancel(ctx context.Context, c workflow.Caller, id string, req views.CancelRequest) (*workflow.Execution, error) {
	switch req.Rollback {
	case "", workflow.RollbackAuto, workflow.RollbackNever:
	default:
		return nil, workflow.Invalid("the request is not valid", []workflow.Issue{{
			Path: "rollback", Code: "enum", Message: "want auto or never",
		}})
	}
	switch req.Source {
	case "", workflow.CancelledByUser, workflow.CancelledBySystem, workflow.CancelledByAdmin:
	default:
		return nil, workflow.Invalid("the request is not valid", []workflow.Issue{{
			Path: "source", Code: "enum", Message: "want user, system or admin",
		}})
	}
	return e.applyCommand(ctx, c, id, lifecycle.Command{
		Kind: lifecycle.CommandCancel, Source: cmp.Or(req.Source, workflow.CancelledByUser), Reason: req.Reason, Rollback: req.Rollback, Cascade: req.Cascades(),
	})
}

// Acknowledge records that an operator has dealt with an execution that ended unsafely, and
// releases its locks. If entities are named, it does so for these only; acknowledging the last
// entity that the execution holds acknowledges the execution.
func (e *Engine) Acknowledge(ctx context.Context, c workflow.Caller, id, reason string, entities ...workflow.EntityKey) (*workflow.Execution, error) {
	return e.applyCommand(ctx, c, id, lifecycle.Command{Kind: lifecycle.CommandAcknowledge, Reason: reason, Only: entities})
}

// Retry starts another try of a failed execution: it either goes forward or continues a failed
// rollback. The execution keeps the locks that it still holds; otherwise a try that goes forward
// acquires them again. While another execution holds its business key, Retry returns CodeConflict.
func (e *Engine) Retry(ctx context.Context, c workflow.Caller, id string, req views.RetryRequest) (*workflow.Execution, error) {
	w, err := e.loadForCommand(ctx, c, id)
	if err != nil {
		return nil, err
	}
	defer w.keepCost()
	if x := w.execution; x.Key != "" && statemachines.Terminal(x.State) {
		// As for a start, this check only saves a wait: the check-in decides who gets the key.
		if owner, err := w.readKeyHolder(ctx, x.Workflow.FullName(), x.Key); err != nil {
			return nil, err
		} else if owner != "" && owner != x.ID {
			return nil, keyHeld(owner, x.Workflow, x.Key, "retry this one after its end")
		}
	}
	command := lifecycle.Command{
		Kind: lifecycle.CommandRetry, Actor: c.Actor, Reason: req.Reason, FromStep: req.From, Entities: string(req.Entities), Force: req.Force,
	}
	if req.Rollback {
		command.Rollback = workflow.RollbackAuto
	}
	return w.applyLoaded(ctx, command)
}

// Resume ends a wait early that would otherwise end by itself: a wait for a point in time, or for
// the next attempt of failed jobs.
func (e *Engine) Resume(ctx context.Context, c workflow.Caller, id, reason string) (*workflow.Execution, error) {
	return e.applyCommand(ctx, c, id, lifecycle.Command{Kind: lifecycle.CommandResume, Reason: reason})
}

// ResumeStep ends early one step's wait for a point in time, when several steps wait.
func (e *Engine) ResumeStep(ctx context.Context, c workflow.Caller, id, step, reason string) (*workflow.Execution, error) {
	return e.applyCommand(ctx, c, id, lifecycle.Command{Kind: lifecycle.CommandResume, FromStep: step, Reason: reason})
}

// NextStep lets an execution that waits in front of each step enter the next one, or all. A
// request that names the number of the step run is taken once; one that does not wait there
// returns CodeIllegalTransition. With an input it answers the step that waits for people, as
// Answer does, and lets the execution enter the step that follows.
func (e *Engine) NextStep(ctx context.Context, c workflow.Caller, id string, req views.NextRequest) (*workflow.Execution, error) {
	if req.Input != nil {
		if req.Sequence > 0 {
			return nil, workflow.Invalid("the request is not valid", []workflow.Issue{{Path: "sequence", Code: "conflict", Message: "it names a wait in front of a step; an input answers a step that has been entered"}})
		}
		return e.sendAnswer(ctx, c, id, views.AnswerRequest{Reason: req.Reason, Input: req.Input, Step: req.Step, Visit: req.Visit, IdempotencyKey: req.IdempotencyKey},
			lifecycle.Command{All: req.All, Answer: &lifecycle.Answer{Next: true}})
	}
	if req.Step != "" || req.Visit > 0 {
		return nil, workflow.Invalid("the request is not valid", []workflow.Issue{{Path: "input", Code: "required", Message: "step and visit name the step that an input answers"}})
	}
	return e.applyCommand(ctx, c, id, lifecycle.Command{Kind: lifecycle.CommandNext, Reason: req.Reason, Sequence: req.Sequence, All: req.All})
}

// Rewind takes a waiting execution back to an earlier step, under the locks that it holds. If
// something that is not pure was executed since, it returns CodeIllegalTransition unless the
// request forces it.
func (e *Engine) Rewind(ctx context.Context, c workflow.Caller, id string, req views.RewindRequest) (*workflow.Execution, error) {
	return e.applyCommand(ctx, c, id, lifecycle.Command{Kind: lifecycle.CommandRewind, Reason: req.Reason, FromStep: req.To, Force: req.Force})
}

// Unlock releases the locks of an execution that has ended and would otherwise keep them until it
// is acknowledged: all of them, or those of the named entities. The execution keeps its state;
// fencing stops workers that still work for it.
func (e *Engine) Unlock(ctx context.Context, c workflow.Caller, id, reason string, entities ...workflow.EntityKey) (*workflow.Execution, error) {
	return e.applyCommand(ctx, c, id, lifecycle.Command{Kind: lifecycle.CommandUnlock, Reason: reason, Only: entities})
}

// applyCommand decides the command on the stored state. After a lost race it decides again, and
// refuses the command if the new state does not allow it.
func (e *Engine) applyCommand(ctx context.Context, c workflow.Caller, id string, cmd lifecycle.Command) (*workflow.Execution, error) {
	cmd.Actor = c.Actor
	w, err := e.loadForCommand(ctx, c, id)
	if err != nil {
		return nil, err
	}
	defer w.keepCost()
	return w.applyLoaded(ctx, cmd)
}

// loadForCommand loads the state on which a command is decided. The caller must call keepCost.
func (e *Engine) loadForCommand(ctx context.Context, c workflow.Caller, id string) (*workspace, error) {
	w := e.newWorkspace(c.Tenant, id)
	w.inline = true // once the command is committed, a wake-up does the work of a large execution
	if err := w.load(ctx); err != nil {
		w.keepCost()
		return nil, err
	}
	return w, nil
}

// applyLoaded decides the command on the state that has been loaded.
func (w *workspace) applyLoaded(ctx context.Context, cmd lifecycle.Command) (*workflow.Execution, error) {
	err := w.advance(ctx, &cmd)
	if err != nil && !w.commandCommitted {
		if w.lapsed { // a wake-up does the work that follows from it
			w.sendWakeups(ctx, "itself", []workflow.Wakeup{wakeup(w.execution, "deadline")})
		}
		return nil, err
	}
	if err != nil {
		// The command is committed. Only its follow-up work failed, and a wake-up retries that.
		w.sendWakeups(ctx, "itself", []workflow.Wakeup{wakeup(w.execution, "command")})
	}
	return w.execution, nil
}
