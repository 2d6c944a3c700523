package engine

import (
	"context"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/engine/delivery"
	"github.com/lockstep-run/lockstep/shared/engine/discovery"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// discover finds the run's entities, in the fixed order of their keys; or which
// block has to be asked first. The draft knows of the answer that has just come,
// which the state as loaded still takes for open.
func (w *work) discover(ctx context.Context, draft *workflow.Execution) error {
	in, err := w.given(ctx)
	if err != nil {
		return err
	}
	if w.facts.Resolved == nil {
		if err := w.resolve(ctx); err != nil {
			return err
		}
	}
	if w.facts.Resolved.Problem != nil {
		w.facts.Discovered = &lifecycle.Discovered{Acquire: -1, Problem: w.facts.Resolved.Problem}
		return nil
	}
	asked, err := w.acquired(ctx, draft)
	if err != nil {
		return err
	}
	search := &discovery.Search{
		Tenant: w.tenant, Registry: w.ports.Registry, Program: w.program, Parameters: in.Parameters, MaxEntities: w.e.MaxEntities,
	}
	a, err := search.Run(ctx, in.Selector, asked)
	if err != nil {
		return err
	}
	f := &lifecycle.Discovered{Acquire: a.Ask, Problem: a.Problem}
	if f.Problem == nil && f.Acquire < 0 {
		if f.Scope, err = w.KeepScope(ctx, a.Entities); err != nil {
			return err
		}
	}
	w.facts.Discovered = f
	return nil
}

// acquired is what blocks have answered in this try, by acquisition.
func (w *work) acquired(ctx context.Context, x *workflow.Execution) (map[int][]workflow.EntityKey, error) {
	asked := map[int][]workflow.EntityKey{}
	for i := range x.Runs {
		r := &x.Runs[i]
		if r.Kind != workflow.JobAcquire || r.Try != x.Try || r.Open() {
			continue
		}
		packs, err := w.delivery().Read(ctx, &delivery.Run{Tenant: w.tenant, Execution: w.id, Step: r})
		if err != nil {
			return nil, err
		}
		rec := plan.Latest(packs)[0]
		if rec.Stored != nil {
			list, err := w.ports.Packs.Load(ctx, *rec.Stored.Pack, *rec.Stored)
			if err != nil {
				return nil, err
			}
			if err := json.Unmarshal(list, &rec.Entities); err != nil {
				return nil, workflow.Errorf(workflow.CodeInternal, "what block %s has found cannot be read: %w", r.Block, err)
			}
		}
		asked[r.Step] = rec.Entities
	}
	return asked, nil
}
