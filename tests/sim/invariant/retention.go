package invariant

import (
	"time"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/oracle"
)

// The invariants of executions that are deleted when their retention is over.
const (
	invKept    = "an execution is kept until its retention is over, and as long as its parent may ask for it"
	invRemoved = "nothing happens to an execution that was removed"
	invParts   = "what belongs to an execution that can be found is there"
)

// handlerTime is how long a handler may take from a read to the write that depends on it.
const handlerTime = 15 * time.Minute

// checkRetention judges a write by the rules for the deletion of executions.
func (w *Checker) checkRetention(before, after *workflow.Execution) {
	if !before.DiscardedAt.IsZero() && (after.State != before.State || after.Try != before.Try || after.Sequence != before.Sequence || after.DiscardedAt.IsZero()) {
		w.Failf(invRemoved, "%s was removed in %s, try %d, and is now in %s, try %d", after.ID, before.State, before.Try, after.State, after.Try)
	}
	if !before.DiscardedAt.IsZero() || after.DiscardedAt.IsZero() {
		return
	}
	if until := after.EndedAt.Add(w.Retention - 2*w.Skew); !oracle.Acknowledged(after.State) || w.Retention == 0 || w.Now.Before(until) {
		w.Failf(invKept, "%s is removed in %s, and ended at %s", after.ID, after.State, after.EndedAt.Format(time.RFC3339))
	}
	if p := after.Parent; p != nil {
		// A parent that is retried while its child is removed finds it gone, as after the removal.
		if parent := w.executions[p.Execution]; parent != nil && !oracle.Acknowledged(parent.x.State) && w.Now.Sub(parent.retriedAt) > handlerTime {
			w.Failf(invKept, "%s is removed, and its parent %s is in %s", after.ID, p.Execution, parent.x.State)
		}
	}
}

// Expired is called when an item was deleted by its time to live.
func (w *Checker) Expired(item sim.Expired) {
	if r := w.executions[item.Execution]; r != nil && r.x.DiscardedAt.IsZero() {
		w.Failf(invParts, "%s of %s is deleted, which can still be found", item.Name, item.Execution)
	}
}

// TakeAcknowledged returns the executions that have been acknowledged since the last call.
func (w *Checker) TakeAcknowledged() []string {
	ids := w.newlyAcknowledged
	w.newlyAcknowledged = nil
	return ids
}

// TakeRemoved returns the executions that have been deleted since the last call.
func (w *Checker) TakeRemoved() []string {
	ids := w.newlyRemoved
	w.newlyRemoved = nil
	return ids
}
