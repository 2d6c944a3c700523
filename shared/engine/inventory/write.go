package inventory

import (
	"context"
	"slices"
	"sync"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Writer writes entities for a run.
type Writer struct {
	Registry port.Registry
	Tenant   string
	Tries    int             // of one entity that keeps changing
	Pause    func(round int) // between them
	Parallel int             // entities written at a time
}

// Written is what came of writing many.
type Written struct {
	Watchers []string             // executions that wait for what has changed
	Passed   []workflow.EntityKey // not written: they do not exist any more, or the run does not hold them
}

// Apply writes the updates of entities, each under the token of the lock that the
// run holds on it.
func (w *Writer) Apply(ctx context.Context, keys []workflow.EntityKey, updates map[workflow.EntityKey][]workflow.Update, tokens map[workflow.EntityKey]int64) (Written, error) {
	var written Written
	known, err := w.Registry.Entities(ctx, w.Tenant, keys, true)
	if err != nil {
		return written, err
	}
	var mu sync.Mutex
	err = parallel.Each(ctx, w.Parallel, len(keys), func(ctx context.Context, i int) error {
		key := keys[i]
		var watchers []string
		var err error
		e, exists := known[key]
		held := exists && tokens[key] > 0
		if held {
			watchers, err = w.Replace(ctx, e, tokens[key], updates[key])
		}
		mu.Lock()
		defer mu.Unlock()
		if !held {
			written.Passed = append(written.Passed, key)
		}
		written.Watchers = append(written.Watchers, watchers...)
		return err
	})
	slices.Sort(written.Watchers)
	written.Watchers = slices.Compact(written.Watchers)
	return written, err
}

// Replace writes one entity, unless that has been done under the token. An entity
// that has changed since it was read is read again.
func (w *Writer) Replace(ctx context.Context, e workflow.Entity, token int64, updates []workflow.Update) (watchers []string, err error) {
	for try := 1; e.Token < token; try++ {
		seen := e.Version
		for i := range updates {
			e.Attributes = updates[i].Apply(e.Attributes)
		}
		e.Token = token
		ok, watchers, err := w.Registry.ReplaceEntity(ctx, w.Tenant, e, seen)
		if err != nil || ok {
			return watchers, err
		}
		if try == w.Tries {
			return nil, workflow.Errorf(workflow.CodeConflict, "entity %s keeps changing", e.Key())
		}
		w.Pause(try)
		again, err := w.Registry.Entities(ctx, w.Tenant, []workflow.EntityKey{e.Key()}, true)
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
