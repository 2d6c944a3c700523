package sim

import (
	"maps"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Table is one of the tables. Each is restored by itself.
type Table string

// The tables.
const (
	ExecutionsTable Table = tableExecutions
	JobsTable       Table = tableJobs
	LocksTable      Table = tableLocks
	RegistryTable   Table = tableRegistry
)

// Snapshot copies a table and returns a function that restores it to the copy.
func (w *World) Snapshot(t Table) (restore func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch t {
	case ExecutionsTable:
		kept := map[string]*executionItem{}
		for key, e := range w.executions {
			kept[key] = e.copy()
		}
		return w.underLock(func() { w.executions = kept })
	case JobsTable:
		packs, stored, polls, done, workers := maps.Clone(w.packs), maps.Clone(w.payloads), maps.Clone(w.polls), map[shardKey]*workflow.DoneSet{}, maps.Clone(w.workers)
		for key, set := range w.doneSets {
			one := doneSet(*set).copy()
			done[key] = &one
		}
		return w.underLock(func() {
			w.packs, w.payloads, w.polls, w.doneSets = packs, stored, polls, done
			replaceMap(w.workers, workers)
		})
	case LocksTable:
		locks := maps.Clone(w.locks)
		return w.underLock(func() { w.locks = locks })
	default:
		entities, watchers := map[string]map[workflow.EntityKey]workflow.Entity{}, map[string]map[string]bool{}
		for key, all := range w.entities {
			entities[key] = maps.Clone(all)
		}
		for key, all := range w.watchers {
			watchers[key] = maps.Clone(all)
		}
		bindings, schedules := maps.Clone(w.bindings), maps.Clone(w.schedules)
		return w.underLock(func() {
			w.entities, w.watchers, w.bindings = entities, watchers, bindings
			replaceMap(w.schedules, schedules)
		})
	}
}

// underLock returns a function that calls do under the world's mutex.
func (w *World) underLock(do func()) func() {
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		do()
	}
}

// replaceMap replaces the contents of a map that views share.
func replaceMap[K comparable, V any](shared, kept map[K]V) {
	clear(shared)
	maps.Copy(shared, kept)
}

// copy returns a copy of the item. Executions and inputs are shared: writes replace them and
// never change them.
func (e *executionItem) copy() *executionItem {
	c := *e
	c.waiters, c.scopes, c.events = maps.Clone(e.waiters), maps.Clone(e.scopes), maps.Clone(e.events)
	c.descendants, c.heard, c.values = maps.Clone(e.descendants), maps.Clone(e.heard), maps.Clone(e.values)
	c.failureStreak = clone(e.failureStreak)
	return &c
}
