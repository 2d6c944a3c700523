package inventory

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Held is what a run works with, read under its locks: each entity's attributes,
// beside its token.
func Held(ctx context.Context, r port.Registry, tenant string, keys []workflow.EntityKey, tokens map[workflow.EntityKey]int64) ([]workflow.Held, error) {
	known := map[workflow.EntityKey]workflow.Entity{}
	if len(keys) > 0 {
		var err error
		if known, err = r.Entities(ctx, tenant, keys, true); err != nil {
			return nil, err
		}
	}
	held := make([]workflow.Held, len(keys))
	for i, key := range keys {
		held[i] = workflow.Held{Key: key, Token: tokens[key], Attributes: known[key].Attributes}
	}
	return held, nil
}
