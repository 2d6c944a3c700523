package scheduler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/engine/scheduler"
	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

var ctx = context.Background()

const steps = "steps:\n  - {label: go, functionBlock: p/pure:1, runOn: global}\n"

func newHarness(t *testing.T, seed uint64, cron string) *harness.Harness {
	s := harness.New(t, seed, harness.Options())
	s.RegisterBlocks()
	s.Publish("night", "cron: {"+cron+"}\n"+steps)
	return s
}

func loadSchedule(t *testing.T, s *harness.Harness) (one spec.Schedule) {
	t.Helper()
	s.WithoutFaults(func() {
		var err error
		if one, err = s.Open().Schedules.Schedule(ctx, harness.Caller.Tenant, "p/night"); err != nil {
			t.Fatal(err)
		}
	})
	return one
}

// listExecutions reads all executions of the tenant, state by state.
func listExecutions(t *testing.T, s *harness.Harness) (all []*workflow.Execution) {
	t.Helper()
	s.WithoutFaults(func() {
		ids, err := harness.ListExecutions(ctx, s.Open().Store, harness.Caller.Tenant, s.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			all = append(all, s.Load(id))
		}
	})
	return all
}

func sweepOnce(s *harness.Harness) error {
	_, err := scheduler.Sweep(ctx, s.Engine, workers.LivenessTimeouts{Unreachable: time.Minute, Offline: time.Hour, Forget: time.Hour}, s.Shards)
	return err
}

// A schedule fires at its fire time and not before, and its execution names the schedule.
func TestSweep_FiresScheduleOnTime(t *testing.T) {
	s := newHarness(t, 1, `schedule: "0 4 * * *"`)
	s.RunFor(3*time.Hour + 59*time.Minute)
	s.Sweep()
	if all := listExecutions(t, s); len(all) != 0 {
		t.Fatalf("%d executions before the fire time", len(all))
	}
	s.RunFor(90 * time.Second)
	s.Sweep()
	s.Drain()
	all := listExecutions(t, s)
	if len(all) != 1 {
		t.Fatalf("%d executions, want 1", len(all))
	}
	x, at := all[0], sim.StartTime.Add(4*time.Hour)
	if x.ID != scheduler.ExecutionID(harness.Caller.Tenant, "p/night", at, 0) || x.CreatedBy != "schedule" || x.Labels[spec.LabelSchedule] != "p/night" || x.State != sm.ExecutionCompletedAck {
		t.Errorf("%s in %s by %s, labels %v", x.ID, x.State, x.CreatedBy, x.Labels)
	}
	if one := loadSchedule(t, s); one.LastExecution != x.ID || !one.LastAt.Equal(at) || !one.NextAt.Equal(at.Add(24*time.Hour)) || !one.FiringAt.IsZero() {
		t.Errorf("%+v", one)
	}
	s.Sweep()
	if all := listExecutions(t, s); len(all) != 1 {
		t.Errorf("%d executions of one fire time", len(all))
	}
}

// After a pause without sweeps, only the latest missed fire time is made up for. The others
// are counted as skipped, once.
func TestSweep_CatchesUpLatestMissedFireTime(t *testing.T) {
	s := newHarness(t, 1, `schedule: "*/10 * * * *"`)
	s.Advance(50*time.Hour + 3*time.Minute)
	for range 3 {
		s.Sweep()
	}
	if all := listExecutions(t, s); len(all) != 1 {
		t.Errorf("%d executions, want 1", len(all))
	}
	one, at := loadSchedule(t, s), sim.StartTime.Add(50*time.Hour)
	if !one.LastAt.Equal(at) || !one.NextAt.Equal(at.Add(10*time.Minute)) || one.SkippedCount != 50*6-1 || !one.SkippedAt.Equal(at.Add(-10*time.Minute)) {
		t.Errorf("%+v", one)
	}
	s.Advance(30 * time.Minute) // the execution that was started has not ended
	s.Sweep()
	at = at.Add(30 * time.Minute)
	if one := loadSchedule(t, s); one.SkippedCount != 50*6-1+3 || !one.SkippedAt.Equal(at) {
		t.Errorf("while the last execution is active: %+v", one)
	}
	s.Advance(30 * 24 * time.Hour) // more than are counted at a time
	s.Sweep()
	if one := loadSchedule(t, s); one.SkippedCount != 50*6-1+3+1000+1 {
		t.Errorf("after a month: %+v", one)
	}
}

