package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
)

// fetchBlocker answers NeedBlocker. It registers a blocked execution as a waiter of
// the execution that blocks it, on the condition that this one still does. A child
// then also checks for a deadlock, because the parent that waits for it holds locks.
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
