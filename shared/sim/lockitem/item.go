package lockitem

import (
	"maps"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Write is a conditional write: the item as it is then, the token that whoever
// asked has of it, and whether that is what was asked for.
type Write func(workflow.Lock) (after workflow.Lock, token int64, ok bool)

// Take makes owner the only holder.
func Take(owner string, epoch, seen int64, now time.Time) Write {
	return func(l workflow.Lock) (workflow.Lock, int64, bool) {
		if l.Rev != seen {
			return l, l.Token, l.Owner == owner && l.OwnerEpoch == epoch && l.Token == seen+1
		}
		l.Mode, l.Holders = "", nil
		l.Owner, l.OwnerEpoch, l.Since = owner, epoch, now.UnixMilli()
		l.Rev, l.Token = seen+1, seen+1
		return l, l.Token, true
	}
}

// Share makes the lock a shared one of keep and of s.
func Share(s workflow.Sharer, keep map[string]workflow.Holder, seen int64) Write {
	return func(l workflow.Lock) (workflow.Lock, int64, bool) {
		if l.Rev != seen {
			return part(l, s)
		}
		l.Mode, l.Owner, l.OwnerEpoch = workflow.LockShared, "", 0
		l.Holders = maps.Clone(keep)
		return admit(l, s)
	}
}

// Join adds s to the holders of a shared lock.
func Join(s workflow.Sharer, j workflow.Joining) Write {
	return func(l workflow.Lock) (workflow.Lock, int64, bool) {
		own, there := l.Holders[s.Execution]
		switch {
		case l.Mode != workflow.LockShared, there && own.Epoch >= s.Epoch, len(l.Holders) >= workflow.MaxHolders,
			l.Res != "" && workflow.Older(l.ResAge, j.Age) && l.Res != j.Void:
			return part(l, s)
		}
		left := maps.Clone(l.Holders)
		for id, epoch := range j.Dead {
			if h, there := left[id]; there && h.Epoch != epoch {
				return part(l, s)
			}
			delete(left, id)
		}
		l.Holders = left
		return admit(l, s)
	}
}

// Reserve sets the reservation.
func Reserve(r workflow.Reservation, void string) Write {
	return func(l workflow.Lock) (workflow.Lock, int64, bool) {
		if l.Res != "" && !workflow.Older(r.Age, l.ResAge) && (void == "" || l.Res != void) {
			return l, 0, l.Res == r.Execution
		}
		l.Res, l.ResAge, l.Rev = r.Execution, r.Age, l.Rev+1
		return l, 0, true
	}
}

// Raise lifts the rev, so that the next token is greater than the floor.
func Raise(floor, seen int64) Write {
	return func(l workflow.Lock) (workflow.Lock, int64, bool) {
		if l.Rev != seen || seen >= floor {
			return l, 0, false
		}
		l.Rev = floor
		return l, 0, true
	}
}

// admit writes s among the holders, which nobody else has a hand on.
func admit(l workflow.Lock, s workflow.Sharer) (workflow.Lock, int64, bool) {
	if l.Holders == nil {
		l.Holders = map[string]workflow.Holder{}
	}
	l.Rev++
	l.Token, l.Since = l.Rev, s.Now.UnixMilli()
	l.Holders[s.Execution] = workflow.Holder{Epoch: s.Epoch, Token: l.Token, Since: l.Since}
	return l, l.Token, true
}

// part is what s has of the lock already, by another call for the same run at the
// same epoch.
func part(l workflow.Lock, s workflow.Sharer) (workflow.Lock, int64, bool) {
	h, ok := l.Holders[s.Execution]
	if !ok || h.Epoch != s.Epoch {
		return l, 0, false
	}
	return l, h.Token, true
}
