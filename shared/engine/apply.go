package engine

import (
	"context"
	"log/slog"

	"github.com/lockstep-run/lockstep/shared/engine/inventory"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// apply writes what the jobs of a completed run have asked for into the
// inventory, each entity once, under the token of the lock that the run holds on it:
// one that carries this token has been written already, and one with a higher token
// is no longer this run's to write. An import that comes in between is not lost: the
// updates are applied to what it has written.
func (w *work) apply(ctx context.Context) error {
	p, err := w.plans(ctx)
	if err != nil {
		return err
	}
	all, err := p.Asked(ctx, w.x, w.x.Try, func(r *workflow.StepRun) bool { return r.Forward() && r.Superseded == 0 })
	if err != nil {
		return err
	}
	held, err := w.Entities(ctx, w.x.Scope)
	if err != nil {
		return err
	}
	tokens := make(map[workflow.EntityKey]int64, len(held))
	for _, e := range held {
		tokens[e.Key] = e.Token
	}
	writer := inventory.Writer{
		Registry: w.ports.Registry, Tenant: w.tenant, Tries: w.e.Tries, Pause: w.e.Pause, Parallel: w.e.Parallel,
	}
	written, err := writer.Apply(ctx, all.Keys, all.Of, tokens)
	for _, key := range written.Passed {
		// A retry that passed over what others hold has let the entity go.
		w.telling.Say(ctx, slog.LevelWarn, "update not applied", slog.String(observe.Entity, key.String()))
	}
	looks := make([]workflow.Look, len(written.Watchers))
	for n, id := range written.Watchers {
		looks[n] = workflow.Look{Tenant: w.tenant, Execution: id, Why: "an entity has changed"}
	}
	w.tell(ctx, "watchers", looks)
	if err != nil {
		return err
	}
	w.facts.Applied = true
	return nil
}
