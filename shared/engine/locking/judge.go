package locking

import (
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// verdict is what a lock item means to the run that asks.
type verdict int

const (
	free     verdict = iota
	mine             // taken by this run at this epoch
	stale            // this run has gone on to a later epoch: this handler must stop
	conflict         // held, or reserved by an older run
	unsure           // a holder's state was read older than the lock: read it again
)

// judgement is a verdict with whom it is about.
type judgement struct {
	verdict verdict
	by      workflow.BlockedBy // of a conflict; Since is not set
	void    string             // a reserver whose reservation was read as void, "" if there is none

	// Of a shared lock: the holders read as holding nothing. Whoever was not read
	// is not among them.
	dead map[string]int64
}

// judge decides what the lock l means to the run that asks. heads must have been
// read after l, and of everybody l names; of a shared lock, a run that shares
// need not know its fellow holders.
//
// Only a smaller epoch of one's own is free: treating a larger one as free would
// let a stale handler overwrite the lock its own newer self has taken.
func (a *Ask) judge(l workflow.Lock, heads map[string]workflow.Head) judgement {
	var j judgement
	if l.Res != "" && l.Res != a.Execution && !heads[l.Res].Reserves() {
		j.void = l.Res
	}
	own := l.Holders[a.Execution].Epoch
	if l.Owner == a.Execution {
		own = max(own, l.OwnerEpoch)
	}
	if _, held := l.Held(a.Execution, a.Epoch); held {
		j.verdict = mine
		return j
	}
	if own > a.Epoch {
		j.verdict = stale
		return j
	}
	if l.Mode == workflow.LockShared {
		a.among(l, heads, &j)
	} else if l.Owner != "" && l.Owner != a.Execution {
		j.held(l.Entity, l.Owner, l.OwnerEpoch, heads)
	}
	if j.verdict == free && l.Res != "" && l.Res != a.Execution && j.void == "" && workflow.Older(l.ResAge, a.passes()) {
		j.verdict = conflict
		j.by = workflow.BlockedBy{Entity: l.Entity, Execution: l.Res, Epoch: heads[l.Res].Epoch, Reservation: true}
	}
	return j
}

// passes is the age up to which the run passes reservations: those of its age and
// of younger runs, or all of them.
func (a *Ask) passes() string {
	if a.Passes {
		return ""
	}
	return a.Age
}

// held judges one holder that is not the run itself.
func (j *judgement) held(key workflow.EntityKey, holder string, epoch int64, heads map[string]workflow.Head) {
	switch h := heads[holder]; {
	case h.State != "" && h.Epoch < epoch:
		j.verdict = unsure
	case h.Live(epoch):
		j.verdict = conflict
		j.by = workflow.BlockedBy{Entity: key, Execution: holder, Epoch: epoch}
	}
}

// among judges the holders of a shared lock. A run that wants it alone is in
// conflict with each of them, and registers with the oldest; one that shares is in
// conflict with them only when they are too many.
func (a *Ask) among(l workflow.Lock, heads map[string]workflow.Head, j *judgement) {
	var first judgement
	live := 0
	for _, id := range slices.Sorted(maps.Keys(l.Holders)) {
		if id == a.Execution {
			continue
		}
		one := judgement{verdict: unsure}
		if _, read := heads[id]; read {
			one.verdict = free
			one.held(l.Entity, id, l.Holders[id].Epoch, heads)
		}
		if one.verdict == free {
			if j.dead == nil {
				j.dead = map[string]int64{}
			}
			j.dead[id] = l.Holders[id].Epoch
			continue
		}
		live++
		if first.verdict == free || (first.verdict == unsure && one.verdict == conflict) {
			first = one
		}
	}
	if a.Mode != workflow.LockShared || live >= workflow.MaxHolders {
		j.verdict, j.by = first.verdict, first.by
	}
}