// N55: an execution that has not ended prevents the next one of its schedule, unless the
// definition allows concurrency. The skipped fire time is recorded.
func TestSweep_SkipsWhileLastExecutionIsActive(t *testing.T) {
	for _, concurrency := range []bool{false, true} {
		s := newHarness(t, 1, fmt.Sprintf(`schedule: "* * * * *", concurrency: %v`, concurrency))
		s.Advance(time.Minute)
		s.Sweep() // the execution does not advance, since no wake-up is delivered
		s.Advance(time.Minute)
		s.Sweep()
		one, want := loadSchedule(t, s), 1
		if concurrency {
			want = 2
		}
		if all := listExecutions(t, s); len(all) != want {
			t.Errorf("concurrency %v: %d executions", concurrency, len(all))
		}
		if skipped := !one.SkippedAt.IsZero(); skipped == concurrency || (skipped && (one.SkippedCount != 1 || !one.SkippedAt.Equal(sim.StartTime.Add(2*time.Minute)))) {
			t.Errorf("concurrency %v: %+v", concurrency, one)
		}
		s.Drain()
		s.Advance(time.Minute)
		s.Sweep()
		if all := listExecutions(t, s); len(all) != want+1 {
			t.Errorf("concurrency %v: %d executions after the first has ended", concurrency, len(all))
		}
	}
}

