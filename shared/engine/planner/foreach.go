package planner

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// In the plan of a foreach, items take the place of entities. The key of an item's outcome is its
// number.

// planItems plans the jobs of a step run's items. The list is evaluated only once: an existing step
// run uses the list that it has stored.
func (p *Planner) planItems(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, s *exprScope, expressions *definitions.Expressions) (plan.JobPlan, error) {
	entered, ok := plan.BeforeItems(s.request, expressions)
	if !ok {
		return entered, nil
	}
	var list *workflow.Value
	var items []json.RawMessage
	var err error
	if committed := x.StepRunBySeq(r.Seq); committed != nil && committed.List != nil {
		list = committed.List
		items, err = p.loadList(ctx, committed)
	} else {
		var why *planFailure
		if list, items, why = evaluateItems(s.request, expressions); why != nil {
			return plan.JobPlan{Plan: lifecycle.Plan{Cause: why.cause, Problem: &why.Failure}}, nil
		}
	}
	if err != nil {
		return plan.JobPlan{}, err
	}
	s.setEntities(itemsAsEntities(items))
	if r.OnlyFailed {
		for _, o := range p.itemRuns(x, r) {
			if err := p.keepItems(ctx, x, r, o, list, s.request.AlreadyOK); err != nil {
				return plan.JobPlan{}, err
			}
		}
	}
	planned := plan.ForStep(s.request, expressions, s.entities)
	planned.Plan.Value, planned.Plan.Items = list, len(items)
	if s.request.Node.StartsChild() && len(planned.Jobs) < len(items) {
		places := make([]int, len(planned.Jobs))
		for i := range planned.Jobs {
			places[i] = planned.Jobs[i].Item.Number + 1
		}
		only := workflow.NewPlaces(places...)
		planned.Plan.Only = &only
	}
	return planned, nil
}

// evaluateItems evaluates the list of a foreach.
func evaluateItems(r plan.Request, expressions *definitions.Expressions) (list *workflow.Value, items []json.RawMessage, why *planFailure) {
	list, _, why = loopItems(r.Node, r.NodeIndex, expressions)
	if why != nil {
		return nil, nil, why
	}
	if err := json.Unmarshal(list.Inline, &items); err != nil {
		return nil, nil, loopFailure(r.Node, err)
	}
	return list, items, nil
}

// PreviewItems plans a step with foreach, as far as that is possible before the execution exists.
// If the list is unknown, it is planned as one item about which nothing is known.
func PreviewItems(r plan.Request, f *definitions.Foreseen) plan.JobPlan {
	entered, ok := plan.BeforeItems(r, f)
	if !ok || !f.ItemsKnown() {
		return entered
	}
	_, items, why := evaluateItems(r, f.Expressions)
	if why != nil {
		return plan.JobPlan{Plan: lifecycle.Plan{Cause: why.cause, Problem: &why.Failure}}
	}
	return plan.ForStep(r, f, itemsAsEntities(items))
}

// itemsAsEntities converts items into the form that plans take.
func itemsAsEntities(items []json.RawMessage) []workflow.ScopeEntity {
	all := make([]workflow.ScopeEntity, len(items))
	for i, raw := range items {
		all[i] = workflow.ScopeEntity{Key: workflow.ItemKey(i), Attributes: raw}
	}
	return all
}

// itemRuns returns the step runs of earlier tries whose items need not be executed again by a later
// try, the earliest first.
func (p *Planner) itemRuns(x *workflow.Execution, r *workflow.StepRun) []*workflow.StepRun {
	var all []*workflow.StepRun
	for i := range x.StepRuns {
		o := &x.StepRuns[i]
		if o.StepIndex == r.StepIndex && o.Try < r.Try && o.List != nil && (o.HasJobs() || o.IsSet()) && p.seesStepRun(x, r, o) && p.sameRepetition(x, r, o, 0) {
			all = append(all, o)
		}
	}
	return all
}

