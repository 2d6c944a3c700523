package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxAlsoDeadlocked is how many others search for circles at once when one was broken. Those that are
// left out do so at their timers.
const maxAlsoDeadlocked = 8

// fetchBlocker answers NeedBlocker. It registers a blocked execution as a waiter of the execution
// that blocks it, on the condition that it still does. A child also checks for a deadlock
// afterwards, because the parent that waits for it holds locks.
func (w *workspace) fetchBlocker(ctx context.Context) error {
	blocker, err := w.registerWithBlocker(ctx, *w.execution.BlockedBy)
	if err != nil {
		return err
	}
	w.deadlocked = nil
	if blocker.Registered && w.execution.Parent != nil {
		blocked, err := locking.Deadlocked(ctx, w.ports.Store, w.execution)
		if err != nil {
			return err
		}
		if last := len(blocked) - 1; last >= 0 && blocked[last] == w.id {
			blocker.Deadlock, w.deadlocked = true, blocked[max(0, last-maxAlsoDeadlocked):last]
		} else if last >= 0 {
			w.sendWakeups(ctx, "deadlock", []workflow.Wakeup{{Tenant: w.tenant, Execution: blocked[last], Reason: "deadlock"}})
		}
	}
	w.facts.Blocker = blocker
	return nil
}

// maxRegistrations bounds how often a registration is repeated because the holder has released
// other entities in between. After that the execution asks for its locks again.
const maxRegistrations = 4

// registerWithBlocker registers the execution with everything that blocks it, see
// registerWithHolder. It can go on as soon as one blocker no longer blocks it: if a concurrency
// limit was full, that is a free slot.
func (w *workspace) registerWithBlocker(ctx context.Context, by workflow.BlockedBy) (*lifecycle.Blocker, error) {
	if by.Reservation {
		reserver, err := w.blockerStatus(ctx, by.Execution)
		if err != nil {
			return nil, err
		}
		ok, full, err := locking.RegisterWithReserver(ctx, w.ports.Store, w.tenant, by.Execution, reserver, w.id)
		return &lifecycle.Blocker{Registered: ok, WaiterSetFull: full}, err
	}
	all := &lifecycle.Blocker{Registered: true, NeedsPerson: true, WaiterSetFull: true}
	for i, holder := range by.Holders() {
		holder.NeedsPerson = holder.NeedsPerson || by.Entity.IsSlot() // at the end this is true only if all of them wait for a person
		one, err := w.registerWithHolder(ctx, holder)
		if err != nil || *one == (lifecycle.Blocker{}) {
			return one, err
		}
		all.Registered = all.Registered && one.Registered
		all.NeedsPerson = all.NeedsPerson && one.NeedsPerson
		all.WaiterSetFull = all.WaiterSetFull && one.WaiterSetFull
		if i == 0 {
			all.Narrowed = one.Narrowed
		}
	}
	if !all.Registered && !all.NeedsPerson { // the situation changes: ask for the locks again
		return &lifecycle.Blocker{}, nil
	}
	return all, nil
}

// registerWithHolder registers the execution with one holder. A failed registration does not mean
// that the entity is free: the holder may have released others. So it checks whether the holder
// still holds this one.
//
// The holder is read first. A write that changes nothing (because the entity is free, or the list
// of waiters is full) still consumes as many units as the item has KB. Thousands of waiters would
// then keep their holder's item from being written.
func (w *workspace) registerWithHolder(ctx context.Context, by workflow.BlockedBy) (*lifecycle.Blocker, error) {
	holder, err := w.blockerStatus(ctx, by.Execution)
	if err != nil {
		return nil, err
	}
	if !holder.HoldsEntity(by.Entity, by.Epoch, by.Place) {
		return &lifecycle.Blocker{}, nil
	}
	if holder.IsWaiterSetFull() {
		return &lifecycle.Blocker{Registered: true, Narrowed: holder.Narrowed, NeedsPerson: holder.NeedsPerson(), WaiterSetFull: holder.RejectsWaiter(w.id)}, nil
	}
	for range maxRegistrations {
		holder, ok, err := w.ports.Store.AddHolderWaiter(ctx, w.tenant, by, w.id)
		if err != nil {
			return nil, err
		}
		if !ok {
			if holder, err = w.head(ctx, by.Execution); err != nil {
				return nil, err
			}
		}
		blocker := &lifecycle.Blocker{Narrowed: holder.Narrowed, NeedsPerson: holder.NeedsPerson(), WaiterSetFull: holder.RejectsWaiter(w.id)}
		switch {
		case !holder.HoldsEntity(by.Entity, by.Epoch, by.Place):
			return &lifecycle.Blocker{}, nil
		case ok:
			blocker.Registered = true
			return blocker, nil
		case blocker.NeedsPerson && !by.NeedsPerson:
			return blocker, nil
		}
		by.Narrowed = holder.Narrowed
	}
	return &lifecycle.Blocker{}, nil
}

// blockerStatus reads the status of an execution that blocks this one. A poll, that is a wake-up of the
// execution's own timer, reads it weakly first, at half the cost: an item with a full waiter set is large, and
// thousands of executions poll it. The reply is believed if that set is full without this execution.
// It was so at some time, so the execution goes on as if it had polled then: it polls again, or asks
// for its locks.
func (w *workspace) blockerStatus(ctx context.Context, id string) (workflow.OwnerStatus, error) {
	if w.ofTimer {
		heads, err := w.ports.Store.HeadsWeakly(ctx, w.tenant, []string{id})
		if status := heads[id]; err != nil || status.RejectsWaiter(w.id) {
			return status, err
		}
	}
	return w.head(ctx, id)
}

// head reads the parts of another execution's state that decide about its locks.
func (w *workspace) head(ctx context.Context, id string) (workflow.OwnerStatus, error) {
	heads, err := w.ports.Store.Heads(ctx, w.tenant, []string{id})
	return heads[id], err
}
