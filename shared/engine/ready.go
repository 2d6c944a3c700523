package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/engine/inventory"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// ready evaluates what has to be waited for before the run begins: first the
// moment, then the condition.
func (w *work) ready(ctx context.Context) error {
	d, err := w.definition(ctx, w.x.Workflow)
	if err != nil {
		return err
	}
	in, err := w.given(ctx)
	if err != nil {
		return err
	}
	f := &lifecycle.Ready{Condition: d.Config.StartWhen}
	at, err := d.NotBefore(in.Parameters)
	if err != nil {
		f.Problem = &workflow.Failure{Code: string(workflow.CodeInvalid), Message: err.Error()}
		w.facts.Ready = f
		return nil //nolint:nilerr // it is the run's problem, not the engine's
	}
	if f.At = w.x.NotBefore; at.After(f.At) {
		f.At = at
	}
	w.facts.Ready = f
	if w.e.now().Before(f.At) {
		return nil
	}
	watch := inventory.Watch{Registry: w.ports.Registry, Tenant: w.tenant, Execution: w.id}
	f.Ready, f.Why, err = watch.Evaluate(ctx, func(lookup inventory.Lookup) (bool, error) {
		return d.StartWhen(in.Parameters, w.e.now(), lookup)
	})
	return err
}
