package engine_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// startIn starts an execution of p/w with a region.
func startIn(s *harness.Harness, region string) string {
	s.Helper()
	req := harness.NewStartRequest("w", "d000")
	req.Region = region
	return s.StartWith(req)
}

// poolsOf returns the pools that got the jobs of an execution, in order.
func poolsOf(x *workflow.Execution) (pools []string) {
	for i := range x.StepRuns {
		pools = append(pools, x.StepRuns[i].Pool)
	}
	return pools
}

// All jobs of an execution with a region go to the pools of that region, including jobs that find
// entities, attempts, rollbacks and compensations. The region of the start overrides that of the
// definition. Workers of other regions get none of its jobs.
func TestRegion_GetsAllJobs(t *testing.T) {
	for _, test := range []struct{ defined, asked, want string }{
		{"", "", "default"}, {"", "eu", "default@eu"}, {"us-east-1", "", "default@us-east-1"}, {"us-east-1", "eu", "default@eu"},
	} {
		s := newHarness(t, 2)
		config := ""
		if test.defined != "" {
			config = "config: {region: " + test.defined + "}\n"
		}
		s.Publish("w", config+`
acquire: [{type: device, block: p/pure:1}]
steps:
  - {label: one, functionBlock: p/again:1, runOn: device, retry: {maxRetries: 1}}
  - {label: two, functionBlock: p/again:1, runOn: device, compensate: {functionBlock: p/once:1}}
  - {label: three, functionBlock: p/again:1, runOn: device}
`)
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			switch {
			case c.Kind == workflow.JobAcquire:
				return &harness.Outcome{Acquired: []string{"d001"}}
			case c.Kind == workflow.JobExecute && (c.Step == "one" && c.Attempt == 1 || c.Step == "three"):
				return &harness.Outcome{FailCode: "NO", Retryable: true}
			}
			return nil
		}
		s.Region = "asia"
		id := startIn(s, test.asked)
		s.Drain()
		if len(s.BlockCalls) != 0 {
			t.Fatalf("%+v: a worker of another region has called %+v", test, s.BlockCalls)
		}
		s.Region = cutRegion(test.want)
		settle(s)
		x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
		if pools := poolsOf(x); len(pools) != 7 || slices.ContainsFunc(pools, func(p string) bool { return p != test.want }) {
			t.Errorf("%+v: %v", test, pools)
		}
		if v := executionView(t, s, id); (v.Region != nil) != (s.Region != "") || v.Region != nil && *v.Region != s.Region {
			t.Errorf("%+v: region %v", test, v.Region)
		}
		if needs := workflow.SchemaVersion; s.Region != "" && x.Needs() != needs {
			t.Errorf("schema %d", x.Needs())
		}
		again, _, err := s.Engine.Rerun(t.Context(), harness.Caller, id, views.RerunRequest{Entities: views.RerunEntities{Choice: views.RerunAll}})
		if err != nil {
			t.Fatal(err)
		}
		settle(s)
		if x := s.ExpectState(again.ID, sm.ExecutionFailedSafeAck); x.Region != s.Region {
			t.Errorf("%+v: it runs again in %q", test, x.Region)
		}
	}
}

func cutRegion(pool string) string {
	if pool == "default" {
		return ""
	}
	return pool[len("default@"):]
}

