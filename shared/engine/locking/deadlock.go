package locking

import (
	"context"
	"slices"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// maxChain bounds how many waits Deadlocked follows. It does not find a longer cycle;
// the deadline for waiting for locks ends that one.
const maxChain = 64

// Deadlocked reports whether x waits for itself: for a lock whose holder waits for an
// execution that waits for a lock, and so on, back to x. An execution that waits for a
// lock holds none, but one that waits for a child keeps its locks. So only a child can
// close a cycle, and only children have to check.
//
// x must be stored with its BlockedBy before the check. If several executions close a
// cycle at the same time, the last one to be stored then sees all of it.
func Deadlocked(ctx context.Context, store port.Store, x *workflow.Execution) (bool, error) {
	at := x
	for range maxChain {
		next, lock := waitsFor(at)
		switch next {
		case "", at.ID: // an execution whose rounds ran out is blocked by itself
			return false, nil
		case x.ID:
			return true, nil
		}
		to, err := store.Load(ctx, x.Tenant, next)
		if workflow.Is(err, workflow.CodeNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err // one of a newer version too: what it waits for is not known
		}
		head := to.OwnerStatus()
		if lock != nil && ((lock.Reservation && !head.Reserves()) || (!lock.Reservation && !head.Holds(lock.Epoch, lock.Place))) {
			return false, nil // it has released the lock meanwhile
		}
		at = to
	}
	return false, nil
}

// waitsFor is the execution that x waits for, and the lock if it waits for one. For a
// fire-and-forget child, x waits only until the child exists and not for its end, so
// that is no wait.
func waitsFor(x *workflow.Execution) (next string, lock *workflow.BlockedBy) {
	switch w := x.Wait; {
	case x.State == sm.ExecutionScheduled && x.BlockedBy != nil:
		return x.BlockedBy.Execution, x.BlockedBy
	case w != nil && x.State == sm.ExecutionWaiting && (w.Kind == workflow.WaitChild || w.Kind == workflow.WaitChildInput):
		isFireAndForget := func(r workflow.StepRun) bool {
			return r.Child != nil && r.Child.ID == w.Child && r.Child.Mode == workflow.ModeFireAndForget
		}
		if !slices.ContainsFunc(x.StepRuns, isFireAndForget) {
			return w.Child, nil
		}
	}
	return "", nil
}
