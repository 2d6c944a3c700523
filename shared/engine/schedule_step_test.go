package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// newScheduling has the workflow p/night, and p/w with a step that makes or removes a schedule of it.
func newScheduling(t *testing.T, step string) *harness.Harness {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.Publish("night", "parameters: {type: object}\n"+stepsYAML("one pure global"))
	s.Publish("w", fmt.Sprintf("parameters: {type: object}\nsteps:\n  - {label: plan, schedule: {workflow: 'p/night:1', name: 'weekly_${parameters.user}', %s}}\n", step))
	return s
}

func startFor(s *harness.Harness, user string) *workflow.Execution {
	s.Helper()
	id := s.StartWith(views.StartRequest{Workflow: "p/w", Parameters: json.RawMessage(`{"user":"` + user + `"}`)})
	s.RunFor(5 * time.Minute)
	return s.Load(id)
}

func scheduleOf(s *harness.Harness, name string) (one spec.Schedule) {
	s.Helper()
	s.WithoutFaults(func() {
		var err error
		if one, err = s.Open().Schedules.Schedule(context.Background(), harness.Caller.Tenant, name); err != nil {
			s.Fatal(err)
		}
	})
	return one
}

const weekly = `cron: '0 4 * * *', parameters: {for: '${parameters.user}'}`

// A step makes a schedule, which starts the newest version that fits, whatever is published meanwhile.
func TestScheduleStep_MakesASchedule(t *testing.T) {
	s := newScheduling(t, weekly)
	x := startFor(s, "ann")
	one := scheduleOf(s, "p/night@weekly_ann")
	if x.State != sm.ExecutionCompletedAck || one.Off() || one.MadeBy == nil || one.MadeBy.Execution != x.ID || string(one.Cron.Parameters) != `{"for":"ann"}` || one.NextAt.Hour() != 4 {
		t.Fatalf("%s %+v", x.State, one)
	}
	s.Publish("night", "parameters: {type: object}\n"+stepsYAML("one pure global")) // the same again
	source := "package: p\nname: night\nversion: 1.1.0\nparameters: {type: object}\n" + stepsYAML("one pure global")
	if _, _, err := s.Catalog.Publish(context.Background(), harness.Caller, []byte(source), false); err != nil {
		t.Fatal(err)
	}
	s.RunFor(5 * time.Hour)
	s.Sweep()
	s.Drain()
	one = scheduleOf(s, "p/night@weekly_ann")
	if one.LastExecution == "" || one.Problem != "" {
		t.Fatalf("%+v", one)
	}
	if started := s.Load(one.LastExecution); started.Workflow.String() != "p/night:1.1.0" || started.Labels[spec.LabelSchedule] != "p/night@weekly_ann" {
		t.Errorf("%s %v", started.Workflow, started.Labels)
	}
}

