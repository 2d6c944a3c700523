package planner

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// EntityUpdates are the updates that jobs request, by entity: the keys in the order in which they
// were first named, and the updates of each key in the order of step runs and jobs. Branches are
// ordered as in the definition, whichever was faster.
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

// collectUpdates collects the requested updates of the included step runs that still stand in the
// try. It leaves out those that were requested by the jobs of some entities.
func (p *Planner) collectUpdates(ctx context.Context, x *workflow.Execution, try int, include func(*workflow.StepRun) bool, without map[workflow.EntityKey]bool) (*EntityUpdates, error) {
	all, requesting := &EntityUpdates{}, []*workflow.StepRun(nil)
	for i := range x.StepRuns {
		if r := &x.StepRuns[i]; r.HasUpdates && include(r) {
			requesting = append(requesting, r)
		}
	}
	slices.SortStableFunc(requesting, func(a, b *workflow.StepRun) int {
		return cmp.Or(p.compareBranches(x, a, b), a.Seq-b.Seq)
	})
	for _, r := range requesting {
		o, err := p.effectiveOutcome(ctx, x, try, r)
		if err != nil {
			return nil, err
		}
		for _, u := range o.updates {
			if !without[u.jobEntity] {
				all.add([]workflow.Update{u.update})
			}
		}
	}
	return all, nil
}

// FinalUpdates collects the updates that a completed execution applies: all that still stand,
// except those requested by the jobs of failed entities. The work on failed entities is undone, or
// was pure.
func (p *Planner) FinalUpdates(ctx context.Context, x *workflow.Execution) (*EntityUpdates, error) {
	failed := map[workflow.EntityKey]bool{}
	if x.Result != nil {
		entities, err := p.Entities(ctx, x.Scope)
		if err != nil {
			return nil, err
		}
		for i := range entities {
			place := entities[i].Place
			if x.Result.Sets.Of(place) == workflow.EntityFailedSafe || x.Undo != nil && x.Undo.Entities.Contains(place) {
				failed[entities[i].Key] = true
			}
		}
	}
	return p.collectUpdates(ctx, x, x.Try, func(r *workflow.StepRun) bool { return r.Forward() && r.SupersededBy == 0 }, failed)
}

// checkUpdates rejects updates that could never be applied when the execution completes: an update
// of an entity that the execution does not hold exclusively, or one that makes the entity exceed
// the inventory's size limit. The updates of a probe are never applied; only its later steps see
// them.
func (p *Planner) checkUpdates(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, rep *lifecycle.Report) error {
	ended := *r
	ended.Status = "" // its packs are final, so the outcome may be cached
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
		if attributes[key] == nil || x.LockMode == workflow.LockShared && !x.Probe {
			reject(key, workflow.FailureEntityNotHeld, "a job of step %q requests an update of %s, which the execution does not hold", r.Label, key)
			return nil
		}
	}
	all, err := p.collectUpdates(ctx, x, r.Try, r.CanReadResultsOf, nil)
	if err != nil {
		return err
	}
	all.add(updates)
	for _, key := range requested.Keys {
		merged := workflow.ApplyUpdates(attributes[key].Attributes, all.ByEntity[key])
		if len(merged) > workflow.MaxAttributesBytes {
			reject(key, workflow.FailureLimit, "the updates would leave %s with %d bytes of attributes, the limit is %d", key, len(merged), workflow.MaxAttributesBytes)
			return nil
		}
	}
	return nil
}
