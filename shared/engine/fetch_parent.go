package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fetchParent answers NeedParent: whether the parent's step run waits for this execution, or lets
// it begin. The read is strongly consistent, and comes after the read of this execution, on whose
// version the next commit depends.
func (w *workspace) fetchParent(ctx context.Context) error {
	by := w.execution.Parent
	parent, err := w.ports.Store.Load(ctx, w.tenant, by.Execution)
	if workflow.Is(err, workflow.CodeNotFound) {
		parent, err = nil, nil
	}
	if err != nil {
		return err
	}
	w.facts.Parent = lifecycle.ParentOf(parent, by)
	return nil
}
