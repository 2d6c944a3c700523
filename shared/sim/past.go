package sim

import (
	"maps"

	"github.com/lockstep-run/lockstep/shared/sim/replica"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Table is one of the tables, each of which is set back by itself.
type Table string

// The tables.
const (
	Executions Table = tableExecutions
	Jobs       Table = tableJobs
	Locked     Table = tableLocks
	Published  Table = tableRegistry
)

// Keep notes what a table holds now, and returns what sets it back to that.
func (w *World) Keep(t Table) (setBack func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch t {
	case Executions:
		kept := map[string]*execution{}
		for key, e := range w.executions {
			kept[key] = e.copy()
		}
		return w.later(func() { w.executions = kept })
	case Jobs:
		packs, stored, done, workers := maps.Clone(w.packs), maps.Clone(w.stored), map[shardKey]*workflow.DoneSet{}, maps.Clone(w.workers)
		for key, set := range w.done {
			one := doneSet(*set).copy()
			done[key] = &one
		}
		return w.later(func() { w.packs, w.stored, w.done = packs, stored, done; into(w.workers, workers) })
	case Locked:
		locks := maps.Clone(w.locks)
		return w.later(func() { w.locks = locks })
	default:
		entities, watchers := map[string]map[workflow.EntityKey]workflow.Entity{}, map[string]map[string]bool{}
		for key, all := range w.entities {
			entities[key] = maps.Clone(all)
		}
		for key, all := range w.watchers {
			watchers[key] = maps.Clone(all)
		}
		bindings, schedules := maps.Clone(w.bindings), maps.Clone(w.schedules)
		return w.later(func() {
			w.entities, w.watchers, w.bindings = entities, watchers, bindings
			into(w.schedules, schedules)
		})
	}
}

// later is something that is done to the world as a whole.
func (w *World) later(do func()) func() {
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		do()
	}
}

// into replaces what views share.
func into[K comparable, V any](shared, kept map[K]V) {
	clear(shared)
	maps.Copy(shared, kept)
}

// copy is the item by itself. What it points to is replaced by every write, never
// changed.
func (e *execution) copy() *execution {
	c := *e
	c.waiters, c.scopes, c.events = maps.Clone(e.waiters), maps.Clone(e.scopes), maps.Clone(e.events)
	c.trouble = replica.Of(e.trouble)
	return &c
}
