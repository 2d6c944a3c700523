package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// loadScopeEntities is what a run works with, read under its locks: each entity's attributes,
// beside its token.
func loadScopeEntities(ctx context.Context, r port.Registry, tenant string, keys []workflow.EntityKey, tokens map[workflow.EntityKey]int64) ([]workflow.ScopeEntity, error) {
	known := map[workflow.EntityKey]workflow.Entity{}
	if len(keys) > 0 {
		var err error
		if known, err = r.Entities(ctx, tenant, keys, true); err != nil {
			return nil, err
		}
	}
	held := make([]workflow.ScopeEntity, len(keys))
	for i, key := range keys {
		held[i] = workflow.ScopeEntity{Key: key, Token: tokens[key], Attributes: known[key].Attributes}
	}
	return held, nil
}
