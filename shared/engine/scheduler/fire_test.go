package scheduler_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/scheduler"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

func fire(s *harness.Harness, key string) (string, error) {
	id, _, err := scheduler.Fire(ctx, s.Engine, harness.Caller, "p/night", key)
	return id, err
}

func wantCode(t *testing.T, err error, code workflow.Code) {
	t.Helper()
	if !workflow.Is(err, code) {
		t.Errorf("answered %v, want %s", err, code)
	}
}

// A schedule that is fired starts one execution for a key, and none while one has not ended. Its
// fire times stay.
func TestFire_StartsOneExecution(t *testing.T) {
	s := newHarness(t, 1, `schedule: "0 4 * * *"`)
	before := loadSchedule(t, s).NextAt
	first, err := fire(s, "a")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := fire(s, "a"); err != nil || again != first {
		t.Errorf("the same key again: %s, %v; want %s", again, err, first)
	}
	_, err = fire(s, "b")
	wantCode(t, err, workflow.CodeConflict)
	s.Drain()
	if x := s.ExpectState(first, sm.ExecutionCompletedAck); x.Labels[spec.LabelSchedule] != "p/night" {
		t.Errorf("labels %v", x.Labels)
	}
	second, err := fire(s, "")
	if err != nil || second == first {
		t.Fatalf("%s, %v", second, err)
	}
	s.Drain()
	if again, err := fire(s, "a"); err != nil || again != first {
		t.Errorf("the first key again: %s, %v; want %s", again, err, first)
	}
	one := loadSchedule(t, s)
	if !one.NextAt.Equal(before) || !one.FiringAt.IsZero() || one.LastExecution != second || len(one.Recent) != 2 || one.Recent[1].Execution != first || one.Recent[1].By != harness.Caller.Actor {
		t.Errorf("%+v", one)
	}
	s.RunFor(4*time.Hour + time.Minute)
	s.Sweep()
	s.Drain()
	if all := listExecutions(t, s); len(all) != 3 {
		t.Errorf("%d executions, want one for the fire time too", len(all))
	}
	for range spec.MaxRecent {
		if _, err := fire(s, ""); err != nil {
			t.Fatal(err)
		}
		s.Drain()
	}
	if one := loadSchedule(t, s); len(one.Recent) != spec.MaxRecent || one.Recent[0].Execution != one.LastExecution {
		t.Errorf("%d recent executions", len(one.Recent))
	}
}

// A fire time that has passed is not lost to somebody who fires the schedule.
func TestFire_AfterWhatIsDue(t *testing.T) {
	s := newHarness(t, 1, `schedule: "0 4 * * *", concurrency: true`)
	s.RunFor(4*time.Hour + time.Second) // and no sweep
	if _, err := fire(s, ""); err != nil {
		t.Fatal(err)
	}
	if one, all := loadSchedule(t, s), listExecutions(t, s); len(all) != 2 || len(one.Recent) != 2 || one.Recent[1].By != "" || one.SkippedCount != 0 {
		t.Errorf("%d executions, %+v", len(all), one)
	}
}

// Whoever fires a schedule may die at any moment and try again with the key: there is one
// execution in the end, made by him or by the next sweep.
func TestFire_SurvivesAFaultAtEveryCall(t *testing.T) {
	s := newHarness(t, 1, `schedule: "0 4 * * *"`)
	published := loadSchedule(t, s)
	published.Version = 0
	for _, fault := range []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated} {
		for _, repeats := range []bool{true, false} {
			for n, calls := 0, 1; n <= calls; n++ { // the first time without a fault, which counts the calls
				s.Reset(1)
				if ok, err := s.Open().Schedules.PutSchedule(ctx, published); err != nil || !ok {
					t.Fatal(ok, err)
				}
				before := s.CallCount()
				if n > 0 {
					s.Faults = faults.At(n, fault)
				}
				id, answered := "", false
				faults.CatchCrash(func() {
					var err error
					if id, err = fire(s, "k"); err == nil {
						answered = true
					}
				})
				if s.Faults = nil; n == 0 {
					calls = s.CallCount() - before
				}
				recorded := loadSchedule(t, s).LastExecution != ""
				if repeats {
					again, err := fire(s, "k")
					if err != nil || answered && again != id {
						t.Fatalf("%s at call %d: again %s, %v; first %s", fault, n, again, err, id)
					}
					recorded = true
				}
				s.Advance(2 * time.Minute)
				if err := sweepOnce(s); err != nil {
					t.Fatal(err)
				}
				s.Drain()
				all, one := listExecutions(t, s), loadSchedule(t, s)
				if (len(all) == 1) != recorded || len(all) > 1 || answered && !recorded || !one.FiringAt.IsZero() || !one.NextAt.After(s.Now()) || recorded && all[0].ID != one.LastExecution {
					t.Fatalf("%s at call %d of %d: answered %v, %d executions, %+v", fault, n, calls, answered, len(all), one)
				}
			}
		}
	}
}

