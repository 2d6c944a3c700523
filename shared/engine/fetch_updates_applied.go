package engine

import (
	"context"
	"log/slog"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fetchUpdatesApplied writes what the jobs of a completed run have asked for into the
// inventory, each entity once, under the token of the lock that the run holds on it:
// one that carries this token has been written already, and one with a higher token
// is no longer this run's to write. An import that comes in between is not lost: the
// updates are applied to what it has written.
func (w *workspace) fetchUpdatesApplied(ctx context.Context) error {
	p, err := w.ensurePlanner(ctx)
	if err != nil {
		return err
	}
	updates, err := p.CollectUpdates(ctx, w.execution, w.execution.Try, func(r *workflow.StepRun) bool { return r.Forward() && r.SupersededBy == 0 })
	if err != nil {
		return err
	}
	held, err := w.loadEntities(ctx, w.execution.Scope)
	if err != nil {
		return err
	}
	tokens := make(map[workflow.EntityKey]int64, len(held))
	for _, e := range held {
		tokens[e.Key] = e.Token
	}
	writer := entityWriter{
		registry: w.ports.Registry, tenant: w.tenant, maxRetries: w.e.MaxConflictRetries, backoff: w.e.Backoff, parallelism: w.e.Parallelism,
	}
	written, err := writer.applyUpdates(ctx, updates.Keys, updates.ByEntity, tokens)
	for _, key := range written.skipped {
		// A retry that passed over what others hold has let the entity go.
		w.recorder.Log(ctx, slog.LevelWarn, "update not applied", slog.String(observe.Entity, key.String()))
	}
	wakeups := make([]workflow.Wakeup, len(written.watchers))
	for n, id := range written.watchers {
		wakeups[n] = workflow.Wakeup{Tenant: w.tenant, Execution: id, Reason: "an entity has changed"}
	}
	w.sendWakeups(ctx, "watchers", wakeups)
	if err != nil {
		return err
	}
	w.facts.UpdatesApplied = true
	return nil
}