// Another execution changes a schedule only if it says so, and none that of a definition. One that is removed is off.
func TestScheduleStep_RefusesThatOfAnother(t *testing.T) {
	s := newScheduling(t, weekly)
	first := startFor(s, "ann")
	if x := startFor(s, "ann"); x.State != sm.ExecutionFailedSafeAck || x.Error.Code != "CONFLICT" || !strings.Contains(x.Error.Message, first.ID) {
		t.Errorf("%s %+v", x.State, x.Error)
	}
	s.Publish("replacing", "parameters: {type: object}\nsteps:\n  - {label: plan, schedule: {workflow: p/night, name: weekly_ann, cron: '0 5 * * *', replace: true}}\n")
	id := s.Start("replacing")
	settleSchedules(s)
	if one := scheduleOf(s, "p/night@weekly_ann"); one.MadeBy.Execution != id || one.Cron.Schedule != "0 5 * * *" {
		t.Errorf("%+v", one)
	}
	s.Publish("removing", "steps:\n  - {label: plan, schedule: {workflow: p/night, name: weekly_ann, remove: true, replace: true}}\n  - {label: again, schedule: {workflow: p/night, name: never, remove: true}}\n")
	id = s.Start("removing")
	settleSchedules(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if one := scheduleOf(s, "p/night@weekly_ann"); !one.Off() || !one.NextAt.IsZero() {
		t.Errorf("%+v", one)
	}
	source := "package: p\nname: night\nversion: 2.0.0\ntriggers: {cron: [{name: weekly_bob, schedule: \"0 4 * * *\"}, {name: weekly_ann, schedule: \"0 6 * * *\"}]}\n" + stepsYAML("one pure global")
	if _, _, err := s.Catalog.Publish(context.Background(), harness.Caller, []byte(source), false); err != nil {
		t.Fatal(err)
	}
	if one := scheduleOf(s, "p/night@weekly_ann"); one.Off() || one.Cron.Schedule != "0 6 * * *" {
		t.Errorf("a schedule that a step has removed is off in a version that has it: %+v", one)
	}
	if x := startFor(s, "bob"); x.State != sm.ExecutionFailedSafeAck || x.Error.Code != "CONFLICT" {
		t.Errorf("%s %+v", x.State, x.Error)
	}
	if x := startFor(s, "not a name"); x.Error == nil || x.Error.Code != "FORMAT" {
		t.Errorf("%s %+v", x.State, x.Error)
	}
}

func settleSchedules(s *harness.Harness) {
	s.Helper()
	s.RunFor(5 * time.Minute)
	s.CheckInvariants()
}

// A step that is tried again after another execution has changed the schedule leaves it as it is.
func TestScheduleStep_DoesNotChangeItAgainOverAnother(t *testing.T) {
	for _, step := range []string{weekly, weekly + ", replace: true", "remove: true, replace: true"} {
		s := newScheduling(t, step)
		s.Publish("before", "steps:\n  - {label: plan, schedule: {workflow: p/night, name: weekly_ann, cron: '0 3 * * *'}}\n")
		s.Publish("replacing", "steps:\n  - {label: plan, schedule: {workflow: p/night, name: weekly_ann, cron: '0 5 * * *', replace: true}}\n")
		if strings.Contains(step, "remove") {
			s.Start("before")
			settleSchedules(s)
		}
		crashed := false
		s.Faults = func(c faults.Call) faults.Fault {
			if c.Name != "schedules.put" || crashed {
				return faults.None
			}
			crashed = true
			return faults.CrashAfter
		}
		first := s.StartWith(views.StartRequest{Workflow: "p/w", Parameters: json.RawMessage(`{"user":"ann"}`)})
		s.Drain()
		s.Faults = nil
		if !crashed {
			t.Fatalf("%s: the schedule was not written", step)
		}
		second := s.Start("replacing")
		s.Drain()
		s.ExpectState(second, sm.ExecutionCompletedAck)
		settleSchedules(s)
		s.ExpectState(first, sm.ExecutionCompletedAck)
		if one := scheduleOf(s, "p/night@weekly_ann"); one.Off() || one.MadeBy.Execution != second || len(one.ChangedBy) > spec.MaxScheduleMakers {
			t.Errorf("%s: %+v", step, one)
		}
	}
}

// Whatever call fails, or a process dies before or after, there is one schedule, and it is that of the last step.
func TestScheduleStep_FaultAtEveryCall(t *testing.T) {
	for _, fault := range []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated} {
		for n := 1; ; n++ {
			hit := false
			s := newScheduling(t, weekly+"}}\n  - {label: later, schedule: {workflow: p/night, name: weekly_ann, cron: '0 5 * * *'")
			at := faults.At(n, fault)
			s.Faults = func(call faults.Call) faults.Fault {
				f := at(call)
				hit = hit || f != faults.None
				return f
			}
			id := s.StartWith(views.StartRequest{Workflow: "p/w", Parameters: json.RawMessage(`{"user":"ann"}`)})
			s.RunFor(10 * time.Minute)
			s.Faults = nil
			s.RunFor(10 * time.Minute)
			s.ExpectState(id, sm.ExecutionCompletedAck)
			if one := scheduleOf(s, "p/night@weekly_ann"); one.Off() || one.Cron.Schedule != "0 5 * * *" || one.MadeBy.StepRun != 2 || one.Version != 2 {
				t.Fatalf("%v at call %d: %+v", fault, n, one)
			}
			if !hit {
				break
			}
		}
	}
}

