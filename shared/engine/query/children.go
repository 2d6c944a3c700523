package query

import (
	"context"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Children lists the executions that the steps of an execution have started, or that one step has,
// in the order in which the steps were entered, as these executions are now.
func (v *Service) Children(ctx context.Context, c workflow.Caller, id, step string, p workflow.Page) (workflow.List[views.ChildExecutionView], error) {
	var list workflow.List[views.ChildExecutionView]
	after, err := parseSequenceToken(p)
	if err != nil {
		return list, err
	}
	i, err := v.engine.Inspect(ctx, c.Tenant, id)
	if err != nil {
		return list, err
	}
	x, bytes := i.Execution(), 0
	var ids []string
	for n := range x.StepRuns {
		r := &x.StepRuns[n]
		if r.Child == nil || int64(r.Seq) <= after || step != "" && r.Label != step {
			continue
		}
		if bytes += valueBytes(r); len(list.Items) == pageLimit(p) || len(list.Items) > 0 && bytes > maxPageBytes {
			list.NextToken = encodePageToken(strconv.Itoa(list.Items[len(list.Items)-1].Sequence))
			break
		}
		shown := views.ChildExecutionView{
			ID: r.Child.ID, Step: r.Label, Sequence: r.Seq, Try: max(r.Try, 1), Superseded: r.SupersededBy > 0, Workflow: r.Child.Workflow, Mode: r.Child.Mode,
		}
		if r.Status == sm.StepCompleted {
			if shown.Output, err = stepValue(ctx, i, r); err != nil {
				return list, err
			}
		}
		list.Items, ids = append(list.Items, shown), append(ids, r.Child.ID)
	}
	if len(ids) == 0 {
		return list, nil
	}
	found, _, err := i.Ports().Store.LoadMany(ctx, c.Tenant, ids)
	if err != nil {
		return list, err
	}
	now := map[string]*workflow.Execution{}
	for _, child := range found {
		now[child.ID] = child
	}
	for n := range list.Items {
		child := now[list.Items[n].ID]
		if child == nil || !child.DiscardedAt.IsZero() {
			continue // it never began, or its retention is over
		}
		status := sm.StatusOf(child.State)
		list.Items[n].State, list.Items[n].Status = &child.State, &status
		if outcome := child.Outcome(); outcome != "" {
			list.Items[n].Outcome = &outcome
		}
		list.Items[n].Waiting = v.storedWaiting(child, nil)
	}
	return list, nil
}
