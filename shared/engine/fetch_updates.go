package engine

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fetchUpdatesApplied answers NeedUpdatesApplied: it writes the updates that the jobs of a
// completed execution requested into the inventory.
//
// Each entity is written once, under the token of the lock that the execution holds on it. An
// entity that already carries this token has been written; an entity with a higher token is no
// longer this execution's to write. A concurrent import is not lost, because the updates are
// applied to what it has written.
func (w *workspace) fetchUpdatesApplied(ctx context.Context) error {
	p, err := w.ensurePlanner(ctx)
	if err != nil {
		return err
	}
	if err := ReadOutcomes(ctx, w.ports.Packs, w.execution); err != nil {
		return err
	}
	updates, err := p.FinalUpdates(ctx, w.execution)
	if err != nil {
		return err
	}
	held, err := w.loadEntities(ctx, w.execution.Scope)
	if err != nil {
		return err
	}
	tokens := make(map[workflow.EntityKey]int64, len(held))
	for _, e := range held {
		if kept := w.execution.Kept; kept == nil || kept.Contains(e.Place) {
			tokens[e.Key] = e.Token
		}
	}
	written, err := w.applyUpdates(ctx, updates.Keys, updates.ByEntity, tokens)
	for _, key := range written.skipped {
		// The execution has released it: a retry skipped it because it was locked, or the retry
		// covered only other entities.
		w.recorder.Log(ctx, slog.LevelWarn, "entity update not applied", slog.String(observe.Entity, key.String()))
	}
	w.sendWakeups(ctx, "watchers", changeWakeups(w.tenant, written.watchers))
	if err != nil {
		return err
	}
	w.facts.UpdatesApplied = true
	return nil
}

// updateResult is the result of writing updates.
type updateResult struct {
	watchers []string             // executions that wait for a changed entity
	skipped  []workflow.EntityKey // not written: the entity is gone, or the execution does not hold it
}

// applyUpdates writes the updates of entities, each under the token of the lock that the execution
// holds on it.
func (w *workspace) applyUpdates(ctx context.Context, keys []workflow.EntityKey, updates map[workflow.EntityKey][]workflow.Update, tokens map[workflow.EntityKey]int64) (updateResult, error) {
	var written updateResult
	known, err := w.ports.Registry.Entities(ctx, w.tenant, keys, true)
	if err != nil {
		return written, err
	}
	var mu sync.Mutex
	err = parallel.Each(ctx, w.e.Parallelism, len(keys), func(ctx context.Context, i int) error {
		key := keys[i]
		var watchers []string
		var err error
		e, exists := known[key]
		held := exists && tokens[key] > 0
		if held {
			watchers, err = w.replaceEntity(ctx, e, tokens[key], updates[key])
		}
		mu.Lock()
		defer mu.Unlock()
		if !held {
			written.skipped = append(written.skipped, key)
		}
		written.watchers = append(written.watchers, watchers...)
		return err
	})
	slices.Sort(written.watchers)
	written.watchers = slices.Compact(written.watchers)
	return written, err
}

// replaceEntity writes one entity, unless it has already been written under the token. If the
// entity has changed since it was read, replaceEntity reads it again.
func (w *workspace) replaceEntity(ctx context.Context, e workflow.Entity, token int64, updates []workflow.Update) (watchers []string, err error) {
	registry := w.ports.Registry
	for try := 1; e.Token < token; try++ {
		seen := e.Version
		e.Attributes = workflow.ApplyUpdates(e.Attributes, updates)
		e.Token = token
		ok, watchers, err := registry.ReplaceEntity(ctx, w.tenant, e, seen)
		if err != nil || ok {
			return watchers, err
		}
		if try == w.e.MaxConflictRetries {
			return nil, workflow.Contended(workflow.CodeConflict, "entity %s", e.Key())
		}
		w.e.Backoff(try)
		reread, err := registry.Entities(ctx, w.tenant, []workflow.EntityKey{e.Key()}, true)
		if err != nil {
			return nil, err
		}
		current, exists := reread[e.Key()]
		if !exists {
			return nil, nil
		}
		e = current
	}
	return nil, nil
}

// changeWakeups returns the messages that wake executions waiting for an entity.
func changeWakeups(tenant string, watchers []string) []workflow.Wakeup {
	wakeups := make([]workflow.Wakeup, len(watchers))
	for n, id := range watchers {
		wakeups[n] = workflow.Wakeup{Tenant: tenant, Execution: id, Reason: "an entity has changed"}
	}
	return wakeups
}
