package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
)

// fetchEntities answers NeedEntities.
func (w *workspace) fetchEntities(ctx context.Context) error {
	all, err := w.loadAllEntities(ctx, w.execution.Scope)
	if err != nil {
		return err
	}
	w.facts.Entities = &lifecycle.ScopeEntities{List: all}
	return nil
}