// keepItems adds the items whose job in an earlier try ended OK and still stands, and removes the
// others that took part. If the list has changed, it keeps none, because a number may now mean
// another item.
func (p *Planner) keepItems(ctx context.Context, x *workflow.Execution, r, o *workflow.StepRun, list *workflow.Value, kept map[workflow.EntityKey]bool) error {
	same, err := p.sameList(ctx, o.List, list)
	if err != nil {
		return err
	}
	if !same {
		clear(kept)
		return nil
	}
	if o.IsSet() {
		return p.keepChildren(ctx, o, kept)
	}
	standing, err := p.effectiveOutcome(ctx, x, r.Try, o)
	if err != nil {
		return err
	}
	all, err := p.loadOutcome(ctx, x, o)
	if err != nil {
		return err
	}
	for key := range all.participants() {
		if standing.ok[key] {
			kept[key] = true
		} else {
			delete(kept, key)
		}
	}
	return nil
}

// sameList reports whether two lists are equal, wherever they are stored: a list that is about to
// be planned is not stored yet.
func (p *Planner) sameList(ctx context.Context, a, b *workflow.Value) (bool, error) {
	if (a.Stored == nil) == (b.Stored == nil) {
		return a.Same(b), nil
	}
	first, err := p.loadStored(ctx, a)
	if err != nil {
		return false, err
	}
	second, err := p.loadStored(ctx, b)
	return bytes.Equal(first, second), err
}

// bindItemResults binds the results of a step over items: a list in the order of the items. Those of executions
// that it has started are bound by their ids, too.
func (p *Planner) bindItemResults(ctx context.Context, x *workflow.Execution, r, o *workflow.StepRun, s *exprScope) error {
	results, err := p.itemResults(ctx, x, r, o)
	if err != nil {
		return err
	}
	if s.resultBytes += len(results); s.resultBytes > p.MaxResultBytes {
		return p.resultsTooLarge(s, o)
	}
	fields := map[string]json.RawMessage{"results": results}
	if p.Program.Nodes[o.StepIndex].StartsChild() {
		if fields["children"], err = childrenByID(results); err != nil {
			return err
		}
	}
	s.bindings.Fields[o.StepIndex], err = workflow.EncodeJSON(fields)
	return err
}

// childrenByID returns the results of executions that a step has started, by their ids.
func childrenByID(results json.RawMessage) (json.RawMessage, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(results, &list); err != nil {
		return nil, err
	}
	byID := map[string]json.RawMessage{}
	for _, one := range list {
		var child struct{ ID string }
		if err := json.Unmarshal(one, &child); err != nil {
			return nil, err
		}
		if child.ID != "" { // null for an item whose execution was never started
			byID[child.ID] = one
		}
	}
	return workflow.EncodeJSON(byID)
}

// itemResults returns the results of a step run's jobs and of the earlier step runs that it builds
// on, as a reader sees them: a list in the order of the items, null if there is no result.
func (p *Planner) itemResults(ctx context.Context, x *workflow.Execution, r, o *workflow.StepRun) (json.RawMessage, error) {
	list := make([]json.RawMessage, o.Items)
	size := 0
	runs := []*workflow.StepRun{o}
	if o.OnlyFailed {
		runs = append(p.itemRuns(x, o), o)
	}
	for at := len(runs) - 1; at >= 0; at-- {
		if !runs[at].List.Same(o.List) && runs[at] != o {
			break
		}
		if p.Program.Nodes[o.StepIndex].StartsChild() {
			if err := p.addChildren(ctx, runs[at], list); err != nil {
				return nil, err
			}
			continue
		}
		got, err := p.effectiveOutcome(ctx, x, r.Try, runs[at])
		if err != nil {
			return nil, err
		}
		if size += got.size(); size > p.MaxResultBytes {
			return nil, p.resultTooLarge(o)
		}
		if err := p.loadResults(ctx, got); err != nil {
			return nil, err
		}
		for key, result := range got.results {
			if number, err := strconv.Atoi(key.ID); err == nil && number < len(list) && list[number] == nil {
				list[number] = result
			}
		}
	}
	for i := range list {
		if list[i] == nil {
			list[i] = json.RawMessage("null")
		}
	}
	return workflow.EncodeJSON(list)
}
