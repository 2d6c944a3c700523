package engine_test

import (
	"context"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// failStepTwoAndRollback lets step two fail, and then the rollback of step one.
func failStepTwoAndRollback(c harness.BlockCall) *harness.Outcome {
	if c.Step == "two" || c.Kind == workflow.JobRollback {
		return &harness.Outcome{FailCode: "REFUSED"}
	}
	return nil
}

const twoStepWorkflow = "steps: [{label: one, functionBlock: p/once:1, runOn: device}, {label: two, functionBlock: p/pure:1, runOn: device}]\n"

// A rollback that failed has not undone anything: a retry that fails before it has
// done anything else ends unsafely too.
func TestRollback_FailedStaysUnsafeAfterRetry(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", twoStepWorkflow)
	s.Script = failStepTwoAndRollback
	id := s.Start("w", "d000")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, harness.Caller, id, views.RetryRequest{Reason: "once more", From: "two"})
	})
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
}

// What a child has not undone stands, and its parent is not safe.
func TestRollback_FailedInChildMakesParentUnsafe(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("sub", twoStepWorkflow)
	s.Publish("w", "steps: [{label: go, workflowReference: {workflow: p/sub, mode: dispatch, executeOnParameters: {ids: [d000]}}}]\n")
	s.Script = failStepTwoAndRollback
	id := s.Start("w")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
}

// Two starts under one key meet two versions: the run is driven with the one that
// it was written with, whoever drives it.
func TestStart_UsesPinnedVersion(t *testing.T) {
	for seed := range uint64(40) {
		s := newHarness(t, 0)
		s.Reset(seed)
		s.Publish("w", "steps: [{label: one, functionBlock: p/pure:1, runOn: global}]\n")
		start := func() {
			req := harness.NewStartRequest("w")
			req.IdempotencyKey = "k"
			_, _, _ = s.Engine.Start(context.Background(), harness.Caller, req)
		}
		first := s.StartTask("first", start)
		first.RunPast("registry.bind_idempotency_key")
		s.WithoutFaults(func() {
			_, _, err := s.Catalog.Publish(context.Background(), harness.Caller,
				[]byte("package: p\nname: w\nversion: 2.0.0\nsteps: [{label: one, functionBlock: p/pure:1, runOn: global}, {label: two, functionBlock: p/pure:1, runOn: global}]\n"), false)
			if err != nil {
				s.Fatal(err)
			}
		})
		s.Interleave(first, s.StartTask("second", start))
		settle(s)
		for id := range s.States(harness.Caller.Tenant) {
			x := s.ExpectState(id, sm.ExecutionCompletedAck)
			if want := map[string]int{"1.0.0": 1, "2.0.0": 2}[x.Workflow.Version]; len(s.CallsOf(id)) != want || len(x.StepRuns) != want {
				t.Fatalf("seed %d: %s ran %v", seed, x.Workflow, s.CallsOf(id))
			}
		}
	}
}
