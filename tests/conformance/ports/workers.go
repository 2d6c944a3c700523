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
	worker := func(s *fixture, id string, state statemachines.WorkerState) *workflow.Worker {
		return &workflow.Worker{
			Tenant: s.tenant, ID: id, State: state, Pool: "edge", Blocks: []string{"fleet/upgrade:1", "fleet/report"}, Version: "2.1",
			RegisteredAt: baseTime, LastSeenAt: baseTime, DueAt: baseTime.Add(2 * time.Minute),
		}
	}
	check := func(s *fixture, id string, want *workflow.Worker) {
		s.Helper()
		if diff := cmp.Diff(want, must[*workflow.Worker](s)(s.Workers.Worker(s.ctx, s.tenant, id))); diff != "" {
			s.Error(diff)
		}
	}
	// due lists the tenant's workers in the index.
	due := func(s *fixture, now time.Time, limit int) (ids []string) {
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
				if page.Token = list.NextToken; page.Token == "" {
					break
				}
			}
		}
		slices.Sort(ids)
		return ids
	}
	runParallel(t, open, map[string]func(s *fixture){
		"a worker is created once and changes only as it was read": func(s *fixture) {
			check(s, "w1", nil)
			w := worker(s, "w1", statemachines.WorkerRegistered)
			s.oneWinner(func(int) (bool, error) { return s.Workers.PutWorker(s.ctx, nil, w) })
			check(s, "w1", w)
			heard, other := *w, *w
			heard.LastSeenAt, other.State = baseTime.Add(time.Second), statemachines.WorkerOnline
			next := worker(s, "w1", statemachines.WorkerUnreachable)
			next.LastSeenAt, next.DueAt = baseTime.Add(time.Minute), baseTime.Add(time.Hour)
			s.wantApplied(false)(s.Workers.PutWorker(s.ctx, &heard, next))
			s.wantApplied(false)(s.Workers.PutWorker(s.ctx, &other, next))
			s.wantApplied(false)(s.Workers.PutWorker(s.ctx, nil, next))
			check(s, "w1", w)
			s.wantApplied(true)(s.Workers.PutWorker(s.ctx, w, next))
			check(s, "w1", next)
		},
		"a heartbeat is applied only to a worker in its state (R24)": func(s *fixture) {
			ok, old, err := s.Workers.Heartbeat(s.ctx, s.tenant, "w1", statemachines.WorkerOnline, baseTime, nil)
			if s.wantApplied(false)(ok, err); old != nil {
				s.Errorf("found %+v", old)
			}
			w := worker(s, "w1", statemachines.WorkerUnreachable)
			s.wantApplied(true)(s.Workers.PutWorker(s.ctx, nil, w))
			ok, old, err = s.Workers.Heartbeat(s.ctx, s.tenant, "w1", statemachines.WorkerOnline, baseTime.Add(time.Second), nil)
			s.wantApplied(false)(ok, err)
			if diff := cmp.Diff(w, old); diff != "" {
				s.Error(diff)
			}
			online := worker(s, "w1", statemachines.WorkerOnline)
			s.wantApplied(true)(s.Workers.PutWorker(s.ctx, w, online))
			ok, _, err = s.Workers.Heartbeat(s.ctx, s.tenant, "w1", statemachines.WorkerOnline, baseTime.Add(time.Second), nil)
			s.wantApplied(true)(ok, err)
			online.LastSeenAt = baseTime.Add(time.Second)
			check(s, "w1", online)
			ok, old, err = s.Workers.Heartbeat(s.ctx, s.tenant, "w1", statemachines.WorkerDraining, baseTime.Add(time.Second), nil)
			if s.wantApplied(false)(ok, err); old == nil || old.State != statemachines.WorkerOnline {
				s.Errorf("found %+v", old)
			}
			// A sweeper that read it earlier changes nothing.
			stale := *online
			stale.LastSeenAt = baseTime
			s.wantApplied(false)(s.Workers.PutWorker(s.ctx, &stale, worker(s, "w1", statemachines.WorkerUnreachable)))
			check(s, "w1", online)
		},
		"claimed packs are recorded": func(s *fixture) {
			a, b := s.newStepRunKey().Pack(0, 1).ClaimedPack(), s.newStepRunKey().Pack(1, 2).ClaimedPack()
			s.noError(s.Workers.AddClaimedPack(s.ctx, s.tenant, "w1", a))
			check(s, "w1", nil)
			w := worker(s, "w1", statemachines.WorkerOnline)
			s.wantApplied(true)(s.Workers.PutWorker(s.ctx, nil, w))
			for range 2 {
				s.noError(s.Workers.AddClaimedPack(s.ctx, s.tenant, "w1", a))
				s.noError(s.Workers.AddClaimedPack(s.ctx, s.tenant, "w1", b))
			}
			w.ClaimedPacks = []workflow.ClaimedPack{a, b}
			slices.Sort(w.ClaimedPacks)
			check(s, "w1", w)
			if l := a.Wakeup(); l.Tenant != s.tenant || l.Execution == "" {
				s.Errorf("wake-up of %q is %+v", a, l)
			}
			s.wantApplied(true)(s.Workers.PutWorker(s.ctx, w, w)) // a sweeper keeps them
			s.noError(s.Workers.RemoveClaimedPack(s.ctx, s.tenant, "w1", a))
			s.noError(s.Workers.RemoveClaimedPack(s.ctx, s.tenant, "w1", a))
			w.ClaimedPacks = []workflow.ClaimedPack{b}
			check(s, "w1", w)
			heartbeat := func(held []workflow.ClaimedPack) {
				s.Helper()
				ok, _, err := s.Workers.Heartbeat(s.ctx, s.tenant, "w1", statemachines.WorkerOnline, baseTime, held)
				s.wantApplied(true)(ok, err)
			}
			heartbeat(nil)
			check(s, "w1", w)
			heartbeat([]workflow.ClaimedPack{a})
			w.ClaimedPacks = []workflow.ClaimedPack{a}
			check(s, "w1", w)
			heartbeat([]workflow.ClaimedPack{})
			w.ClaimedPacks = nil
			check(s, "w1", w)
			heartbeat([]workflow.ClaimedPack{a})
			s.wantApplied(true)(s.Workers.PutWorker(s.ctx, w, w)) // the worker has none, so they are removed
			check(s, "w1", w)
		},
		"lists have pages and no removed workers": func(s *fixture) {
			var want []string
			for i := range 7 {
				w := worker(s, fmt.Sprintf("w%d", i), statemachines.WorkerOnline)
				if i == 3 {
					w.State, w.DueAt = statemachines.WorkerRemoved, time.Time{}
				} else {
					want = append(want, w.ID)
				}
				s.wantApplied(true)(s.Workers.PutWorker(s.ctx, nil, w))
			}
			for limit := 1; limit < 9; limit++ {
				var got []string
				page := workflow.Page{Limit: limit}
				for {
					list := must[workflow.List[workflow.Worker]](s)(s.Workers.Workers(s.ctx, s.tenant, page))
					if len(list.Items) > limit {
						s.Fatalf("%d workers on a page of %d", len(list.Items), limit)
					}
					for _, w := range list.Items {
						got = append(got, w.ID)
					}
					if page.Token = list.NextToken; page.Token == "" {
						break
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					s.Errorf("in pages of %d: %s", limit, diff)
				}
			}
			_, err := s.Workers.Workers(s.ctx, s.tenant, workflow.Page{Token: "!"})
			s.wantCode(err, workflow.CodeInvalid)
		},
		"the index has the workers that are due": func(s *fixture) {
			for i := range 6 {
				w := worker(s, fmt.Sprintf("w%d", i), statemachines.WorkerOnline)
				w.DueAt = baseTime.Add(time.Duration(i) * time.Minute)
				s.wantApplied(true)(s.Workers.PutWorker(s.ctx, nil, w))
			}
			for _, limit := range []int{1, 2, 100} {
				if diff := cmp.Diff([]string{"w0", "w1", "w2"}, due(s, baseTime.Add(2*time.Minute), limit)); diff != "" {
					s.Errorf("in pages of %d: %s", limit, diff)
				}
			}
			w0 := must[*workflow.Worker](s)(s.Workers.Worker(s.ctx, s.tenant, "w0"))
			removed := *w0
			removed.State, removed.DueAt = statemachines.WorkerRemoved, time.Time{}
			s.wantApplied(true)(s.Workers.PutWorker(s.ctx, w0, &removed))
			check(s, "w0", &removed)
			if diff := cmp.Diff([]string{"w1", "w2"}, due(s, baseTime.Add(2*time.Minute), 100)); diff != "" {
				s.Error(diff)
			}
		},
	})
}
