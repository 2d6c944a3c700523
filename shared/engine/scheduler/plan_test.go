package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/engine/scheduler"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// createDue creates n executions whose timers are due from at on, a millisecond apart.
func createDue(t *testing.T, s *harness.Harness, tenant string, n int, at time.Time) {
	t.Helper()
	for i := range n {
		x := &workflow.Execution{
			Schema: 1, Tenant: tenant, ID: fmt.Sprintf("%s-%04d", tenant, i), State: sm.ExecutionScheduled, Version: 1, Commit: "c",
			DueAt: at.Add(time.Duration(i) * time.Millisecond),
		}
		if ok, err := s.Open().Store.Create(t.Context(), x); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
}

// putWorker stores an ONLINE worker with its last heartbeat.
func putWorker(t *testing.T, s *harness.Harness, tenant, id string, lastSeen time.Time) {
	t.Helper()
	w := &workflow.Worker{Tenant: tenant, ID: id, State: sm.WorkerOnline, LastSeenAt: lastSeen, DueAt: lastSeen.Add(harness.LivenessTimeouts.Unreachable)}
	if ok, err := s.Open().Workers.PutWorker(t.Context(), nil, w); !ok || err != nil {
		t.Fatal(ok, err)
	}
}

func planSweep(t *testing.T, s *harness.Harness, tenant string) views.SweepView {
	t.Helper()
	v, err := scheduler.PlanSweep(t.Context(), s.Engine, harness.LivenessTimeouts, s.Shards, tenant)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A plan reports what the sweep then does, for one tenant or for all. It neither writes
// nor sends, so it can be repeated.
func TestPlanSweep_MatchesSweep(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.Publish("night", "cron: {schedule: \"0 4 * * *\"}\nsteps:\n  - {label: go, functionBlock: p/pure:1, runOn: global}\n")
	s.RunFor(5 * time.Hour)
	for _, tenant := range []string{harness.Caller.Tenant, "other"} {
		createDue(t, s, tenant, 2, s.Now().Add(-time.Minute))
		putWorker(t, s, tenant, "offline", s.Now().Add(-10*time.Minute))
		putWorker(t, s, tenant, "unreachable", s.Now().Add(-3*time.Minute))
		putWorker(t, s, tenant, "online", s.Now())
	}
	for range 2 {
		v := planSweep(t, s, harness.Caller.Tenant)
		if len(v.Executions) != 2 || v.Executions[0].Execution != harness.Caller.Tenant+"-0000" || v.Executions[0].State != sm.ExecutionScheduled || !v.Executions[0].Since.Equal(s.Now().Add(-time.Minute)) {
			t.Errorf("executions: %+v", v.Executions)
		}
		if len(v.Workers) != 2 || v.Workers[0].Worker != "offline" || v.Workers[0].NextState != sm.WorkerOffline || v.Workers[1].NextState != sm.WorkerUnreachable || v.Workers[1].State != sm.WorkerOnline {
			t.Errorf("workers: %+v", v.Workers)
		} else if !v.Workers[0].Since.Equal(s.Now().Add(-8*time.Minute)) || !v.Workers[1].Since.Equal(s.Now().Add(-time.Minute)) { // UNREACHABLE was due two minutes after the heartbeat
			t.Errorf("workers: due since %s and %s", v.Workers[0].Since, v.Workers[1].Since)
		}
		at := sim.StartTime.Add(4 * time.Hour)
		if len(v.Schedules) != 1 || v.Schedules[0].Skipped || !v.Schedules[0].FireTime.Equal(at) || v.Schedules[0].ExecutionID == nil || *v.Schedules[0].ExecutionID != scheduler.ExecutionID(harness.Caller.Tenant, "p/night", at, 0) {
			t.Errorf("schedules: %+v", v.Schedules)
		}
		if !v.Complete || !v.AsOf.Equal(s.Now()) {
			t.Errorf("complete %v, as of %s", v.Complete, v.AsOf)
		}
		if all := planSweep(t, s, ""); len(all.Executions) != 4 || len(all.Workers) != 4 || len(all.Schedules) != 1 {
			t.Errorf("all tenants: %+v", all)
		}
	}
	if _, sent := s.LifecycleQueue().Receive(0); sent {
		t.Error("planning sent a message")
	}
	swept, err := scheduler.Sweep(t.Context(), s.Engine, harness.LivenessTimeouts, s.Shards)
	if err != nil || swept.WakeupsSent != 4 || swept.WorkersChanged != 4 || swept.ExecutionsStarted != 1 {
		t.Errorf("swept %+v, %v", swept, err)
	}
	if v := planSweep(t, s, ""); len(v.Workers) != 0 || len(v.Schedules) != 0 {
		t.Errorf("plan after the sweep: %+v", v)
	}
}

// A plan reads the executions themselves, since the index may lag behind them.
func TestPlanSweep_ReadsStoredState(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	createDue(t, s, "t", 2, s.Now().Add(-time.Minute))
	stale := *s.Engine
	stale.OpenPorts = func() port.Ports {
		ports := s.Engine.OpenPorts()
		ports.Store = laggingStore{ports.Store, workflow.Wakeup{Tenant: "t", Execution: "t-0001", DueAt: s.Now().Add(-time.Minute)}}
		return ports
	}
	store := s.Open().Store
	x, err := store.Load(t.Context(), "t", "t-0001")
	if err != nil {
		t.Fatal(err)
	}
	next := x.Clone()
	next.Version, next.Commit, next.DueAt = 2, "d", s.Now().Add(time.Hour)
	if _, ok, err := store.Commit(t.Context(), 1, next, workflow.CommitOptions{}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	v, err := scheduler.PlanSweep(t.Context(), &stale, harness.LivenessTimeouts, s.Shards, "")
	if err != nil || len(v.Executions) != 1 || v.Executions[0].Execution != "t-0000" {
		t.Errorf("plan %+v, %v", v.Executions, err)
	}
}

// laggingStore is a store whose index still has an old timer.
type laggingStore struct {
	port.Store
	stale workflow.Wakeup
}

func (l laggingStore) DueExecutions(ctx context.Context, shard int, since, now time.Time, page workflow.Page) (workflow.List[workflow.Wakeup], error) {
	list, err := l.Store.DueExecutions(ctx, shard, since, now, page)
	if shard == 0 && page.Token == "" {
		list.Items = append(list.Items, l.stale)
	}
	return list, err
}

// endlessStore is a store with more due executions than any sweep can read. It counts the
// pages, and records the largest limit.
type endlessStore struct {
	port.Store
	now             time.Time
	pages, maxLimit *int
}

func (e endlessStore) DueExecutions(_ context.Context, _ int, _, _ time.Time, page workflow.Page) (list workflow.List[workflow.Wakeup], err error) {
	for i := range page.Limit {
		list.Items = append(list.Items, workflow.Wakeup{Tenant: "t", Execution: fmt.Sprintf("x%03d%03d", *e.pages, i), DueAt: e.now})
	}
	*e.pages, *e.maxLimit = *e.pages+1, max(*e.maxLimit, page.Limit)
	list.NextToken = "more"
	return list, nil
}

func (e endlessStore) LoadMany(_ context.Context, tenant string, ids []string) (found []*workflow.Execution, newer []string, err error) {
	for _, id := range ids {
		found = append(found, &workflow.Execution{Tenant: tenant, ID: id, State: sm.ExecutionScheduled, DueAt: e.now})
	}
	return found, nil, nil
}

// A sweep reads a bounded number of pages of bounded size. A plan lists the first 200
// executions, and reports that it is incomplete.
func TestSweep_IsBounded(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	pages, maxLimit := 0, 0
	busy := *s.Engine
	busy.OpenPorts = func() port.Ports {
		ports := s.Engine.OpenPorts()
		ports.Store = endlessStore{ports.Store, s.Now(), &pages, &maxLimit}
		return ports
	}
	v, err := scheduler.PlanSweep(t.Context(), &busy, harness.LivenessTimeouts, 1, "")
	if err != nil || v.Complete || len(v.Executions) != 200 || v.Executions[0].Execution != "x000000" || pages != 20 {
		t.Errorf("planned %d executions from %d pages, complete %v, %v", len(v.Executions), pages, v.Complete, err)
	}
	pages, maxLimit = 0, 0
	swept, err := scheduler.Sweep(t.Context(), &busy, harness.LivenessTimeouts, 1)
	if err != nil || swept.WakeupsSent != 2000 || pages != 20 || maxLimit != 100 {
		t.Errorf("swept %+v in %d pages of at most %d, %v", swept, pages, maxLimit, err)
	}
}
