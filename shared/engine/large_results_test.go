package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// jsonText is a JSON string of kb kilobytes that begins with mark.
func jsonText(mark string, kb int) json.RawMessage {
	return json.RawMessage(`"` + mark + strings.Repeat("x", kb<<10-len(mark)-2) + `"`)
}

// Results that are stored outside their packs are read in full: by expressions, by the
// queries for results and jobs, and by rollback jobs.
func TestResults_OffloadedAreReadInFull(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("w", stepsYAML("one again device", `two again device , parameters: {size: "${size(one.result)}"}`))
	seen := map[string]string{}
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		switch {
		case c.Step == "one" && c.Kind == workflow.JobExecute:
			return &harness.Outcome{Result: jsonText(c.Entity, 300)}
		case c.Step == "one":
			seen[c.Entity] = string(c.Result)
		case c.Entity == "d001" && c.Kind == workflow.JobExecute:
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	}
	var injected int
	s.Faults = func(c faults.Call) faults.Fault {
		if (c.Name == "packs.save_payload" || c.Name == "packs.load_payload") && injected < 3 {
			injected++
			return []faults.Fault{faults.LostReply, faults.CrashAfter, faults.Throttled}[injected-1]
		}
		return faults.None
	}
	id := s.Start("w", harness.DeviceIDs(3)...)
	settle(s)
	s.Faults = nil
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	for _, name := range harness.DeviceIDs(3) {
		if seen[name] != string(jsonText(name, 300)) {
			t.Errorf("the rollback of %s got a result of %d bytes", name, len(seen[name]))
		}
	}
	list, err := s.Query.Jobs(context.Background(), harness.Caller, id, views.JobFilter{Step: "one", Kind: workflow.JobExecute}, workflow.Page{})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range list.Items {
		if j.State == sm.JobCompleted && string(j.Result) != string(jsonText(j.Entity.ID, 300)) {
			t.Errorf("the job of %s is listed with a result of %d bytes", j.Entity, len(j.Result))
		}
	}
	result, err := s.Query.Result(context.Background(), harness.Caller, id)
	if err != nil || injected != 3 || len(result.Steps["one"].Results) != 3 {
		t.Errorf("%v %v", result.Steps["one"].Results, err)
	}
	for name, r := range result.Steps["one"].Results {
		if string(r) != string(jsonText(name, 300)) {
			t.Errorf("the result of %s has %d bytes", name, len(r))
		}
	}
}

// Expressions that would read more than MaxResultBytes fail the step before any result
// is loaded.
func TestResults_OverLimitFailBeforeLoading(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("w", stepsYAML("one pure device", `two again global , parameters: {size: "${size(one.results)}"}`))
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "one" {
			return &harness.Outcome{Result: jsonText(c.Entity, 500)}
		}
		return nil
	}
	loads := 0
	s.Faults = func(c faults.Call) faults.Fault {
		if c.Name == "packs.load_payload" {
			loads++
		}
		return faults.None
	}
	id := s.Start("w", harness.DeviceIDs(3)...)
	settle(s)
	x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if x.Cause != workflow.CauseLimit || loads != 0 {
		t.Errorf("cause %s after %d reads", x.Cause, loads)
	}
}
