package engine

import (
	"context"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// fetchLocks answers NeedLocks. It acquires all locks of the committed epoch and then, holding
// them, reads the entities that the execution will work with. It reads a few of them while it takes
// their locks. That is no earlier than it seems: nobody has locked or deleted one in between, or the
// take would have failed, and whoever had locked one before had ended, and so had its updates.
func (w *workspace) fetchLocks(ctx context.Context) error {
	entities, err := w.loadEntities(ctx, w.execution.Scope)
	if err != nil {
		return err
	}
	keys := make([]workflow.EntityKey, len(entities))
	for i, e := range entities {
		keys[i] = e.Key
	}
	slot, problem, err := w.slot(ctx)
	if err != nil {
		return err
	}
	if problem != nil {
		w.facts.Locks = &lifecycle.LockResult{Epoch: w.execution.Epoch, Problem: problem}
		return nil
	}
	ahead := w.locksAhead
	w.locksAhead = nil
	var beside func(context.Context)
	var known map[workflow.EntityKey]workflow.Entity // read while the locks are taken; nil if not
	if len(keys) <= maxReadAhead && w.execution.Conflicts == 0 {
		beside = func(ctx context.Context) {
			if read, err := w.ports.Registry.Entities(ctx, w.tenant, keys, true); err == nil { // else they are read afterwards
				known = read
			}
		}
	}
	got, err := w.locker().Acquire(ctx, locking.Request{
		Tenant: w.tenant, Execution: w.id, Epoch: w.execution.Epoch, Age: w.execution.Root(), IgnoreReservations: w.execution.Awaited(), Mode: w.execution.LockMode,
		SkipLocked: w.program != nil && w.program.Config.OnLocked == spec.OnLockedSkip,
		Conflicts:  w.execution.Conflicts, Keys: keys, Slot: slot, Ahead: ahead, Recent: (w.execution.Try > 1 || w.execution.Undoes()) && !w.execution.Forced, Beside: beside, Now: w.e.now(),
	})
	if err != nil {
		return err
	}
	if got.Stale {
		w.stale = true
		return nil
	}
	if c := got.Conflict; c != nil && c.Reservation {
		// Nobody holds the entity, so the execution that reserved it should take it now. It may not
		// be registered as a waiter anywhere, because an execution's set of waiters is bounded.
		w.sendWakeups(ctx, "reserver", []workflow.Wakeup{{Tenant: w.tenant, Execution: c.Execution, Reason: c.Entity.String() + " is free"}})
	}
	answer := &lifecycle.LockResult{Epoch: w.execution.Epoch, Conflict: got.Conflict, WaiterSetFull: got.WaiterSetFull, Dropped: got.Skipped}
	if got.Conflict == nil && got.Recent != nil && w.execution.Undoes() {
		if answer.Outdated, err = w.outdatedCompensations(ctx, keys, got.Recent); err != nil {
			return err
		}
	}
	if got.Conflict == nil && got.Recent != nil && w.execution.Try > 1 && len(answer.Outdated) == 0 {
		if answer.Outdated, err = w.outdated(ctx, w.execution, keys, got.Recent); err != nil {
			return err
		}
	}
	if got.Conflict == nil {
		if !got.Besides {
			known = nil
		}
		held, gone, err := w.readHeldEntities(ctx, entities, got.Tokens, known)
		if err != nil {
			return err
		}
		if answer.Problem = deletedFailure(gone); answer.Problem == nil {
			if answer.Scope, err = w.offloadScope(ctx, held); err != nil {
				return err
			}
			answer.Scope.HeldEpoch = w.execution.Epoch
		}
	}
	w.facts.Locks = answer
	return nil
}

func (w *workspace) locker() *locking.Locker {
	return &locking.Locker{Store: w.ports.Store, Locks: w.ports.Locks, Parallel: w.e.Parallelism, ReserveAfter: w.e.ReserveAfter, MinFencingToken: w.e.Policy.MinFencingToken}
}

// slot returns the concurrency limit that applies to the execution, nil for none. A probe is not
// limited, because it keeps nobody waiting.
func (w *workspace) slot(ctx context.Context) (*workflow.Slot, *workflow.Failure, error) {
	if w.program == nil || w.program.Config.Concurrency == nil || w.execution.Probe {
		return nil, nil, nil
	}
	d, err := w.definition(ctx, w.execution.Workflow)
	if err != nil {
		return nil, nil, err
	}
	in, err := w.startInput(ctx)
	if err != nil {
		return nil, nil, err
	}
	key, err := d.SlotKey(in.Parameters)
	if err != nil { // the mistake is in the definition: it fails the execution
		return nil, &workflow.Failure{Code: workflow.CodeInvalid.OfFailure(), Message: err.Error()}, nil
	}
	return &workflow.Slot{Key: workflow.SlotKey(w.execution.Workflow.FullName(), key), Limit: w.program.Config.Concurrency.Limit}, nil, nil
}

// deletedFailure returns why an execution cannot begin if some of its entities were deleted after
// it found them; nil if none were.
func deletedFailure(gone []workflow.EntityKey) *workflow.Failure {
	if len(gone) == 0 {
		return nil
	}
	message := fmt.Sprintf("%s was deleted before the execution had locked it", gone[0])
	if n := len(gone) - 1; n > 0 {
		message += fmt.Sprintf(", and %d other entities", n)
	}
	return &workflow.Failure{Code: workflow.FailureEntityNotFound, Entity: gone[0].String(), Message: message + "; start it again without what was deleted"}
}

// readHeldEntities reads the attributes of the locked entities, each with the token of its lock and
// its place in the list of requested locks. known are the entities if they have been read already.
// gone are entities that have been deleted from the inventory: a deletion that sees no lock may
// still happen just before the lock is taken.
//
// A deletion that checked the lock before it was taken has marked its entity first. So
// readHeldEntities rewrites marked entities unchanged. The pending deletion then fails, because it
// has seen another version (catalog.DeleteEntity).
func (w *workspace) readHeldEntities(ctx context.Context, entities []workflow.ScopeEntity, tokens map[workflow.EntityKey]int64, known map[workflow.EntityKey]workflow.Entity) (held []workflow.ScopeEntity, gone []workflow.EntityKey, err error) {
	held = make([]workflow.ScopeEntity, 0, len(tokens))
	keys := make([]workflow.EntityKey, 0, len(tokens))
	for _, e := range entities {
		if token, locked := tokens[e.Key]; locked {
			held = append(held, workflow.ScopeEntity{Key: e.Key, Place: e.Place, Token: token})
			keys = append(keys, e.Key)
		}
	}
	if len(keys) == 0 {
		return held, nil, nil
	}
	if known == nil {
		if known, err = w.ports.Registry.Entities(ctx, w.tenant, keys, true); err != nil {
			return nil, nil, err
		}
	}
	for try := 1; ; try++ {
		var marked []workflow.EntityWrite
		for _, key := range keys {
			if e := known[key]; e.Deleting {
				marked = append(marked, workflow.EntityWrite{Entity: e, SeenVersion: e.Version})
			}
		}
		if len(marked) == 0 {
			break
		}
		if try > w.e.MaxConflictRetries {
			return nil, nil, workflow.Contended(workflow.CodeUnavailable, "entity %s", marked[0].Entity.Key())
		}
		_, watchers, err := w.ports.Registry.WriteEntities(ctx, w.tenant, marked)
		w.sendWakeups(ctx, "watchers", changeWakeups(w.tenant, watchers))
		if err != nil {
			return nil, nil, err
		}
		if known, err = w.ports.Registry.Entities(ctx, w.tenant, keys, true); err != nil {
			return nil, nil, err
		}
	}
	for i := range held {
		e, exists := known[held[i].Key]
		if !exists {
			gone = append(gone, held[i].Key)
		}
		held[i].Attributes = e.Attributes
	}
	return held, gone, nil
}
