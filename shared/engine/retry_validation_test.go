package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// retryError retries an execution without faults and returns the error.
func retryError(s *harness.Harness, id string, req views.RetryRequest) (err error) {
	s.Helper()
	s.WithoutFaults(func() { _, err = s.Engine.Retry(context.Background(), harness.Caller, id, req) })
	return err
}

// A retry refuses what a start refuses: an execution that was rejected because it would
// change entities under shared locks never takes those locks.
func TestRetry_RefusesChangesUnderSharedLocks(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("writes", sharedLockMode+stepsYAML("one once device"))
	id := s.Start("writes", "d000", "d001")
	settle(s)
	x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if x.Cause != workflow.CauseValidation {
		t.Fatalf("cause %s", x.Cause)
	}
	err := retryError(s, id, views.RetryRequest{Reason: "once more"})
	if !workflow.Is(err, workflow.CodeIllegalTransition) || !strings.Contains(err.Error(), "share locks") {
		t.Errorf("retry: %v", err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if calls := s.CallsOf(id); len(calls) > 0 {
		t.Errorf("blocks were called: %v", calls)
	}
}

// In pipelines later steps are reached while an earlier one has failed for some entity.
// A retry cannot begin behind the failure: that entity would end without the step.
func TestRetry_RefusesStepBehindFailureInPipeline(t *testing.T) {
	for _, strategy := range []string{"{parallel: true}", "{parallel: false}"} {
		t.Run(strategy, func(t *testing.T) {
			s := newHarness(t, 3)
			s.Publish("w", "config: {rollback: never, executionStrategy: "+strategy+"}\n"+stepsYAML("a once device", "b once device", "c once device", "d once device"))
			mended := false
			s.Script = failUntil("b", "d001", &mended)
			id := s.Start("w", harness.DeviceIDs(3)...)
			settle(s)
			s.ExpectState(id, sm.ExecutionFailedUnsafe)
			mended = true
			for _, entities := range []views.RetryEntities{"all", "failed"} {
				if err := retryError(s, id, views.RetryRequest{From: "c", Entities: entities}); !workflow.Is(err, workflow.CodeInvalid) {
					t.Errorf("retry of %s: %v", entities, err)
				}
			}
			if err := retryError(s, id, views.RetryRequest{From: "b", Entities: "failed"}); err != nil {
				t.Fatal(err)
			}
			settle(s)
			s.ExpectState(id, sm.ExecutionCompletedAck)
			done := map[string]bool{}
			for _, call := range s.BlockCalls {
				if call.Entity == "d001" && call.Kind == workflow.JobExecute {
					done[call.Step] = true
				}
			}
			if len(done) != 4 {
				t.Errorf("d001 took part in %v only", done)
			}
		})
	}
}
