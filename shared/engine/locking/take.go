package locking

import (
	"context"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// take writes all free items, and returns those that somebody else wrote first.
func (a *acquisition) take(ctx context.Context, items []evaluatedLock) (lost []workflow.EntityKey, err error) {
	tokens := make([]int64, len(items))
	err = parallel.Each(ctx, a.Parallel, len(items), func(ctx context.Context, i int) (err error) {
		tokens[i], err = a.takeOne(ctx, items[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, r := range items {
		if tokens[i] > 0 {
			a.tokens[r.lock.Entity] = tokens[i]
		} else {
			lost = append(lost, r.lock.Entity)
		}
	}
	return lost, nil
}

// takeOne returns the token, 0 if somebody else wrote first.
func (a *acquisition) takeOne(ctx context.Context, r evaluatedLock) (token int64, err error) {
	l := r.lock
	if a.Mode != workflow.LockShared {
		if ok, err := a.Locks.Take(ctx, a.Tenant, l.Entity, a.Execution, a.Epoch, l.Revision, a.Now); !ok || err != nil {
			return 0, err
		}
		return l.Revision + 1, nil
	}
	var ok bool
	me := workflow.LockRequest{Execution: a.Execution, Epoch: a.Epoch, Now: a.Now}
	if l.Mode == workflow.LockShared && len(l.Holders) < workflow.MaxHolders {
		token, ok, err = a.Locks.Join(ctx, a.Tenant, l.Entity, me, workflow.JoinConditions{Age: a.reservationAge(), VoidReserver: r.voidReserver, DeadHolders: firstDead(r.deadHolders)})
	} else {
		// The lock was exclusive, or there is no room but in place of the dead: the
		// whole set is written, so nobody may have written since it was read.
		token, ok, err = a.Locks.Share(ctx, a.Tenant, l.Entity, me, r.liveHolders(), l.Revision)
	}
	if !ok || err != nil {
		return 0, err
	}
	return token, nil
}

// liveHolders are the holders that were not read as dead.
func (r *evaluatedLock) liveHolders() map[string]workflow.Holder {
	keep := map[string]workflow.Holder{}
	for id, h := range r.lock.Holders {
		if _, dead := r.deadHolders[id]; !dead {
			keep[id] = h
		}
	}
	return keep
}

// pruneThreshold is the number of holders from which on a run that joins looks which of
// them are dead, and how many of these it removes at a time.
const pruneThreshold = 8

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
