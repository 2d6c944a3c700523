package engine

import (
	"context"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fetchReadiness answers NeedReadiness: whether the execution may begin. It checks notBefore first,
// then the startWhen condition, then the rate of the workflow.
func (w *workspace) fetchReadiness(ctx context.Context) error {
	d, err := w.definition(ctx, w.execution.Workflow)
	if err != nil {
		return err
	}
	in, err := w.startInput(ctx)
	if err != nil {
		return err
	}
	f := &lifecycle.Readiness{Condition: d.Config.StartWhen}
	at, err := d.NotBefore(in.Parameters)
	if err != nil {
		f.Problem = &workflow.Failure{Code: workflow.CodeInvalid.OfFailure(), Message: err.Error()}
		w.facts.Readiness = f
		return nil //nolint:nilerr // the mistake is the definition's: it fails the execution
	}
	if f.NotBefore = w.execution.NotBefore; at.After(f.NotBefore) {
		f.NotBefore = at
	}
	w.facts.Readiness = f
	if w.e.now().Before(f.NotBefore) {
		return nil
	}
	f.Ready, f.Reason, err = w.evaluateAndWatch(ctx, func(lookup entityLookup) (bool, error) {
		return d.StartWhen(in.Parameters, w.e.now(), lookup)
	})
	if err == nil && f.Ready {
		f.RateAt, f.Problem, err = w.fetchRateAt(ctx, d, in.Parameters)
	}
	return err
}

// entityLookup finds an entity's attributes.
type entityLookup = func(entityType, id string) (json.RawMessage, bool)

// maxWatchRounds bounds how often one wake-up evaluates a condition: which entities it reads may
// depend on what it has read before.
const maxWatchRounds = 4

// evaluateAndWatch evaluates a condition. If the condition is not true, it adds the execution to
// the watchers of every entity that the condition read and evaluates once more. That way an earlier
// write is seen, and a later write wakes the execution. An entity that does not exist has no
// watchers; the execution's timer notices it. reason says why the condition could not be evaluated.
func (w *workspace) evaluateAndWatch(ctx context.Context, condition func(entityLookup) (bool, error)) (ready bool, reason string, err error) {
	registry := w.ports.Registry
	watched := map[workflow.EntityKey]bool{}
	for range maxWatchRounds {
		var read []workflow.EntityKey
		var lookupErr error
		lookup := func(entityType, id string) (json.RawMessage, bool) {
			key := workflow.EntityKey{Type: entityType, ID: id}
			read = append(read, key)
			entities, err := registry.Entities(ctx, w.tenant, []workflow.EntityKey{key}, true)
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
		if ready, reason = ok && err == nil, ""; err != nil {
			reason = err.Error()
		}
		added := false
		for _, key := range read {
			if ready || watched[key] {
				continue
			}
			if _, err := registry.AddWatcher(ctx, w.tenant, key, w.id); err != nil {
				return ready, reason, err
			}
			watched[key], added = true, true
		}
		if !added {
			return ready, reason, nil
		}
	}
	return ready, reason, nil
}
