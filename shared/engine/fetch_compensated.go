package engine

import (
	"context"
	"slices"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// undoesChanged are those of the entities that others have changed since the execution which this one undoes
// released them: what it would restore is older than that. recent are those who took their locks. What the
// parent has started belongs to what is undone, in its order: others of its children may have worked on the same
// entities, and one that was to undo the same may have failed halfway.
func (w *workspace) undoesChanged(ctx context.Context, keys []workflow.EntityKey, recent map[workflow.EntityKey]workflow.RecentHolders) ([]lifecycle.OutdatedEntity, error) {
	undone := w.e.newWorkspace(w.tenant, w.execution.Parent.Compensates.Execution)
	defer func() { w.pendingCost.Add(undone.ports.Meter.Take()) }()
	if err := undone.load(ctx); err != nil {
		if workflow.Is(err, workflow.CodeNotFound) { // its retention is over: nobody knows how it held them
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
	forgotten := map[workflow.EntityKey]bool{} // somebody may have held it who is not known any more
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
	idle, err := w.haveChangedNothing(ctx, holders)
	if err != nil {
		return nil, err
	}
	for i := range found {
		found[i].By = slices.DeleteFunc(found[i].By, func(id string) bool { return idle[id] })
	}
	return slices.DeleteFunc(found, func(o lifecycle.OutdatedEntity) bool { return len(o.By) == 0 && !forgotten[o.Entity] }), nil
}

// familyOf finds out which executions another one has started, directly or through others. known are those of
// which that is known.
type familyOf struct {
	w     *workspace
	known map[string]bool
	read  int
}

// without leaves out the executions that belong to the family. Of more than maxHoldersRead it is assumed that
// they do not.
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