// Archiving and a newer version without cron end a schedule. A version with the same cron
// expression keeps the next fire time.
func TestSweep_FollowsNewestVersion(t *testing.T) {
	s := newHarness(t, 1, `schedule: "0 4 * * *"`)
	publish := func(version, cron string) {
		t.Helper()
		source := "package: p\nname: night\nversion: " + version + "\n" + cron + steps
		if _, _, err := s.Catalog.Publish(ctx, harness.Caller, []byte(source), false); err != nil {
			t.Fatal(err)
		}
	}
	wantVersion := func(version string) {
		t.Helper()
		one := loadSchedule(t, s)
		if version == "" && (one.Cron != nil || !one.NextAt.IsZero()) || version != "" && (one.Cron == nil || one.Workflow.Version != version) {
			t.Errorf("want %q: %+v", version, one)
		}
	}
	archived := func(version string, archived bool) {
		t.Helper()
		ref := workflow.Ref{Package: "p", Name: "night", Version: version}
		do := s.Catalog.Restore
		if archived {
			do = s.Catalog.Archive
		}
		if err := do(ctx, harness.Caller, ref); err != nil {
			t.Fatal(err)
		}
	}
	wantVersion("1.0.0")
	before := loadSchedule(t, s).NextAt
	s.Advance(10 * time.Hour) // it is due
	publish("1.1.0", "cron: {schedule: \"0 4 * * *\"}\n")
	wantVersion("1.1.0")
	if at := loadSchedule(t, s).NextAt; !at.Equal(before) {
		t.Errorf("the next fire time moved to %s", at)
	}
	publish("0.9.0", "cron: {schedule: \"0 5 * * *\"}\n")
	wantVersion("1.1.0")
	archived("1.1.0", true)
	wantVersion("1.0.0")
	publish("1.2.0", "")
	wantVersion("")
	archived("1.2.0", true)
	wantVersion("1.0.0")
	publish("1.3.0", "cron: {schedule: \"0 4 * * *\", disabled: true}\n")
	wantVersion("")
	for _, version := range []string{"1.3.0", "1.0.0", "0.9.0"} {
		archived(version, true)
	}
	wantVersion("")
	archived("1.0.0", false)
	wantVersion("1.0.0")
	list, err := s.Catalog.Schedules(ctx, harness.Caller, workflow.Page{})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

// Any number of concurrent sweeps fire each fire time exactly once, wherever they are
// interrupted, and never while the last execution is active.
func TestSweep_ConcurrentSweepersFireOnce(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 50
	}
	fired := 0
	for seed := range seeds {
		s := newHarness(t, seed, `schedule: "* * * * *"`)
		s.Faults = faults.Randomly(rand.New(rand.NewPCG(seed, 7)), 12,
			faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated)
		for range 4 {
			s.Advance(time.Duration(20+s.IntN(70)) * time.Second)
			var tasks []*faults.Task
			for i := range 2 + s.IntN(4) {
				tasks = append(tasks, s.StartTask(fmt.Sprint("sweeper ", i), func() { _ = sweepOnce(s) }))
			}
			s.Interleave(tasks...)
			active := 0
			for _, x := range listExecutions(t, s) {
				if !sm.Terminal(x.State) {
					active++
				}
			}
			if active > 1 {
				t.Fatalf("seed %d: %d active executions", seed, active)
			}
			if s.IntN(2) == 0 {
				s.Drain()
			}
		}
		s.Faults = nil
		// Without faults, one sweep finishes what others began, and a second one handles
		// what has become due meanwhile.
		for range 2 {
			if err := sweepOnce(s); err != nil {
				t.Fatal(err)
			}
		}
		one, seen := loadSchedule(t, s), map[int64]bool{}
		if !one.FiringAt.IsZero() || !one.NextAt.After(s.Now()) {
			t.Fatalf("seed %d: %+v at %s", seed, one, s.Now())
		}
		for _, x := range listExecutions(t, s) {
			ms := uuid.MustParse(x.ID).Time()
			sec, _ := ms.UnixTime()
			if seen[sec] || sec%60 != 0 {
				t.Fatalf("seed %d: %d is not a fire time, or was fired twice", seed, sec)
			}
			seen[sec] = true
			fired++
		}
		if one.LastExecution != "" && !strings.Contains(fmt.Sprint(executionIDs(listExecutions(t, s))), one.LastExecution) {
			t.Fatalf("seed %d: the last execution %s does not exist", seed, one.LastExecution)
		}
	}
	if fired < int(seeds) {
		t.Errorf("only %d executions were started in %d seeds", fired, seeds)
	}
}

func executionIDs(all []*workflow.Execution) (ids []string) {
	for _, x := range all {
		ids = append(ids, x.ID)
	}
	return ids
}

// The execution id is a UUIDv7 of the fire time. It differs by tenant, schedule, fire time
// and fencing token.
func TestExecutionID_IsUUIDv7OfFireTime(t *testing.T) {
	at := time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)
	id := uuid.MustParse(scheduler.ExecutionID("a", "p/w", at, 0))
	sec, nsec := id.Time().UnixTime()
	if id.Version() != 7 || id.Variant() != uuid.RFC4122 || sec != at.Unix() || nsec != 0 {
		t.Errorf("%s has the time %d", id, sec)
	}
	seen := map[string]bool{}
	for _, one := range []string{
		scheduler.ExecutionID("a", "p/w", at, 0), scheduler.ExecutionID("a", "p/w2", at, 0), scheduler.ExecutionID("b", "p/w", at, 0), scheduler.ExecutionID("a", "p/w", at.Add(time.Minute), 0), scheduler.ExecutionID("a", "p/w", at, 1),
	} {
		seen[one] = true
	}
	if len(seen) != 5 || scheduler.ExecutionID("a", "p/w", at, 0) != id.String() {
		t.Errorf("%v", seen)
	}
}
