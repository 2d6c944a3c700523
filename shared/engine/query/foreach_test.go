package query_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// Jobs name their item and show a short form of it, results are listed by its number, and a step
// run shows its list.
func TestForeach_IsShown(t *testing.T) {
	s := newPlanHarness(t, 0)
	s.Publish("w", `config: {rollback: never}
steps:
  - label: each
    loop: {over: "${[4, 2]}"}
    workflow:
      steps:
        - label: push
          functionBlock: p/pure:1
          runOn: item
          foreach: {items: "${parameters.list.filter(x, item > 2 || x != 1)}", failureTolerance: 1}
          parameters: {n: "${index}"}
`)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if strings.Contains(string(c.Parameters), "3") {
			return &harness.Outcome{FailCode: "NO"}
		}
		return &harness.Outcome{Result: c.Parameters}
	}
	req := harness.NewStartRequest("w")
	req.Parameters = []byte(`{"list":[{"id":7,"name":"zrh"},{"id":"bsl"},"` + strings.Repeat("x", 100) + `",1,[2]]}`)
	id := s.StartWith(req)
	s.RunUntilIdle(time.Hour)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	var shown []string
	for _, j := range s.Jobs(id) {
		if j.Entity != nil || j.Token != nil || j.Item == nil || j.ItemText == nil {
			t.Fatalf("%+v", j)
		}
		shown = append(shown, fmt.Sprintf("%d.%d %s", j.StepRunOrdinal, *j.Item, *j.ItemText))
	}
	long := strings.Repeat("x", workflow.MaxItemText-3) + "…"
	if diff := cmp.Diff([]string{"1.0 zrh", "1.1 bsl", "1.2 " + long, "1.3 1", "1.4 [2]", "2.0 zrh", "2.1 bsl", "2.2 " + long, "2.3 [2]"}, shown); diff != "" {
		t.Error(diff)
	}
	r := must[views.ResultView](s)(s.Query.Result(context.Background(), harness.Caller, id)).Steps["push"]
	if len(r.Results) != 3 || string(r.Results["2"]) != `{"n":2}` || r.Result != nil || r.RunOn != "item" {
		t.Errorf("%+v", r)
	}
	steps := must[workflow.List[views.StepView]](s)(s.Query.Steps(context.Background(), harness.Caller, id, workflow.Page{})).Items
	if string(steps[0].Value) != "[4,2]" || !strings.HasSuffix(string(steps[2].Value), `x",[2]]`) || steps[1].Jobs.Failed != 1 {
		t.Errorf("%+v", steps)
	}
	x := must[views.ExecutionView](s)(s.Query.Execution(context.Background(), harness.Caller, id))
	if x.Outcome == nil || *x.Outcome != workflow.OutcomePartial {
		t.Errorf("%+v", x.Outcome)
	}
}

// A plan counts the jobs for a list of parameters, and says that a list of results is unknown.
func TestPlan_TellsItems(t *testing.T) {
	s := newPlanHarness(t, 0)
	s.Publish("w", `steps:
  - {label: known, functionBlock: p/again:1, runOn: item, foreach: {items: "${parameters.list}", as: x, failureTolerance: 50%}, condition: "x != 'b'", parameters: {x: "${x}", n: "${index}"}}
  - {label: told, functionBlock: p/pure:1, runOn: item, foreach: {items: "${known.results}"}, condition: "item != null", parameters: {x: "${item}"}}
  - {label: none, functionBlock: p/pure:1, runOn: item, foreach: {items: "${parameters.none}"}, condition: has(parameters.none)}
  - {label: partly, functionBlock: p/forever:1, runOn: item, foreach: {items: "${parameters.list}"}, condition: "known.results[index] != item"}
  - {label: wrong, functionBlock: p/pure:1, runOn: item, foreach: {items: "${parameters.number}"}}
`)
	req := harness.NewStartRequest("w")
	req.Parameters = []byte(`{"list":["a","b","c","d","e"],"number":5}`)
	p, err := planOf(t, s, req)
	if err != nil {
		t.Fatal(err)
	}
	if got := step(t, p, "known"); got.Jobs != 4 || got.Skipped != 1 || got.Messages != 2 || got.AtMost || len(got.Unknown) != 0 || got.Tolerated != 2 || *got.RunOn != "item" ||
		!strings.Contains(got.IfFails, "up to 2 items may fail, with the outcome PARTIAL") {
		t.Errorf("%+v", got)
	}
	if got := step(t, p, "told"); got.Jobs != 1 || cmp.Diff([]string{"condition", "parameters", "items"}, got.Unknown) != "" {
		t.Errorf("%+v", got)
	}
	if got := step(t, p, "none"); got.Jobs != 0 || got.Skipped != 1 || got.Fails {
		t.Errorf("%+v", got)
	}
	if got := step(t, p, "partly"); got.Jobs != 5 || !got.AtMost || got.Effect != views.EffectIrreversible || *got.OnFailure != views.FailureUnsafe {
		t.Errorf("%+v", got)
	}
	if got := step(t, p, "wrong"); !got.Fails || got.Problem == nil || got.Problem.Code != workflow.FailureLoop || !p.Fails {
		t.Errorf("%+v", got)
	}
}

// What a probe would do next names items.
func TestNext_NamesItems(t *testing.T) {
	s := newPlanHarness(t, 0)
	s.Publish("w", `steps:
  - {label: look, functionBlock: p/pure:1, runOn: item, foreach: {items: "${[1, 2, 3]}"}}
  - {label: push, functionBlock: p/once:1, runOn: item, foreach: {items: "${look.results}"}, condition: index > 0, parameters: {n: "${item.attempt}"}}
`)
	req := harness.NewStartRequest("w")
	req.Mode = views.ModeProbe
	id := s.StartWith(req)
	s.RunUntilIdle(time.Hour)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	n := must[views.NextView](s)(s.Query.Next(context.Background(), harness.Caller, id, workflow.Page{}))
	if *n.Step != "push" || n.Jobs != 2 || *n.Items[1].Item != 2 || n.Items[1].Entity != nil || string(n.Items[1].Parameters) != `{"n":1}` {
		t.Errorf("%+v", n)
	}
}

// Items whose turn never came, since the step ended before, are listed as cancelled.
func TestForeach_ItemsThatNeverBeganAreCancelled(t *testing.T) {
	s := newPlanHarness(t, 0)
	s.Publish("w", `config: {rollback: never}
steps:
  - {label: push, functionBlock: p/pure:1, runOn: item, foreach: {items: "${[0, 1, 2]}", maxInFlight: 1}}
`)
	s.Script = func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{FailCode: "NO"} }
	id := s.Start("w")
	s.RunUntilIdle(time.Hour)
	var states []sm.JobState
	for _, j := range s.Jobs(id) {
		states = append(states, j.State)
	}
	if diff := cmp.Diff([]sm.JobState{sm.JobFailed, sm.JobCancelled, sm.JobCancelled}, states); diff != "" {
		t.Error(diff)
	}
	if x := must[views.ExecutionView](s)(s.Query.Execution(context.Background(), harness.Caller, id)); *x.Progress.Jobs.Cancelled != 2 {
		t.Errorf("%+v", x.Progress.Jobs)
	}
}