// A paused schedule starts nothing by itself; somebody may fire it. Resumed, it begins with the
// next fire time. Two who do the same do it once.
func TestPause_StopsFireTimes(t *testing.T) {
	s := newHarness(t, 1, `schedule: "0 4 * * *"`)
	for _, who := range []string{"ann", "bob"} {
		caller := harness.Caller
		caller.Actor = who
		if one, err := s.Catalog.PauseSchedule(ctx, caller, "p/night", "holidays"); err != nil || one.Paused.By != "ann" || !one.NextAt.IsZero() {
			t.Fatalf("%+v, %v", one, err)
		}
	}
	s.Publish("other", steps)
	if _, _, err := s.Catalog.Publish(ctx, harness.Caller, []byte("package: p\nname: night\nversion: 1.1.0\ncron: {schedule: \"0 5 * * *\"}\n"+steps), false); err != nil {
		t.Fatal(err)
	}
	s.RunFor(48 * time.Hour)
	s.Sweep()
	if one, all := loadSchedule(t, s), listExecutions(t, s); len(all) > 0 || one.Paused == nil || one.Workflow.Version != "1.1.0" {
		t.Fatalf("%d executions, %+v", len(all), one)
	}
	id, err := fire(s, "")
	if err != nil {
		t.Fatal(err)
	}
	s.Drain()
	s.ExpectState(id, sm.ExecutionCompletedAck)
	s.RunFor(48 * time.Hour)
	s.Sweep()
	for range 2 {
		one, err := s.Catalog.ResumeSchedule(ctx, harness.Caller, "p/night", "")
		if err != nil || one.Paused != nil || !one.NextAt.After(s.Now()) {
			t.Fatalf("%+v, %v", one, err)
		}
	}
	s.RunFor(25 * time.Hour)
	s.Sweep()
	s.Drain()
	if one, all := loadSchedule(t, s), listExecutions(t, s); len(all) != 2 || one.SkippedCount != 0 {
		t.Errorf("%d executions, %+v", len(all), one)
	}
}

// What a sweep has begun when the schedule is paused comes to its end, and nothing after it.
func TestPause_DuringASweep(t *testing.T) {
	s := newHarness(t, 1, `schedule: "0 4 * * *"`)
	s.RunFor(4*time.Hour + time.Second)
	sweep := s.StartTask("sweep", func() { _ = sweepOnce(s) })
	if !sweep.RunUntil("store.create") {
		t.Fatal("the sweep creates nothing")
	}
	if _, err := s.Catalog.PauseSchedule(ctx, harness.Caller, "p/night", ""); err != nil {
		t.Fatal(err)
	}
	sweep.Finish()
	for range 3 {
		s.Sweep()
		s.Drain()
		s.RunFor(24 * time.Hour)
	}
	if one, all := loadSchedule(t, s), listExecutions(t, s); len(all) != 1 || !one.FiringAt.IsZero() || !one.NextAt.IsZero() {
		t.Errorf("%d executions, %+v", len(all), one)
	}
}

// Archiving a version does not begin the work of an older one again: its schedule is paused until
// somebody resumes it, or the version is restored.
func TestArchive_PausesTheScheduleOfAnOlderVersion(t *testing.T) {
	for name, newer := range map[string]string{"with a schedule": "cron: {schedule: \"0 5 * * *\"}\n", "without one": "", "disabled": "cron: {schedule: \"0 5 * * *\", disabled: true}\n"} {
		s := newHarness(t, 1, `schedule: "0 4 * * *"`)
		if _, _, err := s.Catalog.Publish(ctx, harness.Caller, []byte("package: p\nname: night\nversion: 2.0.0\n"+newer+steps), false); err != nil {
			t.Fatal(err)
		}
		two := workflow.Ref{Package: "p", Name: "night", Version: "2.0.0"}
		archive := func() {
			t.Helper()
			if err := s.Catalog.Archive(ctx, harness.Caller, two); err != nil {
				t.Fatal(err)
			}
			one := loadSchedule(t, s)
			if one.Cron == nil || one.Workflow.Version != "1.0.0" || one.Paused == nil || one.Paused.By != "" || !one.NextAt.IsZero() {
				t.Fatalf("%s: %+v", name, one)
			}
		}
		archive()
		s.RunFor(25 * time.Hour)
		s.Sweep()
		if all := listExecutions(t, s); len(all) > 0 {
			t.Errorf("%s: %d executions of the older version", name, len(all))
		}
		if err := s.Catalog.Restore(ctx, harness.Caller, two); err != nil {
			t.Fatal(err)
		}
		if one := loadSchedule(t, s); one.Paused != nil || (one.Cron != nil) != (name == "with a schedule") || one.Workflow.Version != "2.0.0" {
			t.Errorf("%s, restored: %+v", name, one)
		}
		archive()
		if one, err := s.Catalog.ResumeSchedule(ctx, harness.Caller, "p/night", ""); err != nil || !one.NextAt.After(s.Now()) {
			t.Errorf("%s, resumed: %+v, %v", name, one, err)
		}
	}
}