// A child has the region of its parent, unless its step names another, or its definition does if
// neither names one. The same holds for a child of a set, and for what an overdue question starts.
func TestRegion_IsInheritedByChildren(t *testing.T) {
	for _, test := range []struct{ parent, step, defined, want string }{
		{"", "", "", ""}, {"eu", "", "", "eu"}, {"eu", "us", "", "us"}, {"", "us", "asia", "us"}, {"", "", "asia", "asia"}, {"eu", "", "asia", "eu"},
	} {
		for _, set := range []string{"", "foreach: {items: '${[1]}'}, "} {
			s := newHarness(t, 1)
			config, region := "", ""
			if test.defined != "" {
				config = "config: {region: " + test.defined + "}\n"
			}
			if test.step != "" {
				region = ", region: " + test.step
			}
			s.Publish("child", config+stepsYAML("work pure global"))
			s.Publish("w", "steps:\n  - {label: go, "+set+"workflowReference: {workflow: p/child:1, mode: dispatch"+region+"}}\n")
			s.Region = test.want
			id := startIn(s, test.parent)
			settle(s)
			x := s.ExpectState(id, sm.ExecutionCompletedAck)
			child := x.StepRuns[0].Child.ID
			if set != "" {
				child = x.StepRuns[0].ChildID(id, 0)
			}
			if c := s.ExpectState(child, sm.ExecutionCompletedAck); c.Region != test.want || x.Region != test.parent {
				t.Errorf("%+v, %q: the child is in %q, its parent in %q", test, set, c.Region, x.Region)
			}
		}
	}
	s := newHarness(t, 1)
	s.Publish("late", stepsYAML("work pure global"))
	s.Publish("w", "steps:\n  - {label: ask, wait: {input: {title: Go on?, deadline: 2h, escalate: [{after: 1h, start: {workflow: 'p/late:1'}}]}}}\n")
	s.Region = "eu"
	id := startIn(s, "eu")
	s.RunUntilIdle(90 * time.Minute)
	l, err := s.Query.Executions(t.Context(), harness.Caller, views.ExecutionFilter{Region: "eu", Parent: id}, workflow.Page{})
	if err != nil || len(l.Items) != 1 || l.Items[0].Workflow.Name != "late" || l.Items[0].State != sm.ExecutionCompletedAck {
		t.Errorf("%v: %+v", err, l.Items)
	}
	if l, err = s.Query.Executions(t.Context(), harness.Caller, views.ExecutionFilter{Region: "us"}, workflow.Page{}); err != nil || len(l.Items) != 0 {
		t.Errorf("%v: %+v", err, l.Items)
	}
}

// R21: if nobody serves the region, the execution shows the pool that it waits for, and ends
// UNCLAIMED. A retry goes to the same region.
func TestRegion_NobodyServesIt(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one again device"))
	id := startIn(s, "eu")
	s.RunUntilIdle(30 * time.Minute)
	if w := executionView(t, s, id).Waiting; w == nil || w.Kind != workflow.WaitWorker || w.Pool == nil || *w.Pool != "default@eu" {
		t.Errorf("it waits for %+v", w)
	}
	settle(s)
	x := s.Load(id)
	if x.Cause != workflow.CauseUnclaimed || x.Error == nil || x.Error.Message != `no worker of pool "default@eu" has claimed the jobs of step "one": workers serve region eu with the setting worker.region, the stock worker of a local stack with the setting regions` || len(s.BlockCalls) != 0 {
		t.Fatalf("%s: %s, %+v, %d calls", x.State, x.Cause, x.Error, len(s.BlockCalls))
	}
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "workers were added"}); err != nil {
		t.Fatal(err)
	}
	s.Region = "eu"
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// What cannot be the name of a region is refused, and starts nothing.
func TestRegion_HasAName(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one again device"))
	for _, region := range []string{"EU", "e u", "eu--west", "eu@1", "eu-", "x-dlq", "a-region-with-a-long-name"} {
		req := harness.NewStartRequest("w", "d000")
		req.Region = region
		_, _, err := s.Engine.Start(t.Context(), harness.Caller, req)
		if e := (*workflow.Error)(nil); !workflow.Is(err, workflow.CodeInvalid) || !asError(err, &e) || len(e.Issues) != 1 || e.Issues[0].Path != "region" {
			t.Errorf("%s: %v", region, err)
		}
	}
	if n := len(s.States(harness.Caller.Tenant)); n != 0 {
		t.Errorf("%d executions", n)
	}
}

