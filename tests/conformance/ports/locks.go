package ports

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Locks checks a port.Locks.
func Locks(t *testing.T, open Open) {
	sw := workflow.EntityKey{Type: "device", ID: "sw-007"}
	read := func(s *fixture) workflow.Lock {
		s.Helper()
		return must[map[workflow.EntityKey]workflow.Lock](s)(s.Locks.Read(s.ctx, s.tenant, []workflow.EntityKey{sw}, true))[sw]
	}
	check := func(s *fixture, want workflow.Lock) {
		s.Helper()
		want.Entity = sw
		if diff := cmp.Diff(want, read(s)); diff != "" {
			s.Error(diff)
		}
	}
	runParallel(t, open, map[string]func(s *fixture){
		"each holder gets a greater token": func(s *fixture) {
			a, b := newID(), newID()
			check(s, workflow.Lock{})
			s.wantApplied(true)(s.Locks.Take(s.ctx, s.tenant, sw, requestOf(a, 1), 0))
			check(s, workflow.Lock{Owner: a, OwnerEpoch: 1, Token: 1, Revision: 1, Since: baseTime.UnixMilli()})
			s.wantApplied(false)(s.Locks.Take(s.ctx, s.tenant, sw, requestOf(b, 1), 0))
			s.wantApplied(false)(s.Locks.Take(s.ctx, s.tenant, sw, requestOf(b, 1), 2))
			s.wantApplied(true)(s.Locks.Take(s.ctx, s.tenant, sw, workflow.LockRequest{Execution: b, Epoch: 4, Now: baseTime.Add(time.Second)}, 1))
			check(s, workflow.Lock{Owner: b, OwnerEpoch: 4, Token: 2, Revision: 2, Since: baseTime.Add(time.Second).UnixMilli()})
			s.wantApplied(false)(s.Locks.Take(s.ctx, s.tenant, sw, requestOf(a, 1), 1))
		},
		"the item names who took the lock": func(s *fixture) {
			a, b, c := newID(), newID(), newID()
			taken := workflow.RecentHolders{}.With(workflow.RecentHolder{Execution: a, Place: 3, Token: 1})
			r := requestOf(a, 1)
			r.Recent = taken
			s.wantApplied(true)(s.Locks.Take(s.ctx, s.tenant, sw, r, 0))
			s.wantApplied(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, workflow.Reservation{Execution: b, Age: b}, ""))
			s.wantApplied(true)(s.Locks.RaiseRevision(s.ctx, s.tenant, sw, 10, 2))
			if got := read(s).Recent; !slices.Equal(got, taken) {
				s.Errorf("the item names %v, want %v", got, taken)
			}
			r = requestOf(b, 1)
			r.Recent = taken.With(workflow.RecentHolder{Execution: b, Place: 1, Token: 11, Shared: true})
			if _, ok, err := s.Locks.Share(s.ctx, s.tenant, sw, r, nil, 10); !ok || err != nil {
				s.Fatal(ok, err)
			}
			if _, ok, err := s.Locks.Join(s.ctx, s.tenant, sw, requestOf(c, 1), workflow.JoinConditions{Age: b}); !ok || err != nil {
				s.Fatal(ok, err)
			}
			if got := read(s).Recent; !slices.Equal(got, r.Recent) {
				s.Errorf("the item names %v, want %v", got, r.Recent)
			}
		},
		"one of many concurrent takes succeeds": func(s *fixture) {
			ids := make([]string, racers)
			for i := range ids {
				ids[i] = newID()
			}
			for rev := range int64(3) {
				won := s.oneWinner(func(i int) (bool, error) {
					return s.Locks.Take(s.ctx, s.tenant, sw, requestOf(ids[i], 1+rev), rev)
				})
				check(s, workflow.Lock{Owner: ids[won], OwnerEpoch: 1 + rev, Token: 1 + rev, Revision: 1 + rev, Since: baseTime.UnixMilli()})
			}
		},
		"all handlers of one execution at one epoch may take the lock": func(s *fixture) {
			a := newID()
			if n := len(s.race(func(int) (bool, error) { return s.Locks.Take(s.ctx, s.tenant, sw, requestOf(a, 1), 0) })); n != racers {
				s.Errorf("%d of %d handlers of the holder got the lock", n, racers)
			}
			check(s, workflow.Lock{Owner: a, OwnerEpoch: 1, Token: 1, Revision: 1, Since: baseTime.UnixMilli()})
			s.wantApplied(false)(s.Locks.Take(s.ctx, s.tenant, sw, requestOf(a, 2), 0))
		},
		"a take with a lost reply is recognised": func(s *fixture) {
			a := newID()
			s.loseReply()
			s.wantApplied(true)(s.Locks.Take(s.ctx, s.tenant, sw, requestOf(a, 1), 0))
			s.loseReply()
			s.wantApplied(true)(s.Locks.Take(s.ctx, s.tenant, sw, requestOf(a, 2), 1))
			check(s, workflow.Lock{Owner: a, OwnerEpoch: 2, Token: 2, Revision: 2, Since: baseTime.UnixMilli()})
		},
		"an older execution's reservation wins": func(s *fixture) {
			older, middle, younger := newID(), newID(), newID()
			s.wantApplied(true)(s.Locks.Take(s.ctx, s.tenant, sw, requestOf(younger, 1), 0))
			s.wantApplied(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, reservationOf(middle), ""))
			check(s, workflow.Lock{Owner: younger, OwnerEpoch: 1, Token: 1, Revision: 2, Since: baseTime.UnixMilli(), Reserver: middle, ReserverAge: middle})
			s.wantApplied(false)(s.Locks.Reserve(s.ctx, s.tenant, sw, reservationOf(younger), ""))
			s.wantApplied(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, reservationOf(middle), ""))
			s.wantApplied(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, reservationOf(older), ""))
			s.wantApplied(false)(s.Locks.Reserve(s.ctx, s.tenant, sw, reservationOf(middle), middle))
			s.wantApplied(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, reservationOf(younger), older)) // older has ended
			if got := read(s); got.Reserver != younger || got.Owner != younger || got.Token != 1 {
				s.Errorf("got %+v", got)
			}
		},
		"a reservation raises the revision and survives a take": func(s *fixture) {
			a, b := newID(), newID()
			s.wantApplied(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, reservationOf(a), ""))
			check(s, workflow.Lock{Revision: 1, Reserver: a, ReserverAge: a})
			s.wantApplied(false)(s.Locks.Take(s.ctx, s.tenant, sw, requestOf(b, 1), 0))
			s.wantApplied(true)(s.Locks.Take(s.ctx, s.tenant, sw, requestOf(b, 1), 1))
			check(s, workflow.Lock{Owner: b, OwnerEpoch: 1, Token: 2, Revision: 2, Since: baseTime.UnixMilli(), Reserver: a, ReserverAge: a})
		},
		"a reservation with a lost reply is recognised": func(s *fixture) {
			a := newID()
			s.loseReply()
			s.wantApplied(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, reservationOf(a), ""))
			check(s, workflow.Lock{Revision: 1, Reserver: a, ReserverAge: a})
		},
		"the oldest of many concurrent reservations wins": func(s *fixture) {
			ids := make([]string, racers)
			for i := range ids {
				ids[i] = newID()
			}
			s.race(func(i int) (bool, error) { return s.Locks.Reserve(s.ctx, s.tenant, sw, reservationOf(ids[i]), "") })
			if got := read(s).Reserver; got != ids[0] {
				s.Errorf("%s has the reservation, the oldest is %s", got, ids[0])
			}
		},
		"the revision can be raised, and the next token is greater": func(s *fixture) {
			a, b := newID(), newID()
			s.wantApplied(true)(s.Locks.RaiseRevision(s.ctx, s.tenant, sw, 1000, 0))
			check(s, workflow.Lock{Revision: 1000})
			s.wantApplied(false)(s.Locks.RaiseRevision(s.ctx, s.tenant, sw, 2000, 999))
			s.wantApplied(true)(s.Locks.Take(s.ctx, s.tenant, sw, requestOf(a, 1), 1000))
			s.wantApplied(false)(s.Locks.RaiseRevision(s.ctx, s.tenant, sw, 900, 1001)) // never lowered
			s.wantApplied(true)(s.Locks.RaiseRevision(s.ctx, s.tenant, sw, 2000, 1001))
			check(s, workflow.Lock{Owner: a, OwnerEpoch: 1, Token: 1001, Revision: 2000, Since: baseTime.UnixMilli()})
			s.wantApplied(false)(s.Locks.Take(s.ctx, s.tenant, sw, requestOf(b, 1), 1001))
			s.wantApplied(true)(s.Locks.Take(s.ctx, s.tenant, sw, requestOf(b, 1), 2000))
		},
		"the owner's place is that of the last take": func(s *fixture) {
			a, b := newID(), newID()
			at := func(id string, place int) workflow.LockRequest {
				return workflow.LockRequest{Execution: id, Epoch: 1, Place: place, Now: baseTime}
			}
			s.wantApplied(true)(s.Locks.Take(s.ctx, s.tenant, sw, at(a, 3), 0))
			s.wantApplied(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, reservationOf(b), ""))
			s.wantApplied(true)(s.Locks.RaiseRevision(s.ctx, s.tenant, sw, 1000, 2))
			if got := read(s); got.Place != 3 {
				s.Errorf("a take at place 3 is read as %+v", got)
			}
			s.wantApplied(true)(s.Locks.Take(s.ctx, s.tenant, sw, requestOf(b, 1), 1000)) // it does not know its place
			if got := read(s); got.Place != 0 {
				s.Errorf("a take without a place is read as %+v", got)
			}
		},
		"many locks are read at once": func(s *fixture) {
			a := newID()
			var keys []workflow.EntityKey
			for i := range 215 {
				keys = append(keys, workflow.EntityKey{Type: "device", ID: fmt.Sprint(i)})
				if i%3 == 0 {
					s.wantApplied(true)(s.Locks.Take(s.ctx, s.tenant, keys[i], requestOf(a, 1), 0))
				}
			}
			locks := must[map[workflow.EntityKey]workflow.Lock](s)(s.Locks.Read(s.ctx, s.tenant, append(keys, keys[0]), true))
			for i, k := range keys {
				want := workflow.Lock{Entity: k}
				if i%3 == 0 {
					want = workflow.Lock{Entity: k, Owner: a, OwnerEpoch: 1, Token: 1, Revision: 1, Since: baseTime.UnixMilli()}
				}
				if diff := cmp.Diff(want, locks[k]); diff != "" {
					s.Error(diff)
				}
			}
			if none := must[map[workflow.EntityKey]workflow.Lock](s)(s.Locks.Read(s.ctx, s.tenant+"2", keys[:1], true)); none[keys[0]].Revision != 0 {
				s.Errorf("read another tenant's lock: %+v", none)
			}
		},
	})
}

