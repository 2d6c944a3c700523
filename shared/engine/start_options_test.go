package engine_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// The start decides whether a failure is rolled back, else the definition does. A rerun for some
// entities keeps what the start said.
func TestStart_SaysWhetherToRollBack(t *testing.T) {
	for _, test := range []struct {
		defined, asked string
		want           sm.ExecutionState
	}{
		{"auto", "", sm.ExecutionFailedSafeAck}, {"auto", "never", sm.ExecutionFailedUnsafe}, {"never", "auto", sm.ExecutionFailedSafeAck}, {"never", "", sm.ExecutionFailedUnsafe},
	} {
		s := newHarness(t, 1)
		s.Publish("w", "config: {rollback: "+test.defined+"}\n"+stepsYAML("one again device", "two again device"))
		s.Script = failCalls("two EXECUTE d000")
		req := harness.NewStartRequest("w", "d000")
		req.Rollback = workflow.RollbackMode(test.asked)
		p, err := s.Query.Plan(t.Context(), harness.Caller, req)
		if err != nil {
			t.Fatal(err)
		}
		if unsafe := p.Steps[1].OnFailure != nil && *p.Steps[1].OnFailure == views.FailureUnsafe; unsafe != (test.want == sm.ExecutionFailedUnsafe) {
			t.Errorf("%+v: the plan says %v", test, *p.Steps[1].OnFailure)
		}
		id := s.StartWith(req)
		settle(s)
		s.ExpectState(id, test.want)
		if v := executionView(t, s, id); (v.Rollback != nil) != (test.asked != "") || test.asked != "" && string(*v.Rollback) != test.asked {
			t.Errorf("%+v", v.Rollback)
		}
		if test.want == sm.ExecutionFailedUnsafe {
			if _, err := s.Engine.Acknowledge(t.Context(), harness.Caller, id, "checked"); err != nil {
				t.Fatal(err)
			}
			settle(s)
		}
		again, _, err := s.Engine.Rerun(t.Context(), harness.Caller, id, views.RerunRequest{Entities: views.RerunEntities{Choice: views.RerunFailed}})
		if err != nil {
			t.Fatal(err)
		}
		settle(s)
		s.ExpectState(again.ID, test.want)
	}
}

// Metadata is stored for the starter, outside of the state item if the input is large.
func TestStart_KeepsMetadata(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one again device"))
	for _, parameters := range []string{`{}`, `{"text":"` + strings.Repeat("x", workflow.MaxInlineInputBytes) + `"}`} {
		req := harness.NewStartRequest("w", "d000")
		req.Metadata, req.Parameters = json.RawMessage(`{"ticket":"CHG-7"}`), json.RawMessage(parameters)
		id := s.StartWith(req)
		settle(s)
		if v := executionView(t, s, id); string(v.Metadata) != `{"ticket":"CHG-7"}` || v.Status != sm.StatusCompleted {
			t.Errorf("metadata %s of %s", v.Metadata, v.State)
		}
	}
	for metadata, code := range map[string]string{`"CHG-7"`: "type", `[]`: "type", `{"a":"` + strings.Repeat("x", workflow.MaxMetadataBytes) + `"}`: "limit"} {
		req := harness.NewStartRequest("w", "d000")
		req.Metadata = json.RawMessage(metadata)
		_, _, err := s.Engine.Start(t.Context(), harness.Caller, req)
		var e *workflow.Error
		if !errors.As(err, &e) || len(e.Issues) != 1 || e.Issues[0].Path != "metadata" || e.Issues[0].Code != code {
			t.Errorf("%.20s: %v", metadata, err)
		}
	}
}

// A start shortens the timeout of an execution, and cannot lengthen it.
func TestStart_ShortensTheTimeout(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", "config: {timeout: 2h}\nsteps:\n  - {label: rest, wait: {for: 90m}}\n")
	req := harness.NewStartRequest("w", "d000")
	for _, timeout := range []time.Duration{-time.Second, time.Nanosecond, 3 * time.Hour} {
		req.Timeout = workflow.Duration(timeout)
		_, _, err := s.Engine.Start(t.Context(), harness.Caller, req)
		expectIssue(t, err, workflow.CodeInvalid, "range")
	}
	req.Timeout = workflow.Duration(time.Hour)
	shorter := s.StartWith(req)
	id := s.Start("w", "d001")
	settle(s)
	if x := s.Load(shorter); x.Cause != workflow.CauseTimeout {
		t.Errorf("%s, %s", x.State, x.Cause)
	}
	s.ExpectState(id, sm.ExecutionCompletedAck)
}
