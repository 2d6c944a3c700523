package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// entityWriter writes entities for a run.
type entityWriter struct {
	registry    port.Registry
	tenant      string
	maxRetries  int             // of one entity that keeps changing
	backoff     func(round int) // between them
	parallelism int             // entities written at a time
}

// writeResult is what came of writing many.
type writeResult struct {
	watchers []string             // executions that wait for what has changed
	skipped  []workflow.EntityKey // not written: they do not exist any more, or the run does not hold them
}

// applyUpdates writes the updates of entities, each under the token of the lock that the
// run holds on it.
func (w *entityWriter) applyUpdates(ctx context.Context, keys []workflow.EntityKey, updates map[workflow.EntityKey][]workflow.Update, tokens map[workflow.EntityKey]int64) (writeResult, error) {
	var written writeResult
	known, err := w.registry.Entities(ctx, w.tenant, keys, true)
	if err != nil {
		return written, err
	}
	var mu sync.Mutex
	err = parallel.Each(ctx, w.parallelism, len(keys), func(ctx context.Context, i int) error {
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

// replaceEntity writes one entity, unless that has been done under the token. An entity
// that has changed since it was read is read again.
func (w *entityWriter) replaceEntity(ctx context.Context, e workflow.Entity, token int64, updates []workflow.Update) (watchers []string, err error) {
	for try := 1; e.Token < token; try++ {
		seen := e.Version
		for i := range updates {
			e.Attributes = updates[i].Apply(e.Attributes)
		}
		e.Token = token
		ok, watchers, err := w.registry.ReplaceEntity(ctx, w.tenant, e, seen)
		if err != nil || ok {
			return watchers, err
		}
		if try == w.maxRetries {
			return nil, workflow.Errorf(workflow.CodeConflict, "entity %s keeps changing", e.Key())
		}
		w.backoff(try)
		reread, err := w.registry.Entities(ctx, w.tenant, []workflow.EntityKey{e.Key()}, true)
		if err != nil {
			return nil, err
		}
		now, exists := reread[e.Key()]
		if !exists {
			return nil, nil
		}
		e = now
	}
	return nil, nil
}
