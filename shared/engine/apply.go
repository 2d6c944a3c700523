package engine

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// apply writes what the jobs of a completed run have asked for into the
// inventory. Each entity is written once, under the token of the lock that the run
// holds on it: one that carries this token has been written already, by a handler
// that died or another that is at it, and one with a higher token is no longer
// this run's to write. An import that comes in between is not lost: the updates
// are applied to what it has written.
func (w *work) apply(ctx context.Context) error {
	p, err := w.plans(ctx)
	if err != nil {
		return err
	}
	all, err := p.Asked(ctx, w.x, func(r *workflow.StepRun) bool { return r.Forward() && r.Superseded == 0 })
	if err != nil {
		return err
	}
	held, err := w.entities(ctx, w.x.Scope)
	if err != nil {
		return err
	}
	tokens := make(map[workflow.EntityKey]int64, len(held))
	for _, e := range held {
		tokens[e.Key] = e.Token
	}
	known, err := w.ports.Registry.Entities(ctx, w.tenant, all.Keys, true)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	looks := map[string]workflow.Look{}
	err = parallel.Each(ctx, w.e.Parallel, len(all.Keys), func(ctx context.Context, i int) error {
		key := all.Keys[i]
		e, exists := known[key]
		if !exists || tokens[key] == 0 {
			// A retry that passed over what others hold has let the entity go.
			w.log(ctx, slog.LevelWarn, "update not applied", slog.String("entity", key.String()), slog.Bool("exists", exists))
			return nil
		}
		watchers, err := w.update(ctx, e, tokens[key], all.Of[key])
		mu.Lock()
		defer mu.Unlock()
		for _, id := range watchers {
			looks[id] = workflow.Look{Tenant: w.tenant, Execution: id, Why: "an entity has changed"}
		}
		return err
	})
	if len(looks) > 0 {
		if note := w.ports.Board.Notify(ctx, 0, slices.Collect(maps.Values(looks))...); note != nil {
			w.log(ctx, slog.LevelWarn, "watchers not told; their alarms will", slog.Any("error", note))
		}
	}
	if err != nil {
		return err
	}
	w.facts.Applied = true
	return nil
}

// update writes one entity, unless that has been done under the token. An entity
// that has changed since it was read is read again.
func (w *work) update(ctx context.Context, e workflow.Entity, token int64, updates []workflow.Update) (watchers []string, err error) {
	for try := 1; e.Token < token; try++ {
		seen := e.Version
		for i := range updates {
			e.Attributes = updates[i].Apply(e.Attributes)
		}
		e.Token = token
		ok, watchers, err := w.ports.Registry.ReplaceEntity(ctx, w.tenant, e, seen)
		if err != nil || ok {
			return watchers, err
		}
		if try == w.e.Tries {
			return nil, workflow.Errorf(workflow.CodeConflict, "entity %s keeps changing", e.Key())
		}
		w.e.Pause(try)
		again, err := w.ports.Registry.Entities(ctx, w.tenant, []workflow.EntityKey{e.Key()}, true)
		if err != nil {
			return nil, err
		}
		now, exists := again[e.Key()]
		if !exists {
			return nil, nil
		}
		e = now
	}
	return nil, nil
}
