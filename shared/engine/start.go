package engine

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/intake"
	"github.com/lockstep-run/lockstep/shared/engine/library"
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
	w := e.work(c.Tenant, id)
	w.inline = true
	w.pending.Add(workflow.Cost{Functions: 1}) // the request that starts the run
	if req.IdempotencyKey != "" {
		digest, err := intake.Digest(req)
		if err != nil {
			return nil, false, err
		}
		bound, known, err := w.bound(ctx, req.IdempotencyKey, digest)
		if err != nil {
			return nil, false, err
		}
		if known != nil {
			return known, true, nil
		}
		if bound != "" {
			// An earlier try bound the key and has died, or is about to write the run:
			// either way this one only finishes what that has begun.
			w.id, w.Execution, existed = bound, bound, true
		}
	}
	d, err := w.newest(ctx, req)
	if err != nil {
		return nil, false, err
	}
	in, err := intake.Input(d.Definition, req)
	if err != nil {
		return nil, false, err
	}
	if req.IdempotencyKey != "" {
		// Only a request that is valid binds its key.
		digest, err := intake.Digest(req)
		if err != nil {
			return nil, false, err
		}
		want := workflow.Binding{Execution: w.id, Digest: digest, Expires: e.now().Add(e.BindingLife)}
		got, fresh, err := w.ports.Registry.Reserve(ctx, w.tenant, req.IdempotencyKey, want, e.now())
		if err != nil {
			return nil, false, err
		}
		if !fresh {
			if got.Digest != digest {
				return nil, false, intake.Mismatch()
			}
			w.id, w.Execution, existed = got.Execution, got.Execution, true
		}
	}
	if err := w.begin(ctx, c, req, d, in, existed); err != nil {
		return nil, false, err
	}
	return w.x, existed, nil
}

// begin writes the new run and drives it. Once it is written the start has
// succeeded, whatever happens on the way from there: the alarm covers it.
func (w *work) begin(ctx context.Context, c workflow.Caller, req views.StartRequest, d *library.Definition, in workflow.Input, bound bool) error {
	return w.create(ctx, workflow.Execution{
		Tenant: w.tenant, ID: w.id, RunSeq: lifecycle.Forgotten(w.e.Policy, bound), Workflow: d.Ref(), CreatedBy: c.Actor, Correlation: c.Correlation, Trace: w.telling.Here(ctx), Labels: req.Labels, NotBefore: req.NotBefore.UTC().Truncate(time.Millisecond),
	}, in, nil)
}

// create writes a new run and drives it, beginning with a command if there is one.
func (w *work) create(ctx context.Context, x workflow.Execution, in workflow.Input, command *lifecycle.Command) error {
	var err error
	if x.Input, err = w.KeepInput(ctx, in); err != nil {
		return err
	}
	w.x = lifecycle.New(x, w.e.now())
	if err = w.drive(ctx, command); err == nil {
		return nil
	}
	if w.x.Version == 0 {
		return err
	}
	w.telling.Warn(ctx, "started, but not driven on", err)
	w.tell(ctx, "itself", []workflow.Look{look(w.x, "start")})
	return nil
}

// bound looks for an idempotency key without binding it: the execution it is
// bound to, or only its id if that execution was never written.
func (w *work) bound(ctx context.Context, key, digest string) (id string, x *workflow.Execution, err error) {
	b, err := w.ports.Registry.Bound(ctx, w.tenant, key, w.e.now())
	if err != nil || b.Execution == "" {
		return "", nil, err
	}
	if b.Digest != digest {
		return "", nil, intake.Mismatch()
	}
	x, err = w.ports.Store.Load(ctx, w.tenant, b.Execution)
	if workflow.Is(err, workflow.CodeNotFound) {
		return b.Execution, nil, nil
	}
	return b.Execution, x, err
}

// newest resolves the workflow of a request to the newest published version that
// matches and is not archived.
func (w *work) newest(ctx context.Context, req views.StartRequest) (*library.Definition, error) {
	ref, err := req.Ref()
	if err != nil {
		return nil, &workflow.Error{Code: workflow.CodeInvalid, Message: "the request is not valid",
			Issues: []workflow.Issue{{Path: "workflow", Code: "format", Message: err.Error()}}}
	}
	exact := ref
	if exact.Version, err = library.Newest(ctx, w.ports.Registry, w.tenant, ref); err != nil {
		return nil, err
	}
	if exact.Version == "" {
		return nil, workflow.Errorf(workflow.CodeNotFound, "no published workflow matches %s", ref)
	}
	return w.definition(ctx, exact)
}
