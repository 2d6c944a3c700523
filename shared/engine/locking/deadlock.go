package locking

import (
	"context"
	"slices"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// maxChain bounds the walk over a chain of waits. A longer one is found by nobody;
// the deadline of waiting for locks ends it.
const maxChain = 64

// Deadlocked reports whether x waits for itself: for a lock whose holder waits for
// a run that waits for a lock, and so on, until the one that waits for x. Only a
// run that waits for another holds locks meanwhile, so only a run that was started
// by such a one can close the circle, and has to ask.
//
// x must have been stored with what it is blocked by before it asks: of several
// runs that close a circle together, the last to be stored then sees all of it.
func Deadlocked(ctx context.Context, store port.Store, x *workflow.Execution) (bool, error) {
	at := x
	for range maxChain {
		next, lock := waitsFor(at)
		switch next {
		case "", at.ID: // whose rounds ran out is blocked by nobody but itself
			return false, nil
		case x.ID:
			return true, nil
		}
		found, err := store.LoadMany(ctx, x.Tenant, []string{next})
		if err != nil || len(found) == 0 {
			return false, err
		}
		to := found[0]
		head := workflow.OwnerStatus{State: to.State, Epoch: to.Epoch}
		if lock != nil && ((lock.Reservation && !head.Reserves()) || (!lock.Reservation && !head.HoldsLocks(lock.Epoch))) {
			return false, nil // it has let go meanwhile
		}
		at = to
	}
	return false, nil
}

// waitsFor is whom a run waits for, and for which lock if it is one. One that it
// starts and forgets it waits for only until that is there, not for its end.
func waitsFor(x *workflow.Execution) (next string, lock *workflow.BlockedBy) {
	switch w := x.Wait; {
	case x.State == sm.ExecutionScheduled && x.BlockedBy != nil:
		return x.BlockedBy.Execution, x.BlockedBy
	case w != nil && x.State == sm.ExecutionWaiting && (w.Kind == workflow.WaitChild || w.Kind == workflow.WaitChildInput):
		forgets := func(r workflow.StepRun) bool {
			return r.Child != nil && r.Child.ID == w.Child && r.Child.Mode == workflow.ModeFireAndForget
		}
		if !slices.ContainsFunc(x.StepRuns, forgets) {
			return w.Child, nil
		}
	}
	return "", nil
}
