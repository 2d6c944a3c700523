package protocol_test

import (
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

func (s *street) load() []*workflow.Execution {
	found, err := s.store.LoadMany(s.ctx, s.tenant, s.ids)
	if err != nil || len(found) != len(s.ids) {
		s.Fatalf("%d of %d runs are there: %v", len(found), len(s.ids), err)
	}
	return found
}

// judge holds the items as they stand against what must always hold.
func (s *street) judge() {
	if !s.gate.wrote {
		return
	}
	s.gate.wrote = false
	runs := s.load()
	items, err := s.locks.Read(s.ctx, s.tenant, s.keys)
	if err != nil {
		s.Fatal(err)
	}
	for _, key := range s.keys {
		s.grows(key, s.before[key], items[key])
	}
	s.before = items
	holders := map[workflow.EntityKey][]*workflow.Execution{}
	for _, x := range runs {
		if x.State != sm.ExecutionRunning {
			continue
		}
		for _, h := range x.Scope.Inline {
			held, ok := items[h.Key].Held(x.ID, x.Epoch)
			if !ok || held.Token != h.Token {
				s.Fatalf("%s works at epoch %d with token %d of %s, whose item is %+v", x.ID, x.Epoch, h.Token, h.Key, items[h.Key])
			}
			holders[h.Key] = append(holders[h.Key], x)
			if s.alone(x) && h.Token < s.device[h.Key] {
				s.Fatalf("%s holds %s with token %d, and would be refused after %d", x.ID, h.Key, h.Token, s.device[h.Key])
			}
			s.device[h.Key] = max(s.device[h.Key], h.Token)
		}
	}
	for _, key := range s.keys {
		if h := holders[key]; len(h) > 1 && slices.ContainsFunc(h, s.alone) {
			s.Fatalf("%s is held by %s and %s, and by one of them alone", key, h[0].ID, h[1].ID)
		}
	}
	for _, x := range runs {
		s.known(x, runs)
	}
}

func (s *street) alone(x *workflow.Execution) bool { return s.wants[x.ID].mode != workflow.LockShared }

// grows wants each holder that was not there before to have a token above all
// before it, and no revision to come twice.
func (s *street) grows(key workflow.EntityKey, before, after workflow.Lock) {
	if after.Rev < before.Rev || after.Token < before.Token || after.Token > after.Rev {
		s.Fatalf("%s: revision %d and token %d became %d and %d", key, before.Rev, before.Token, after.Rev, after.Token)
	}
	if after.Rev == before.Rev && (after.Owner != before.Owner || after.OwnerEpoch != before.OwnerEpoch || after.Res != before.Res || len(after.Holders) != len(before.Holders)) {
		s.Fatalf("%s has changed under revision %d: %+v became %+v", key, after.Rev, before, after)
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

// known wants a run that sleeps to be known to one that has still to end or to give
// way, unless somebody is about to tell it otherwise.
func (s *street) known(x *workflow.Execution, runs []*workflow.Execution) {
	told := slices.Contains(s.inbox, x.ID) || s.alarms[x.ID] ||
		slices.ContainsFunc(s.open, func(h handler) bool { return h.run == x.ID && !h.Over() })
	if x.State == sm.ExecutionLocking && !told {
		s.Fatalf("%s rests in LOCKING", x.ID)
	}
	if x.State != sm.ExecutionScheduled || told {
		return
	}
	for _, y := range runs {
		if x.BlockedBy != nil && y.ID == x.BlockedBy.Execution && !sm.Acknowledged(y.State) && slices.Contains(y.Waiters, x.ID) {
			return
		}
	}
	s.Fatalf("%s sleeps, blocked by %+v, and nobody will tell it anything", x.ID, x.BlockedBy)
}
