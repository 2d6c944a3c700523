package query_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// lastEvent returns the actor and the data of the last event of a type.
func lastEvent(s *harness.Harness, id, event string) (actor string, data map[string]any) {
	s.Helper()
	for _, e := range s.History(id) {
		if e.Type == event {
			actor, data = e.Actor, nil
			if err := json.Unmarshal(e.Data, &data); err != nil {
				s.Fatal(err)
			}
		}
	}
	return actor, data
}

// wantAudited checks that the history has an operator's command with its actor and reason.
func wantAudited(s *harness.Harness, id, event, actor, reason string) {
	s.Helper()
	if by, data := lastEvent(s, id, event); by != actor || data["reason"] != reason {
		s.Errorf("%s by %q: %v; want %q by %q", event, by, data, reason, actor)
	}
}

var bob = workflow.Caller{Tenant: harness.Caller.Tenant, Actor: "bob"}

// R25, N32: an execution that failed unsafely keeps its locks, can be retried from the step
// that failed, and shows each try. Commands of operators are audited.
func TestService_ShowsRetry(t *testing.T) {
	s := newHarness(t, 3, "steps:\n  - {label: one, functionBlock: p/forever:1, runOn: device}\n  - {label: two, functionBlock: p/pure:1, runOn: device}\n")
	ctx := context.Background()
	broken := true
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "two" && c.Entity == "d001" && broken {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return &harness.Outcome{Result: json.RawMessage(`"` + c.Entity + `"`)}
	}
	id := s.Start("w", harness.DeviceIDs(3)...)
	s.RunUntilIdle(time.Hour)
	x := must[views.ExecutionView](s)(s.Query.Execution(ctx, harness.Caller, id))
	if x.State != sm.ExecutionFailedUnsafe || x.Waiting == nil || x.Waiting.Kind != workflow.WaitAcknowledge || x.Try != 1 {
		t.Fatalf("state %s, waiting %+v, try %d", x.State, x.Waiting, x.Try)
	}
	for _, req := range []views.RetryRequest{{Entities: "some"}, {From: "nowhere"}} {
		if _, err := s.Engine.Retry(ctx, bob, id, req); !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("%+v: %v", req, err)
		}
	}
	other := workflow.Caller{Tenant: "other", Actor: "eve"}
	if _, err := s.Engine.Retry(ctx, other, id, views.RetryRequest{}); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("another tenant: %v", err)
	}
	broken = false
	if _, err := s.Engine.Retry(ctx, bob, id, views.RetryRequest{Reason: "repaired", Entities: views.RetryFailed}); err != nil {
		t.Fatal(err)
	}
	wantAudited(s, id, "execution.retried", "bob", "repaired")
	s.RunUntilIdle(time.Hour)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	var lines []string
	for _, st := range must[workflow.List[views.StepView]](s)(s.Query.Steps(ctx, harness.Caller, id, workflow.Page{})).Items {
		lines = append(lines, fmt.Sprintf("%s try %d: %d jobs, %d completed, superseded %v", st.Step, st.Try, st.Jobs.Total, st.Jobs.Completed, st.Superseded))
	}
	want := []string{
		"one try 1: 3 jobs, 3 completed, superseded false", "two try 1: 3 jobs, 1 completed, superseded false",
		"two try 2: 2 jobs, 2 completed, superseded false",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
	x = must[views.ExecutionView](s)(s.Query.Execution(ctx, harness.Caller, id))
	if p := x.Progress; p.Jobs.Total != 6 || p.Jobs.Completed != 6 || p.Jobs.Failed != 0 || p.Steps != (views.StepProgress{Total: 2, Done: 2}) || x.Try != 2 {
		t.Errorf("progress %+v, try %d", p, x.Try)
	}
	result := must[views.ResultView](s)(s.Query.Result(ctx, harness.Caller, id))
	if got := result.Steps["two"].Results; len(got) != 3 || string(got["d001"]) != `"d001"` {
		t.Errorf("results of both tries: %v", got)
	}
	for verb, do := range map[string]func() (*workflow.Execution, error){
		"retry":       func() (*workflow.Execution, error) { return s.Engine.Retry(ctx, bob, id, views.RetryRequest{}) },
		"resume":      func() (*workflow.Execution, error) { return s.Engine.Resume(ctx, bob, id, "") },
		"unlock":      func() (*workflow.Execution, error) { return s.Engine.Unlock(ctx, bob, id, "") },
		"cancel":      func() (*workflow.Execution, error) { return s.Engine.Cancel(ctx, bob, id, views.CancelRequest{}) },
		"acknowledge": func() (*workflow.Execution, error) { return s.Engine.Acknowledge(ctx, bob, id, "") },
	} {
		before := s.Load(id).Version
		_, err := do()
		if !workflow.Is(err, workflow.CodeIllegalTransition) || s.Load(id).Version != before {
			t.Errorf("%s of an ended execution: %v", verb, err)
		}
	}
}

