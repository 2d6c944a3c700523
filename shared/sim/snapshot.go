package sim

import (
	"bytes"
	"maps"
	"reflect"
	"strings"

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
		packs, stored, polls, marks, done, workers := maps.Clone(w.packs), maps.Clone(w.payloads), maps.Clone(w.polls), maps.Clone(w.poolMarks), map[shardKey]*workflow.DoneSet{}, maps.Clone(w.workers)
		for key, set := range w.doneSets {
			one := doneSet(*set).copy()
			done[key] = &one
		}
		return w.underLock(func() {
			w.packs, w.packsBefore, w.payloads, w.polls, w.poolMarks, w.doneSets = packs, maps.Clone(packs), stored, polls, marks, done
			replaceMap(w.workers, workers)
		})
	case LocksTable:
		locks := maps.Clone(w.locks)
		return w.underLock(func() { w.locks, w.locksBefore = locks, maps.Clone(locks) })
	default:
		entities, watchers := map[string]map[workflow.EntityKey]workflow.Entity{}, map[string]map[string]bool{}
		for key, all := range w.entities {
			entities[key] = maps.Clone(all)
		}
		for key, all := range w.watchers {
			watchers[key] = maps.Clone(all)
		}
		deleted, bindings, keys, schedules := maps.Clone(w.deleted), maps.Clone(w.bindings), maps.Clone(w.businessKeys), maps.Clone(w.schedules)
		return w.underLock(func() {
			w.entities, w.watchers, w.deleted, w.bindings, w.businessKeys = entities, watchers, deleted, bindings, keys
			w.entitiesBefore = map[string]*workflow.Entity{}
			replaceMap(w.schedules, schedules)
		})
	}
}

// Storing lists the tables that hold a text in any item.
func (w *World) Storing(text string) (where []Table) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range []struct {
		name  Table
		items []any
	}{
		{ExecutionsTable, []any{w.executions}}, {JobsTable, []any{w.packs, w.doneSets, w.payloads, w.polls, w.poolMarks, w.workers}}, {LocksTable, []any{w.locks}},
		{RegistryTable, []any{w.definitions, w.blocks, w.versionIndexes, w.entities, w.bindings, w.watchers, w.schedules, w.tables}},
		{tableData, []any{w.rows}},
	} {
		for _, items := range t.items {
			if holds(reflect.ValueOf(items), text) {
				where = append(where, t.name)
			}
		}
	}
	return where
}

// holds reports whether a text stands in any part of a value.
func holds(v reflect.Value, text string) bool {
	switch v.Kind() {
	case reflect.String:
		return strings.Contains(v.String(), text)
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && holds(v.Elem(), text)
	case reflect.Struct:
		for i := range v.NumField() {
			if holds(v.Field(i), text) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 && v.Kind() == reflect.Slice {
			return bytes.Contains(v.Bytes(), []byte(text))
		}
		for i := range v.Len() {
			if holds(v.Index(i), text) {
				return true
			}
		}
	case reflect.Map:
		for each := v.MapRange(); each.Next(); {
			if holds(each.Key(), text) || holds(each.Value(), text) {
				return true
			}
		}
	}
	return false
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
