package ports

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Locks checks a port.Locks.
func Locks(t *testing.T, open Open) {
	sw := workflow.EntityKey{Type: "device", ID: "sw-007"}
	read := func(s *scene) workflow.Lock {
		s.Helper()
		return must[map[workflow.EntityKey]workflow.Lock](s)(s.Locks.Read(s.ctx, s.tenant, []workflow.EntityKey{sw}))[sw]
	}
	check := func(s *scene, want workflow.Lock) {
		s.Helper()
		want.Entity = sw
		if diff := cmp.Diff(want, read(s)); diff != "" {
			s.Error(diff)
		}
	}
	each(t, open, map[string]func(s *scene){
		"a token grows with each holder": func(s *scene) {
			a, b := newID(), newID()
			check(s, workflow.Lock{})
			s.want(true)(s.Locks.Take(s.ctx, s.tenant, sw, a, 1, 0, base))
			check(s, workflow.Lock{Owner: a, OwnerEpoch: 1, Token: 1, Rev: 1, Since: base.UnixMilli()})
			s.want(false)(s.Locks.Take(s.ctx, s.tenant, sw, b, 1, 0, base))
			s.want(false)(s.Locks.Take(s.ctx, s.tenant, sw, b, 1, 2, base))
			s.want(true)(s.Locks.Take(s.ctx, s.tenant, sw, b, 4, 1, base.Add(time.Second)))
			check(s, workflow.Lock{Owner: b, OwnerEpoch: 4, Token: 2, Rev: 2, Since: base.Add(time.Second).UnixMilli()})
			s.want(false)(s.Locks.Take(s.ctx, s.tenant, sw, a, 1, 1, base))
		},
		"one of many takes wins": func(s *scene) {
			ids := make([]string, racers)
			for i := range ids {
				ids[i] = newID()
			}
			for rev := range int64(3) {
				won := s.oneWinner(func(i int) (bool, error) {
					return s.Locks.Take(s.ctx, s.tenant, sw, ids[i], 1+rev, rev, base)
				})
				check(s, workflow.Lock{Owner: ids[won], OwnerEpoch: 1 + rev, Token: 1 + rev, Rev: 1 + rev, Since: base.UnixMilli()})
			}
		},
		"all handlers of one run at one epoch may take it": func(s *scene) {
			a := newID()
			if n := len(s.race(func(int) (bool, error) { return s.Locks.Take(s.ctx, s.tenant, sw, a, 1, 0, base) })); n != racers {
				s.Errorf("%d of %d handlers of the holder were told that they hold it", n, racers)
			}
			check(s, workflow.Lock{Owner: a, OwnerEpoch: 1, Token: 1, Rev: 1, Since: base.UnixMilli()})
			s.want(false)(s.Locks.Take(s.ctx, s.tenant, sw, a, 2, 0, base))
		},
		"a take whose reply is lost is recognised": func(s *scene) {
			a := newID()
			s.loseReply()
			s.want(true)(s.Locks.Take(s.ctx, s.tenant, sw, a, 1, 0, base))
			s.loseReply()
			s.want(true)(s.Locks.Take(s.ctx, s.tenant, sw, a, 2, 1, base))
			check(s, workflow.Lock{Owner: a, OwnerEpoch: 2, Token: 2, Rev: 2, Since: base.UnixMilli()})
		},
		"an older run's reservation stands": func(s *scene) {
			older, middle, younger := newID(), newID(), newID()
			s.want(true)(s.Locks.Take(s.ctx, s.tenant, sw, younger, 1, 0, base))
			s.want(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, aged(middle), ""))
			check(s, workflow.Lock{Owner: younger, OwnerEpoch: 1, Token: 1, Rev: 2, Since: base.UnixMilli(), Res: middle, ResAge: middle})
			s.want(false)(s.Locks.Reserve(s.ctx, s.tenant, sw, aged(younger), ""))
			s.want(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, aged(middle), ""))
			s.want(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, aged(older), ""))
			s.want(false)(s.Locks.Reserve(s.ctx, s.tenant, sw, aged(middle), middle))
			s.want(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, aged(younger), older)) // older was read as over
			if got := read(s); got.Res != younger || got.Owner != younger || got.Token != 1 {
				s.Errorf("got %+v", got)
			}
		},
		"a reservation raises the revision and survives a take": func(s *scene) {
			a, b := newID(), newID()
			s.want(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, aged(a), ""))
			check(s, workflow.Lock{Rev: 1, Res: a, ResAge: a})
			s.want(false)(s.Locks.Take(s.ctx, s.tenant, sw, b, 1, 0, base))
			s.want(true)(s.Locks.Take(s.ctx, s.tenant, sw, b, 1, 1, base))
			check(s, workflow.Lock{Owner: b, OwnerEpoch: 1, Token: 2, Rev: 2, Since: base.UnixMilli(), Res: a, ResAge: a})
		},
		"a reservation whose reply is lost is recognised": func(s *scene) {
			a := newID()
			s.loseReply()
			s.want(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, aged(a), ""))
			check(s, workflow.Lock{Rev: 1, Res: a, ResAge: a})
		},
		"the oldest of many reservations stands": func(s *scene) {
			ids := make([]string, racers)
			for i := range ids {
				ids[i] = newID()
			}
			s.race(func(i int) (bool, error) { return s.Locks.Reserve(s.ctx, s.tenant, sw, aged(ids[i]), "") })
			if got := read(s).Res; got != ids[0] {
				s.Errorf("%s has it, the oldest is %s", got, ids[0])
			}
		},
		"a revision is raised once, and the next token is beyond it": func(s *scene) {
			a, b := newID(), newID()
			s.want(true)(s.Locks.Raise(s.ctx, s.tenant, sw, 1000, 0))
			check(s, workflow.Lock{Rev: 1000})
			s.want(false)(s.Locks.Raise(s.ctx, s.tenant, sw, 2000, 999))
			s.want(true)(s.Locks.Take(s.ctx, s.tenant, sw, a, 1, 1000, base))
			s.want(false)(s.Locks.Raise(s.ctx, s.tenant, sw, 900, 1001)) // never down
			s.want(true)(s.Locks.Raise(s.ctx, s.tenant, sw, 2000, 1001))
			check(s, workflow.Lock{Owner: a, OwnerEpoch: 1, Token: 1001, Rev: 2000, Since: base.UnixMilli()})
			s.want(false)(s.Locks.Take(s.ctx, s.tenant, sw, b, 1, 1001, base))
			s.want(true)(s.Locks.Take(s.ctx, s.tenant, sw, b, 1, 2000, base))
		},
		"locks are read in numbers": func(s *scene) {
			a := newID()
			var keys []workflow.EntityKey
			for i := range 215 {
				keys = append(keys, workflow.EntityKey{Type: "device", ID: fmt.Sprint(i)})
				if i%3 == 0 {
					s.want(true)(s.Locks.Take(s.ctx, s.tenant, keys[i], a, 1, 0, base))
				}
			}
			locks := must[map[workflow.EntityKey]workflow.Lock](s)(s.Locks.Read(s.ctx, s.tenant, append(keys, keys[0])))
			for i, k := range keys {
				want := workflow.Lock{Entity: k}
				if i%3 == 0 {
					want = workflow.Lock{Entity: k, Owner: a, OwnerEpoch: 1, Token: 1, Rev: 1, Since: base.UnixMilli()}
				}
				if diff := cmp.Diff(want, locks[k]); diff != "" {
					s.Error(diff)
				}
			}
			if none := must[map[workflow.EntityKey]workflow.Lock](s)(s.Locks.Read(s.ctx, s.tenant+"2", keys[:1])); none[keys[0]].Rev != 0 {
				s.Errorf("another tenant's lock: %+v", none)
			}
		},
	})
}