// An unlocked execution keeps its state, holds no locks, and still has to be acknowledged.
// Both commands are audited.
func TestService_ShowsUnlock(t *testing.T) {
	s := newHarness(t, 1, "steps: [{label: two, functionBlock: p/forever:1, runOn: device}, {label: three, functionBlock: p/pure:1, runOn: global}]\n")
	ctx := context.Background()
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "three" {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	id := s.Start("w", "d000")
	s.RunUntilIdle(time.Hour)
	if n := len(s.Locks()); n != 1 {
		t.Fatalf("%d locks are held", n)
	}
	x, err := s.Engine.Unlock(ctx, bob, id, "needed elsewhere")
	if err != nil || x.State != sm.ExecutionFailedUnsafe {
		t.Fatalf("%v, %v", x, err)
	}
	wantAudited(s, id, "lock.released", "bob", "needed elsewhere")
	if n := len(s.Locks()); n != 0 {
		t.Errorf("%d locks are held", n)
	}
	if w := must[views.ExecutionView](s)(s.Query.Execution(ctx, harness.Caller, id)).Waiting; w == nil || w.Kind != workflow.WaitAcknowledge || w.Reason == nil {
		t.Errorf("waiting for %+v", w)
	}
	if _, err := s.Engine.Unlock(ctx, bob, id, ""); !workflow.Is(err, workflow.CodeIllegalTransition) {
		t.Errorf("unlocked twice: %v", err)
	}
	if _, err := s.Engine.Acknowledge(ctx, bob, id, "checked"); err != nil {
		t.Fatal(err)
	}
	wantAudited(s, id, "execution.acknowledged", "bob", "checked")
	s.ExpectState(id, sm.ExecutionFailedUnsafeAck)
}

// An execution that waits for a timer shows that, in lists too, and continues when an
// operator resumes it.
func TestService_ShowsResume(t *testing.T) {
	s := newHarness(t, 0, "steps: [{label: one, functionBlock: p/pure:1, runOn: global, delay: 90s}]\n")
	ctx := context.Background()
	id := s.Start("w")
	x := must[views.ExecutionView](s)(s.Query.Execution(ctx, harness.Caller, id))
	if w := x.Waiting; w == nil || w.Kind != workflow.WaitTimer || *w.Step != "one" || !w.Until.Equal(w.Since.Add(90*time.Second)) {
		t.Fatalf("in %s, waiting for %+v", x.State, w)
	}
	l := must[workflow.List[views.ExecutionView]](s)(s.Query.Executions(ctx, harness.Caller, views.ExecutionFilter{}, workflow.Page{}))
	if diff := cmp.Diff(x.Waiting, l.Items[0].Waiting); diff != "" {
		t.Errorf("in the list: %s", diff)
	}
	if _, err := s.Engine.Resume(ctx, bob, id, "now"); err != nil {
		t.Fatal(err)
	}
	wantAudited(s, id, "execution.resumed", "bob", "now")
	s.Drain()
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// N20: a parent and its child name each other, and the child is found by its parent.
func TestService_ShowsParentAndChild(t *testing.T) {
	s := newHarness(t, 2, "steps:\n  - label: site\n    workflow:\n      steps:\n        - {label: sub, workflowReference: {workflow: \"p/sub:1\", mode: dispatch, executeOnParameters: {type: device, ids: [d001]}}}\n")
	s.Publish("sub", "steps: [{label: one, functionBlock: p/pure:1, runOn: device}]\n")
	ctx := context.Background()
	parent := s.Start("w")
	x := must[views.ExecutionView](s)(s.Query.Execution(ctx, harness.Caller, parent))
	if len(x.Children) != 1 || x.Waiting == nil || x.Waiting.Kind != workflow.WaitChild || *x.Waiting.Child != x.Children[0] || *x.CurrentStep != "sub" || x.Parent != nil {
		t.Fatalf("children %v, waiting %+v, in %v", x.Children, x.Waiting, x.CurrentStep)
	}
	child := x.Children[0]
	for _, of := range []string{parent, child} {
		l := must[workflow.List[views.ExecutionView]](s)(s.Query.Executions(ctx, harness.Caller, views.ExecutionFilter{Parent: of}, workflow.Page{}))
		if of == parent && (len(l.Items) != 1 || l.Items[0].ID != child || *l.Items[0].Parent != parent) || of == child && len(l.Items) != 0 {
			t.Errorf("children of %s: %+v", of, l.Items)
		}
	}
	s.RunUntilIdle(time.Hour)
	s.ExpectState(parent, sm.ExecutionCompletedAck)
	var lines []string
	for _, st := range must[workflow.List[views.StepView]](s)(s.Query.Steps(ctx, harness.Caller, parent, workflow.Page{})).Items {
		lines = append(lines, fmt.Sprintf("%s %s, has jobs %v, has child %v", st.Step, st.Status, st.Kind != nil, st.Child != nil))
		if c := st.Child; c != nil && (c.ID != child || c.Workflow.Name != "sub" || c.Mode != workflow.ModeDispatch) {
			t.Errorf("child %+v", c)
		}
	}
	if diff := cmp.Diff([]string{"site COMPLETED, has jobs false, has child false", "sub COMPLETED, has jobs false, has child true"}, lines); diff != "" {
		t.Error(diff)
	}
	if jobs := must[workflow.List[workflow.Job]](s)(s.Query.Jobs(ctx, harness.Caller, parent, views.JobFilter{}, workflow.Page{})); len(jobs.Items) != 0 {
		t.Errorf("jobs %+v", jobs.Items)
	}
	x = must[views.ExecutionView](s)(s.Query.Execution(ctx, harness.Caller, parent))
	if x.Progress.Steps != (views.StepProgress{Total: 2, Done: 2}) {
		t.Errorf("steps %+v", x.Progress.Steps)
	}
}

// N22, N46: step runs show their pipeline and their iteration.
func TestService_ShowsPipelinesAndRepeats(t *testing.T) {
	s := newHarness(t, 2, `config: {executionStrategy: {parallel: true}}
steps:
  - {label: one, functionBlock: p/again:1, runOn: device}
  - {label: two, functionBlock: p/again:1, runOn: device}
  - {label: poll, functionBlock: p/pure:1, runOn: global, repeat: {count: 2}}
`)
	ctx := context.Background()
	id := s.Start("w", harness.DeviceIDs(2)...)
	if x := must[views.ExecutionView](s)(s.Query.Execution(ctx, harness.Caller, id)); *x.CurrentStep != "one" || x.Blocks["p/again:1"] == "" || x.Waiting.Kind != workflow.WaitWorker || *x.Waiting.Step != "one" {
		t.Errorf("in %v, blocks %v, waiting %+v", *x.CurrentStep, x.Blocks, x.Waiting)
	}
	s.RunUntilIdle(time.Hour)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	var lines []string
	format := func(n *int) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	for _, st := range must[workflow.List[views.StepView]](s)(s.Query.Steps(ctx, harness.Caller, id, workflow.Page{})).Items {
		lines = append(lines, fmt.Sprintf("%s ordinal %d, pipeline %s, iteration %s", st.Step, st.Ordinal, format(st.Pipeline), format(st.Iteration)))
	}
	want := []string{
		"one ordinal 1, pipeline 1, iteration -", "two ordinal 1, pipeline 1, iteration -",
		"poll ordinal 1, pipeline -, iteration 1", "poll ordinal 2, pipeline -, iteration 2",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
	if x := must[views.ExecutionView](s)(s.Query.Execution(ctx, harness.Caller, id)); x.Progress.Steps != (views.StepProgress{Total: 3, Done: 3}) || x.Progress.Jobs.Total != 6 {
		t.Errorf("progress %+v", x.Progress)
	}
}

// An execution shows the smaller of the limits of its definition and its start, and what it has used.
func TestService_ShowsLimits(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.Publish("w", "config: {limits: {steps: 9, wall: 24h}}\nsteps: [{label: one, functionBlock: p/pure:1, runOn: global}, {label: two, functionBlock: p/pure:1, runOn: global}]")
	s.Publish("free", "steps: [{label: one, functionBlock: p/pure:1, runOn: global}]")
	show := func(name string, limits workflow.RunLimits) string {
		req := harness.NewStartRequest(name)
		req.Limits = limits
		id := s.StartWith(req)
		s.RunUntilIdle(time.Hour)
		detail := must[views.ExecutionView](s)(s.Query.Execution(context.Background(), harness.Caller, id)).Limits
		for _, x := range must[workflow.List[views.ExecutionView]](s)(s.Query.Executions(context.Background(), harness.Caller, views.ExecutionFilter{}, workflow.Page{})).Items {
			if x.ID == id && !reflect.DeepEqual(x.Limits, detail) {
				t.Errorf("the list says %+v", x.Limits)
			}
		}
		raw, err := json.Marshal(detail)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for _, c := range []struct {
		workflow string
		start    workflow.RunLimits
		want     string
	}{
		{"w", workflow.RunLimits{}, `{"steps":9,"stepRuns":2,"wall":"24h0m0s"}`},
		{"w", workflow.RunLimits{Wall: workflow.Duration(time.Hour)}, `{"steps":9,"stepRuns":2,"wall":"1h0m0s"}`},
		{"free", workflow.RunLimits{Steps: 3}, `{"steps":3,"stepRuns":1,"wall":null}`},
		{"free", workflow.RunLimits{}, "null"},
	} {
		if got := show(c.workflow, c.start); got != c.want {
			t.Errorf("%s with %+v: %s, want %s", c.workflow, c.start, got, c.want)
		}
	}
}
