package engine

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Start creates a run and drives it as far as it goes without waiting, if its
// scope is small. The definition's version is resolved and pinned before the
// answer. With an idempotency key that is bound already, the run it is bound to
// is returned and existed is true; the same key with another request is refused
// with CodeIdempotencyMismatch.
func (e *Engine) Start(ctx context.Context, c workflow.Caller, req views.StartRequest) (x *workflow.Execution, existed bool, err error) {
	id := e.NewID()
	w := e.newWorkspace(c.Tenant, id)
	w.inline = true
	w.pendingCost.Add(workflow.Cost{Invocations: 1}) // the request that starts the run
	if req.IdempotencyKey != "" {
		digest, err := requestDigest(req)
		if err != nil {
			return nil, false, err
		}
		boundID, existing, err := w.lookupIdempotencyKey(ctx, req.IdempotencyKey, digest)
		if err != nil {
			return nil, false, err
		}
		if existing != nil {
			return existing, true, nil
		}
		if boundID != "" {
			// An earlier try bound the key and has died, or is about to write the run:
			// either way this one only finishes what that has begun.
			w.id, w.executionID, existed = boundID, boundID, true
		}
	}
	d, err := w.resolveWorkflow(ctx, req)
	if err != nil {
		return nil, false, err
	}
	in, err := validateStart(d.Definition, req)
	if err != nil {
		return nil, false, err
	}
	if req.IdempotencyKey != "" {
		// Only a request that is valid binds its key.
		digest, err := requestDigest(req)
		if err != nil {
			return nil, false, err
		}
		want := workflow.IdempotencyRecord{Execution: w.id, Digest: digest, ExpiresAt: e.now().Add(e.IdempotencyKeyTTL)}
		got, fresh, err := w.ports.Registry.BindIdempotencyKey(ctx, w.tenant, req.IdempotencyKey, want, e.now())
		if err != nil {
			return nil, false, err
		}
		if !fresh {
			if got.Digest != digest {
				return nil, false, idempotencyMismatch()
			}
			w.id, w.executionID, existed = got.Execution, got.Execution, true
		}
	}
	if err := w.startRequested(ctx, c, req, d, in, existed); err != nil {
		return nil, false, err
	}
	return w.execution, existed, nil
}

// startRequested writes the new run and drives it. Once it is written the start has
// succeeded, whatever happens on the way from there: the alarm covers it.
func (w *workspace) startRequested(ctx context.Context, c workflow.Caller, req views.StartRequest, d *definitions.Definition, in workflow.Input, keyBound bool) error {
	return w.createAndAdvance(ctx, workflow.Execution{
		Tenant: w.tenant, ID: w.id, StepRunSeq: lifecycle.ForgottenStepRuns(w.e.Policy, keyBound), Workflow: d.Ref(), CreatedBy: c.Actor, CorrelationID: c.CorrelationID, TraceParent: w.recorder.TraceParent(ctx), Labels: req.Labels, NotBefore: req.NotBefore.UTC().Truncate(time.Millisecond),
	}, in, nil)
}

// createAndAdvance writes a new run and drives it, beginning with a command if there is one.
func (w *workspace) createAndAdvance(ctx context.Context, x workflow.Execution, in workflow.Input, command *lifecycle.Command) error {
	var err error
	if x.Input, err = w.offloadInput(ctx, in); err != nil {
		return err
	}
	w.execution = lifecycle.NewExecution(x, w.e.now())
	if err = w.advance(ctx, command); err == nil {
		return nil
	}
	if w.execution.Version == 0 {
		return err
	}
	w.recorder.Warn(ctx, "started, but not driven on", err)
	w.sendWakeups(ctx, "itself", []workflow.Wakeup{wakeup(w.execution, "start")})
	return nil
}

// lookupIdempotencyKey looks for an idempotency key without binding it: the execution it is
// bound to, or only its id if that execution was never written.
func (w *workspace) lookupIdempotencyKey(ctx context.Context, key, digest string) (id string, x *workflow.Execution, err error) {
	b, err := w.ports.Registry.IdempotencyRecord(ctx, w.tenant, key, w.e.now())
	if err != nil || b.Execution == "" {
		return "", nil, err
	}
	if b.Digest != digest {
		return "", nil, idempotencyMismatch()
	}
	x, err = w.ports.Store.Load(ctx, w.tenant, b.Execution)
	if workflow.Is(err, workflow.CodeNotFound) {
		return b.Execution, nil, nil
	}
	return b.Execution, x, err
}

// resolveWorkflow resolves the workflow of a request to the newest published version that
// matches and is not archived.
func (w *workspace) resolveWorkflow(ctx context.Context, req views.StartRequest) (*definitions.Definition, error) {
	ref, err := req.Ref()
	if err != nil {
		return nil, &workflow.Error{Code: workflow.CodeInvalid, Message: "the request is not valid",
			Issues: []workflow.Issue{{Path: "workflow", Code: "format", Message: err.Error()}}}
	}
	exact := ref
	if exact.Version, err = definitions.NewestVersion(ctx, w.ports.Registry, w.tenant, ref); err != nil {
		return nil, err
	}
	if exact.Version == "" {
		return nil, workflow.Errorf(workflow.CodeNotFound, "no published workflow matches %s", ref)
	}
	return w.definition(ctx, exact)
}
