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
			s.want(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, middle, ""))
			check(s, workflow.Lock{Owner: younger, OwnerEpoch: 1, Token: 1, Rev: 2, Since: base.UnixMilli(), Res: middle})
			s.want(false)(s.Locks.Reserve(s.ctx, s.tenant, sw, younger, ""))
			s.want(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, middle, ""))
			s.want(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, older, ""))
			s.want(false)(s.Locks.Reserve(s.ctx, s.tenant, sw, middle, middle))
			s.want(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, younger, older)) // older was read as over
			if got := read(s); got.Res != younger || got.Owner != younger || got.Token != 1 {
				s.Errorf("got %+v", got)
			}
		},
		"a reservation raises the revision and survives a take": func(s *scene) {
			a, b := newID(), newID()
			s.want(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, a, ""))
			check(s, workflow.Lock{Rev: 1, Res: a})
			s.want(false)(s.Locks.Take(s.ctx, s.tenant, sw, b, 1, 0, base))
			s.want(true)(s.Locks.Take(s.ctx, s.tenant, sw, b, 1, 1, base))
			check(s, workflow.Lock{Owner: b, OwnerEpoch: 1, Token: 2, Rev: 2, Since: base.UnixMilli(), Res: a})
		},
		"a reservation whose reply is lost is recognised": func(s *scene) {
			a := newID()
			s.loseReply()
			s.want(true)(s.Locks.Reserve(s.ctx, s.tenant, sw, a, ""))
			check(s, workflow.Lock{Rev: 1, Res: a})
		},
		"the oldest of many reservations stands": func(s *scene) {
			ids := make([]string, racers)
			for i := range ids {
				ids[i] = newID()
			}
			s.race(func(i int) (bool, error) { return s.Locks.Reserve(s.ctx, s.tenant, sw, ids[i], "") })
			if got := read(s).Res; got != ids[0] {
				s.Errorf("%s has it, the oldest is %s", got, ids[0])
			}
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
