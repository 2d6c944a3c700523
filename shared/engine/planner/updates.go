package planner

import (
	"context"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// EntityUpdates is what jobs ask to be changed, entity by entity: the keys in the order
// in which they were first named, the updates of each in the order of the visits
// and of their jobs.
type EntityUpdates struct {
	Keys     []workflow.EntityKey
	ByEntity map[workflow.EntityKey][]workflow.Update
}

func (a *EntityUpdates) add(updates []workflow.Update) {
	if a.ByEntity == nil {
		a.ByEntity = map[workflow.EntityKey][]workflow.Update{}
	}
	for _, u := range updates {
		if a.ByEntity[u.Entity] == nil {
			a.Keys = append(a.Keys, u.Entity)
		}
		a.ByEntity[u.Entity] = append(a.ByEntity[u.Entity], u)
	}
}

// CollectUpdates gathers what the visits wanted ask for, as far as it stands in a try.
func (p *Planner) CollectUpdates(ctx context.Context, x *workflow.Execution, try int, include func(*workflow.StepRun) bool) (*EntityUpdates, error) {
	all := &EntityUpdates{}
	for i := range x.StepRuns {
		r := &x.StepRuns[i]
		if !r.HasUpdates || !include(r) {
			continue
		}
		o, err := p.effectiveOutcome(ctx, x, try, r, -1)
		if err != nil {
			return nil, err
		}
		all.add(o.requestedUpdates())
	}
	return all, nil
}

// checkUpdates looks for updates that could never be applied once the run completes: of
// an entity that it does not hold for itself, or so many that an entity would grow
// beyond what the inventory takes.
func (p *Planner) checkUpdates(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, rep *lifecycle.Report) error {
	ended := *r
	ended.Status = "" // its packs are final: what is read of them stays
	updates, err := p.Updates(ctx, x, &ended)
	if err != nil {
		return err
	}
	held, err := p.Entities(ctx, x.ScopeOf(r))
	if err != nil {
		return err
	}
	attributes := make(map[workflow.EntityKey]*workflow.ScopeEntity, len(held))
	for i := range held {
		attributes[held[i].Key] = &held[i]
	}
	reject := func(key workflow.EntityKey, code, format string, args ...any) {
		rep.Cause, rep.Problem = workflow.CauseStepFailed, &workflow.Failure{
			Code: code, Step: r.Label, Entity: key.String(), Message: fmt.Sprintf(format, args...),
		}
	}
	var requested EntityUpdates
	requested.add(updates)
	for _, key := range requested.Keys {
		if attributes[key] == nil || x.LockMode == workflow.LockShared {
			reject(key, workflow.FailureEntityNotHeld, "a job of step %q asks for an update of %s, which the run does not hold", r.Label, key)
			return nil
		}
	}
	all, err := p.CollectUpdates(ctx, x, r.Try, r.CanReadResultsOf)
	if err != nil {
		return err
	}
	all.add(updates)
	for _, key := range requested.Keys {
		merged := attributes[key].Attributes
		for i := range all.ByEntity[key] {
			merged = all.ByEntity[key][i].Apply(merged)
		}
		if len(merged) > workflow.MaxAttributesBytes {
			reject(key, workflow.FailureLimit, "the updates of %s leave it with %d bytes of attributes, the limit is %d", key, len(merged), workflow.MaxAttributesBytes)
			return nil
		}
	}
	return nil
}