// A schedule that is removed stays off until another version is published.
func TestRemove_IsForOneVersion(t *testing.T) {
	s := newHarness(t, 1, `schedule: "0 4 * * *"`)
	if _, err := s.Catalog.RemoveSchedule(ctx, harness.Caller, "p/night", "too loud"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if one := loadSchedule(t, s); one.Cron != nil || !one.NextAt.IsZero() {
			t.Fatalf("%+v", one)
		}
		ref := workflow.Ref{Package: "p", Name: "night", Version: "1.0.0"}
		if err := s.Catalog.Archive(ctx, harness.Caller, ref); err != nil {
			t.Fatal(err)
		}
		if err := s.Catalog.Restore(ctx, harness.Caller, ref); err != nil {
			t.Fatal(err)
		}
	}
	for _, do := range []func() error{
		func() error { _, err := fire(s, ""); return err },
		func() error { _, err := s.Catalog.PauseSchedule(ctx, harness.Caller, "p/night", ""); return err },
		func() error { _, err := s.Catalog.ResumeSchedule(ctx, harness.Caller, "p/night", ""); return err },
		func() error {
			_, err := s.Catalog.RemoveSchedule(ctx, workflow.Caller{Tenant: harness.Caller.Tenant, Actor: "bob"}, "p/night", "")
			return err
		},
	} {
		wantCode(t, do(), workflow.CodeNotFound)
	}
	if one, err := s.Catalog.RemoveSchedule(ctx, harness.Caller, "p/night", "again"); err != nil || one.Removed.Reason != "too loud" {
		t.Errorf("removed again by who has removed it: %+v, %v", one.Removed, err)
	}
	publishNight(t, s, "1.1.0", "0 5 * * *")
	if one := loadSchedule(t, s); one.Cron == nil || one.Removed != nil || !one.NextAt.After(s.Now()) {
		t.Errorf("%+v", one)
	}
}

func publishNight(t *testing.T, s *harness.Harness, version, cron string) {
	t.Helper()
	if _, _, err := s.Catalog.Publish(ctx, harness.Caller, []byte("package: p\nname: night\nversion: "+version+"\ncron: {schedule: \""+cron+"\"}\n"+steps), false); err != nil {
		t.Fatal(err)
	}
}

// A schedule that was removed for a version does not come back when that version is archived and
// restored, nor with an older one.
func TestRemove_OutlivesAnArchive(t *testing.T) {
	s := newHarness(t, 1, `schedule: "0 4 * * *"`)
	publishNight(t, s, "2.0.0", "0 5 * * *")
	if _, err := s.Catalog.RemoveSchedule(ctx, harness.Caller, "p/night", ""); err != nil {
		t.Fatal(err)
	}
	for _, do := range []func(context.Context, workflow.Caller, workflow.Ref) error{s.Catalog.Archive, s.Catalog.Restore} {
		if err := do(ctx, harness.Caller, workflow.Ref{Package: "p", Name: "night", Version: "2.0.0"}); err != nil {
			t.Fatal(err)
		}
		if one := loadSchedule(t, s); one.Cron != nil || one.Removed == nil {
			t.Errorf("on again: %+v", one)
		}
	}
}

// What somebody has fired, or a sweep has begun, comes to its end also if the schedule is removed
// before the execution exists. It is not begun again with a later version.
func TestRemove_EndsWhatWasBegun(t *testing.T) {
	for name, begin := range map[string]func(*harness.Harness){
		"fired": func(s *harness.Harness) { _, _ = fire(s, "k") },
		"swept": func(s *harness.Harness) { _ = sweepOnce(s) },
	} {
		for _, call := range []string{"store.create", "schedules.put"} {
			s := newHarness(t, 1, `schedule: "0 4 * * *"`)
			if name == "swept" {
				s.RunFor(4*time.Hour + time.Second)
			}
			task := s.StartTask(name, func() { begin(s) })
			if !task.RunUntil("store.create") || call == "schedules.put" && !task.RunUntil(call) {
				t.Fatalf("%s: no %s", name, call)
			}
			if _, err := s.Catalog.RemoveSchedule(ctx, harness.Caller, "p/night", ""); err != nil {
				t.Fatal(err)
			}
			_ = task // it dies here
			publishNight(t, s, "1.0.1", "0 5 * * *")
			if _, err := s.Catalog.RemoveSchedule(ctx, harness.Caller, "p/night", ""); err != nil {
				t.Fatal(err)
			}
			s.RunFor(2 * time.Minute)
			if err := sweepOnce(s); err != nil {
				t.Fatal(err)
			}
			s.Drain()
			if one, all := loadSchedule(t, s), listExecutions(t, s); len(all) != 1 || one.Cron != nil || !one.FiringAt.IsZero() || !one.NextAt.IsZero() {
				t.Errorf("%s, dead before %s: %d executions, %+v", name, call, len(all), one)
			}
			publishNight(t, s, "1.1.0", "0 5 * * *")
			s.RunFor(30 * time.Hour)
			s.Sweep()
			s.Drain()
			if all := listExecutions(t, s); len(all) != 2 {
				t.Errorf("%s, dead before %s: %d executions after another version, want 2", name, call, len(all))
			}
		}
	}
}

