package inventory

import (
	"context"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Watch is an execution that waits for entities to change.
type Watch struct {
	Registry  port.Registry
	Tenant    string
	Execution string
}

// Lookup finds an entity's attributes.
type Lookup = func(entityType, id string) (json.RawMessage, bool)

// watchRounds bounds how often a condition is evaluated in one look: what it reads
// may depend on what it has read.
const watchRounds = 4

// Evaluate evaluates a condition. One that is not true is evaluated once more after
// the execution has been registered with every entity it reads: what is written
// later wakes the run, what was written before is seen. An entity that does not
// exist has nobody to wake; the alarm looks for it. why says why a condition could
// not be evaluated.
func (w *Watch) Evaluate(ctx context.Context, condition func(Lookup) (bool, error)) (ready bool, why string, err error) {
	watched := map[workflow.EntityKey]bool{}
	for range watchRounds {
		var read []workflow.EntityKey
		var broken error
		lookup := func(entityType, id string) (json.RawMessage, bool) {
			key := workflow.EntityKey{Type: entityType, ID: id}
			read = append(read, key)
			found, err := w.Registry.Entities(ctx, w.Tenant, []workflow.EntityKey{key}, true)
			if err != nil {
				broken = err
			}
			e, ok := found[key]
			return e.Attributes, ok
		}
		ok, err := condition(lookup)
		if broken != nil {
			return false, "", broken
		}
		if ready, why = ok && err == nil, ""; err != nil {
			why = err.Error()
		}
		fresh := false
		for _, key := range read {
			if ready || watched[key] {
				continue
			}
			if _, err := w.Registry.Watch(ctx, w.Tenant, key, w.Execution); err != nil {
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
