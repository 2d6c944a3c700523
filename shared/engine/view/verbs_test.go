package view_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// said is what the last event of a type says, and who caused it.
func said(s *stage.Stage, id, event string) (actor string, data map[string]any) {
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

// audited checks that an operator's verb stands in the history with its reason.
func audited(s *stage.Stage, id, event, actor, reason string) {
	s.Helper()
	if by, data := said(s, id, event); by != actor || data["reason"] != reason {
		s.Errorf("%s by %q: %v; want %q by %q", event, by, data, reason, actor)
	}
}

var bob = workflow.Caller{Tenant: stage.Caller.Tenant, Actor: "bob"}

// R25, N32: a run that failed unsafely keeps its locks, can be tried again from
// the step that failed, and shows each try. What an operator does is audited.
func TestR25RetryIsShownAndAudited(t *testing.T) {
	s := open(t, 3, "steps:\n  - {label: one, functionBlock: p/pure:1, runOn: device}\n  - {label: two, functionBlock: p/forever:1, runOn: device}\n")
	ctx := context.Background()
	broken := true
	s.Script = func(c stage.Call) *stage.Outcome {
		if c.Step == "two" && c.Entity == "d001" && broken {
			return &stage.Outcome{Fail: "REFUSED"}
		}
		return &stage.Outcome{Result: json.RawMessage(`"` + c.Entity + `"`)}
	}
	id := s.Start("w", stage.Names(3)...)
	s.Settle(time.Hour)
	x := must[views.ExecutionView](s)(s.View.Execution(ctx, stage.Caller, id))
	if x.State != sm.ExecutionFailedUnsafe || x.Waiting == nil || x.Waiting.Kind != views.WaitAcknowledge || x.Try != 1 {
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
	if _, err := s.Engine.Retry(ctx, bob, id, views.RetryRequest{Reason: "mended", Entities: views.RetryFailed}); err != nil {
		t.Fatal(err)
	}
	audited(s, id, "execution.retried", "bob", "mended")
	s.Settle(time.Hour)
	s.Ends(id, sm.ExecutionCompletedAck)
	var told []string
	for _, st := range must[workflow.List[views.StepView]](s)(s.View.Steps(ctx, stage.Caller, id, workflow.Page{})).Items {
		told = append(told, fmt.Sprintf("%s try %d: %d jobs, %d completed, superseded %v", st.Step, st.Try, st.Jobs.Total, st.Jobs.Completed, st.Superseded))
	}
	want := []string{
		"one try 1: 3 jobs, 3 completed, superseded false", "two try 1: 3 jobs, 1 completed, superseded false",
		"two try 2: 2 jobs, 2 completed, superseded false",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
	x = must[views.ExecutionView](s)(s.View.Execution(ctx, stage.Caller, id))
	if p := x.Progress; p.Jobs.Total != 6 || p.Jobs.Completed != 6 || p.Jobs.Failed != 0 || p.Steps != (views.StepProgress{Total: 2, Done: 2}) || x.Try != 2 {
		t.Errorf("progress %+v, try %d", p, x.Try)
	}
	result := must[views.ResultView](s)(s.View.Result(ctx, stage.Caller, id))
	if got := result.Steps["two"].Results; len(got) != 3 || string(got["d001"]) != `"d001"` {
		t.Errorf("the results of both tries are %v", got)
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
			t.Errorf("%s of a run that is over: %v", verb, err)
		}
	}
}

// An unlocked run keeps its state, holds nothing, and is still to be
// acknowledged; both are audited.
func TestUnlockIsShownAndAudited(t *testing.T) {
	s := open(t, 1, "steps: [{label: two, functionBlock: p/forever:1, runOn: device}, {label: three, functionBlock: p/pure:1, runOn: global}]\n")
	ctx := context.Background()
	s.Script = func(c stage.Call) *stage.Outcome {
		if c.Step == "three" {
			return &stage.Outcome{Fail: "REFUSED"}
		}
		return nil
	}
	id := s.Start("w", "d000")
	s.Settle(time.Hour)
	if n := len(s.Locks()); n != 1 {
		t.Fatalf("%d locks are held", n)
	}
	x, err := s.Engine.Unlock(ctx, bob, id, "needed elsewhere")
	if err != nil || x.State != sm.ExecutionFailedUnsafe {
		t.Fatalf("%v, %v", x, err)
	}
	audited(s, id, "lock.released", "bob", "needed elsewhere")
	if n := len(s.Locks()); n != 0 {
		t.Errorf("%d locks are held", n)
	}
	if w := must[views.ExecutionView](s)(s.View.Execution(ctx, stage.Caller, id)).Waiting; w == nil || w.Kind != views.WaitAcknowledge || w.Reason == nil {
		t.Errorf("it waits for %+v", w)
	}
	if _, err := s.Engine.Unlock(ctx, bob, id, ""); !workflow.Is(err, workflow.CodeIllegalTransition) {
		t.Errorf("unlocked twice: %v", err)
	}
	if _, err := s.Engine.Acknowledge(ctx, bob, id, "looked"); err != nil {
		t.Fatal(err)
	}
	audited(s, id, "execution.acknowledged", "bob", "looked")
	s.Ends(id, sm.ExecutionFailedUnsafeAck)
}

// A run that waits for a moment says so, in lists too, and goes on when an
// operator says so.
func TestResumeIsShownAndAudited(t *testing.T) {
	s := open(t, 0, "steps: [{label: one, functionBlock: p/pure:1, runOn: global, delay: 90s}]\n")
	ctx := context.Background()
	id := s.Start("w")
	x := must[views.ExecutionView](s)(s.View.Execution(ctx, stage.Caller, id))
	if w := x.Waiting; w == nil || w.Kind != views.WaitTimer || *w.Step != "one" || !w.Until.Equal(w.Since.Add(90*time.Second)) {
		t.Fatalf("in %s it waits for %+v", x.State, w)
	}
	l := must[workflow.List[views.ExecutionView]](s)(s.View.Executions(ctx, stage.Caller, views.ExecutionFilter{}, workflow.Page{}))
	if diff := cmp.Diff(x.Waiting, l.Items[0].Waiting); diff != "" {
		t.Errorf("in the list: %s", diff)
	}
	if _, err := s.Engine.Resume(ctx, bob, id, "now"); err != nil {
		t.Fatal(err)
	}
	audited(s, id, "execution.resumed", "bob", "now")
	s.Drain()
	s.Ends(id, sm.ExecutionCompletedAck)
}

// N20: a run and the run that it has started name each other, and the latter is
// found by its parent.
func TestN20ParentAndChildAreShown(t *testing.T) {
	s := open(t, 2, "steps:\n  - label: site\n    workflow:\n      steps:\n        - {label: visit, workflowReference: {workflow: \"p/sub:1\", mode: dispatch, executeOnParameters: {type: device, ids: [d001]}}}\n")
	s.Publish("sub", "steps: [{label: one, functionBlock: p/pure:1, runOn: device}]\n")
	ctx := context.Background()
	parent := s.Start("w")
	x := must[views.ExecutionView](s)(s.View.Execution(ctx, stage.Caller, parent))
	if len(x.Children) != 1 || x.Waiting == nil || x.Waiting.Kind != views.WaitChild || *x.Waiting.Child != x.Children[0] || *x.CurrentStep != "visit" || x.Parent != nil {
		t.Fatalf("children %v, waiting %+v, in %v", x.Children, x.Waiting, x.CurrentStep)
	}
	child := x.Children[0]
	for _, of := range []string{parent, child} {
		l := must[workflow.List[views.ExecutionView]](s)(s.View.Executions(ctx, stage.Caller, views.ExecutionFilter{Parent: of}, workflow.Page{}))
		if of == parent && (len(l.Items) != 1 || l.Items[0].ID != child || *l.Items[0].Parent != parent) || of == child && len(l.Items) != 0 {
			t.Errorf("started by %s: %+v", of, l.Items)
		}
	}
	s.Settle(time.Hour)
	s.Ends(parent, sm.ExecutionCompletedAck)
	var told []string
	for _, st := range must[workflow.List[views.StepView]](s)(s.View.Steps(ctx, stage.Caller, parent, workflow.Page{})).Items {
		told = append(told, fmt.Sprintf("%s %s, jobs of its own %v, child %v", st.Step, st.Status, st.Kind != nil, st.Child != nil))
		if c := st.Child; c != nil && (c.ID != child || c.Workflow.Name != "sub" || c.Mode != workflow.ModeDispatch) {
			t.Errorf("child %+v", c)
		}
	}
	if diff := cmp.Diff([]string{"site COMPLETED, jobs of its own false, child false", "visit COMPLETED, jobs of its own false, child true"}, told); diff != "" {
		t.Error(diff)
	}
	if jobs := must[workflow.List[workflow.Job]](s)(s.View.Jobs(ctx, stage.Caller, parent, views.JobFilter{}, workflow.Page{})); len(jobs.Items) != 0 {
		t.Errorf("jobs %+v", jobs.Items)
	}
	x = must[views.ExecutionView](s)(s.View.Execution(ctx, stage.Caller, parent))
	if x.Progress.Steps != (views.StepProgress{Total: 2, Done: 2}) {
		t.Errorf("steps %+v", x.Progress.Steps)
	}
}

// N22, N46: pipelines and repetitions are shown as what they are.
func TestStretchesAndRepeatsAreShown(t *testing.T) {
	s := open(t, 2, `config: {executionStrategy: {parallel: true}}
steps:
  - {label: one, functionBlock: p/again:1, runOn: device}
  - {label: two, functionBlock: p/again:1, runOn: device}
  - {label: poll, functionBlock: p/pure:1, runOn: global, repeat: {count: 2}}
`)
	ctx := context.Background()
	id := s.Start("w", stage.Names(2)...)
	if x := must[views.ExecutionView](s)(s.View.Execution(ctx, stage.Caller, id)); *x.CurrentStep != "one" || x.Blocks["p/again:1"] == "" || x.Waiting.Kind != views.WaitWorker || *x.Waiting.Step != "one" {
		t.Errorf("in %v, blocks %v, waiting %+v", *x.CurrentStep, x.Blocks, x.Waiting)
	}
	s.Settle(time.Hour)
	s.Ends(id, sm.ExecutionCompletedAck)
	var told []string
	show := func(n *int) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	for _, st := range must[workflow.List[views.StepView]](s)(s.View.Steps(ctx, stage.Caller, id, workflow.Page{})).Items {
		told = append(told, fmt.Sprintf("%s visit %d, stretch %s, repeat %s", st.Step, st.Visit, show(st.Stretch), show(st.Repeat)))
	}
	want := []string{
		"one visit 1, stretch 1, repeat -", "two visit 1, stretch 1, repeat -",
		"poll visit 1, stretch -, repeat 1", "poll visit 2, stretch -, repeat 2",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
	if x := must[views.ExecutionView](s)(s.View.Execution(ctx, stage.Caller, id)); x.Progress.Steps != (views.StepProgress{Total: 3, Done: 3}) || x.Progress.Jobs.Total != 6 {
		t.Errorf("progress %+v", x.Progress)
	}
}
