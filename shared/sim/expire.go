package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// expirable is an item that may be deleted because its time to live is over.
type expirable struct {
	name      string
	execution string
	remove    func()
}

// Expired is an item that [World.Expire] has deleted.
type Expired struct {
	Name      string // what it was
	Execution string // to which it belonged
	State     bool   // it was the state item
}

// Expire deletes one item that was discarded and whose time has passed. draw chooses which. ok is
// false if there is none.
func (w *World) Expire(draw func(n int) int) (item Expired, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.expirable()
	if len(all) == 0 {
		return item, false
	}
	one := all[draw(len(all))]
	one.remove()
	return Expired{Name: one.name, Execution: one.execution, State: one.name == stateItemName}, true
}

// stateItemName is the name of a state item among the items of its execution.
const stateItemName = "the state item"

// expirable lists the items whose time to live is over, in a fixed order.
func (w *World) expirable() (all []expirable) {
	for key, at := range w.discardTimes {
		if at.After(w.now) {
			continue
		}
		if key.shard != partsShard {
			all = append(all, w.jobItems(key)...)
		} else if e := w.executions[tenantKey(key.stepRun.Tenant, key.stepRun.Execution)]; e != nil {
			all = append(all, e.parts(key.stepRun.Execution)...)
		}
	}
	for at, e := range w.executions {
		if x := e.x; x != nil && !x.DiscardedAt.IsZero() && x.DueAt.IsZero() && !x.DiscardedAt.After(w.now) {
			all = append(all, expirable{stateItemName, x.ID, func() {
				e.x, e.index, e.before, e.failureStreak = nil, indexEntry{}, indexEntry{}, nil
				clear(e.waiters)
				if len(e.parts("")) == 0 {
					delete(w.executions, at)
				}
			}})
		}
	}
	slices.SortFunc(all, func(a, b expirable) int {
		return slices.Compare([]string{a.execution, a.name}, []string{b.execution, b.name})
	})
	return all
}

// parts returns the items of an execution besides its state item.
func (e *executionItem) parts(id string) (all []expirable) {
	add := func(name string, remove func()) { all = append(all, expirable{name, id, remove}) }
	if e.input != nil {
		add("the input", func() { e.input = nil })
	}
	if e.observed != (workflow.ObservedThrough{}) {
		add("what was published", func() { e.observed = workflow.ObservedThrough{} })
	}
	if len(e.descendants) > 0 {
		add("the count of descendants", func() { clear(e.descendants) })
	}
	if len(e.heard) > 0 {
		add("the signals", func() { clear(e.heard) })
	}
	for key := range e.scopes {
		add("scope "+key, func() { delete(e.scopes, key) })
	}
	for key := range e.values {
		add("value "+key, func() { delete(e.values, key) })
	}
	for n := range e.events {
		add(fmt.Sprintf("event %06d", n), func() { delete(e.events, n) })
	}
	return all
}

// jobItems returns the items of one shard of a step run.
func (w *World) jobItems(key shardKey) (all []expirable) {
	id := key.stepRun.Execution
	of := func(p workflow.PackKey) bool { return p.StepRunKey() == key.stepRun && p.Shard() == key.shard }
	for p := range w.packs {
		if of(p) {
			all = append(all, expirable{"pack " + p.String(), id, func() { delete(w.packs, p) }})
		}
	}
	for p := range w.payloads {
		if of(p.pack) {
			all = append(all, expirable{fmt.Sprintf("payload of %s %s %d", p.pack, p.digest, p.chunk), id, func() { delete(w.payloads, p) }})
		}
	}
	if w.doneSets[key] != nil {
		all = append(all, expirable{fmt.Sprintf("done set %d of %+v", key.shard, key.stepRun), id, func() { delete(w.doneSets, key) }})
	}
	return all
}

// Remaining names what is still stored for executions whose state items are gone. There should be
// nothing.
func (w *World) Remaining() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	gone := func(tenant, id string) bool {
		e := w.executions[tenantKey(tenant, id)]
		return e == nil || e.x == nil
	}
	shards := map[shardKey]bool{}
	for p := range w.packs {
		shards[shardKey{p.StepRunKey(), p.Shard()}] = true
	}
	for p := range w.payloads {
		shards[shardKey{p.pack.StepRunKey(), p.pack.Shard()}] = true
	}
	for key := range w.doneSets {
		shards[key] = true
	}
	for key := range shards {
		if gone(key.stepRun.Tenant, key.stepRun.Execution) {
			for _, item := range w.jobItems(key) {
				names = append(names, item.name)
			}
		}
	}
	for at, e := range maps.All(w.executions) {
		if e.x == nil {
			for _, item := range e.parts(at) {
				names = append(names, item.name+" of "+at)
			}
		}
	}
	slices.Sort(names)
	return names
}
