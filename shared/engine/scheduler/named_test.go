package scheduler_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/scheduler"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// Each of several schedules of a workflow is paused, fired, removed and followed on its own.
func TestNamedSchedules_AreIndependent(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	publish := func(version, cron string) {
		t.Helper()
		source := "package: p\nname: night\nversion: " + version + "\nparameters: {type: object}\n" + cron + "steps: [{label: one, functionBlock: p/pure:1, runOn: global}]\n"
		if _, _, err := s.Catalog.Publish(ctx, harness.Caller, []byte(source), false); err != nil {
			t.Fatal(err)
		}
	}
	load := func(name string) spec.Schedule {
		t.Helper()
		one, err := s.Open().Schedules.Schedule(ctx, harness.Caller.Tenant, name)
		if err != nil {
			t.Fatal(err)
		}
		return one
	}
	started := func() (by []string) {
		for _, x := range listExecutions(t, s) {
			by = append(by, x.Labels[spec.LabelSchedule])
		}
		slices.Sort(by)
		return by
	}
	publish("1.0.0", "triggers: {cron: [{name: early, schedule: \"0 4 * * *\", parameters: {a: 1}}, {name: late, schedule: \"0 5 * * *\"}]}\n")
	list, err := s.Catalog.Schedules(ctx, harness.Caller, workflow.Page{})
	if err != nil || len(list.Items) != 2 || list.Items[0].Name != "p/night@early" || list.Items[1].Name != "p/night@late" {
		t.Fatalf("%+v, %v", list.Items, err)
	}
	if _, err := s.Catalog.PauseSchedule(ctx, harness.Caller, "p/night@early", ""); err != nil {
		t.Fatal(err)
	}
	s.RunFor(6 * time.Hour)
	s.Sweep()
	s.Drain()
	if got := started(); !slices.Equal(got, []string{"p/night@late"}) {
		t.Errorf("started by %v", got)
	}
	if _, _, err := scheduler.Fire(ctx, s.Engine, harness.Caller, "p/night@early", ""); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	if got := started(); !slices.Equal(got, []string{"p/night@early", "p/night@late"}) {
		t.Errorf("started by %v", got)
	}
	_, _, err = scheduler.Fire(ctx, s.Engine, harness.Caller, "p/night", "")
	wantCode(t, err, workflow.CodeNotFound)
	_, _, err = scheduler.Fire(ctx, s.Engine, harness.Caller, "p/night@never", "")
	wantCode(t, err, workflow.CodeNotFound)
	if _, err := s.Catalog.RemoveSchedule(ctx, harness.Caller, "p/night@late", ""); err != nil {
		t.Fatal(err)
	}
	if one := load("p/night@late"); !one.Off() {
		t.Errorf("%+v", one)
	}

	publish("2.0.0", "cron: {schedule: \"0 4 * * *\"}\n")
	if early, late, one := load("p/night@early"), load("p/night@late"), load("p/night"); !early.Off() || !late.Off() || one.Off() || !early.NextAt.IsZero() {
		t.Errorf("%+v\n%+v\n%+v", early, late, one)
	}
	publish("3.0.0", "triggers: {cron: [{name: late, schedule: \"0 6 * * *\"}]}\n")
	if early, late, one := load("p/night@early"), load("p/night@late"), load("p/night"); !early.Off() || late.Off() || !one.Off() || late.Cron.Schedule != "0 6 * * *" || !one.NextAt.IsZero() {
		t.Errorf("%+v\n%+v\n%+v", early, late, one)
	}
	if err := s.Catalog.Archive(ctx, harness.Caller, workflow.Ref{Package: "p", Name: "night", Version: "3.0.0"}); err != nil {
		t.Fatal(err)
	}
	if late, one := load("p/night@late"), load("p/night"); !late.Off() || one.Off() || one.Paused == nil {
		t.Errorf("%+v\n%+v", late, one)
	}
}
