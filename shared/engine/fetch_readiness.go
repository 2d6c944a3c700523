package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fetchReadiness evaluates what has to be waited for before the run begins: first the
// moment, then the condition.
func (w *workspace) fetchReadiness(ctx context.Context) error {
	d, err := w.definition(ctx, w.execution.Workflow)
	if err != nil {
		return err
	}
	in, err := w.startInput(ctx)
	if err != nil {
		return err
	}
	f := &lifecycle.Readiness{Condition: d.Config.StartWhen}
	at, err := d.NotBefore(in.Parameters)
	if err != nil {
		f.Problem = &workflow.Failure{Code: string(workflow.CodeInvalid), Message: err.Error()}
		w.facts.Readiness = f
		return nil //nolint:nilerr // it is the run's problem, not the engine's
	}
	if f.NotBefore = w.execution.NotBefore; at.After(f.NotBefore) {
		f.NotBefore = at
	}
	w.facts.Readiness = f
	if w.e.now().Before(f.NotBefore) {
		return nil
	}
	watch := conditionWatch{registry: w.ports.Registry, tenant: w.tenant, executionID: w.id}
	f.Ready, f.Reason, err = watch.evaluate(ctx, func(lookup entityLookup) (bool, error) {
		return d.StartWhen(in.Parameters, w.e.now(), lookup)
	})
	return err
}
