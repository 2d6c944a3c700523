package engine

import (
	"context"
	"slices"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// fetchBlocker registers a blocked run once more with whoever blocks it, on the
// condition that it still does. A run that another has started then looks whether
// it waits for itself: whoever waits for it holds locks.
func (w *workspace) fetchBlocker(ctx context.Context) error {
	b := w.execution.BlockedBy
	var ok bool
	var err error
	if b.Reservation {
		ok, err = w.ports.Store.AddReserverWaiter(ctx, w.tenant, b.Execution, w.id)
	} else {
		ok, err = w.ports.Store.AddHolderWaiter(ctx, w.tenant, b.Execution, b.Epoch, w.id)
	}
	if err != nil {
		return err
	}
	blocker := &lifecycle.Blocker{Registered: ok}
	if ok && w.execution.Parent != nil {
		if blocker.Deadlock, err = locking.Deadlocked(ctx, w.ports.Store, w.execution); err != nil {
			return err
		}
	}
	w.facts.Blocker = blocker
	return nil
}

// fetchLocks acquires all locks of the committed epoch and then reads, under them,
// what the run will work with: each entity's attributes, beside its token.
func (w *workspace) fetchLocks(ctx context.Context) error {
	entities, err := w.loadEntities(ctx, w.execution.Scope)
	if err != nil {
		return err
	}
	keys := make([]workflow.EntityKey, len(entities))
	for i, e := range entities {
		keys[i] = e.Key
	}
	locker := locking.Locker{Store: w.ports.Store, Locks: w.ports.Locks, Parallel: w.e.Parallelism, ReserveAfter: w.e.ReserveAfter, MinFencingToken: w.e.Policy.MinFencingToken}
	got, err := locker.Acquire(ctx, locking.Request{
		Tenant: w.tenant, Execution: w.id, Epoch: w.execution.Epoch, Age: w.execution.Age(), IgnoreReservations: w.execution.Awaited(), Mode: w.execution.LockMode,
		SkipLocked: w.program != nil && w.program.Config.OnLocked == spec.OnLockedSkip,
		Conflicts:  w.execution.Conflicts, Keys: keys, Now: w.e.now(),
	})
	if err != nil {
		return err
	}
	if got.Stale {
		w.stale = true
		return nil
	}
	answer := &lifecycle.LockResult{Epoch: w.execution.Epoch, Conflict: got.Conflict, Dropped: got.Skipped}
	if got.Conflict == nil {
		keys = slices.DeleteFunc(keys, func(key workflow.EntityKey) bool { _, held := got.Tokens[key]; return !held })
		held, err := loadScopeEntities(ctx, w.ports.Registry, w.tenant, keys, got.Tokens)
		if err != nil {
			return err
		}
		if answer.Scope, err = w.offloadScope(ctx, held); err != nil {
			return err
		}
		answer.Scope.HeldEpoch = w.execution.Epoch
	}
	w.facts.Locks = answer
	return nil
}