// Lists show that an execution waits for a worker, as its status does, and unclaimed jobs are
// counted by pool. Neither happens before workers had time to claim them, nor once one has.
func TestRegion_ListsShowUnclaimedJobs(t *testing.T) {
	s := newHarness(t, 4)
	s.Publish("w", stepsYAML("one once device"))
	eu := startIn(s, "eu")
	list := func() (found []*views.Waiting) {
		t.Helper()
		l, err := s.Query.Executions(t.Context(), harness.Caller, views.ExecutionFilter{Active: true}, workflow.Page{})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range l.Items {
			found = append(found, x.Waiting)
		}
		return found
	}
	unclaimed := func() map[string]views.UnclaimedJobs {
		t.Helper()
		found, err := s.Query.UnclaimedJobs(t.Context(), harness.Caller)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	s.Drain()
	since := s.Load(eu).StepRuns[0].EnteredAt
	if w := list(); len(w) != 1 || w[0] != nil || len(unclaimed()) != 0 {
		t.Errorf("at once: %+v, %+v", w[0], unclaimed())
	}
	s.Advance(10 * time.Second)
	req := harness.NewStartRequest("w", "d001", "d002")
	req.Region = "eu"
	s.StartWith(req)
	s.Drain()
	s.Advance(10 * time.Second)
	for i, w := range list() {
		if w == nil || w.Kind != workflow.WaitWorker || w.Pool == nil || *w.Pool != "default@eu" || *w.Step != "one" || w.Until.Sub(w.Since) != time.Hour+time.Minute {
			t.Errorf("%d: %+v", i, w)
		}
	}
	if got := unclaimed(); len(got) != 1 || got["default@eu"] != (views.UnclaimedJobs{Jobs: 3, Executions: 2, Since: since}) {
		t.Errorf("%+v", got)
	}
	until := *executionView(t, s, eu).Waiting.Until
	s.RunFor(30 * time.Minute)
	s.Region = "us"
	for s.Load(eu).Cause == "" {
		s.RunFor(time.Minute)
	}
	if ended := s.Load(eu).EndedAt; ended.Before(until) {
		t.Errorf("it ended %s, and said that it does not before %s", ended, until)
	}
	s.Region = "eu"
	s.PoolQueue("default@eu")
	claimed := startIn(s, "eu")
	s.Script = func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{Crash: true} }
	s.Drain()
	s.Advance(10 * time.Second)
	if x := s.Load(claimed); len(unclaimed()) != 0 || x.Cause != "" {
		t.Errorf("a worker has them: %+v, %s", unclaimed(), x.State)
	}
}

// Jobs that nobody claims are found though any number of newer executions wait for what theirs has locked.
func TestRegion_UnclaimedJobsBehindManyThatWaitForTheirLock(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one once device"))
	for range 201 {
		startIn(s, "eu")
	}
	s.Drain()
	s.Advance(10 * time.Second)
	if got, err := s.Query.UnclaimedJobs(t.Context(), harness.Caller); err != nil || got["default@eu"].Executions != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A plan shows its region, and whether the setting of the stage names it.
func TestRegion_IsInThePlan(t *testing.T) {
	o := harness.Options()
	o.Regions = []string{"asia", "eu"}
	s := harness.New(t, 1, o)
	s.RegisterBlocks()
	s.ImportDevices(harness.DeviceIDs(1)...)
	s.Publish("w", "config: {region: mars}\n"+stepsYAML("one pure device"))
	for asked, want := range map[string]views.PlannedRegion{"": {Name: "mars", Regions: o.Regions}, "eu": {Name: "eu", Known: true, Regions: o.Regions}} {
		req := harness.NewStartRequest("w", "d000")
		req.Region = asked
		p, err := s.Query.Plan(t.Context(), harness.Caller, req)
		if err != nil || p.Region == nil || !reflect.DeepEqual(*p.Region, want) {
			t.Errorf("%q: %+v, %v", asked, p.Region, err)
		}
	}
}