// SharedLocks checks what a port.Locks makes of locks that are shared.
func SharedLocks(t *testing.T, open Open) {
	sw := workflow.EntityKey{Type: "device", ID: "sw-007"}
	read := func(s *scene) workflow.Lock {
		s.Helper()
		return must[map[workflow.EntityKey]workflow.Lock](s)(s.Locks.Read(s.ctx, s.tenant, []workflow.EntityKey{sw}))[sw]
	}
	at := func(id string, epoch int64) workflow.Sharer {
		return workflow.Sharer{Execution: id, Epoch: epoch, Now: base}
	}
	share := func(s *scene, want int64, by workflow.Sharer, keep map[string]workflow.Holder, seen int64) {
		s.Helper()
		token, ok, err := s.Locks.Share(s.ctx, s.tenant, sw, by, keep, seen)
		if s.want(want > 0)(ok, err); ok && token != want {
			s.Errorf("got token %d, want %d", token, want)
		}
	}
	join := func(s *scene, want int64, by workflow.Sharer, j workflow.Joining) {
		s.Helper()
		if j.Age == "" {
			j.Age = by.Execution
		}
		token, ok, err := s.Locks.Join(s.ctx, s.tenant, sw, by, j)
		if s.want(want > 0)(ok, err); ok && token != want {
			s.Errorf("got token %d, want %d", token, want)
		}
	}
	holders := func(s *scene, rev int64, want map[string]workflow.Holder) {
		s.Helper()
		got := read(s)
		if diff := cmp.Diff(want, got.Holders); diff != "" || got.Mode != workflow.LockShared || got.Owner != "" || got.Rev != rev {
			s.Errorf("%+v\n%s", got, diff)
		}
	}
	holder := func(epoch, token int64) workflow.Holder {
		return workflow.Holder{Epoch: epoch, Token: token, Since: base.UnixMilli()}
	}
	each(t, open, map[string]func(s *scene){
		"a lock is shared and held alone in turns": func(s *scene) {
			a, b, c := newID(), newID(), newID()
			join(s, 0, at(a, 1), workflow.Joining{}) // there is nothing to join
			share(s, 1, at(a, 1), nil, 0)
			share(s, 0, at(b, 1), nil, 0)
			holders(s, 1, map[string]workflow.Holder{a: holder(1, 1)})
			s.want(false)(s.Locks.Take(s.ctx, s.tenant, sw, c, 1, 0, base))
			s.want(true)(s.Locks.Take(s.ctx, s.tenant, sw, c, 1, 1, base))
			if diff := cmp.Diff(workflow.Lock{Entity: sw, Owner: c, OwnerEpoch: 1, Token: 2, Rev: 2, Since: base.UnixMilli()}, read(s)); diff != "" {
				s.Error(diff)
			}
			join(s, 0, at(a, 1), workflow.Joining{})
			share(s, 3, at(a, 2), nil, 2)
			holders(s, 3, map[string]workflow.Holder{a: holder(2, 3)})
		},
		"a join needs no revision and raises it": func(s *scene) {
			a, b, c := newID(), newID(), newID()
			share(s, 1, at(a, 1), nil, 0)
			join(s, 2, at(b, 4), workflow.Joining{})
			holders(s, 2, map[string]workflow.Holder{a: holder(1, 1), b: holder(4, 2)})
			s.want(false)(s.Locks.Take(s.ctx, s.tenant, sw, c, 1, 1, base)) // whoever has read before the join
			if got := read(s); got.Token != 2 {
				s.Errorf("the last token is %d", got.Token)
			}
		},
		"many join at a time": func(s *scene) {
			share(s, 1, at(newID(), 1), nil, 0)
			ids := make([]string, racers)
			for i := range ids {
				ids[i] = newID()
			}
			won := s.race(func(i int) (bool, error) {
				_, ok, err := s.Locks.Join(s.ctx, s.tenant, sw, at(ids[i], 1), workflow.Joining{Age: ids[i]})
				return ok, err
			})
			got := read(s)
			tokens := map[int64]bool{}
			for _, h := range got.Holders {
				tokens[h.Token] = true
			}
			if len(won) != racers || len(tokens) != racers+1 || got.Rev != racers+1 {
				s.Errorf("%d of %d have joined: %+v", len(won), racers, got)
			}
		},
		"an entry of a later epoch is not written over": func(s *scene) {
			a, b := newID(), newID()
			share(s, 1, at(b, 1), nil, 0)
			join(s, 2, at(a, 3), workflow.Joining{})
			join(s, 0, at(a, 2), workflow.Joining{})
			join(s, 3, at(a, 4), workflow.Joining{})
			holders(s, 3, map[string]workflow.Holder{b: holder(1, 1), a: holder(4, 3)})
		},
		"all handlers of one run at one epoch have one token": func(s *scene) {
			a, b := newID(), newID()
			share(s, 1, at(a, 1), nil, 0)
			share(s, 1, at(a, 1), nil, 0)
			join(s, 1, at(a, 1), workflow.Joining{})
			join(s, 2, at(b, 1), workflow.Joining{})
			join(s, 2, at(b, 1), workflow.Joining{})
			share(s, 1, at(a, 1), nil, 1)
			holders(s, 2, map[string]workflow.Holder{a: holder(1, 1), b: holder(1, 2)})
		},
		"a share and a join whose replies are lost are recognised": func(s *scene) {
			a, b := newID(), newID()
			s.loseReply()
			share(s, 1, at(a, 1), nil, 0)
			s.loseReply()
			join(s, 2, at(b, 1), workflow.Joining{})
			holders(s, 2, map[string]workflow.Holder{a: holder(1, 1), b: holder(1, 2)})
		},
		"an older run's reservation keeps others from joining": func(s *scene) {
			older, middle, younger := newID(), newID(), newID()
			share(s, 1, at(newID(), 1), nil, 0)
			s.want(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, aged(middle), ""))
			join(s, 0, at(younger, 1), workflow.Joining{})
			join(s, 3, at(older, 1), workflow.Joining{})
			join(s, 4, at(middle, 1), workflow.Joining{})
			join(s, 0, at(younger, 1), workflow.Joining{Void: older})
			join(s, 5, at(younger, 1), workflow.Joining{Void: middle})
			join(s, 6, at(newID(), 1), workflow.Joining{Age: middle}) // of the reserver's own kin
		},
		"the dead are removed only as they were read": func(s *scene) {
			a, b, c, d := newID(), newID(), newID(), newID()
			share(s, 1, at(a, 1), nil, 0)
			join(s, 2, at(b, 1), workflow.Joining{})
			join(s, 0, at(c, 1), workflow.Joining{Dead: map[string]int64{a: 1, b: 2}})
			holders(s, 2, map[string]workflow.Holder{a: holder(1, 1), b: holder(1, 2)})
			join(s, 3, at(c, 1), workflow.Joining{Dead: map[string]int64{a: 1, newID(): 7}})
			holders(s, 3, map[string]workflow.Holder{b: holder(1, 2), c: holder(1, 3)})
			share(s, 0, at(d, 1), nil, 2)
			share(s, 4, at(d, 1), map[string]workflow.Holder{c: holder(1, 3)}, 3)
			holders(s, 4, map[string]workflow.Holder{c: holder(1, 3), d: holder(1, 4)})
		},
		"the holders are bounded": func(s *scene) {
			share(s, 1, at(newID(), 1), nil, 0)
			for i := range workflow.MaxHolders - 1 {
				join(s, int64(i)+2, at(newID(), 1), workflow.Joining{})
			}
			join(s, 0, at(newID(), 1), workflow.Joining{})
			if n := len(read(s).Holders); n != workflow.MaxHolders {
				s.Errorf("%d holders", n)
			}
		},
	})
}

// aged is a reservation by a run that nobody has started.
func aged(id string) workflow.Reservation { return workflow.Reservation{Execution: id, Age: id} }