// A fire time that comes while somebody fires the schedule is started too, or recorded as skipped.
func TestFire_AtAFireTime(t *testing.T) {
	for _, concurrency := range []string{"true", "false"} {
		s := newHarness(t, 1, `schedule: "0 4 * * *", concurrency: `+concurrency)
		next := loadSchedule(t, s).NextAt
		s.Advance(next.Add(-500 * time.Microsecond).Sub(s.Now()))
		task := s.StartTask("fire", func() { _, _ = fire(s, "") })
		if !task.RunUntil("schedules.put") {
			task.Finish()
		}
		s.Advance(10 * time.Millisecond)
		task.Finish()
		s.Drain()
		s.RunFor(2 * time.Minute)
		s.Sweep()
		s.Drain()
		one := loadSchedule(t, s)
		started := slices.ContainsFunc(one.Recent, func(r spec.ScheduledStart) bool { return r.At.Equal(next) })
		if !started && !one.SkippedAt.Equal(next) {
			t.Errorf("concurrency %s: the fire time %s is lost: %+v", concurrency, next, one)
		}
	}
}

// Even without a key, one request starts one execution if the reply to a write is lost; and a
// caller that removes a schedule learns that it was removed.
func TestFire_LostReplies(t *testing.T) {
	for _, concurrency := range []string{"true", "false"} {
		for _, fault := range []faults.Fault{faults.Repeated, faults.LostReply, faults.Throttled} {
			for n := 1; n < 20; n++ {
				s := newHarness(t, 1, `schedule: "0 4 * * *", concurrency: `+concurrency)
				s.Faults = faults.At(n, fault)
				_, err := fire(s, "")
				s.Faults = nil
				if all := listExecutions(t, s); len(all) > 1 || workflow.Is(err, workflow.CodeConflict) {
					t.Fatalf("concurrency %s, %s at call %d: %d executions, %v", concurrency, fault, n, len(all), err)
				}
				s.Faults = faults.At(n, fault)
				_, err = s.Catalog.RemoveSchedule(ctx, harness.Caller, "p/night", "")
				s.Faults = nil
				if workflow.Is(err, workflow.CodeNotFound) {
					t.Fatalf("%s at call %d of a removal: %v", fault, n, err)
				}
			}
		}
	}
}

// A schedule that went with its version says how it comes back.
func TestFire_OfAnArchivedVersionSaysRestore(t *testing.T) {
	s := newHarness(t, 1, `schedule: "0 4 * * *"`)
	if err := s.Catalog.Archive(ctx, harness.Caller, workflow.Ref{Package: "p", Name: "night", Version: "1.0.0"}); err != nil {
		t.Fatal(err)
	}
	if _, err := fire(s, "k"); !workflow.Is(err, workflow.CodeNotFound) || !strings.Contains(err.Error(), "restore the one") {
		t.Error(err)
	}
}

// A version that is published between an archived one and the one that was paused for it asks for
// its own work.
func TestArchive_PauseEndsWithANewerVersion(t *testing.T) {
	s := newHarness(t, 1, `schedule: "0 4 * * *"`)
	publishNight(t, s, "2.0.0", "0 5 * * *")
	if err := s.Catalog.Archive(ctx, harness.Caller, workflow.Ref{Package: "p", Name: "night", Version: "2.0.0"}); err != nil {
		t.Fatal(err)
	}
	publishNight(t, s, "0.5.0", "0 6 * * *")
	if one := loadSchedule(t, s); one.Paused == nil {
		t.Errorf("resumed by a version that is not the newest: %+v", one)
	}
	publishNight(t, s, "1.5.0", "0 6 * * *")
	if one := loadSchedule(t, s); one.Paused != nil || one.Workflow.Version != "1.5.0" || !one.NextAt.After(s.Now()) {
		t.Errorf("%+v", one)
	}
}
