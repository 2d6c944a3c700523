package sweep_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/calendar"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/engine/sweep"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// due puts executions there whose alarm rings at a moment.
func due(t *testing.T, s *stage.Stage, tenant string, n int, at time.Time) {
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

func silent(t *testing.T, s *stage.Stage, tenant, id string, heard time.Time) {
	t.Helper()
	w := &workflow.Worker{Tenant: tenant, ID: id, State: sm.WorkerOnline, Heard: heard, DueAt: heard.Add(stage.Silence.Unreachable)}
	if ok, err := s.Open().Workers.PutWorker(t.Context(), nil, w); !ok || err != nil {
		t.Fatal(ok, err)
	}
}

func plan(t *testing.T, s *stage.Stage, tenant string) views.SweepView {
	t.Helper()
	v, err := sweep.Plan(t.Context(), s.Engine, stage.Silence, s.Shards, tenant)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A plan is what the sweep then does, of one tenant or of all; it writes and sends
// nothing, so that it can be asked for again and again.
func TestPlanIsWhatASweepDoes(t *testing.T) {
	s := stage.New(t, 1, stage.Options())
	s.Blocks()
	s.Publish("night", "cron: {schedule: \"0 4 * * *\"}\nsteps:\n  - {label: go, functionBlock: p/pure:1, runOn: global}\n")
	s.Tick(5 * time.Hour)
	for _, tenant := range []string{stage.Caller.Tenant, "other"} {
		due(t, s, tenant, 2, s.Now().Add(-time.Minute))
		silent(t, s, tenant, "gone", s.Now().Add(-10*time.Minute))
		silent(t, s, tenant, "quiet", s.Now().Add(-3*time.Minute))
		silent(t, s, tenant, "here", s.Now())
	}
	for range 2 {
		v := plan(t, s, stage.Caller.Tenant)
		if len(v.Executions) != 2 || v.Executions[0].Execution != stage.Caller.Tenant+"-0000" || v.Executions[0].State != sm.ExecutionScheduled || !v.Executions[0].Since.Equal(s.Now().Add(-time.Minute)) {
			t.Errorf("executions: %+v", v.Executions)
		}
		if len(v.Workers) != 2 || v.Workers[0].Worker != "gone" || v.Workers[0].Becomes != sm.WorkerOffline || v.Workers[1].Becomes != sm.WorkerUnreachable || v.Workers[1].State != sm.WorkerOnline {
			t.Errorf("workers: %+v", v.Workers)
		}
		at := sim.Dawn.Add(4 * time.Hour)
		if len(v.Schedules) != 1 || v.Schedules[0].Skipped || !v.Schedules[0].Moment.Equal(at) || v.Schedules[0].Run == nil || *v.Schedules[0].Run != calendar.ID(stage.Caller.Tenant, "p/night", at, 0) {
			t.Errorf("schedules: %+v", v.Schedules)
		}
		if !v.Complete || !v.AsOf.Equal(s.Now()) {
			t.Errorf("complete %v, as of %s", v.Complete, v.AsOf)
		}
		if all := plan(t, s, ""); len(all.Executions) != 4 || len(all.Workers) != 4 || len(all.Schedules) != 1 {
			t.Errorf("of all tenants: %+v", all)
		}
	}
	if _, sent := s.Lifecycle().Receive(0); sent {
		t.Error("a plan sends messages")
	}
	swept, err := sweep.Run(t.Context(), s.Engine, stage.Silence, s.Shards)
	if err != nil || swept.Due != 4 || swept.Workers != 4 || swept.Fired != 1 {
		t.Errorf("swept %+v, %v", swept, err)
	}
	if v := plan(t, s, ""); len(v.Workers) != 0 || len(v.Schedules) != 0 {
		t.Errorf("planned after the sweep: %+v", v)
	}
}

// The plan reads the executions themselves: the index may lag behind them.
func TestPlanReadsWhatStands(t *testing.T) {
	s := stage.New(t, 1, stage.Options())
	due(t, s, "t", 2, s.Now().Add(-time.Minute))
	stale := *s.Engine
	stale.Open = func() port.Ports {
		ports := s.Engine.Open()
		ports.Store = lagging{ports.Store, workflow.Look{Tenant: "t", Execution: "t-0001", DueAt: s.Now().Add(-time.Minute)}}
		return ports
	}
	store := s.Open().Store
	x, err := store.Load(t.Context(), "t", "t-0001")
	if err != nil {
		t.Fatal(err)
	}
	next := x.Clone()
	next.Version, next.Commit, next.DueAt = 2, "d", s.Now().Add(time.Hour)
	if _, ok, err := store.Commit(t.Context(), 1, next, false); !ok || err != nil {
		t.Fatal(ok, err)
	}
	v, err := sweep.Plan(t.Context(), &stale, stage.Silence, s.Shards, "")
	if err != nil || len(v.Executions) != 1 || v.Executions[0].Execution != "t-0000" {
		t.Errorf("planned %+v, %v", v.Executions, err)
	}
}

// lagging is a store whose index still has an alarm that has moved.
type lagging struct {
	port.Store
	still workflow.Look
}

func (l lagging) Due(ctx context.Context, shard int, since, now time.Time, page workflow.Page) (workflow.List[workflow.Look], error) {
	list, err := l.Store.Due(ctx, shard, since, now, page)
	if shard == 0 && page.Token == "" {
		list.Items = append(list.Items, l.still)
	}
	return list, err
}

// endless is a store in which more is due than any sweep can do. It counts the pages
// that are read, and the most that one is asked for.
type endless struct {
	port.Store
	now         time.Time
	pages, most *int
}

func (e endless) Due(_ context.Context, _ int, _, _ time.Time, page workflow.Page) (list workflow.List[workflow.Look], err error) {
	for i := range page.Limit {
		list.Items = append(list.Items, workflow.Look{Tenant: "t", Execution: fmt.Sprintf("x%03d%03d", *e.pages, i), DueAt: e.now})
	}
	*e.pages, *e.most = *e.pages+1, max(*e.most, page.Limit)
	list.Next = "more"
	return list, nil
}

func (e endless) LoadMany(_ context.Context, tenant string, ids []string) (found []*workflow.Execution, err error) {
	for _, id := range ids {
		found = append(found, &workflow.Execution{Tenant: tenant, ID: id, State: sm.ExecutionScheduled, DueAt: e.now})
	}
	return found, nil
}

// One sweep reads pages of a bounded size, and so many of them; the next one does
// the rest. A plan lists the first few, and says that there is more.
func TestSweepsAreBounded(t *testing.T) {
	s := stage.New(t, 1, stage.Options())
	pages, most := 0, 0
	busy := *s.Engine
	busy.Open = func() port.Ports {
		ports := s.Engine.Open()
		ports.Store = endless{ports.Store, s.Now(), &pages, &most}
		return ports
	}
	v, err := sweep.Plan(t.Context(), &busy, stage.Silence, 1, "")
	if err != nil || v.Complete || len(v.Executions) != 200 || v.Executions[0].Execution != "x000000" || pages != 20 {
		t.Errorf("%d executions of %d pages are planned, complete %v, %v", len(v.Executions), pages, v.Complete, err)
	}
	pages, most = 0, 0
	swept, err := sweep.Run(t.Context(), &busy, stage.Silence, 1)
	if err != nil || swept.Due != 2000 || pages != 20 || most != 100 {
		t.Errorf("swept %+v in %d pages of at most %d, %v", swept, pages, most, err)
	}
}
