package query

import (
	"context"
	"slices"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// EntityExecutions lists the latest executions that locked an entity of the inventory, the newest
// first. The lock item names them, so there are at most [workflow.MaxRecentHolders].
func (v *Service) EntityExecutions(ctx context.Context, c workflow.Caller, key workflow.EntityKey) ([]views.EntityExecutionView, error) {
	ports := v.engine.OpenPorts()
	keys := []workflow.EntityKey{key}
	known, err := ports.Registry.Entities(ctx, c.Tenant, keys, true)
	if err != nil {
		return nil, err
	}
	if _, ok := known[key]; !ok {
		return nil, workflow.Errorf(workflow.CodeNotFound, "the inventory has no entity %s", key)
	}
	items, err := ports.Locks.Read(ctx, c.Tenant, keys, true)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, h := range items[key].Recent {
		ids = append(ids, h.Execution)
	}
	executions, err := v.loadByID(ctx, c.Tenant, ids)
	if err != nil {
		return nil, err
	}
	var list []views.EntityExecutionView
	for _, h := range slices.Backward(items[key].Recent) {
		e := views.EntityExecutionView{ID: h.Execution}
		if x := executions[h.Execution]; x != nil {
			e.Workflow, e.State, e.Status = &x.Workflow, &x.State, ptr(x.Status())
			e.CreatedAt, e.EndedAt = timePtr(x.CreatedAt), timePtr(x.EndedAt)
			e.Outcome = nonZeroPtr(x.Outcome())
			if outcome, ok := x.EntityOutcome(h.Place); ok && h.Place > 0 {
				e.EntityOutcome = nonZeroPtr(outcome)
			}
		}
		list = append(list, e)
	}
	return list, nil
}

// loadByID reads executions, except those that have been removed or have a newer version, with the
// outcomes of their entities unless these are lost.
func (v *Service) loadByID(ctx context.Context, tenant string, ids []string) (map[string]*workflow.Execution, error) {
	found := map[string]*workflow.Execution{}
	if len(ids) == 0 {
		return found, nil
	}
	ports := v.engine.OpenPorts()
	executions, _, err := ports.Store.LoadMany(ctx, tenant, ids)
	for _, x := range executions {
		if !x.DiscardedAt.IsZero() {
			continue
		}
		if err := engine.ReadOutcomes(ctx, ports.Packs, x); err != nil && !port.Permanent(err) {
			return found, err
		}
		found[x.ID] = x
	}
	return found, err
}