// SharedLocks checks the shared locks of a port.Locks.
func SharedLocks(t *testing.T, open Open) {
	sw := workflow.EntityKey{Type: "device", ID: "sw-007"}
	read := func(s *fixture) workflow.Lock {
		s.Helper()
		return must[map[workflow.EntityKey]workflow.Lock](s)(s.Locks.Read(s.ctx, s.tenant, []workflow.EntityKey{sw}, true))[sw]
	}
	at := requestOf
	share := func(s *fixture, want int64, by workflow.LockRequest, keep map[string]workflow.Holder, revision int64) {
		s.Helper()
		token, ok, err := s.Locks.Share(s.ctx, s.tenant, sw, by, keep, revision)
		if s.wantApplied(want > 0)(ok, err); ok && token != want {
			s.Errorf("got token %d, want %d", token, want)
		}
	}
	join := func(s *fixture, want int64, by workflow.LockRequest, j workflow.JoinConditions) {
		s.Helper()
		if j.Age == "" {
			j.Age = by.Execution
		}
		token, ok, err := s.Locks.Join(s.ctx, s.tenant, sw, by, j)
		if s.wantApplied(want > 0)(ok, err); ok && token != want {
			s.Errorf("got token %d, want %d", token, want)
		}
	}
	holders := func(s *fixture, rev int64, want map[string]workflow.Holder) {
		s.Helper()
		got := read(s)
		if diff := cmp.Diff(want, got.Holders); diff != "" || got.Mode != workflow.LockShared || got.Owner != "" || got.Revision != rev {
			s.Errorf("%+v\n%s", got, diff)
		}
	}
	holder := func(epoch, token int64) workflow.Holder {
		return workflow.Holder{Epoch: epoch, Token: token, Since: baseTime.UnixMilli()}
	}
	runParallel(t, open, map[string]func(s *fixture){
		"a lock is shared, exclusive and shared again": func(s *fixture) {
			a, b, c := newID(), newID(), newID()
			join(s, 0, at(a, 1), workflow.JoinConditions{}) // not a shared lock yet
			share(s, 1, at(a, 1), nil, 0)
			share(s, 0, at(b, 1), nil, 0)
			holders(s, 1, map[string]workflow.Holder{a: holder(1, 1)})
			s.wantApplied(false)(s.Locks.Take(s.ctx, s.tenant, sw, requestOf(c, 1), 0))
			s.wantApplied(true)(s.Locks.Take(s.ctx, s.tenant, sw, requestOf(c, 1), 1))
			if diff := cmp.Diff(workflow.Lock{Entity: sw, Owner: c, OwnerEpoch: 1, Token: 2, Revision: 2, Since: baseTime.UnixMilli()}, read(s)); diff != "" {
				s.Error(diff)
			}
			join(s, 0, at(a, 1), workflow.JoinConditions{})
			share(s, 3, at(a, 2), nil, 2)
			holders(s, 3, map[string]workflow.Holder{a: holder(2, 3)})
		},
		"a join needs no revision and raises it": func(s *fixture) {
			a, b, c := newID(), newID(), newID()
			share(s, 1, at(a, 1), nil, 0)
			join(s, 2, at(b, 4), workflow.JoinConditions{})
			holders(s, 2, map[string]workflow.Holder{a: holder(1, 1), b: holder(4, 2)})
			s.wantApplied(false)(s.Locks.Take(s.ctx, s.tenant, sw, requestOf(c, 1), 1)) // has read before the join
			if got := read(s); got.Token != 2 {
				s.Errorf("the last token is %d, want 2", got.Token)
			}
		},
		"a join counts the entries": func(s *fixture) {
			a, b, c := newID(), newID(), newID()
			share(s, 1, at(a, 1), nil, 0)
			join(s, 0, at(b, 1), workflow.JoinConditions{Limit: 1})
			join(s, 2, at(b, 1), workflow.JoinConditions{Limit: 2})
			join(s, 0, at(c, 1), workflow.JoinConditions{Limit: 2})
			holders(s, 2, map[string]workflow.Holder{a: holder(1, 1), b: holder(1, 2)})
			join(s, 3, at(c, 1), workflow.JoinConditions{Limit: 3})
		},
		"many join at once": func(s *fixture) {
			share(s, 1, at(newID(), 1), nil, 0)
			ids := make([]string, racers)
			for i := range ids {
				ids[i] = newID()
			}
			won := s.race(func(i int) (bool, error) {
				_, ok, err := s.Locks.Join(s.ctx, s.tenant, sw, at(ids[i], 1), workflow.JoinConditions{Age: ids[i]})
				return ok, err
			})
			got := read(s)
			tokens := map[int64]bool{}
			for _, h := range got.Holders {
				tokens[h.Token] = true
			}
			if len(won) != racers || len(tokens) != racers+1 || got.Revision != racers+1 {
				s.Errorf("%d of %d joined: %+v", len(won), racers, got)
			}
		},
		"an older epoch does not replace a later one": func(s *fixture) {
			a, b := newID(), newID()
			share(s, 1, at(b, 1), nil, 0)
			join(s, 2, at(a, 3), workflow.JoinConditions{})
			join(s, 0, at(a, 2), workflow.JoinConditions{})
			join(s, 3, at(a, 4), workflow.JoinConditions{})
			holders(s, 3, map[string]workflow.Holder{b: holder(1, 1), a: holder(4, 3)})
		},
		"all handlers of one execution at one epoch have one token": func(s *fixture) {
			a, b := newID(), newID()
			share(s, 1, at(a, 1), nil, 0)
			share(s, 1, at(a, 1), nil, 0)
			join(s, 1, at(a, 1), workflow.JoinConditions{})
			join(s, 2, at(b, 1), workflow.JoinConditions{})
			join(s, 2, at(b, 1), workflow.JoinConditions{})
			share(s, 1, at(a, 1), nil, 1)
			holders(s, 2, map[string]workflow.Holder{a: holder(1, 1), b: holder(1, 2)})
		},
		"a share and a join with lost replies are recognised": func(s *fixture) {
			a, b := newID(), newID()
			s.loseReply()
			share(s, 1, at(a, 1), nil, 0)
			s.loseReply()
			join(s, 2, at(b, 1), workflow.JoinConditions{})
			holders(s, 2, map[string]workflow.Holder{a: holder(1, 1), b: holder(1, 2)})
		},
		"an older execution's reservation keeps others from joining": func(s *fixture) {
			older, middle, younger := newID(), newID(), newID()
			share(s, 1, at(newID(), 1), nil, 0)
			s.wantApplied(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, reservationOf(middle), ""))
			join(s, 0, at(younger, 1), workflow.JoinConditions{})
			join(s, 3, at(older, 1), workflow.JoinConditions{})
			join(s, 4, at(middle, 1), workflow.JoinConditions{})
			join(s, 0, at(younger, 1), workflow.JoinConditions{VoidReserver: older})
			join(s, 5, at(younger, 1), workflow.JoinConditions{VoidReserver: middle})
			join(s, 6, at(newID(), 1), workflow.JoinConditions{Age: middle}) // a child of the reserver has the reserver's age
		},
		"dead holders are removed only at the token that was read": func(s *fixture) {
			a, b, c, d := newID(), newID(), newID(), newID()
			share(s, 1, at(a, 1), nil, 0)
			join(s, 2, at(b, 1), workflow.JoinConditions{})
			join(s, 0, at(c, 1), workflow.JoinConditions{DeadHolders: map[string]int64{a: 1, b: 2}})
			holders(s, 2, map[string]workflow.Holder{a: holder(1, 1), b: holder(1, 2)})
			join(s, 3, at(c, 1), workflow.JoinConditions{DeadHolders: map[string]int64{a: 1, newID(): 7}})
			holders(s, 3, map[string]workflow.Holder{b: holder(1, 2), c: holder(1, 3)})
			share(s, 0, at(d, 1), nil, 2)
			share(s, 4, at(d, 1), map[string]workflow.Holder{c: holder(1, 3)}, 3)
			holders(s, 4, map[string]workflow.Holder{c: holder(1, 3), d: holder(1, 4)})
		},
		"each holder has a place of its own": func(s *fixture) {
			a, b, c, d := newID(), newID(), newID(), newID()
			placed := func(id string, place int) workflow.LockRequest {
				return workflow.LockRequest{Execution: id, Epoch: 1, Place: place, Now: baseTime}
			}
			s.wantApplied(true)(s.Locks.Take(s.ctx, s.tenant, sw, placed(d, 9), 0))
			share(s, 2, placed(a, 3), nil, 1)
			join(s, 3, placed(b, 1), workflow.JoinConditions{})
			before := read(s).Holders
			share(s, 4, placed(c, 2), map[string]workflow.Holder{a: before[a], b: before[b]}, 3)
			got := read(s)
			if got.Place != 0 || got.Holders[a].Place != 3 || got.Holders[b].Place != 1 || got.Holders[c].Place != 2 {
				s.Errorf("got %+v", got)
			}
		},
		"a lock has at most MaxHolders holders": func(s *fixture) {
			share(s, 1, at(newID(), 1), nil, 0)
			for i := range workflow.MaxHolders - 1 {
				join(s, int64(i)+2, at(newID(), 1), workflow.JoinConditions{})
			}
			join(s, 0, at(newID(), 1), workflow.JoinConditions{})
			if n := len(read(s).Holders); n != workflow.MaxHolders {
				s.Errorf("%d holders, want %d", n, workflow.MaxHolders)
			}
		},
	})
}

// requestOf is the request of an execution that does not say the entity's place.
func requestOf(id string, epoch int64) workflow.LockRequest {
	return workflow.LockRequest{Execution: id, Epoch: epoch, Now: baseTime}
}

// reservationOf is a reservation by an execution without a parent.
func reservationOf(id string) workflow.Reservation {
	return workflow.Reservation{Execution: id, Age: id}
}
