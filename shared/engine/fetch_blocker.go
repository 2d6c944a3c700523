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
		reserver, err := w.head(ctx, by.Execution)
		if err != nil || !reserver.Reserves() || reserver.FullOfWaiters {
			return &lifecycle.Blocker{Registered: reserver.Reserves(), WaitersFull: !reserver.Wakes(w.id)}, err
		}
		reserver, ok, err := w.ports.Store.AddReserverWaiter(ctx, w.tenant, by.Execution, w.id)
		return &lifecycle.Blocker{Registered: ok, WaitersFull: !reserver.Wakes(w.id)}, err
	}
	all := &lifecycle.Blocker{Registered: true, NeedsPerson: true, WaitersFull: true}
	for i, holder := range by.Holders() {
		holder.NeedsPerson = holder.NeedsPerson || by.Entity.IsSlot() // at the end this is true only if all of them wait for a person
		one, err := w.registerWithHolder(ctx, holder)
		if err != nil || *one == (lifecycle.Blocker{}) {
			return one, err
		}
		all.Registered = all.Registered && one.Registered
		all.NeedsPerson = all.NeedsPerson && one.NeedsPerson
		all.WaitersFull = all.WaitersFull && one.WaitersFull
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
	holder, err := w.head(ctx, by.Execution)
	if err != nil {
		return nil, err
	}
	if !holder.HoldsEntity(by.Entity, by.Epoch, by.Place) {
		return &lifecycle.Blocker{}, nil
	}
	if holder.FullOfWaiters {
		return &lifecycle.Blocker{Registered: true, Narrowed: holder.Narrowed, NeedsPerson: holder.NeedsPerson(), WaitersFull: !holder.Wakes(w.id)}, nil
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
		blocker := &lifecycle.Blocker{Narrowed: holder.Narrowed, NeedsPerson: holder.NeedsPerson(), WaitersFull: !holder.Wakes(w.id)}
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

// head reads the parts of another execution's state that decide about its locks.
func (w *workspace) head(ctx context.Context, id string) (workflow.OwnerStatus, error) {
	heads, err := w.ports.Store.Heads(ctx, w.tenant, []string{id})
	return heads[id], err
}