// A schedule that was made or removed before its handler died counts, when the step is closed before it is tried again.
func TestScheduleStep_ClosedAfterIt(t *testing.T) {
	for _, step := range []string{weekly, "remove: true, replace: true"} {
		s := newScheduling(t, step)
		s.Publish("before", "steps:\n  - {label: plan, schedule: {workflow: p/night, name: weekly_ann, cron: '0 3 * * *'}}\n")
		if step != weekly {
			s.Start("before")
			settleSchedules(s)
		}
		done := false
		s.Faults = func(c faults.Call) faults.Fault {
			if c.Name != "schedules.put" || done {
				return faults.None
			}
			done = true
			return faults.CrashAfter
		}
		id := s.StartWith(views.StartRequest{Workflow: "p/w", Parameters: json.RawMessage(`{"user":"ann"}`)})
		s.Drain()
		if s.Faults = nil; !done {
			t.Fatalf("%s: the schedule was not written", step)
		}
		if _, err := s.Engine.Cancel(context.Background(), harness.Caller, id, views.CancelRequest{}); err != nil {
			t.Fatal(err)
		}
		settleSchedules(s)
		if x := s.ExpectState(id, sm.ExecutionCancelledAck); x.StepRuns[0].Counts.OK != 1 || x.StepRuns[0].Counts.NotExecuted != 0 {
			t.Errorf("%s: %+v", step, x.StepRuns[0].Counts)
		}
	}
}

// One that is closed before it has done anything counts as not executed.
func TestScheduleStep_ClosedBeforeIt(t *testing.T) {
	s := newScheduling(t, weekly)
	s.Faults = faults.Every(faults.Throttled, "schedules.put")
	id := s.StartWith(views.StartRequest{Workflow: "p/w", Parameters: json.RawMessage(`{"user":"ann"}`)})
	s.Drain()
	if _, err := s.Engine.Cancel(context.Background(), harness.Caller, id, views.CancelRequest{}); err != nil {
		t.Fatal(err)
	}
	settleSchedules(s)
	if x := s.ExpectState(id, sm.ExecutionCancelledAck); x.StepRuns[0].Counts.OK != 0 || x.StepRuns[0].Counts.NotExecuted != 1 {
		t.Errorf("%+v", x.StepRuns[0].Counts)
	}
}

// A value for a sealed parameter of what it starts would be stored in the clear: no schedule is made.
func TestScheduleStep_RefusesSealedParameters(t *testing.T) {
	s := newScheduling(t, "cron: '0 4 * * *', parameters: {for: '${parameters.user}', password: '${parameters.word}'}")
	source := "package: p\nname: night\nversion: 1.1.0\nparameters: {type: object, properties: {password: {type: string, x-sealed: true}}}\n" + stepsYAML("one pure global")
	if _, _, err := s.Catalog.Publish(context.Background(), harness.Caller, []byte(source), false); err != nil {
		t.Fatal(err)
	}
	id := s.StartWith(views.StartRequest{Workflow: "p/w", Parameters: json.RawMessage(`{"user":"ann","word":"hunter2hunter2"}`)})
	settleSchedules(s)
	x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if x.Error.Code != workflow.FailureSealed || x.Error.Step != "plan" || !strings.Contains(x.Error.Message, "parameters.password") || strings.Contains(x.Error.Message, "hunter2") {
		t.Errorf("%+v", x.Error)
	}
	if one := scheduleOf(s, "p/night@weekly_ann"); one.Cron != nil {
		t.Errorf("%+v", one.Cron)
	}
}
