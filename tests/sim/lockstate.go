package sim

import (
	"maps"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// lockWrite is a conditional write: the item as it is then, the token that whoever
// asked has of it, and whether that is what was asked for.
type lockWrite func(workflow.Lock) (after workflow.Lock, token int64, ok bool)

// takeLock makes owner the only holder.
func takeLock(owner string, epoch, seen int64, now time.Time) lockWrite {
	return func(l workflow.Lock) (workflow.Lock, int64, bool) {
		if l.Revision != seen {
			return l, l.Token, l.Owner == owner && l.OwnerEpoch == epoch && l.Token == seen+1
		}
		l.Mode, l.Holders = "", nil
		l.Owner, l.OwnerEpoch, l.Since = owner, epoch, now.UnixMilli()
		l.Revision, l.Token = seen+1, seen+1
		return l, l.Token, true
	}
}

// shareLock makes the lock a shared one of keep and of s.
func shareLock(s workflow.LockRequest, keep map[string]workflow.Holder, seen int64) lockWrite {
	return func(l workflow.Lock) (workflow.Lock, int64, bool) {
		if l.Revision != seen {
			return holderShare(l, s)
		}
		l.Mode, l.Owner, l.OwnerEpoch = workflow.LockShared, "", 0
		l.Holders = maps.Clone(keep)
		return addHolder(l, s)
	}
}

// joinLock adds s to the holders of a shared lock.
func joinLock(s workflow.LockRequest, j workflow.JoinConditions) lockWrite {
	return func(l workflow.Lock) (workflow.Lock, int64, bool) {
		own, present := l.Holders[s.Execution]
		switch {
		case l.Mode != workflow.LockShared, present && own.Epoch >= s.Epoch, len(l.Holders) >= workflow.MaxHolders,
			l.Reserver != "" && workflow.Older(l.ReserverAge, j.Age) && l.Reserver != j.VoidReserver:
			return holderShare(l, s)
		}
		holders := maps.Clone(l.Holders)
		for id, epoch := range j.DeadHolders {
			if h, present := holders[id]; present && h.Epoch != epoch {
				return holderShare(l, s)
			}
			delete(holders, id)
		}
		l.Holders = holders
		return addHolder(l, s)
	}
}

// reserveLock sets the reservation.
func reserveLock(r workflow.Reservation, void string) lockWrite {
	return func(l workflow.Lock) (workflow.Lock, int64, bool) {
		if l.Reserver != "" && !workflow.Older(r.Age, l.ReserverAge) && (void == "" || l.Reserver != void) {
			return l, 0, l.Reserver == r.Execution
		}
		l.Reserver, l.ReserverAge, l.Revision = r.Execution, r.Age, l.Revision+1
		return l, 0, true
	}
}

// raiseLock lifts the rev, so that the next token is greater than the floor.
func raiseLock(minToken, seen int64) lockWrite {
	return func(l workflow.Lock) (workflow.Lock, int64, bool) {
		if l.Revision != seen || seen >= minToken {
			return l, 0, false
		}
		l.Revision = minToken
		return l, 0, true
	}
}

// addHolder writes s among the holders, which nobody else has a hand on.
func addHolder(l workflow.Lock, s workflow.LockRequest) (workflow.Lock, int64, bool) {
	if l.Holders == nil {
		l.Holders = map[string]workflow.Holder{}
	}
	l.Revision++
	l.Token, l.Since = l.Revision, s.Now.UnixMilli()
	l.Holders[s.Execution] = workflow.Holder{Epoch: s.Epoch, Token: l.Token, Since: l.Since}
	return l, l.Token, true
}

// holderShare is what s has of the lock already, by another call for the same run at the
// same epoch.
func holderShare(l workflow.Lock, s workflow.LockRequest) (workflow.Lock, int64, bool) {
	h, ok := l.Holders[s.Execution]
	if !ok || h.Epoch != s.Epoch {
		return l, 0, false
	}
	return l, h.Token, true
}
