package protocol_test

import (
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

func (s *lockFixture) loadAll() []*workflow.Execution {
	found, err := s.store.LoadMany(s.ctx, s.tenant, s.ids)
	if err != nil || len(found) != len(s.ids) {
		s.Fatalf("%d of %d runs are there: %v", len(found), len(s.ids), err)
	}
	return found
}

// checkInvariants holds the items as they stand against what must always hold.
func (s *lockFixture) checkInvariants() {
	if !s.interceptor.wrote {
		return
	}
	s.interceptor.wrote = false
	runs := s.loadAll()
	items, err := s.locks.Read(s.ctx, s.tenant, s.keys)
	if err != nil {
		s.Fatal(err)
	}
	for _, key := range s.keys {
		s.checkLockProgress(key, s.previous[key], items[key])
	}
	s.previous = items
	holders := map[workflow.EntityKey][]*workflow.Execution{}
	for _, x := range runs {
		if x.State != sm.ExecutionRunning {
			continue
		}
		for _, h := range x.Scope.Inline {
			held, ok := items[h.Key].HolderOf(x.ID, x.Epoch)
			if !ok || held.Token != h.Token {
				s.Fatalf("%s works at epoch %d with token %d of %s, whose item is %+v", x.ID, x.Epoch, h.Token, h.Key, items[h.Key])
			}
			holders[h.Key] = append(holders[h.Key], x)
			if s.isExclusive(x) && h.Token < s.highestToken[h.Key] {
				s.Fatalf("%s holds %s with token %d, and would be refused after %d", x.ID, h.Key, h.Token, s.highestToken[h.Key])
			}
			s.highestToken[h.Key] = max(s.highestToken[h.Key], h.Token)
		}
	}
	for _, key := range s.keys {
		if h := holders[key]; len(h) > 1 && slices.ContainsFunc(h, s.isExclusive) {
			s.Fatalf("%s is held by %s and %s, and by one of them alone", key, h[0].ID, h[1].ID)
		}
	}
	for _, x := range runs {
		s.checkBlockerKnown(x, runs)
	}
}

func (s *lockFixture) isExclusive(x *workflow.Execution) bool {
	return s.requests[x.ID].mode != workflow.LockShared
}

// checkLockProgress wants each holder that was not there before to have a token above all
// before it, and no revision to come twice.
func (s *lockFixture) checkLockProgress(key workflow.EntityKey, before, after workflow.Lock) {
	if after.Revision < before.Revision || after.Token < before.Token || after.Token > after.Revision {
		s.Fatalf("%s: revision %d and token %d became %d and %d", key, before.Revision, before.Token, after.Revision, after.Token)
	}
	if after.Revision == before.Revision && (after.Owner != before.Owner || after.OwnerEpoch != before.OwnerEpoch || after.Reserver != before.Reserver || len(after.Holders) != len(before.Holders)) {
		s.Fatalf("%s has changed under revision %d: %+v became %+v", key, after.Revision, before, after)
	}
	if after.Owner != "" && (after.Owner != before.Owner || after.OwnerEpoch != before.OwnerEpoch) && after.Token <= before.Token {
		s.Fatalf("%s goes to %s at epoch %d with token %d after %d", key, after.Owner, after.OwnerEpoch, after.Token, before.Token)
	}
	if after.Owner == before.Owner && after.Owner != "" && after.OwnerEpoch < before.OwnerEpoch {
		s.Fatalf("%s: an older handler of %s has overwritten epoch %d by %d", key, after.Owner, before.OwnerEpoch, after.OwnerEpoch)
	}
	for id, h := range after.Holders {
		if old, was := before.Holders[id]; (!was || old.Epoch != h.Epoch) && h.Token <= before.Token {
			s.Fatalf("%s: %s joins with token %d after %d", key, id, h.Token, before.Token)
		}
	}
}

// checkBlockerKnown wants a run that sleeps to be known to one that has still to end or to give
// way, unless somebody is about to tell it otherwise.
func (s *lockFixture) checkBlockerKnown(x *workflow.Execution, runs []*workflow.Execution) {
	willAdvance := slices.Contains(s.inbox, x.ID) || s.timersNeeded[x.ID] ||
		slices.ContainsFunc(s.handlers, func(h lockHandler) bool { return h.execution == x.ID && !h.Done() })
	if x.State == sm.ExecutionLocking && !willAdvance {
		s.Fatalf("%s rests in LOCKING", x.ID)
	}
	if x.State != sm.ExecutionScheduled || willAdvance {
		return
	}
	for _, y := range runs {
		if x.BlockedBy != nil && y.ID == x.BlockedBy.Execution && !sm.Acknowledged(y.State) && slices.Contains(y.Waiters, x.ID) {
			return
		}
	}
	s.Fatalf("%s sleeps, blocked by %+v, and nobody will tell it anything", x.ID, x.BlockedBy)
}
