package locking

import (
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// lockStatus is what a lock item means to the run that asks.
type lockStatus int

const (
	lockFree      lockStatus = iota
	lockHeld                 // taken by this run at this epoch
	lockStale                // this run has gone on to a later epoch: this handler must stop
	lockConflict             // held, or reserved by an older run
	lockUncertain            // a holder's state was read older than the lock: read it again
)

// evaluation is a verdict with whom it is about.
type evaluation struct {
	status       lockStatus
	blockedBy    workflow.BlockedBy // of a conflict; Since is not set
	voidReserver string             // a reserver whose reservation was read as void, "" if there is none

	// Of a shared lock: the holders read as holding nothing. Whoever was not read
	// is not among them.
	deadHolders map[string]int64
}

// evaluate decides what the lock l means to the run that asks. heads must have been
// read after l, and of everybody l names; of a shared lock, a run that shares
// need not know its fellow holders.
//
// Only a smaller epoch of one's own is free: treating a larger one as free would
// let a stale handler overwrite the lock its own newer self has taken.
func (a *Request) evaluate(l workflow.Lock, heads map[string]workflow.OwnerStatus) evaluation {
	var j evaluation
	if l.Reserver != "" && l.Reserver != a.Execution && !heads[l.Reserver].Reserves() {
		j.voidReserver = l.Reserver
	}
	own := l.Holders[a.Execution].Epoch
	if l.Owner == a.Execution {
		own = max(own, l.OwnerEpoch)
	}
	if _, held := l.HolderOf(a.Execution, a.Epoch); held {
		j.status = lockHeld
		return j
	}
	if own > a.Epoch {
		j.status = lockStale
		return j
	}
	if l.Mode == workflow.LockShared {
		a.evaluateSharers(l, heads, &j)
	} else if l.Owner != "" && l.Owner != a.Execution {
		j.evaluateHolder(l.Entity, l.Owner, l.OwnerEpoch, heads)
	}
	if j.status == lockFree && l.Reserver != "" && l.Reserver != a.Execution && j.voidReserver == "" && workflow.Older(l.ReserverAge, a.reservationAge()) {
		j.status = lockConflict
		j.blockedBy = workflow.BlockedBy{Entity: l.Entity, Execution: l.Reserver, Epoch: heads[l.Reserver].Epoch, Reservation: true}
	}
	return j
}

// reservationAge is the age up to which the run passes reservations: those of its age and
// of younger runs, or all of them.
func (a *Request) reservationAge() string {
	if a.IgnoreReservations {
		return ""
	}
	return a.Age
}

// evaluateHolder judges one holder that is not the run itself.
func (j *evaluation) evaluateHolder(key workflow.EntityKey, holder string, epoch int64, heads map[string]workflow.OwnerStatus) {
	switch h := heads[holder]; {
	case h.State != "" && h.Epoch < epoch:
		j.status = lockUncertain
	case h.HoldsLocks(epoch):
		j.status = lockConflict
		j.blockedBy = workflow.BlockedBy{Entity: key, Execution: holder, Epoch: epoch}
	}
}

// evaluateSharers judges the holders of a shared lock. A run that wants it alone is in
// conflict with each of them, and registers with the oldest; one that shares is in
// conflict with them only when they are too many.
func (a *Request) evaluateSharers(l workflow.Lock, heads map[string]workflow.OwnerStatus, j *evaluation) {
	var first evaluation
	live := 0
	for _, id := range slices.Sorted(maps.Keys(l.Holders)) {
		if id == a.Execution {
			continue
		}
		one := evaluation{status: lockUncertain}
		if _, read := heads[id]; read {
			one.status = lockFree
			one.evaluateHolder(l.Entity, id, l.Holders[id].Epoch, heads)
		}
		if one.status == lockFree {
			if j.deadHolders == nil {
				j.deadHolders = map[string]int64{}
			}
			j.deadHolders[id] = l.Holders[id].Epoch
			continue
		}
		live++
		if first.status == lockFree || (first.status == lockUncertain && one.status == lockConflict) {
			first = one
		}
	}
	if a.Mode != workflow.LockShared || live >= workflow.MaxHolders {
		j.status, j.blockedBy = first.status, first.blockedBy
	}
}
