package invariant

import (
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// The laws of locks.
const (
	lawHolder    = "one holder an entity"
	lawToken     = "tokens grow"
	lawGranted   = "who is locked holds all of its locks"
	lawPriority  = "reservations pass to older runs"
	lawReserved  = "who gives way twice reserves"
	lawWaiters   = "who lets go tells all who wait"
	lawVerb      = "a verb that is answered has been carried out"
	lawInventory = "the inventory is written by who holds the entity"
)

// Lock is told of every write of a lock item.
func (w *Watch) Lock(before, after workflow.Lock) {
	key := after.Entity
	if before.Rev == after.Rev {
		return // its condition did not hold
	}
	w.locks[key] = after
	w.tell("   lock %s: owner %s/%d token %d rev %d holders %v reserved %s", key, short(after.Owner), after.OwnerEpoch, after.Token, after.Rev, after.Holders, short(after.Res))
	if raised := after.Rev == w.Floor && before.Rev < w.Floor && after.Token == before.Token; raised {
		return
	}
	if after.Rev != before.Rev+1 || after.Token < before.Token {
		w.Break(lawToken, "%s: rev %d token %d became %d %d", key, before.Rev, before.Token, after.Rev, after.Token)
	}
	w.reservations(after)
	had, have := holders(before), holders(after)
	for _, id := range slices.Sorted(maps.Keys(had)) {
		if epoch := had[id]; have[id] != epoch && w.live(id, epoch) {
			w.Break(lawHolder, "%s is taken from %s, which holds it at epoch %d, by %v", key, id, epoch, have)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(have)) {
		if had[id] != have[id] && after.Token <= before.Token {
			w.Break(lawToken, "%s: %s holds it with token %d, which another has had", key, id, after.Token)
		}
	}
	if after.Owner != "" && len(after.Holders) > 0 {
		w.Break(lawHolder, "%s has an owner and holders: %+v", key, after)
	}
	if r := w.runs[before.Res]; r != nil && after.Res != before.Res {
		if !workflow.Older(after.ResAge, before.ResAge) && w.head(before.Res).Reserves() && !r.wasOver {
			w.Break(lawPriority, "%s: %s gives way to %s", key, before.Res, after.Res)
		}
	}
}

// holders are the epochs at which runs stand in a lock item.
func holders(l workflow.Lock) map[string]int64 {
	all := map[string]int64{}
	if l.Owner != "" {
		all[l.Owner] = l.OwnerEpoch
	}
	for id, h := range l.Holders {
		all[id] = h.Epoch
	}
	return all
}

// granted wants a run that becomes locked to stand in all of its lock items.
func (w *Watch) granted(before, after *workflow.Execution) {
	if after.Scope.HeldEpoch == 0 || after.Scope.HeldEpoch == before.Scope.HeldEpoch {
		return
	}
	if after.Scope.HeldEpoch != after.Epoch {
		w.Break(lawGranted, "%s at epoch %d has the locks of epoch %d", after.ID, after.Epoch, after.Scope.HeldEpoch)
	}
	held := 0
	for _, l := range w.locks {
		if _, ok := l.Held(after.ID, after.Epoch); ok {
			held++
		}
	}
	if total := after.Scope.Total(); held < total {
		w.Break(lawGranted, "%s is about %d entities, and holds the locks of %d", after.ID, total, held)
	}
	for _, e := range after.Scope.Inline {
		if h, ok := w.locks[e.Key].Held(after.ID, after.Epoch); !ok || h.Token != e.Token {
			w.Break(lawGranted, "%s believes that it holds %s with token %d; the lock says %+v", after.ID, e.Key, e.Token, w.locks[e.Key])
		}
	}
}

// reserveAfter is the conflict from which on a run reserves.
const reserveAfter = 2

// asked reports whether a reservation stands that a run has no need, or no right, to
// replace: its own, or one of a run that is not younger.
func asked(x *workflow.Execution, l workflow.Lock) bool {
	return l.Res == x.ID || l.Res != "" && !workflow.Older(x.Age(), l.ResAge)
}

// reservations notes, for every run that is locking, where such a reservation has
// stood since it began to: it may be void, and replaced, a moment later.
func (w *Watch) reservations(l workflow.Lock) {
	for _, r := range w.runs {
		if r.x.State == sm.ExecutionLocking && asked(r.x, l) {
			r.asked[l.Entity] = true
		}
	}
}

// reserved wants a run that gives way for the second time to have reserved what it
// waits for, or to have met such a reservation.
func (w *Watch) reserved(r *run, before, x *workflow.Execution) {
	if x.State == sm.ExecutionLocking && before.State != x.State {
		r.asked = map[workflow.EntityKey]bool{}
		for key, l := range w.locks {
			r.asked[key] = asked(x, l)
		}
	}
	b := x.BlockedBy
	if b == nil || x.State != sm.ExecutionScheduled || b.Reservation || x.Conflicts < reserveAfter || b.Execution == x.ID {
		return
	}
	if !r.asked[b.Entity] {
		w.Break(lawReserved, "%s has given way %d times, the last time for %s, whose lock says %+v", x.ID, x.Conflicts, b.Entity, w.locks[b.Entity])
	}
}

// Entity is told of every write of the inventory.
func (w *Watch) Entity(before, after workflow.Entity) {
	key := after.Key()
	w.tell("   entity %s: version %d token %d %s", key, after.Version, after.Token, after.Attributes)
	if after.Version != before.Version+1 || after.Token < before.Token {
		w.Break(lawInventory, "%s: version %d token %d became %d %d", key, before.Version, before.Token, after.Version, after.Token)
	}
	if after.Token == before.Token {
		if w.Importing != nil && !w.Importing() {
			w.Break(lawInventory, "%s is written a second time with token %d", key, after.Token)
		}
		return
	}
	l := w.locks[key]
	for id, epoch := range holders(l) {
		h, _ := l.Held(id, epoch)
		if w.Older(id) {
			return // its lock may have been set back further
		}
		if r := w.runs[id]; h.Token == after.Token && r != nil && r.x.State == sm.ExecutionCompleted && r.x.Epoch == epoch {
			return
		}
	}
	w.Break(lawInventory, "%s is written with token %d; the lock says %+v", key, after.Token, l)
}
