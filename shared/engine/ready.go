package engine

import (
	"context"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// watchRounds bounds how often a condition is evaluated in one look: what it reads
// may depend on what it has read.
const watchRounds = 4

// ready evaluates what has to be waited for before the run begins. A condition
// that is not true is evaluated once more after the run has been registered with
// every entity it reads: what is written later wakes the run, what was written
// before is seen. An entity that does not exist has nobody to wake; the alarm
// looks for it.
func (w *work) ready(ctx context.Context) error {
	d, err := w.definition(ctx, w.x.Workflow)
	if err != nil {
		return err
	}
	in, err := w.loadInput(ctx)
	if err != nil {
		return err
	}
	f := &lifecycle.Ready{Condition: d.Config.StartWhen}
	at, err := d.NotBefore(in.Parameters)
	if err != nil {
		f.Problem = &workflow.Failure{Code: string(workflow.CodeInvalid), Message: err.Error()}
		w.facts.Ready = f
		return nil //nolint:nilerr // it is the run's problem, not the engine's
	}
	if f.At = w.x.NotBefore; at.After(f.At) {
		f.At = at
	}
	w.facts.Ready = f
	if w.e.now().Before(f.At) {
		return nil
	}
	watched := map[workflow.EntityKey]bool{}
	for range watchRounds {
		var read []workflow.EntityKey
		var broken error
		lookup := func(entityType, id string) (json.RawMessage, bool) {
			key := workflow.EntityKey{Type: entityType, ID: id}
			read = append(read, key)
			found, err := w.ports.Registry.Entities(ctx, w.tenant, []workflow.EntityKey{key}, true)
			if err != nil {
				broken = err
			}
			e, ok := found[key]
			return e.Attributes, ok
		}
		ok, err := d.StartWhen(in.Parameters, w.e.now(), lookup)
		if broken != nil {
			return broken
		}
		if f.Ready, f.Why = ok && err == nil, ""; err != nil {
			f.Why = err.Error()
		}
		fresh := false
		for _, key := range read {
			if f.Ready || watched[key] {
				continue
			}
			if _, err := w.ports.Registry.Watch(ctx, w.tenant, key, w.id); err != nil {
				return err
			}
			watched[key], fresh = true, true
		}
		if !fresh {
			return nil
		}
	}
	return nil
}
