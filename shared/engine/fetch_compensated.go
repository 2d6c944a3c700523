package engine

import (
	"context"
	"slices"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// outdatedCompensations returns the entities that others have changed since the execution that this one
// compensates released them. Restoring them would overwrite newer changes. recent lists the
// executions that took their locks most recently.
//
// Executions that the parent has started do not count as others: they are undone too, in order.
// Several of its children may have worked on the same entity, and an earlier compensation of the
// same work may have failed halfway.
func (w *workspace) outdatedCompensations(ctx context.Context, keys []workflow.EntityKey, recent map[workflow.EntityKey]workflow.RecentHolders) ([]lifecycle.OutdatedEntity, error) {
	undone := w.e.newWorkspace(w.tenant, w.execution.Parent.Compensates.Execution)
	defer func() { w.pendingCost.Add(undone.ports.Meter.Take()) }()
	if err := undone.load(ctx); err != nil {
		if workflow.Is(err, workflow.CodeNotFound) { // its retention is over, so its lock tokens are unknown
			err = nil
		}
		return nil, err
	}
	entities, err := undone.loadAllEntities(ctx, undone.execution.Scope)
	if err != nil {
		return nil, err
	}
	tokens := make(map[workflow.EntityKey]int64, len(entities))
	for _, e := range entities {
		tokens[e.Key] = e.Token
	}
	family := familyOf{w: w, known: map[string]bool{w.execution.Parent.Execution: true}}
	var found []lifecycle.OutdatedEntity
	var holders [][]string
	forgotten := map[workflow.EntityKey]bool{} // the list of holders is incomplete: there may be others
	for _, key := range keys {
		if tokens[key] == 0 {
			continue
		}
		others, all := recent[key].Since(w.id, tokens[key])
		if others, err = family.without(ctx, others); err != nil {
			return nil, err
		}
		if all = all && tokens[key] >= w.e.Policy.MinFencingToken; len(others) > 0 || !all {
			found = append(found, lifecycle.OutdatedEntity{Entity: key, By: others, Undone: undone.id})
			holders, forgotten[key] = append(holders, others), !all
		}
	}
	idle, err := w.idleHolders(ctx, holders)
	if err != nil {
		return nil, err
	}
	for i := range found {
		found[i].By = slices.DeleteFunc(found[i].By, func(id string) bool { return idle[id] })
	}
	return slices.DeleteFunc(found, func(o lifecycle.OutdatedEntity) bool { return len(o.By) == 0 && !forgotten[o.Entity] }), nil
}

// familyOf finds out which executions a given one has started, directly or through others. known
// caches the answers.
type familyOf struct {
	w     *workspace
	known map[string]bool
	read  int
}

// without removes the executions that belong to the family. It reads at most maxHoldersRead
// executions and assumes that any others do not belong to it.
func (f *familyOf) without(ctx context.Context, ids []string) (others []string, err error) {
	for _, id := range ids {
		if is, err := f.contains(ctx, id); err != nil {
			return nil, err
		} else if !is {
			others = append(others, id)
		}
	}
	return others, nil
}

func (f *familyOf) contains(ctx context.Context, id string) (bool, error) {
	if is, known := f.known[id]; known || f.read >= maxHoldersRead {
		return is, nil
	}
	f.read++
	loaded, _, err := f.w.ports.Store.LoadMany(ctx, f.w.tenant, []string{id})
	if err != nil {
		return false, err
	}
	if f.known[id] = false; len(loaded) == 1 && loaded[0].Parent != nil {
		if f.known[id], err = f.contains(ctx, loaded[0].Parent.Execution); err != nil {
			return false, err
		}
	}
	return f.known[id], nil
}
