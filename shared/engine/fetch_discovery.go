package engine

import (
	"context"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/engine/dispatch"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fetchDiscovery finds the run's entities, in the fixed order of their keys; or which
// block has to be asked first. The draft knows of the answer that has just come,
// which the state as loaded still takes for open.
func (w *workspace) fetchDiscovery(ctx context.Context, draft *workflow.Execution) error {
	in, err := w.startInput(ctx)
	if err != nil {
		return err
	}
	if w.facts.Resolution == nil {
		if err := w.fetchResolution(ctx); err != nil {
			return err
		}
	}
	if w.facts.Resolution.Problem != nil {
		w.facts.Discovery = &lifecycle.Discovery{AcquireIndex: -1, Problem: w.facts.Resolution.Problem}
		return nil
	}
	answers, err := w.acquireAnswers(ctx, draft)
	if err != nil {
		return err
	}
	search := &entitySearch{
		tenant: w.tenant, registry: w.ports.Registry, program: w.program, parameters: in.Parameters, maxEntities: w.e.MaxEntities,
	}
	a, err := search.findAll(ctx, in.Selector, answers)
	if err != nil {
		return err
	}
	f := &lifecycle.Discovery{AcquireIndex: a.pendingAcquisition, Problem: a.problem}
	if f.Problem == nil && f.AcquireIndex < 0 {
		if f.Scope, err = w.offloadScope(ctx, a.entities); err != nil {
			return err
		}
	}
	w.facts.Discovery = f
	return nil
}

// acquireAnswers is what blocks have answered in this try, by acquisition.
func (w *workspace) acquireAnswers(ctx context.Context, x *workflow.Execution) (map[int][]workflow.EntityKey, error) {
	answers := map[int][]workflow.EntityKey{}
	for i := range x.StepRuns {
		r := &x.StepRuns[i]
		if r.Kind != workflow.JobAcquire || r.Try != x.Try || r.Open() {
			continue
		}
		packs, err := w.dispatcher().ReadPacks(ctx, &dispatch.StepRun{Tenant: w.tenant, Execution: w.id, Step: r})
		if err != nil {
			return nil, err
		}
		rec := plan.LatestRecords(packs)[0]
		if rec.ResultRef != nil {
			list, err := w.ports.Packs.LoadPayload(ctx, *rec.ResultRef.Pack, *rec.ResultRef)
			if err != nil {
				return nil, err
			}
			if err := json.Unmarshal(list, &rec.Entities); err != nil {
				return nil, workflow.Errorf(workflow.CodeInternal, "what block %s has found cannot be read: %w", r.Block, err)
			}
		}
		answers[r.StepIndex] = rec.Entities
	}
	return answers, nil
}
