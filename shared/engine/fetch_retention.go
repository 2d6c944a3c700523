package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// fetchUnreferenced answers NeedUnreferenced: whether the parent will never read this execution
// again. Until the parent is acknowledged it might, and if it found nothing it would start this
// execution again.
func (w *workspace) fetchUnreferenced(ctx context.Context) error {
	heads, err := w.ports.Store.Heads(ctx, w.tenant, []string{w.execution.Parent.Execution})
	if err != nil {
		w.facts.Unreferenced = nil
		return err
	}
	state := heads[w.execution.Parent.Execution].State
	unreferenced := state == "" || sm.Acknowledged(state)
	w.facts.Unreferenced = &unreferenced
	return nil
}

// fetchDiscarded answers NeedDiscarded: it marks everything that the execution has stored for
// deletion. Two things stay: the state item, which the next commit gives up, and the lock items,
// because their tokens must keep growing. It looks for stored values of any execution: its state does
// not tell of those of an earlier try, or of a handler whose commit was lost.
func (w *workspace) fetchDiscarded(ctx context.Context) error {
	w.facts.Discarded = false
	if err := w.ports.Packs.Discard(ctx, workflow.ValueKey(w.tenant, w.id).StepRunKey(), 0, w.now); err != nil {
		return err
	}
	for i := range w.execution.StepRuns {
		s := &w.execution.StepRuns[i]
		if !s.HasJobs() && !s.IsSet() {
			continue
		}
		stepRun := workflow.StepRunKey{Tenant: w.tenant, Execution: w.id, Ordinal: s.Ordinal, Seq: s.Seq}
		err := parallel.Each(ctx, w.e.Parallelism, s.Shards(), func(ctx context.Context, shard int) error {
			return w.ports.Packs.Discard(ctx, stepRun, shard, w.now)
		})
		if err != nil {
			return err
		}
	}
	if err := w.ports.Store.Discard(ctx, w.tenant, w.id, w.now); err != nil {
		return err
	}
	w.facts.Discarded = true
	return nil
}
