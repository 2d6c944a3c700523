package query_test

import (
	"context"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// The step run of a retry shows which branches it has not executed again, and where what they did is.
func TestSteps_ShowBranchesThatARetryKeeps(t *testing.T) {
	s := newHarness(t, 0, "steps: [{label: gather, parallel: {branches: [{label: left, steps: [{label: first, functionBlock: p/pure:1, runOn: global}, {label: second, functionBlock: p/pure:1, runOn: global}, {label: bad, functionBlock: p/pure:1, runOn: global}]}, {label: right, steps: [{label: good, functionBlock: p/pure:1, runOn: global}]}]}}]\n")
	fails := true
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "bad" && fails {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	}
	id := s.StartWith(harness.NewStartRequest("w"))
	s.RunUntilIdle(0)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	fails = false
	if _, err := s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{Reason: "mended"}); err != nil {
		t.Fatal(err)
	}
	s.RunUntilIdle(0)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	kept := 0
	for _, r := range must[workflow.List[views.StepView]](s)(s.Query.Steps(context.Background(), harness.Caller, id, workflow.Page{})).Items {
		switch {
		case r.Step == "gather" && r.Try == 2:
			if kept++; r.Kept == nil || r.Kept.Of != 1 || len(r.Kept.Branches) != 1 || r.Kept.Branches[0] != "right" {
				t.Errorf("%+v", r.Kept)
			}
		case r.Kept != nil:
			t.Errorf("step run %d keeps %+v", r.Sequence, r.Kept)
		}
	}
	if kept != 1 {
		t.Errorf("%d step runs of the retry have branches", kept)
	}
}
