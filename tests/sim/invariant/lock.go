package invariant

import (
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/oracle"
)

// The invariants of locks.
const (
	invSingleHolder           = "an entity has one holder"
	invTokenMonotonic         = "lock tokens increase"
	invSlotLimit              = "no more executions are live than may be at the same time"
	invAllLocksHeld           = "a locked execution holds all its locks"
	invNarrows                = "an execution that released entities only releases more"
	invReservationPriority    = "a reservation passes only to an older execution"
	invReservesAfterConflicts = "an execution reserves after its second conflict"
	invWaitersWoken           = "releasing locks wakes every waiter"
	invAcceptedInHistory      = "an accepted operation is in the history"
	invInventoryWriter        = "the inventory is written only by the entity's holder"
)

// LockWritten is called on every write of a lock item.
func (w *Checker) LockWritten(before, after workflow.Lock) {
	key := after.Entity
	if before.Revision == after.Revision {
		return // the condition did not hold
	}
	w.locksBefore[key], w.locks[key] = before, after
	w.trace("   lock %s: owner %s/%d token %d revision %d holders %v reserved %s", key, shortID(after.Owner), after.OwnerEpoch, after.Token, after.Revision, after.Holders, shortID(after.Reserver))
	if raised := after.Revision == w.MinFencingToken && before.Revision < w.MinFencingToken && after.Token == before.Token; raised {
		return
	}
	if after.Revision != before.Revision+1 || after.Token < before.Token {
		w.Failf(invTokenMonotonic, "%s: revision %d token %d became %d %d", key, before.Revision, before.Token, after.Revision, after.Token)
	}
	w.recordReservation(after)
	had, have := oracle.HoldersOf(before), oracle.HoldersOf(after)
	for _, id := range slices.Sorted(maps.Keys(had)) {
		// An execution that is started again after a restore may find a lock that it took before.
		own := have[id].Epoch == had[id].Epoch && had[id].Token < w.MinFencingToken && have[id].Token > w.MinFencingToken
		if entry := had[id]; have[id] != entry && !own && w.isHolding(key, id, entry) {
			w.Failf(invSingleHolder, "%s is taken from %s, which holds it at epoch %d; the holders are now %v", key, id, entry.Epoch, have)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(have)) {
		if had[id] != have[id] && after.Token <= before.Token {
			w.Failf(invTokenMonotonic, "%s: %s holds it with token %d, which was used before", key, id, after.Token)
		}
	}
	if limit := w.SlotLimits[key]; limit > 0 {
		live := 0
		for id, h := range after.Holders {
			if w.isHolding(key, id, h) {
				live++
			}
		}
		if live > limit {
			w.Failf(invSlotLimit, "%s has the live holders %v, and may have %d", key, have, limit)
		}
	}
	if after.Owner != "" && len(after.Holders) > 0 {
		w.Failf(invSingleHolder, "%s has an owner and holders: %+v", key, after)
	}
	if r := w.executions[before.Reserver]; r != nil && after.Reserver != before.Reserver {
		if !oracle.Older(after.ReserverAge, before.ReserverAge) && w.ownerStatus(before.Reserver).Reserves() && !r.hasEnded && !r.awaitedPerson {
			w.Failf(invReservationPriority, "%s: the reservation of %s is replaced by that of %s", key, before.Reserver, after.Reserver)
		}
	}
}

// checkAllLocksHeld requires that an execution that becomes locked holds all its locks.
func (w *Checker) checkAllLocksHeld(before, after *workflow.Execution) {
	if after.Scope.HeldEpoch == 0 || after.Scope.HeldEpoch == before.Scope.HeldEpoch || !gotLocks(before, after) {
		return
	}
	if after.Scope.HeldEpoch != after.Epoch {
		w.Failf(invAllLocksHeld, "%s at epoch %d has the locks of epoch %d", after.ID, after.Epoch, after.Scope.HeldEpoch)
	}
	held := 0
	for _, l := range w.locks {
		if _, ok := oracle.HolderOf(l, after.ID, after.Epoch); ok {
			held++
		}
	}
	if total := after.Scope.Total(); held < total {
		w.Failf(invAllLocksHeld, "%s has %d entities in its scope, but holds the locks of %d", after.ID, total, held)
	}
	for _, e := range after.Scope.Inline {
		if h, ok := oracle.HolderOf(w.locks[e.Key], after.ID, after.Epoch); !ok || h.Token != e.Token {
			w.Failf(invAllLocksHeld, "%s records that it holds %s with token %d; the lock is %+v", after.ID, e.Key, e.Token, w.locks[e.Key])
		}
	}
}

// gotLocks reports whether an execution got its locks with a commit. One that ends before that has
// the scope of its last end again.
func gotLocks(before, after *workflow.Execution) bool {
	return !oracle.Terminal(after.State) || slices.ContainsFunc(after.Events, func(e workflow.Event) bool {
		return e.Sequence > before.Sequence && e.To == string(sm.ExecutionLocked)
	})
}

// checkNarrowing requires that an execution neither takes back an entity that it has released nor
// works on it. What it keeps only shrinks until it acquires locks anew, each change is counted, and
// it acquires no locks while an operator has to look at what it keeps.
func (w *Checker) checkNarrowing(before, after *workflow.Execution) {
	same := before.Kept == nil && after.Kept == nil || before.Kept != nil && after.Kept != nil && before.Kept.Equal(*after.Kept)
	switch {
	case same && after.Narrowed != before.Narrowed && (after.Kept == nil || after.Narrowed != before.Narrowed+1), !same && after.Kept != nil && after.Narrowed <= before.Narrowed:
		w.Failf(invNarrows, "%s keeps %v instead of %v, counted as %d after %d", after.ID, after.Kept, before.Kept, after.Narrowed, before.Narrowed)
	case after.State == sm.ExecutionLocking && after.Kept != nil:
		w.Failf(invNarrows, "%s acquires locks and has kept %v", after.ID, after.Kept)
	case before.Kept != nil && after.Kept != nil && after.Kept.Without(*before.Kept).Len() > 0:
		w.Failf(invNarrows, "%s keeps %v, and had released some of them: it kept %v", after.ID, after.Kept, before.Kept)
	case before.Kept != nil && after.Kept == nil && before.State == sm.ExecutionFailedUnsafe && before.Kept.Len() > 0 &&
		before.Scope.HeldEpoch == before.Epoch && after.MinFencingToken == before.MinFencingToken:
		w.Failf(invNarrows, "%s goes to %s and gives up %v, which nobody has acknowledged", after.ID, after.State, before.Kept)
	case after.State == sm.ExecutionRunning && before.State != after.State && after.Kept != nil && (after.Scope.Only == nil || !after.Scope.Only.Equal(*after.Kept)):
		w.Failf(invNarrows, "%s works on %v and keeps %v", after.ID, after.Scope.Only, after.Kept)
	}
}

// reserveAfter is the number of conflicts after which an execution reserves.
const reserveAfter = 2

// isReserved reports whether a lock has a reservation that x need not or must not replace: its own,
// or one of an execution that is not younger.
func isReserved(x *workflow.Execution, l workflow.Lock) bool {
	return l.Reserver == x.ID || l.Reserver != "" && !oracle.Older(oracle.Age(x), l.ReserverAge)
}

// recordReservation records such a reservation for every execution that is locking. It may become
// void and be replaced a moment later.
func (w *Checker) recordReservation(l workflow.Lock) {
	for _, r := range w.executions {
		if r.x.State == sm.ExecutionLocking && isReserved(r.x, l) {
			r.reservationSeen[l.Entity] = true
		}
	}
}

// checkReserved requires that an execution that backs off for the second time has reserved the lock
// that it waits for, or found such a reservation.
func (w *Checker) checkReserved(r *executionState, before, x *workflow.Execution) {
	if x.State == sm.ExecutionLocking && before.State != x.State {
		r.reservationSeen = map[workflow.EntityKey]bool{}
		for key, l := range w.locks { // the first read may show an item as it was before, also with a reservation of an earlier epoch
			r.reservationSeen[key] = isReserved(x, l) || isReserved(x, w.locksBefore[key])
		}
	}
	b := x.BlockedBy
	if b == nil || x.State != sm.ExecutionScheduled || b.Reservation || x.Conflicts < reserveAfter || b.Execution == x.ID {
		return
	}
	if !r.reservationSeen[b.Entity] {
		w.Failf(invReservesAfterConflicts, "%s has backed off %d times, the last time for %s, whose lock is %+v", x.ID, x.Conflicts, b.Entity, w.locks[b.Entity])
	}
}

// EntityWritten is called on every write of an entity.
func (w *Checker) EntityWritten(before, after workflow.Entity) {
	key := after.Key()
	w.trace("   entity %s: version %d token %d %s", key, after.Version, after.Token, after.Attributes)
	if after.Version != before.Version+1 || after.Token < before.Token {
		w.Failf(invInventoryWriter, "%s: version %d token %d became %d %d", key, before.Version, before.Token, after.Version, after.Token)
	}
	if after.Token == before.Token {
		if w.Importing != nil && !w.Importing() {
			w.Failf(invInventoryWriter, "%s is written again with token %d", key, after.Token)
		}
		return
	}
	l := w.locks[key]
	for id, h := range oracle.HoldersOf(l) {
		if w.PredatesRestore(id) {
			return // its lock may have been restored to an earlier time
		}
		if r := w.executions[id]; h.Token == after.Token && r != nil && r.x.State == sm.ExecutionCompleted && w.isHolding(key, id, h) {
			return
		}
	}
	w.Failf(invInventoryWriter, "%s is written with token %d; the lock is %+v", key, after.Token, l)
}
