package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// A retry that begins with a step that handles the failure of an embedded definition keeps what
// the steps of that definition have done.
func TestFlow_RetryKeepsWhatAnEmbeddedDefinitionDid(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("inner", `steps:
  - {label: up, functionBlock: p/forever:1, runOn: device}
  - {label: bad, functionBlock: p/pure:1, runOn: global}
`)
	s.Publish("w", `steps:
  - {label: e, workflowReference: {workflow: "p/inner:1"}, onFailure: [{steps: [{label: h, functionBlock: p/pure:1, runOn: global}]}]}
  - {label: last, functionBlock: p/pure:1, runOn: global}
`)
	broken := true
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		switch {
		case c.Step == "e.up":
			return &harness.Outcome{SetAttributes: map[string]any{"version": 2}}
		case c.Step == "e.bad", c.Step == "h" && broken:
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(3)...)
	settle(s)
	if x := s.Load(id); x.Error == nil || x.Error.Step != "h" {
		t.Fatalf("%s, %+v", x.State, x.Error)
	}
	broken, s.BlockCalls = false, nil
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "mended", Entities: "all"}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, callsWithParameters(s, id), "h {}", "last {}")
	d000 := workflow.EntityKey{Type: "device", ID: "d000"}
	entities, err := s.Open().Registry.Entities(t.Context(), harness.Caller.Tenant, []workflow.EntityKey{d000}, true)
	if err != nil || !strings.Contains(string(entities[d000].Attributes), `"version":2`) {
		t.Errorf("d000 is %+v (%v), want version 2", entities[d000], err)
	}
}

// If a plan differs when it is made again, the execution stops: it does not treat the packs as
// those of other entities.
func TestPlan_MadeAgainIsChecked(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("w", `steps:
  - {label: one, functionBlock: p/again:1, runOn: device}
  - {label: two, functionBlock: p/pure:1, runOn: global}
`)
	id, executed := s.Start("w", harness.DeviceIDs(3)...), false
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step != "two" {
			return nil
		}
		if !executed {
			x := s.Load(id)
			next := x.Clone()
			next.Version, next.StepRuns[0].Jobs = x.Version+1, 2
			if _, ok, err := s.Open().Store.Commit(t.Context(), x.Version, next, workflow.CommitOptions{}); !ok || err != nil {
				t.Errorf("change the item: %v, %v", ok, err)
			}
		}
		executed = true
		return &harness.Outcome{FailCode: "NO"}
	}
	settle(s)
	x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
	if !executed || x.Cause != workflow.CauseInternal {
		t.Errorf("cause %s, %+v", x.Cause, x.Error)
	}
	if s.HasCalled(id, "one ROLLBACK d000") {
		t.Errorf("undone: %v", s.CallsOf(id))
	}
}

// A cancelled execution reports which entities it has changed, even after these are acknowledged,
// one after another.
func TestCancel_UnsafeStaysUnsafe(t *testing.T) {
	s, id := waiting(t, `steps:
  - {label: look, functionBlock: p/pure:1, runOn: device}
  - {label: one, condition: 'entity.id != "d001"', functionBlock: p/forever:1, runOn: device}
  - {label: pause, wait: {for: 9000h}}
`, "", nil)
	if _, err := s.Engine.Cancel(t.Context(), harness.Caller, id, views.CancelRequest{}); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	outcomes := func(state sm.ExecutionState) string {
		s.ExpectState(id, state)
		x, err := s.Query.Execution(t.Context(), harness.Caller, id)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(x.EntityOutcomes)
	}
	before := outcomes(sm.ExecutionCancelled)
	for i, device := range harness.DeviceIDs(3) {
		if n := len(s.Locks()); n != 3-i {
			t.Errorf("%d locks before the acknowledgement of %s", n, device)
		}
		if _, err := s.Engine.Acknowledge(t.Context(), harness.Caller, id, "checked", workflow.EntityKey{Type: "device", ID: device}); err != nil {
			t.Fatal(err)
		}
		s.Drain()
	}
	if after := outcomes(sm.ExecutionCancelledAck); after != before || after != "map[FAILED_SAFE:1 FAILED_UNSAFE:2]" {
		t.Errorf("%s, after the acknowledgement %s", before, after)
	}
}

// What stands before a retry does not change when the execution leaves a step that the retry has
// opened to get to its beginning: variables set in it before stay.
func TestFlow_RetryKeepsVariablesOfStepsThatItOpened(t *testing.T) {
	const pure = "functionBlock: p/pure:1, runOn: global"
	calls, fails := map[string]int{}, map[string]int{"one": 1, "two": 3}
	s, id, _ := flow(t, `steps:
  - label: outer
    workflow:
      steps:
        - {label: one, `+pure+`, onFailure: [{when: {path: seen, op: notExists}, steps: [{label: see, set: {seen: 1}}], next: one}]}
        - {label: two, `+pure+`}
    onFailure: [{when: {path: tries, op: notExists}, steps: [{label: count, set: {tries: 1}}], next: outer}]
`, "", func(c harness.BlockCall) *harness.Outcome {
		if calls[c.Step]++; calls[c.Step] <= fails[c.Step] {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	})
	if x := s.Load(id); x.Error == nil || x.Error.Step != "two" {
		t.Fatalf("%s, %+v", x.State, x.Error)
	}
	fails["one"] = 100 // not before the retry has gone back
	s.BlockCalls = nil
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "mended"}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	x := s.Load(id)
	expectCalls(t, callsWithParameters(s, id), "two {}", "one {}")
	if x.Error == nil || x.Error.Step != "one" {
		t.Errorf("%s, %+v: want a failure of step one, which has been seen before", x.State, x.Error)
	}
}
