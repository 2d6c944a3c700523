package locking

import (
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// lockStatus is what a lock item means to the requesting execution.
type lockStatus int

const (
	lockFree      lockStatus = iota
	lockHeld                 // taken by this execution at this epoch
	lockStale                // this execution is at a later epoch already: this handler must stop
	lockConflict             // held, or reserved by an older execution
	lockUncertain            // a holder's state was read at an older epoch than the lock's: read again
)

// evaluation is the status of a lock item, and the executions it depends on.
type evaluation struct {
	status       lockStatus
	blockedBy    workflow.BlockedBy // set for a conflict, without Since
	voidReserver string             // a reserver whose reservation does not count any more, or ""

	// deadHolders are the epochs of the holders of a shared lock that hold nothing any
	// more. Holders whose states were not read are not among them.
	deadHolders map[string]int64
}

// evaluate decides what the lock l means to the requesting execution. heads are the
// states of all executions that l names, read after l. A request to share a shared lock
// does not need the states of the other holders.
//
// The execution's own lock of an earlier epoch is free, but one of a later epoch is
// stale. Otherwise a stale handler could overwrite the lock that a newer handler of the
// same execution has taken.
func (r *Request) evaluate(l workflow.Lock, heads map[string]workflow.OwnerStatus) evaluation {
	var e evaluation
	if l.Reserver != "" && l.Reserver != r.Execution && !heads[l.Reserver].Reserves() {
		e.voidReserver = l.Reserver
	}
	own := l.Holders[r.Execution].Epoch
	if l.Owner == r.Execution {
		own = max(own, l.OwnerEpoch)
	}
	if _, held := l.HolderOf(r.Execution, r.Epoch); held {
		e.status = lockHeld
		return e
	}
	if own > r.Epoch {
		e.status = lockStale
		return e
	}
	switch {
	case l.Entity.IsSlot():
		r.evaluateSlot(l, heads, &e)
	case l.Mode == workflow.LockShared:
		r.evaluateSharers(l, heads, &e)
	case l.Owner != "" && l.Owner != r.Execution:
		e.evaluateHolder(l.Entity, l.Owner, workflow.Holder{Epoch: l.OwnerEpoch, Place: l.Place}, heads)
	}
	if e.status == lockFree && l.Reserver != "" && l.Reserver != r.Execution && e.voidReserver == "" && workflow.Older(l.ReserverAge, r.reservationAge()) {
		e.status = lockConflict
		e.blockedBy = workflow.BlockedBy{Entity: l.Entity, Execution: l.Reserver, Epoch: heads[l.Reserver].Epoch, Reservation: true}
	}
	return e
}

// reservationAge is the age from which on reservations do not block the execution: its
// own age, so that only older executions block it, or "" to ignore all reservations.
func (r *Request) reservationAge() string {
	if r.IgnoreReservations {
		return ""
	}
	return r.Age
}

// Blocker is what would make the execution wait for the lock l: the execution that holds
// it, or the older one that has reserved it. heads are as for evaluate. ok is false if
// nothing would. It reads and writes nothing.
func (r *Request) Blocker(l workflow.Lock, heads map[string]workflow.OwnerStatus) (by workflow.BlockedBy, ok bool) {
	e := r.evaluate(l, heads)
	return e.blockedBy, e.status == lockConflict
}

// evaluateHolder evaluates one holder other than the requesting execution.
func (e *evaluation) evaluateHolder(key workflow.EntityKey, id string, holder workflow.Holder, heads map[string]workflow.OwnerStatus) {
	switch h := heads[id]; {
	case h.State != "" && h.Epoch < holder.Epoch:
		e.status = lockUncertain
	case h.HoldsEntity(key, holder.Epoch, holder.Place):
		e.status = lockConflict
		e.blockedBy = workflow.BlockedBy{Entity: key, Execution: id, Epoch: holder.Epoch, Place: holder.Place, Narrowed: h.Narrowed}
	}
}

// evaluateSharers evaluates the holders of a shared lock. An exclusive request conflicts
// with each of them, and reports the oldest. A shared request conflicts only if there
// are too many of them.
func (r *Request) evaluateSharers(l workflow.Lock, heads map[string]workflow.OwnerStatus, e *evaluation) {
	var first evaluation
	live := 0
	for _, id := range slices.Sorted(maps.Keys(l.Holders)) {
		if id == r.Execution {
			continue
		}
		one := evaluation{status: lockUncertain}
		if _, read := heads[id]; read {
			one.status = lockFree
			one.evaluateHolder(l.Entity, id, l.Holders[id], heads)
		}
		if one.status == lockFree {
			if e.deadHolders == nil {
				e.deadHolders = map[string]int64{}
			}
			e.deadHolders[id] = l.Holders[id].Epoch
			continue
		}
		live++
		if first.status == lockFree || (first.status == lockUncertain && one.status == lockConflict) {
			first = one
		}
	}
	if r.Mode != workflow.LockShared || live >= workflow.MaxHolders {
		e.status, e.blockedBy = first.status, first.blockedBy
	}
}

// evaluateSlot evaluates a limit of live executions. It is a conflict with all that are live if there
// are as many as may be: any of them that ends frees a place.
func (r *Request) evaluateSlot(l workflow.Lock, heads map[string]workflow.OwnerStatus, e *evaluation) {
	live, uncertain := 0, 0
	for _, id := range slices.Sorted(maps.Keys(l.Holders)) {
		if id == r.Execution {
			continue
		}
		if _, read := heads[id]; !read { // there are fewer entries than places
			uncertain++
			continue
		}
		var one evaluation
		switch one.evaluateHolder(l.Entity, id, l.Holders[id], heads); one.status {
		case lockUncertain:
			uncertain++
		case lockConflict:
			if live++; live == 1 {
				e.blockedBy = one.blockedBy
			} else {
				e.blockedBy.Others = append(e.blockedBy.Others, workflow.SlotHolder{Execution: id, Epoch: l.Holders[id].Epoch, Narrowed: one.blockedBy.Narrowed})
			}
		default:
			if e.deadHolders == nil {
				e.deadHolders = map[string]int64{}
			}
			e.deadHolders[id] = l.Holders[id].Epoch
		}
	}
	switch {
	case live >= r.Slot.Limit:
		e.status = lockConflict
	case live+uncertain >= r.Slot.Limit:
		e.status, e.blockedBy = lockUncertain, workflow.BlockedBy{}
	default:
		e.blockedBy = workflow.BlockedBy{}
	}
}
