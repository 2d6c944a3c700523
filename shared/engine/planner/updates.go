package planner

import (
	"context"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Asked is what jobs ask to be changed, entity by entity: the keys in the order
// in which they were first named, the updates of each in the order of the visits
// and of their jobs.
type Asked struct {
	Keys []workflow.EntityKey
	Of   map[workflow.EntityKey][]workflow.Update
}

func (a *Asked) add(updates []workflow.Update) {
	if a.Of == nil {
		a.Of = map[workflow.EntityKey][]workflow.Update{}
	}
	for _, u := range updates {
		if a.Of[u.Entity] == nil {
			a.Keys = append(a.Keys, u.Entity)
		}
		a.Of[u.Entity] = append(a.Of[u.Entity], u)
	}
}

// Asked gathers what the visits wanted ask for, as far as it stands in a try.
func (p *Planner) Asked(ctx context.Context, x *workflow.Execution, try int, wanted func(*workflow.StepRun) bool) (*Asked, error) {
	all := &Asked{}
	for i := range x.Runs {
		r := &x.Runs[i]
		if !r.Updates || !wanted(r) {
			continue
		}
		o, err := p.standing(ctx, x, try, r, -1)
		if err != nil {
			return nil, err
		}
		all.add(o.asked())
	}
	return all, nil
}

// codeLimit is the code of a failure for what is too large.
const codeLimit = "LIMIT"

// refuse looks for updates that could never be applied once the run completes: of
// an entity that it does not hold for itself, or so many that an entity would grow
// beyond what the inventory takes.
func (p *Planner) refuse(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, rep *lifecycle.Report) error {
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
	attributes := make(map[workflow.EntityKey]*workflow.Held, len(held))
	for i := range held {
		attributes[held[i].Key] = &held[i]
	}
	refused := func(key workflow.EntityKey, code, format string, args ...any) {
		rep.Cause, rep.Problem = workflow.CauseStepFailed, &workflow.Failure{
			Code: code, Step: r.Label, Entity: key.String(), Message: fmt.Sprintf(format, args...),
		}
	}
	var now Asked
	now.add(updates)
	for _, key := range now.Keys {
		if attributes[key] == nil || x.LockMode == workflow.LockShared {
			refused(key, lifecycle.CodeNotHeld, "a job of step %q asks for an update of %s, which the run does not hold", r.Label, key)
			return nil
		}
	}
	all, err := p.Asked(ctx, x, r.Try, r.Sees)
	if err != nil {
		return err
	}
	all.add(updates)
	for _, key := range now.Keys {
		merged := attributes[key].Attributes
		for i := range all.Of[key] {
			merged = all.Of[key][i].Apply(merged)
		}
		if len(merged) > workflow.MaxAttributes {
			refused(key, codeLimit, "the updates of %s leave it with %d bytes of attributes, the limit is %d", key, len(merged), workflow.MaxAttributes)
			return nil
		}
	}
	return nil
}
