package engine

import (
	"context"
	"slices"

	"github.com/lockstep-run/lockstep/shared/engine/inventory"
	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// await registers a blocked run once more with whoever blocks it, on the
// condition that it still does. A run that another has started then looks whether
// it waits for itself: whoever waits for it holds locks.
func (w *work) await(ctx context.Context) error {
	b := w.x.BlockedBy
	var ok bool
	var err error
	if b.Reservation {
		ok, err = w.ports.Store.AwaitReserver(ctx, w.tenant, b.Execution, w.id)
	} else {
		ok, err = w.ports.Store.AwaitHolder(ctx, w.tenant, b.Execution, b.Epoch, w.id)
	}
	if err != nil {
		return err
	}
	blocker := &lifecycle.Blocker{Registered: ok}
	if ok && w.x.Parent != nil {
		if blocker.Deadlock, err = locking.Deadlocked(ctx, w.ports.Store, w.x); err != nil {
			return err
		}
	}
	w.facts.Blocker = blocker
	return nil
}

// hold acquires all locks of the committed epoch and then reads, under them,
// what the run will work with: each entity's attributes, beside its token.
func (w *work) hold(ctx context.Context) error {
	entities, err := w.Entities(ctx, w.x.Scope)
	if err != nil {
		return err
	}
	keys := make([]workflow.EntityKey, len(entities))
	for i, e := range entities {
		keys[i] = e.Key
	}
	locker := locking.Locker{Store: w.ports.Store, Locks: w.ports.Locks, Parallel: w.e.Parallel, ReserveAfter: w.e.ReserveAfter, Floor: w.e.Policy.Floor}
	got, err := locker.Acquire(ctx, locking.Ask{
		Tenant: w.tenant, Execution: w.id, Epoch: w.x.Epoch, Age: w.x.Age(), Passes: w.x.Awaited(), Mode: w.x.LockMode,
		Skip:      w.program != nil && w.program.Config.OnLocked == spec.OnLockedSkip,
		Conflicts: w.x.Conflicts, Keys: keys, Now: w.e.now(),
	})
	if err != nil {
		return err
	}
	if got.Stale {
		w.stale = true
		return nil
	}
	answer := &lifecycle.LockAnswer{Epoch: w.x.Epoch, Conflict: got.Conflict, Dropped: got.Dropped}
	if got.Conflict == nil {
		keys = slices.DeleteFunc(keys, func(key workflow.EntityKey) bool { _, held := got.Tokens[key]; return !held })
		held, err := inventory.Held(ctx, w.ports.Registry, w.tenant, keys, got.Tokens)
		if err != nil {
			return err
		}
		if answer.Scope, err = w.KeepScope(ctx, held); err != nil {
			return err
		}
		answer.Scope.HeldEpoch = w.x.Epoch
	}
	w.facts.Locks = answer
	return nil
}
