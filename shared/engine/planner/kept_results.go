package planner

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// KeptResults returns what a new try keeps for each of some entities: results of their jobs, what a
// rollback would undo of these, and requested updates that are written when the execution
// completes. It leaves out entities for which nothing is kept. It reads the packs of all earlier
// tries.
func (p *Planner) KeptResults(ctx context.Context, x *workflow.Execution, keys []workflow.EntityKey) (map[workflow.EntityKey]lifecycle.Kept, error) {
	entities := make([]workflow.ScopeEntity, len(keys))
	for i, key := range keys {
		entities[i].Key = key
	}
	jobs, err := p.entityJobs(ctx, x, entities)
	if err != nil {
		return nil, err
	}
	kept := map[workflow.EntityKey]lifecycle.Kept{}
	for key, own := range jobs {
		if k, ok := lifecycle.KeptOf(own); ok {
			kept[key] = k
		}
	}
	for i := range x.StepRuns {
		r := &x.StepRuns[i]
		if r.Kind != workflow.JobExecute || !r.HasUpdates || r.SupersededBy > 0 {
			continue
		}
		got, err := p.effectiveOutcome(ctx, x, x.Try, r)
		if err != nil {
			return nil, err
		}
		for _, u := range got.updates {
			key := u.update.Entity
			if _, known := kept[key]; !known {
				if _, asked := jobs[key]; asked {
					kept[key] = lifecycle.Kept{Step: r.StepIndex}
				}
			}
		}
	}
	return kept, nil
}
