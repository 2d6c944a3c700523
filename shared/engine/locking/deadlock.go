package locking

import (
	"context"
	"slices"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Bounds of one search: how many executions it reads, and how often it starts over because an
// execution that it has read has changed. It does not find a larger cycle; the deadline for lock
// waits ends that one.
const (
	maxDeadlockLoads  = 256
	maxDeadlockRounds = 3
)

// Deadlocked returns the executions that wait for a lock in the circles by which x waits for itself,
// the oldest first, none if there is no circle: x waits for a lock whose holder waits for an
// execution that it has started, which waits for a lock, and so on, back to x. The last one, the
// youngest, has to end, whoever finds it. An execution that waits for a lock holds none, but one that waits for others that it has
// started keeps its locks. So only who has a parent can close a circle, and only those
// search.
//
// The search goes against the waits, because a parent may wait for a thousand others, and few
// of them for a lock: from the ancestors of x to those that are registered as waiting for their
// locks, to the ancestors of these, and so on. x must be stored with its BlockedBy before it,
// and be registered. If several close a circle at the same time, the last one to be stored
// then sees all of it. Where a limit has no place left, any of those who have one frees what waits: that one waits for
// ever only if they all do. docs/protocols/locks.md says why that is enough.
func Deadlocked(ctx context.Context, store port.Store, x *workflow.Execution) (blocked []string, err error) {
	if x.State != sm.ExecutionScheduled || x.BlockedBy == nil || x.BlockedBy.Execution == x.ID { // it is blocked by itself when its rounds ran out
		return nil, nil
	}
	for range maxDeadlockRounds {
		w := &deadlockSearch{store: store, tenant: x.Tenant, read: map[string]*workflow.Execution{x.ID: x}, left: maxDeadlockLoads}
		circle, err := w.circleOf(ctx, x)
		if err != nil || len(circle) == 0 {
			return nil, err
		}
		stands, err := w.stands(ctx, circle)
		if err != nil {
			return nil, err
		}
		if !stands {
			continue
		}
		return slices.DeleteFunc(circle, func(id string) bool { return w.read[id].State != sm.ExecutionScheduled }), nil
	}
	return nil, nil // the cycle keeps changing, so it was no deadlock
}

// deadlockSearch is what one search has read.
type deadlockSearch struct {
	store  port.Store
	tenant string
	left   int // executions that may still be read

	read    map[string]*workflow.Execution // nil for an execution that does not exist or exceeds the limit
	waits   map[string][]string            // by execution: those that it waits for
	any     map[string]bool                // those whom the end of any of those for whom they wait is enough
	holders []string                       // executions whose waiters have yet to be read
}

// load reads an execution once.
func (w *deadlockSearch) load(ctx context.Context, id string) (*workflow.Execution, error) {
	if x, known := w.read[id]; known {
		return x, nil
	}
	if w.left--; w.left < 0 {
		return nil, nil
	}
	x, err := w.store.Load(ctx, w.tenant, id)
	if err != nil && !workflow.Is(err, workflow.CodeNotFound) {
		return nil, err // also for an execution of a newer version: what it waits for is unknown
	}
	if err != nil {
		x = nil
	}
	w.read[id] = x
	return x, nil
}

// circleOf returns all executions of a cycle through x, in the order of their ids; none if there is
// no cycle.
func (w *deadlockSearch) circleOf(ctx context.Context, x *workflow.Execution) ([]string, error) {
	w.waits, w.any = map[string][]string{}, map[string]bool{}
	w.addBlockers(x)
	if err := w.addAncestors(ctx, x); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(w.waits[x.ID], func(id string) bool { return !slices.Contains(w.holders, id) }) { // its own ancestors: nobody else is in it
		w.holders = nil
	}
	for len(w.holders) > 0 {
		h := w.read[w.holders[0]]
		w.holders = w.holders[1:]
		for _, id := range h.Waiters {
			if w.waits[id] != nil {
				continue
			}
			waiter, err := w.load(ctx, id)
			if err != nil {
				return nil, err
			}
			if waiter == nil || !w.isBlocked(waiter) {
				continue
			}
			w.addBlockers(waiter)
			if err := w.addAncestors(ctx, waiter); err != nil {
				return nil, err
			}
			w.holders = append(w.holders, id) // others may wait for what it has reserved
		}
	}
	if !w.areBlocked(x.ID) {
		return nil, nil
	}
	for id := range w.any {
		if !w.areBlocked(id) {
			delete(w.waits, id) // a place is free
		}
	}
	w.prune()
	return w.reachable(x.ID), nil
}

// addBlockers adds for whom an execution waits that waits for a lock.
func (w *deadlockSearch) addBlockers(x *workflow.Execution) {
	for _, b := range x.BlockedBy.Holders() {
		w.waits[x.ID] = append(w.waits[x.ID], b.Execution)
	}
	w.any[x.ID] = len(x.BlockedBy.Others) > 0
}

// areBlocked reports whether all that block an execution were read, and block it still.
func (w *deadlockSearch) areBlocked(id string) bool {
	x := w.read[id]
	if x == nil || x.BlockedBy == nil {
		return true // it waits for others that it has started
	}
	return !slices.ContainsFunc(x.BlockedBy.Holders(), func(b workflow.BlockedBy) bool {
		by := w.read[b.Execution]
		return by == nil || !blocks(by, &b)
	})
}

// addAncestors adds the ancestors that wait for an execution. An ancestor waits as long as its step
// run is open, whatever its state: with parallel branches it may be working as well.
func (w *deadlockSearch) addAncestors(ctx context.Context, x *workflow.Execution) error {
	for range workflow.MaxDepth {
		if !x.Awaited() {
			return nil
		}
		parent, err := w.load(ctx, x.Parent.Execution)
		if err != nil || parent == nil || !waitsFor(parent, x) {
			return err
		}
		known := w.waits[parent.ID] != nil
		if !slices.Contains(w.waits[parent.ID], x.ID) {
			w.waits[parent.ID] = append(w.waits[parent.ID], x.ID)
		}
		if known {
			return nil
		}
		w.holders = append(w.holders, parent.ID)
		x = parent
	}
	return nil
}

// waitsFor reports whether an execution waits for one of its children.
func waitsFor(parent, x *workflow.Execution) bool {
	r := parent.StepRunBySeq(x.Parent.StepRunSeq)
	return r != nil && parent.WorksOn(r) && r.Open() && !r.Closing && !r.LetGo
}

// isBlocked reports whether an execution waits for a lock that one of the executions read so far
// holds or has reserved.
func (w *deadlockSearch) isBlocked(x *workflow.Execution) bool {
	if x.State != sm.ExecutionScheduled || x.BlockedBy == nil {
		return false
	}
	return slices.ContainsFunc(x.BlockedBy.Holders(), func(b workflow.BlockedBy) bool {
		by := w.read[b.Execution]
		return by != nil && w.waits[by.ID] != nil && blocks(by, &b)
	})
}

// blocks reports whether an execution still holds the lock, or still has the reservation.
func blocks(by *workflow.Execution, lock *workflow.BlockedBy) bool {
	if lock.Reservation {
		return by.OwnerStatus().Reserves()
	}
	return by.OwnerStatus().HoldsEntity(lock.Entity, lock.Epoch, lock.Place)
}

// prune removes those that wait for nobody who waits in turn, or for whom one who does not is enough, until there
// are none.
func (w *deadlockSearch) prune() {
	for changed := true; changed; {
		changed = false
		for id, all := range w.waits {
			goesOn := func(other string) bool { return w.waits[other] == nil }
			if w.any[id] && slices.ContainsFunc(all, goesOn) || !slices.ContainsFunc(all, func(other string) bool { return !goesOn(other) }) {
				delete(w.waits, id)
				changed = true
			}
		}
	}
}

// reachable returns the executions that an execution waits for, directly or through others, and
// that wait themselves; none if it is not among them.
func (w *deadlockSearch) reachable(from string) []string {
	if w.waits[from] == nil {
		return nil
	}
	seen, front := map[string]bool{}, []string{from}
	for len(front) > 0 {
		id := front[0]
		if front = front[1:]; seen[id] {
			continue
		}
		seen[id] = true
		for _, other := range w.waits[id] {
			if w.waits[other] != nil {
				front = append(front, other)
			}
		}
	}
	all := make([]string, 0, len(seen))
	for id := range seen {
		all = append(all, id)
	}
	slices.Sort(all)
	if !seen[from] || !w.leadsBack(from, seen) {
		return nil
	}
	return all
}

// leadsBack reports whether one of the given executions waits for the execution to.
func (w *deadlockSearch) leadsBack(to string, among map[string]bool) bool {
	for id := range among {
		if slices.Contains(w.waits[id], to) {
			return true
		}
	}
	return false
}

// stands reports whether nothing in the cycle has changed since it was read. Its members were read
// one after the other.
func (w *deadlockSearch) stands(ctx context.Context, circle []string) (bool, error) {
	again, newer, err := w.store.LoadMany(ctx, w.tenant, circle)
	if err != nil || len(newer) > 0 || len(again) != len(circle) {
		return false, err
	}
	for _, x := range again {
		if x.Version != w.read[x.ID].Version {
			return false, nil
		}
	}
	return true, nil
}
