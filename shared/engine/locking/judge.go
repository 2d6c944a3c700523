package locking

import (
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// verdict is what a lock item means to the run that asks.
type verdict int

const (
	free     verdict = iota
	mine             // taken by this run at this epoch
	stale            // this run has gone on to a later epoch: this handler must stop
	conflict         // held, or reserved by an older run
	unsure           // the owner's state was read older than the lock: read it again
)

// judgement is a verdict with whom it is about.
type judgement struct {
	verdict verdict
	by      workflow.BlockedBy // of a conflict; Since is not set
	over    string             // a reserver that was read as over, "" if there is none
}

// judge decides what the lock l means to the run me at epoch. heads must have
// been read after l.
//
// Only a smaller epoch of one's own is free: treating a larger one as free would
// let a stale handler overwrite the lock its own newer self has taken.
func judge(l workflow.Lock, me string, epoch int64, heads map[string]workflow.Head) judgement {
	var j judgement
	if l.Res != "" && l.Res != me && heads[l.Res].Over() {
		j.over = l.Res
	}
	switch {
	case l.Owner == me && l.OwnerEpoch == epoch:
		j.verdict = mine
		return j
	case l.Owner == me && l.OwnerEpoch > epoch:
		j.verdict = stale
		return j
	case l.Owner != "" && l.Owner != me:
		h := heads[l.Owner]
		if h.State != "" && h.Epoch < l.OwnerEpoch {
			j.verdict = unsure
			return j
		}
		if h.Live(l.OwnerEpoch) {
			j.verdict = conflict
			j.by = workflow.BlockedBy{Entity: l.Entity, Execution: l.Owner, Epoch: l.OwnerEpoch}
			return j
		}
	}
	if l.Res != "" && l.Res != me && j.over == "" && workflow.Older(l.Res, me) {
		j.verdict = conflict
		j.by = workflow.BlockedBy{Entity: l.Entity, Execution: l.Res, Epoch: heads[l.Res].Epoch, Reservation: true}
		return j
	}
	j.verdict = free
	return j
}
