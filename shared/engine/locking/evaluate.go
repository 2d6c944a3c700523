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
	lockStale                // this execution is already at a later epoch: this handler must stop
	lockConflict             // held, or reserved by an older execution
	lockUncertain            // the holder's state was read at an older epoch than that of the lock: read again
)

// evaluation is the status of a lock item, with the executions that it depends on.
type evaluation struct {
	status       lockStatus
	blockedBy    workflow.BlockedBy // set for a conflict, without Since
	voidReserver string             // a reserver whose reservation no longer counts, or ""

	// deadHolders maps holders of a shared lock that no longer hold anything to their epochs.
	// Holders whose states were not read are not included.
	deadHolders map[string]int64
}

// evaluate decides what the lock l means to the requesting execution. heads holds the states of all
// executions that l names, read after l. A request to join a shared lock does not need the states
// of the other holders.
//
// If the lock is the execution's own from an earlier epoch, it is free; from a later epoch, the
// handler is stale. Otherwise a stale handler could overwrite the lock that a newer handler of the
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

// reservationAge returns the age from which reservations do not block the execution: its own age,
// so that only older executions block it, or "" to ignore all reservations.
func (r *Request) reservationAge() string {
	if r.IgnoreReservations {
		return ""
	}
	return r.Age
}

// Blocker returns what the execution would have to wait for at the lock l: the execution that holds
// it, or the older one that has reserved it. heads is as for evaluate. ok is false if nothing
// blocks it. Blocker reads and writes nothing.
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

// evaluateSharers evaluates the holders of a shared lock. An exclusive request conflicts with each
// of them, and reports the oldest. A shared request conflicts only if there are too many of them.
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

// evaluateSlot evaluates a concurrency limit. If as many executions are live as allowed, it is a
// conflict with all of them: the end of any one frees a slot.
func (r *Request) evaluateSlot(l workflow.Lock, heads map[string]workflow.OwnerStatus, e *evaluation) {
	live, uncertain := 0, 0
	for _, id := range slices.Sorted(maps.Keys(l.Holders)) {
		if id == r.Execution {
			continue
		}
		if _, read := heads[id]; !read { // not read because there are fewer entries than slots
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
