package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fetchOutcomes answers NeedOutcomes for the draft, all of whose step runs have ended.
func (w *workspace) fetchOutcomes(ctx context.Context, n lifecycle.Need, draft *workflow.Execution) error {
	p, err := w.ensurePlanner(ctx)
	if err != nil {
		return err
	}
	if draft.Scope.Only != nil { // the others keep theirs
		if err := ReadOutcomes(ctx, w.ports.Packs, draft); err != nil {
			return err
		}
	}
	w.facts.Outcomes, err = p.EntityOutcomes(ctx, draft, n.ExecutionFails)
	return err
}
