package query_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// TestNext_TellsWhatAProbeWouldDo: a probe executes the pure steps under shared locks, applies no
// updates, and returns the parameters of the next step. An execution started afterwards calls the
// block with exactly these.
func TestNext_TellsWhatAProbeWouldDo(t *testing.T) {
	for _, parallel := range []bool{false, true} {
		s := newPlanHarness(t, 5)
		s.Publish("w", fmt.Sprintf(`config: {executionStrategy: {parallel: %t}}
steps:
  - {label: look, functionBlock: p/pure:1, runOn: device}
  - {label: change, functionBlock: p/again:1, runOn: device, condition: 'look.result.n > 1', parameters: {was: '${look.result.n}'}}
  - {label: report, functionBlock: p/pure:1, runOn: global}
`, parallel))
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			if c.Step == "look" {
				return &harness.Outcome{Result: json.RawMessage(`{"n":` + strings.TrimLeft(c.Entity, "d0") + `0}`), SetAttributes: map[string]any{"seen": true}}
			}
			return nil
		}
		s.Script = withFirstResult(s.Script)
		req := harness.NewStartRequest("w", harness.DeviceIDs(5)...)
		req.Mode = views.ModeProbe
		id := s.StartWith(req)
		if _, err := s.Query.Next(context.Background(), harness.Caller, id, workflow.Page{}); !workflow.Is(err, workflow.CodeConflict) {
			t.Errorf("before it has completed: %v", err)
		}
		s.RunUntilIdle(time.Hour)
		x := s.ExpectState(id, sm.ExecutionCompletedAck)
		if x.Outcome() != workflow.OutcomeProbed || x.LockMode != workflow.LockShared || s.HasCalled(id, "change EXECUTE d001") || s.HasCalled(id, "report EXECUTE ") || !s.HasCalled(id, "look EXECUTE d001") {
			t.Fatalf("outcome %s, locks %q, calls %v", x.Outcome(), x.LockMode, s.CallsOf(id))
		}
		if l, err := s.Catalog.Entity(context.Background(), harness.Caller, workflow.EntityKey{Type: "device", ID: "d001"}); err != nil || strings.Contains(string(l.Attributes), "seen") {
			t.Errorf("an update was applied: %s, %v", l.Attributes, err)
		}
		want := map[string]string{}
		page := workflow.Page{Limit: 3}
		for pages := 1; ; pages++ {
			n, err := s.Query.Next(context.Background(), harness.Caller, id, page)
			if err != nil || n.Step == nil || *n.Step != "change" || *n.Block != "p/again:1.0.0" || n.Jobs != 4 || n.Skipped != 1 {
				t.Fatalf("%+v, %v", n, err)
			}
			for _, j := range n.Items {
				want[strings.TrimPrefix(*j.Entity, "device/")] = string(j.Parameters)
			}
			if n.NextPageToken == nil {
				if pages != 2 || len(want) != 4 {
					t.Errorf("%d jobs on %d pages", len(want), pages)
				}
				break
			}
			page.Token = *n.NextPageToken
		}

		req.Mode = ""
		follower := s.StartWith(req)
		s.RunUntilIdle(time.Hour)
		s.ExpectState(follower, sm.ExecutionCompletedAck)
		called := 0
		for _, c := range s.BlockCalls {
			if c.Execution == follower && c.Step == "change" {
				if called++; want[c.Entity] != string(c.Parameters) {
					t.Errorf("%s: told %s, called with %s", c.Entity, want[c.Entity], c.Parameters)
				}
			}
		}
		if called != 4 {
			t.Errorf("%d calls", called)
		}
		if _, err := s.Query.Next(context.Background(), harness.Caller, follower, workflow.Page{}); !workflow.Is(err, workflow.CodeConflict) {
			t.Errorf("of an execution that is no probe: %v", err)
		}
	}
}

// withFirstResult gives d000 the result 0, for which the other script makes no JSON.
func withFirstResult(next func(harness.BlockCall) *harness.Outcome) func(harness.BlockCall) *harness.Outcome {
	return func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "look" && c.Entity == "d000" {
			return &harness.Outcome{Result: json.RawMessage(`{"n":0}`)}
		}
		return next(c)
	}
}

// TestNext_OfPureSteps: a probe that has executed everything has nothing else to do, and one
// whose first step is not pure executes nothing.
func TestNext_OfPureSteps(t *testing.T) {
	s := newPlanHarness(t, 2)
	s.Publish("pure", "steps:\n  - {label: look, functionBlock: p/pure:1, runOn: device}\n")
	s.Publish("change", "steps:\n  - {label: change, functionBlock: p/forever:1, runOn: device}\n")
	for name, step := range map[string]string{"pure": "", "change": "change"} {
		req := harness.NewStartRequest(name, "d000", "d001")
		req.Mode = views.ModeProbe
		id := s.StartWith(req)
		s.RunUntilIdle(time.Hour)
		if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.Outcome() != workflow.OutcomeProbed || s.HasCalled(id, "change EXECUTE d000") {
			t.Errorf("%s: outcome %s, calls %v", name, x.Outcome(), s.CallsOf(id))
		}
		n, err := s.Query.Next(context.Background(), harness.Caller, id, workflow.Page{})
		if err != nil || (n.Step == nil) != (step == "") || step != "" && (*n.Step != step || n.Jobs != 2) {
			t.Errorf("%s: %+v, %v", name, n, err)
		}
	}
	if _, _, err := s.Engine.Start(context.Background(), harness.Caller, views.StartRequest{Workflow: "p/pure", Mode: "rehearse"}); !workflow.Is(err, workflow.CodeInvalid) {
		t.Errorf("an unknown mode: %v", err)
	}
}
