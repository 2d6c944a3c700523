package ports

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Workers checks a port.Workers.
func Workers(t *testing.T, open Open) {
	worker := func(s *scene, id string, state statemachines.WorkerState) *workflow.Worker {
		return &workflow.Worker{
			Tenant: s.tenant, ID: id, State: state, Pool: "edge", Blocks: []string{"fleet/upgrade:1", "fleet/report"}, Version: "2.1",
			RegisteredAt: base, Heard: base, DueAt: base.Add(2 * time.Minute),
		}
	}
	check := func(s *scene, id string, want *workflow.Worker) {
		s.Helper()
		if diff := cmp.Diff(want, must[*workflow.Worker](s)(s.Workers.Worker(s.ctx, s.tenant, id))); diff != "" {
			s.Error(diff)
		}
	}
	// due are the tenant's workers that the index shows.
	due := func(s *scene, now time.Time, limit int) (ids []string) {
		s.Helper()
		for shard := range topology.DueShards {
			page := workflow.Page{Limit: limit}
			for {
				list := must[workflow.List[workflow.Worker]](s)(s.Workers.DueWorkers(s.ctx, shard, now, page))
				for _, w := range list.Items {
					if w.Tenant == s.tenant {
						ids = append(ids, w.ID)
					}
				}
				if page.Token = list.Next; page.Token == "" {
					break
				}
			}
		}
		slices.Sort(ids)
		return ids
	}
	each(t, open, map[string]func(s *scene){
		"a worker comes to be once, and changes as it was seen": func(s *scene) {
			check(s, "w1", nil)
			w := worker(s, "w1", statemachines.WorkerRegistered)
			s.oneWinner(func(int) (bool, error) { return s.Workers.PutWorker(s.ctx, nil, w) })
			check(s, "w1", w)
			heard, other := *w, *w
			heard.Heard, other.State = base.Add(time.Second), statemachines.WorkerOnline
			next := worker(s, "w1", statemachines.WorkerUnreachable)
			next.Heard, next.DueAt = base.Add(time.Minute), base.Add(time.Hour)
			s.want(false)(s.Workers.PutWorker(s.ctx, &heard, next))
			s.want(false)(s.Workers.PutWorker(s.ctx, &other, next))
			s.want(false)(s.Workers.PutWorker(s.ctx, nil, next))
			check(s, "w1", w)
			s.want(true)(s.Workers.PutWorker(s.ctx, w, next))
			check(s, "w1", next)
		},
		"only who is ONLINE beats without being judged (R24)": func(s *scene) {
			ok, old, err := s.Workers.Beat(s.ctx, s.tenant, "w1", base, nil)
			if s.want(false)(ok, err); old != nil {
				s.Errorf("found %+v", old)
			}
			w := worker(s, "w1", statemachines.WorkerUnreachable)
			s.want(true)(s.Workers.PutWorker(s.ctx, nil, w))
			ok, old, err = s.Workers.Beat(s.ctx, s.tenant, "w1", base.Add(time.Second), nil)
			s.want(false)(ok, err)
			if diff := cmp.Diff(w, old); diff != "" {
				s.Error(diff)
			}
			online := worker(s, "w1", statemachines.WorkerOnline)
			s.want(true)(s.Workers.PutWorker(s.ctx, w, online))
			ok, _, err = s.Workers.Beat(s.ctx, s.tenant, "w1", base.Add(time.Second), nil)
			s.want(true)(ok, err)
			online.Heard = base.Add(time.Second)
			check(s, "w1", online)
			// A sweeper that read it before changes nothing.
			stale := *online
			stale.Heard = base
			s.want(false)(s.Workers.PutWorker(s.ctx, &stale, worker(s, "w1", statemachines.WorkerUnreachable)))
			check(s, "w1", online)
		},
		"the packs that it holds": func(s *scene) {
			a, b := s.run().Pack(0, 1).Held(), s.run().Pack(1, 2).Held()
			s.ok(s.Workers.Hold(s.ctx, s.tenant, "w1", a))
			check(s, "w1", nil)
			w := worker(s, "w1", statemachines.WorkerOnline)
			s.want(true)(s.Workers.PutWorker(s.ctx, nil, w))
			for range 2 {
				s.ok(s.Workers.Hold(s.ctx, s.tenant, "w1", a))
				s.ok(s.Workers.Hold(s.ctx, s.tenant, "w1", b))
			}
			w.Held = []workflow.HeldPack{a, b}
			slices.Sort(w.Held)
			check(s, "w1", w)
			if l := a.Look(); l.Tenant != s.tenant || l.Execution == "" {
				s.Errorf("%q asks for a look at %+v", a, l)
			}
			s.want(true)(s.Workers.PutWorker(s.ctx, w, w)) // a sweeper does not touch them
			s.ok(s.Workers.Drop(s.ctx, s.tenant, "w1", a))
			s.ok(s.Workers.Drop(s.ctx, s.tenant, "w1", a))
			w.Held = []workflow.HeldPack{b}
			check(s, "w1", w)
			beat := func(held []workflow.HeldPack) {
				s.Helper()
				ok, _, err := s.Workers.Beat(s.ctx, s.tenant, "w1", base, held)
				s.want(true)(ok, err)
			}
			beat(nil)
			check(s, "w1", w)
			beat([]workflow.HeldPack{a})
			w.Held = []workflow.HeldPack{a}
			check(s, "w1", w)
			beat([]workflow.HeldPack{})
			w.Held = nil
			check(s, "w1", w)
			beat([]workflow.HeldPack{a})
			s.want(true)(s.Workers.PutWorker(s.ctx, w, w)) // it names none: they go
			check(s, "w1", w)
		},
		"lists in pages, without removed ones": func(s *scene) {
			var want []string
			for i := range 7 {
				w := worker(s, fmt.Sprintf("w%d", i), statemachines.WorkerOnline)
				if i == 3 {
					w.State, w.DueAt = statemachines.WorkerRemoved, time.Time{}
				} else {
					want = append(want, w.ID)
				}
				s.want(true)(s.Workers.PutWorker(s.ctx, nil, w))
			}
			for limit := 1; limit < 9; limit++ {
				var got []string
				page := workflow.Page{Limit: limit}
				for {
					list := must[workflow.List[workflow.Worker]](s)(s.Workers.Workers(s.ctx, s.tenant, page))
					if len(list.Items) > limit {
						s.Fatalf("%d on a page of %d", len(list.Items), limit)
					}
					for _, w := range list.Items {
						got = append(got, w.ID)
					}
					if page.Token = list.Next; page.Token == "" {
						break
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					s.Errorf("by %d: %s", limit, diff)
				}
			}
			_, err := s.Workers.Workers(s.ctx, s.tenant, workflow.Page{Token: "!"})
			s.code(err, workflow.CodeInvalid)
		},
		"the index shows who is due": func(s *scene) {
			for i := range 6 {
				w := worker(s, fmt.Sprintf("w%d", i), statemachines.WorkerOnline)
				w.DueAt = base.Add(time.Duration(i) * time.Minute)
				s.want(true)(s.Workers.PutWorker(s.ctx, nil, w))
			}
			for _, limit := range []int{1, 2, 100} {
				if diff := cmp.Diff([]string{"w0", "w1", "w2"}, due(s, base.Add(2*time.Minute), limit)); diff != "" {
					s.Errorf("by %d: %s", limit, diff)
				}
			}
			w0 := must[*workflow.Worker](s)(s.Workers.Worker(s.ctx, s.tenant, "w0"))
			gone := *w0
			gone.State, gone.DueAt = statemachines.WorkerRemoved, time.Time{}
			s.want(true)(s.Workers.PutWorker(s.ctx, w0, &gone))
			check(s, "w0", &gone)
			if diff := cmp.Diff([]string{"w1", "w2"}, due(s, base.Add(2*time.Minute), 100)); diff != "" {
				s.Error(diff)
			}
		},
	})
}
