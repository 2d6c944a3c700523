package engine

import (
	"context"
	"slices"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// fetchLocks answers NeedLocks. It acquires all locks of the committed epoch and then
// reads, under them, the entities that the execution will work with.
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
	if c := got.Conflict; c != nil && c.Reservation {
		// Nobody holds the entity, so its reserver should take it now. It may be nobody's
		// waiter: an execution's set of waiters is bounded.
		w.sendWakeups(ctx, "reserver", []workflow.Wakeup{{Tenant: w.tenant, Execution: c.Execution, Reason: c.Entity.String() + " is free"}})
	}
	answer := &lifecycle.LockResult{Epoch: w.execution.Epoch, Conflict: got.Conflict, Dropped: got.Skipped}
	if got.Conflict == nil {
		entities = slices.DeleteFunc(slices.Clone(entities), func(e workflow.ScopeEntity) bool { _, held := got.Tokens[e.Key]; return !held })
		held, err := w.readHeldEntities(ctx, entities, got.Tokens)
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

// readHeldEntities reads the attributes of the entities that are locked, each with the
// token of its lock, and its place in the list of which the locks were asked for.
func (w *workspace) readHeldEntities(ctx context.Context, entities []workflow.ScopeEntity, tokens map[workflow.EntityKey]int64) ([]workflow.ScopeEntity, error) {
	keys := make([]workflow.EntityKey, len(entities))
	for i, e := range entities {
		keys[i] = e.Key
	}
	known := map[workflow.EntityKey]workflow.Entity{}
	if len(keys) > 0 {
		var err error
		if known, err = w.ports.Registry.Entities(ctx, w.tenant, keys, true); err != nil {
			return nil, err
		}
	}
	held := make([]workflow.ScopeEntity, len(entities))
	for i, e := range entities {
		held[i] = workflow.ScopeEntity{Key: e.Key, Place: e.Place, Token: tokens[e.Key], Attributes: known[e.Key].Attributes}
	}
	return held, nil
}
