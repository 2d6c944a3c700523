package engine

import (
	"context"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// conditionWatch is an execution that waits for entities to change.
type conditionWatch struct {
	registry    port.Registry
	tenant      string
	executionID string
}

// entityLookup finds an entity's attributes.
type entityLookup = func(entityType, id string) (json.RawMessage, bool)

// maxWatchRounds bounds how often a condition is evaluated in one look: what it reads
// may depend on what it has read.
const maxWatchRounds = 4

// evaluate evaluates a condition. One that is not true is evaluated once more after
// the execution has been registered with every entity it reads: what is written
// later wakes the run, what was written before is seen. An entity that does not
// exist has nobody to wake; the alarm looks for it. why says why a condition could
// not be evaluated.
func (w *conditionWatch) evaluate(ctx context.Context, condition func(entityLookup) (bool, error)) (ready bool, why string, err error) {
	watched := map[workflow.EntityKey]bool{}
	for range maxWatchRounds {
		var read []workflow.EntityKey
		var lookupErr error
		lookup := func(entityType, id string) (json.RawMessage, bool) {
			key := workflow.EntityKey{Type: entityType, ID: id}
			read = append(read, key)
			entities, err := w.registry.Entities(ctx, w.tenant, []workflow.EntityKey{key}, true)
			if err != nil {
				lookupErr = err
			}
			e, ok := entities[key]
			return e.Attributes, ok
		}
		ok, err := condition(lookup)
		if lookupErr != nil {
			return false, "", lookupErr
		}
		if ready, why = ok && err == nil, ""; err != nil {
			why = err.Error()
		}
		fresh := false
		for _, key := range read {
			if ready || watched[key] {
				continue
			}
			if _, err := w.registry.AddWatcher(ctx, w.tenant, key, w.executionID); err != nil {
				return ready, why, err
			}
			watched[key], fresh = true, true
		}
		if !fresh {
			return ready, why, nil
		}
	}
	return ready, why, nil
}
