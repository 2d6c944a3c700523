package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fetchCondition answers NeedCondition: whether the condition that a step run waits for is true
// now.
func (w *workspace) fetchCondition(ctx context.Context, n lifecycle.Need, draft *workflow.Execution) error {
	p, err := w.ensurePlanner(ctx)
	if err != nil {
		return err
	}
	expressions, err := p.WaitExpressions(ctx, draft, n)
	if err != nil {
		return err
	}
	f := &lifecycle.Readiness{}
	f.Ready, f.Reason, err = w.evaluateAndWatch(ctx, func(lookup entityLookup) (bool, error) {
		return expressions.WaitCondition(n.StepIndex, w.now, lookup)
	})
	if err != nil {
		return err
	}
	if w.facts.Conditions == nil {
		w.facts.Conditions = map[int]*lifecycle.Readiness{}
	}
	w.facts.Conditions[n.StepRunSeq] = f
	return nil
}
