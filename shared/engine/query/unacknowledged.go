package query

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// maxUnsuccessfulRead is how many children that did not end well are read for one view.
const maxUnsuccessfulRead = 200

// unacknowledgedChildren returns the first executions that the execution has started, in any try,
// and that wait to be acknowledged: they may hold what the execution needs when it is tried again.
// Those of the last step runs come first.
func unacknowledgedChildren(ctx context.Context, i *engine.Inspection) ([]views.UnacknowledgedChild, error) {
	x, found, left := i.Execution(), []views.UnacknowledgedChild{}, maxUnsuccessfulRead
	for n := len(x.StepRuns) - 1; n >= 0 && left > 0 && len(found) < workflow.MaxNamedFailures; n-- {
		r := &x.StepRuns[n]
		if r.Child == nil || r.Child.Mode != workflow.ModeDispatch {
			continue
		}
		lanes, err := unsuccessfulLanes(ctx, i, r)
		if err != nil || len(lanes) == 0 {
			if err != nil {
				return found, err
			}
			continue
		}
		lanes = lanes[:min(len(lanes), left)]
		left -= len(lanes)
		ids := make([]string, len(lanes))
		for k, lane := range lanes {
			if ids[k] = r.Child.ID; r.IsSet() {
				ids[k] = r.ChildID(x.ID, lane)
			}
		}
		heads, err := i.Ports().Store.Heads(ctx, x.Tenant, ids)
		if err != nil {
			return found, err
		}
		var items []json.RawMessage
		for k, id := range ids {
			state := heads[id].State
			if state != sm.ExecutionFailedUnsafe && state != sm.ExecutionCancelled || len(found) == workflow.MaxNamedFailures {
				continue
			}
			child := views.UnacknowledgedChild{ID: id, Step: r.Label, State: state}
			if r.IsSet() {
				if items == nil {
					if items, err = valueList(ctx, i, r.Seq, r.List); err != nil {
						return found, err
					}
				}
				number := r.ItemOf(lanes[k])
				if child.Item = &number; number < len(items) {
					child.ItemText = ptr((&workflow.Item{Number: number, Value: items[number]}).Text())
				}
			}
			found = append(found, child)
		}
	}
	return found, nil
}

// unsuccessfulLanes returns the children of a step run that did not end well, as far as the step run
// or its done sets know.
func unsuccessfulLanes(ctx context.Context, i *engine.Inspection, r *workflow.StepRun) (lanes []int, err error) {
	switch {
	case !r.IsSet() && (r.Child.State == sm.ExecutionFailedUnsafe || r.Child.State == sm.ExecutionCancelled):
		return []int{0}, nil
	case !r.IsSet(), !r.Open() && r.Counts.Failed == 0:
		return nil, nil
	}
	_, failed, err := i.ChildLanes(ctx, r)
	return slices.Sorted(maps.Keys(failed)), err
}
