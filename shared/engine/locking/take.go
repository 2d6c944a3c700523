package locking

import (
	"context"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// take writes all free items, and returns the keys of those that somebody else wrote
// first. Meanwhile it calls beside, if that is not nil.
func (a *acquisition) take(ctx context.Context, items []evaluatedLock, beside func(context.Context)) (lost []workflow.EntityKey, err error) {
	tokens := make([]int64, len(items))
	err = parallel.Each(ctx, a.Parallel, len(items)+1, func(ctx context.Context, i int) (err error) {
		if i > 0 {
			tokens[i-1], err = a.takeOne(ctx, items[i-1])
		} else if beside != nil {
			beside(ctx)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, r := range items {
		if tokens[i] > 0 {
			a.tokens[r.lock.Entity], a.recent[r.lock.Entity] = tokens[i], r.lock.Recent
		} else {
			lost = append(lost, r.lock.Entity)
		}
	}
	return lost, nil
}

// takeOne takes one lock and returns its token, or 0 if somebody else wrote the item
// first.
func (a *acquisition) takeOne(ctx context.Context, r evaluatedLock) (token int64, err error) {
	l := r.lock
	me := workflow.LockRequest{Execution: a.Execution, Epoch: a.Epoch, Place: a.places[l.Entity], Now: a.Now}
	limit, isSlot := workflow.MaxHolders, l.Entity.IsSlot()
	me.Recent = l.Recent.With(workflow.RecentHolder{Execution: me.Execution, Place: me.Place, Token: l.Revision + 1, Shared: isSlot || a.Mode == workflow.LockShared})
	if isSlot {
		limit = a.Slot.Limit
	}
	if a.Mode != workflow.LockShared && !isSlot {
		if ok, err := a.Locks.Take(ctx, a.Tenant, l.Entity, me, l.Revision); !ok || err != nil {
			return 0, err
		}
		return l.Revision + 1, nil
	}
	var ok bool
	if l.Mode == workflow.LockShared && len(l.Holders) < limit {
		join := workflow.JoinConditions{Age: a.reservationAge(), VoidReserver: r.voidReserver, DeadHolders: firstDead(r.deadHolders), Limit: limit}
		if isSlot {
			join.DeadHolders = nil // a later request that finds the set full replaces it
		}
		token, ok, err = a.Locks.Join(ctx, a.Tenant, l.Entity, me, join)
	} else {
		// The lock was exclusive, or its holder set is full of dead holders. Share replaces the
		// whole set, on the condition that the item has not changed.
		token, ok, err = a.Locks.Share(ctx, a.Tenant, l.Entity, me, r.liveHolders(), l.Revision)
	}
	if !ok || err != nil {
		return 0, err
	}
	return token, nil
}

// liveHolders returns the holders that were not found dead.
func (r *evaluatedLock) liveHolders() map[string]workflow.Holder {
	keep := map[string]workflow.Holder{}
	for id, h := range r.lock.Holders {
		if _, dead := r.deadHolders[id]; !dead {
			keep[id] = h
		}
	}
	return keep
}

// pruneThreshold is the number of holders from which an execution that joins a shared lock checks
// which of them are dead. It is also the most that it removes at a time. It must not exceed
// workflow.MaxHolders: nobody could join a lock full of dead holders if their states were never
// read.
const pruneThreshold = min(8, workflow.MaxHolders)

// firstDead picks the dead holders to remove, the oldest first.
func firstDead(dead map[string]int64) map[string]int64 {
	some := map[string]int64{}
	for _, id := range slices.Sorted(maps.Keys(dead)) {
		if len(some) == pruneThreshold {
			break
		}
		some[id] = dead[id]
	}
	return some
}

// raise raises the revision of a lock item to MinFencingToken if the item was last written before
// the tables were restored, or never. Every later token is greater than that, and so greater than
// any token that was issued before the restore and has been lost.
//
// No execution has written the item since the restore. So, whatever it says, it is not this
// execution's own lock, and its owner's state was not read too early. The tables need not have been
// restored to exactly the same moment. A lock that another execution holds stays held.
func (a *acquisition) raise(ctx context.Context, r *evaluatedLock) error {
	if r.status == lockConflict {
		return nil
	}
	ok, err := a.Locks.RaiseRevision(ctx, a.Tenant, r.lock.Entity, a.MinFencingToken, r.lock.Revision)
	if err != nil {
		return err
	}
	if r.status = lockUncertain; ok {
		r.status, r.lock.Revision = lockFree, a.MinFencingToken
	}
	return nil
}
