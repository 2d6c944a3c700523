package planner

import (
	"context"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// ChildInput is the input for the child of an item, or why it has none.
type ChildInput struct {
	Parameters json.RawMessage
	Selector   json.RawMessage // nil for none
	Err        error
}

// ChildInputs returns the inputs of some children of a set, by their lanes. It evaluates only what
// concerns their items.
func (p *Planner) ChildInputs(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lanes []int) ([]ChildInput, error) {
	scope, err := p.buildExprScope(ctx, x, r)
	if err != nil {
		return nil, err
	}
	items, err := p.loadList(ctx, r)
	if err != nil {
		return nil, err
	}
	expressions := scope.expressions.ForPlan(ctx, p.MaxPlanCost)
	inputs := make([]ChildInput, len(lanes))
	for i, lane := range lanes {
		number := r.ItemOf(lane)
		if number < 0 || number >= len(items) {
			return nil, workflow.Errorf(workflow.CodeInternal, "step %q has no item %d", r.Label, number)
		}
		item := &workflow.ScopeEntity{Key: workflow.ItemKey(number), Attributes: items[number]}
		in := &inputs[i]
		if in.Parameters, in.Err = expressions.Parameters(r.StepIndex, item); in.Err == nil {
			in.Selector, in.Err = expressions.ExecuteOnParameters(r.StepIndex, item)
		}
		if in.Err == nil {
			in.Err = expressions.Err()
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return inputs, nil
}

// childOutcome is the entry of an item's child in the result of a set.
type childOutcome struct {
	State sm.ExecutionState `json:"state"`
}

// keepChildren adds the items whose child in an earlier try has completed or, in fire-and-forget
// mode, was started. It removes all other items that had a child.
func (p *Planner) keepChildren(ctx context.Context, o *workflow.StepRun, kept map[workflow.EntityKey]bool) error {
	list := make([]json.RawMessage, o.Items)
	if err := p.addChildren(ctx, o, list); err != nil {
		return err
	}
	for number, raw := range list {
		if raw == nil {
			continue
		}
		var c childOutcome
		if err := json.Unmarshal(raw, &c); err != nil {
			return workflow.Errorf(workflow.CodeInternal, "the children of step %q cannot be decoded: %w", o.Label, err)
		}
		if key := workflow.ItemKey(number); c.State == sm.ExecutionCompletedAck || o.Child.Mode == workflow.ModeFireAndForget { // nobody waits for the end of the child
			kept[key] = true
		} else {
			delete(kept, key)
		}
	}
	return nil
}

// addChildren adds the results of a step run's children to the list, unless it already has one for
// the item.
func (p *Planner) addChildren(ctx context.Context, o *workflow.StepRun, list []json.RawMessage) error {
	if o.Value == nil || o.Status == sm.StepCaseHandled { // in that case the value is the failure
		return nil
	}
	value, err := p.loadValue(ctx, o)
	if err != nil {
		return err
	}
	var all []json.RawMessage
	if err := json.Unmarshal(value, &all); err != nil {
		return workflow.Errorf(workflow.CodeInternal, "the children of step %q cannot be decoded: %w", o.Label, err)
	}
	for i := range min(len(all), len(list)) {
		if list[i] == nil && string(all[i]) != "null" {
			list[i] = all[i]
		}
	}
	return nil
}
