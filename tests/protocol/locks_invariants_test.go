package protocol_test

import (
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

func (f *lockFixture) loadAll() []*workflow.Execution {
	found, _, err := f.store.LoadMany(f.ctx, f.tenant, f.ids)
	if err != nil || len(found) != len(f.ids) {
		f.Fatalf("loaded %d of %d executions: %v", len(found), len(f.ids), err)
	}
	return found
}

// checkInvariants checks what must hold after every action.
func (f *lockFixture) checkInvariants() {
	if !f.interceptor.wrote {
		return
	}
	f.interceptor.wrote = false
	executions := f.loadAll()
	items, err := f.locks.Read(f.ctx, f.tenant, f.keys, true)
	if err != nil {
		f.Fatal(err)
	}
	for _, key := range f.keys {
		f.checkLockProgress(key, f.previous[key], items[key])
	}
	f.previous = items
	holders := map[workflow.EntityKey][]*workflow.Execution{}
	for _, x := range executions {
		if x.State != sm.ExecutionRunning {
			continue
		}
		for _, h := range x.Scope.Inline {
			held, ok := items[h.Key].HolderOf(x.ID, x.Epoch)
			if !ok || held.Token != h.Token {
				f.Fatalf("%s is running at epoch %d with token %d of %s, but the lock is %+v", x.ID, x.Epoch, h.Token, h.Key, items[h.Key])
			}
			holders[h.Key] = append(holders[h.Key], x)
			if f.isExclusive(x) && h.Token < f.highestToken[h.Key] {
				f.Fatalf("%s holds %s with token %d, below the device's highest token %d", x.ID, h.Key, h.Token, f.highestToken[h.Key])
			}
			f.highestToken[h.Key] = max(f.highestToken[h.Key], h.Token)
		}
	}
	for _, key := range f.keys {
		if h := holders[key]; len(h) > 1 && slices.ContainsFunc(h, f.isExclusive) {
			f.Fatalf("%s is held by %s and %s, one of them exclusively", key, h[0].ID, h[1].ID)
		}
	}
	for _, x := range executions {
		f.checkWaits(x, executions)
	}
}

func (f *lockFixture) isExclusive(x *workflow.Execution) bool {
	return f.requests[x.ID].mode != workflow.LockShared
}

// checkLockProgress checks that the token and the revision only grow, that every change
// has a new revision, and that a new holder has a higher token than all before it.
func (f *lockFixture) checkLockProgress(key workflow.EntityKey, before, after workflow.Lock) {
	if after.Revision < before.Revision || after.Token < before.Token || after.Token > after.Revision {
		f.Fatalf("%s: revision and token went from %d and %d to %d and %d", key, before.Revision, before.Token, after.Revision, after.Token)
	}
	if after.Revision == before.Revision && (after.Owner != before.Owner || after.OwnerEpoch != before.OwnerEpoch || after.Reserver != before.Reserver || len(after.Holders) != len(before.Holders)) {
		f.Fatalf("%s changed without a new revision %d: from %+v to %+v", key, after.Revision, before, after)
	}
	if after.Owner != "" && (after.Owner != before.Owner || after.OwnerEpoch != before.OwnerEpoch) && after.Token <= before.Token {
		f.Fatalf("%s: new owner %s at epoch %d with token %d after %d", key, after.Owner, after.OwnerEpoch, after.Token, before.Token)
	}
	if after.Owner == before.Owner && after.Owner != "" && after.OwnerEpoch < before.OwnerEpoch {
		f.Fatalf("%s: an older handler of %s overwrote epoch %d with %d", key, after.Owner, before.OwnerEpoch, after.OwnerEpoch)
	}
	for id, h := range after.Holders {
		if old, was := before.Holders[id]; (!was || old.Epoch != h.Epoch) && h.Token <= before.Token {
			f.Fatalf("%s: %s joined with token %d after %d", key, id, h.Token, before.Token)
		}
	}
}

// checkWaits checks that a blocked execution is a waiter of the execution that blocks it,
// unless a handler, a message or a timer is about to advance it.
func (f *lockFixture) checkWaits(x *workflow.Execution, executions []*workflow.Execution) {
	willAdvance := slices.Contains(f.inbox, x.ID) || f.timersNeeded[x.ID] ||
		slices.ContainsFunc(f.handlers, func(h lockHandler) bool { return h.execution == x.ID && !h.Done() })
	if x.State == sm.ExecutionLocking && !willAdvance {
		f.Fatalf("%s is left in LOCKING", x.ID)
	}
	if x.State != sm.ExecutionScheduled || willAdvance {
		return
	}
	for _, y := range executions {
		if x.BlockedBy != nil && y.ID == x.BlockedBy.Execution && !sm.Acknowledged(y.State) && slices.Contains(y.Waiters, x.ID) {
			return
		}
	}
	f.Fatalf("%s is blocked by %+v, and nothing will wake it", x.ID, x.BlockedBy)
}
