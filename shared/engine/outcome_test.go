package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// failFor makes the block of a step fail for a device.
func failFor(step, device string) func(harness.BlockCall) *harness.Outcome {
	return func(c harness.BlockCall) *harness.Outcome {
		if c.Kind == workflow.JobExecute && c.Step == step && c.Entity == device {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
}

// TestOutcome_FailureIsToldPerEntity: a failure within the tolerance is undone on its own entity,
// or reported as unsafe, and what succeeded stands.
func TestOutcome_FailureIsToldPerEntity(t *testing.T) {
	for name, c := range map[string]struct {
		config, blocks string // blocks of the steps a and b
		second         string
		state          sm.ExecutionState
		outcome        workflow.Outcome
		counts         map[workflow.EntityOutcome]int
		calls          map[string]int // of rollbacks
	}{
		"undone": {
			"{failureTolerance: 1}", "again", "again", sm.ExecutionCompletedAck, workflow.OutcomePartial,
			map[workflow.EntityOutcome]int{workflow.EntityFailedSafe: 1}, map[string]int{"b ROLLBACK d001": 1, "a ROLLBACK d001": 1},
		},
		"left": {
			"{failureTolerance: 1, onEntityFailure: leave}", "again", "again", sm.ExecutionCompletedAck, workflow.OutcomePartial,
			map[workflow.EntityOutcome]int{workflow.EntityLeft: 1}, map[string]int{},
		},
		"unsafe": {
			"{failureTolerance: 1}", "again", "forever", sm.ExecutionFailedUnsafe, workflow.OutcomeFailedUnsafe,
			map[workflow.EntityOutcome]int{workflow.EntityFailedUnsafe: 1}, map[string]int{},
		},
		"pure": {
			"{failureTolerance: 1}", "pure", "pure", sm.ExecutionCompletedAck, workflow.OutcomePartial,
			map[workflow.EntityOutcome]int{workflow.EntityFailedSafe: 1}, map[string]int{},
		},
		"never rolled back": {
			"{failureTolerance: 1, rollback: never}", "again", "again", sm.ExecutionFailedUnsafe, workflow.OutcomeFailedUnsafe,
			map[workflow.EntityOutcome]int{workflow.EntityFailedUnsafe: 1}, map[string]int{},
		},
		"beyond the tolerance": {
			"{failureTolerance: 0}", "again", "again", sm.ExecutionFailedSafeAck, workflow.OutcomeFailedSafe,
			map[workflow.EntityOutcome]int{workflow.EntityFailedSafe: 3}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, 3)
			s.Publish("w", "config: "+c.config+"\nsteps:\n  - {label: a, functionBlock: p/"+c.blocks+":1, runOn: device}\n  - {label: b, functionBlock: p/"+c.second+":1, runOn: device}\n")
			s.Script = failFor("b", "d001")
			id := s.Start("w", harness.DeviceIDs(3)...)
			s.RunUntilIdle(time.Hour)
			x := s.ExpectState(id, c.state)
			if x.Outcome() != c.outcome || x.Result == nil || cmp.Diff(c.counts, x.Result.Count) != "" {
				t.Fatalf("outcome %s, result %+v", x.Outcome(), x.Result)
			}
			if f := x.Result.Named[0]; f.Entity != "device/d001" || f.Step != "b" || f.Code == "" || f.Message == "" {
				t.Errorf("named %+v", f)
			}
			rollbacks := map[string]int{}
			for _, call := range s.CallsOf(id) {
				if len(call) > 2 && call[2:10] == "ROLLBACK" {
					rollbacks[call]++
				}
			}
			if c.calls != nil && cmp.Diff(c.calls, rollbacks) != "" {
				t.Error(cmp.Diff(c.calls, rollbacks))
			}
			if kept := x.Kept; (c.state == sm.ExecutionFailedUnsafe) != (kept != nil) || kept != nil && kept.String() != "2" {
				t.Errorf("keeps %v", kept)
			}
			s.CheckInvariants()
		})
	}
}

// TestOutcome_FailedRollbackKeepsItsEntity: if a rollback fails for one device, the locks of
// that one are kept, and the end names it.
func TestOutcome_FailedRollbackKeepsItsEntity(t *testing.T) {
	s := newHarness(t, 4)
	s.Publish("w", "steps:\n  - {label: a, functionBlock: p/again:1, runOn: device}\n  - {label: b, functionBlock: p/pure:1, runOn: device}\n")
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "b" && c.Entity == "d000" || c.Kind == workflow.JobRollback && c.Entity == "d002" {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(4)...)
	s.RunUntilIdle(time.Hour)
	x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
	if x.Kept == nil || x.Kept.String() != "3" || x.Result == nil || x.Result.Named[0].Entity != "device/d002" || x.Result.Count[workflow.EntityFailedSafe] != 3 {
		t.Errorf("keeps %v, result %+v", x.Kept, x.Result)
	}
}

// TestOutcome_AssertionInPipeline: the same if entities pass through the steps on their own.
// Without tolerance the step fails at once.
func TestOutcome_AssertionInPipeline(t *testing.T) {
	for name, c := range map[string]struct {
		tolerance string
		state     sm.ExecutionState
		outcome   workflow.Outcome
	}{
		"tolerated":            {"1", sm.ExecutionCompletedAck, workflow.OutcomePartial},
		"not tolerated":        {"0", sm.ExecutionFailedSafeAck, workflow.OutcomeFailedSafe},
		"beyond the tolerance": {"10%", sm.ExecutionFailedSafeAck, workflow.OutcomeFailedSafe},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, 3)
			s.Publish("w", "config: {executionStrategy: {parallel: true}, failureTolerance: "+c.tolerance+"}\nsteps:\n  - {label: a, functionBlock: p/again:1, runOn: device}\n  - {label: b, functionBlock: p/pure:1, runOn: device, assert: 'entity.id != \"d001\"'}\n  - {label: c, functionBlock: p/pure:1, runOn: device}\n")
			id := s.Start("w", harness.DeviceIDs(3)...)
			s.RunUntilIdle(time.Hour)
			x := s.ExpectState(id, c.state)
			if x.Outcome() != c.outcome || x.StepRuns[0].Pipeline == 0 {
				t.Errorf("outcome %s", x.Outcome())
			}
			if s.HasCalled(id, "b EXECUTE d001") || s.HasCalled(id, "c EXECUTE d001") || !s.HasCalled(id, "a ROLLBACK d001") {
				t.Errorf("calls %v", s.CallsOf(id))
			}
			if c.outcome == workflow.OutcomePartial && (x.Result == nil || x.Result.Sets[workflow.EntityFailedSafe].String() != "2" || !s.HasCalled(id, "c EXECUTE d002")) {
				t.Errorf("result %+v", x.Result)
			}
			if c.outcome != workflow.OutcomePartial && (x.Cause != workflow.CauseAssertion || x.Error.Entity != "device/d001") {
				t.Errorf("cause %s, %+v", x.Cause, x.Error)
			}
			s.CheckInvariants()
		})
	}
}

// TestOutcome_AssertionOfEntityFailsThatEntity: an assertion that reads the entity fails it,
// within the tolerance; it takes no part in later steps.
func TestOutcome_AssertionOfEntityFailsThatEntity(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("w", "config: {failureTolerance: 1}\nsteps:\n  - {label: a, functionBlock: p/pure:1, runOn: device, assert: 'entity.id != \"d001\"'}\n  - {label: b, functionBlock: p/pure:1, runOn: device}\n")
	id := s.Start("w", harness.DeviceIDs(3)...)
	s.RunUntilIdle(time.Hour)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if x.Outcome() != workflow.OutcomePartial || x.Result == nil || x.Result.Sets[workflow.EntityFailedSafe].String() != "2" || x.Result.Named[0].Code != workflow.FailureAssertion {
		t.Errorf("outcome %s, result %+v", x.Outcome(), x.Result)
	}
	if s.HasCalled(id, "a EXECUTE d001") || s.HasCalled(id, "b EXECUTE d001") || !s.HasCalled(id, "b EXECUTE d002") {
		t.Errorf("calls %v", s.CallsOf(id))
	}

	s.Publish("v", "config: {failureTolerance: 2}\nsteps:\n  - {label: a, functionBlock: p/pure:1, runOn: device, assert: 'parameters.go == true'}\n")
	id = s.Start("v", harness.DeviceIDs(3)...)
	s.RunUntilIdle(time.Hour)
	x = s.ExpectState(id, sm.ExecutionFailedSafeAck) // it is the same for all entities
	if x.Error.Code != workflow.FailureAssertion || x.Error.Entity != "" {
		t.Errorf("it names an entity, which has not failed: %+v", x.Error)
	}
}

// TestOutcome_UndoStopsAtItsFailure: if undoing one step fails for an entity, the steps before it
// are not undone for that entity, but are for the others.
func TestOutcome_UndoStopsAtItsFailure(t *testing.T) {
	s := newHarness(t, 4)
	s.Publish("w", "config: {failureTolerance: 2}\nsteps:\n  - {label: a, functionBlock: p/again:1, runOn: device}\n  - {label: b, functionBlock: p/again:1, runOn: device}\n  - {label: c, functionBlock: p/pure:1, runOn: device}\n")
	s.Script = failCalls("c EXECUTE d001", "c EXECUTE d002", "b ROLLBACK d001")
	id := s.Start("w", harness.DeviceIDs(4)...)
	s.RunUntilIdle(time.Hour)
	x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
	if s.HasCalled(id, "a ROLLBACK d001") || !s.HasCalled(id, "a ROLLBACK d002") || s.HasCalled(id, "b ROLLBACK d000") {
		t.Errorf("calls %v", s.CallsOf(id))
	}
	if x.Kept == nil || x.Kept.String() != "2" || x.Result.Named[0].Entity != "device/d001" || x.Result.Sets[workflow.EntityFailedSafe].String() != "3" {
		t.Errorf("keeps %v, result %+v", x.Kept, x.Result)
	}
}

// TestOutcome_UpdatesOfFailedEntitiesAreNotWritten: what the jobs of an entity that failed
// want written to the inventory is not, because what they did is undone.
func TestOutcome_UpdatesOfFailedEntitiesAreNotWritten(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", "config: {failureTolerance: 1}\nsteps:\n  - {label: a, functionBlock: p/again:1, runOn: device}\n  - {label: b, functionBlock: p/pure:1, runOn: device}\n")
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "b" && c.Entity == "d001" {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return &harness.Outcome{SetAttributes: map[string]any{"by": "w"}}
	}
	id := s.Start("w", harness.DeviceIDs(2)...)
	s.RunUntilIdle(time.Hour)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	for _, key := range devices("d000", "d001") {
		e, err := s.Catalog.Entity(t.Context(), harness.Caller, key)
		if err != nil || strings.Contains(string(e.Attributes), `"by"`) != (key.ID == "d000") {
			t.Errorf("%s has %s, %v", key, e.Attributes, err)
		}
	}
}

// TestOutcome_FailedLaneHidesNoOther: if a lane of a pipeline cannot be planned, what the other
// lanes did is undone, or reported as unsafe and kept.
func TestOutcome_FailedLaneHidesNoOther(t *testing.T) {
	for _, block := range []string{"again", "forever"} {
		s := newHarness(t, 2)
		s.Publish("w", "config: {executionStrategy: {parallel: true}, maxInFlight: 1}\nsteps:\n  - {label: a, functionBlock: p/pure:1, runOn: device}\n  - {label: b, functionBlock: p/"+block+":1, runOn: device, assert: 'entity.id != \"d001\"'}\n")
		id := s.Start("w", harness.DeviceIDs(2)...)
		s.RunUntilIdle(time.Hour)
		if !s.HasCalled(id, "b EXECUTE d000") {
			t.Fatalf("calls %v", s.CallsOf(id))
		}
		switch x := s.Load(id); block {
		case "again":
			if x.State != sm.ExecutionFailedSafeAck || !s.HasCalled(id, "b ROLLBACK d000") {
				t.Errorf("%s, calls %v", x.State, s.CallsOf(id))
			}
		default:
			if x.State != sm.ExecutionFailedUnsafe || x.Kept == nil || x.Kept.String() != "1" {
				t.Errorf("%s keeps %v", x.State, x.Kept)
			}
		}
	}
}

// TestOutcome_RetryThatRepairsEverythingSucceeds: what a later try has done again is no
// failure any more.
func TestOutcome_RetryThatRepairsEverythingSucceeds(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", stepsYAML("one pure device"))
	mended := false
	s.Script = failUntil("one", "d001", &mended)
	id := s.Start("w", harness.DeviceIDs(2)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	mended = true
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, harness.Caller, id, views.RetryRequest{Reason: "mended"})
	})
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.Outcome() != workflow.OutcomeSucceeded {
		t.Errorf("outcome %s, result %+v", x.Outcome(), x.Result)
	}
}

// TestOutcome_RollbackOfSomeIsNotARollbackOfAll: a retry of the kept entities, which fails again,
// undoes nothing for the others, and reports so.
func TestOutcome_RollbackOfSomeIsNotARollbackOfAll(t *testing.T) {
	s := newHarness(t, 4)
	s.Publish("w", "config: {failureTolerance: 1}\nsteps:\n  - {label: a, functionBlock: p/once:1, runOn: device}\n  - {label: b, functionBlock: p/pure:1, runOn: device}\n")
	s.Script = failCalls("b EXECUTE d001", "a ROLLBACK d001")
	id := s.Start("w", harness.DeviceIDs(4)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	before := len(s.CallsOf(id))
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, harness.Caller, id, views.RetryRequest{Reason: "once more"})
	})
	settle(s)
	x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
	if slices.Contains(s.CallsOf(id)[before:], "a ROLLBACK d001") || x.RolledBack || x.Kept == nil || x.Kept.String() != "2" {
		t.Errorf("rolled back %v, keeps %v, calls %v", x.RolledBack, x.Kept, s.CallsOf(id)[before:])
	}
}

// failedSteps names also what failed before a job existed, and what an execution that a step has
// started has left.
func TestOutcome_FailedStepsNameWhatHadNoJob(t *testing.T) {
	s := newHarness(t, 3)
	steps := "steps:\n  - {label: a, functionBlock: p/pure:1, runOn: device, assert: \"entity.id != 'd001'\", failureTolerance: 100%}\n"
	s.Publish("child", steps)
	s.Publish("w", steps)
	s.Publish("around", "steps:\n  - {label: c, workflowReference: {workflow: p/child:1, mode: dispatch, executeOnParameters: {type: device, ids: [d000, d001, d002]}}}\n")
	id := s.Start("w", harness.DeviceIDs(3)...)
	settle(s)
	v := executionView(t, s, id)
	if *v.Outcome != workflow.OutcomePartial || len(v.FailedSteps) != 1 {
		t.Fatalf("%s, %+v", *v.Outcome, v.FailedSteps)
	}
	if f := v.FailedSteps[0]; f.Step != "a" || f.Jobs != 0 || f.Unmet != 1 || f.Failure == nil || f.Failure.Code != workflow.FailureAssertion || f.Failure.Entity == nil || *f.Failure.Entity != "device/d001" || f.Because != views.LeftTolerated || f.Child != nil {
		t.Errorf("%+v, %+v", f, f.Failure)
	}
	id = s.Start("around")
	settle(s)
	if v = executionView(t, s, id); *v.Outcome != workflow.OutcomePartial || len(v.FailedSteps) != 1 || v.FailedSteps[0].Step != "c" || v.FailedSteps[0].Failure != nil {
		t.Fatalf("%s %s, %+v, %+v", v.State, *v.Outcome, v.FailedSteps, v.Error)
	}
	if f := v.FailedSteps[0]; f.Because != views.LeftChild || f.Child == nil || f.Child.Workflow.Name != "child" || f.Child.ID != v.Children[0] {
		t.Errorf("%+v, %+v", f, f.Child)
	}
	s.Publish("fails", "steps:\n  - {label: a, functionBlock: p/pure:1, runOn: global, assert: \"false\"}\n")
	s.Publish("goes_on", "steps:\n  - {label: c, workflowReference: {workflow: p/fails:1, mode: dispatch}, continueOnError: true}\n  - label: box\n    continueOnError: true\n    workflow: {steps: [{label: inner, functionBlock: p/pure:1, runOn: global, assert: \"false\"}]}\n")
	id = s.Start("goes_on")
	settle(s)
	if v = executionView(t, s, id); *v.Outcome != workflow.OutcomePartial || len(v.FailedSteps) != 2 || v.FailedSteps[0].Child == nil || *v.FailedSteps[0].Child.State != sm.ExecutionFailedSafeAck || v.FailedSteps[1].Step != "inner" {
		t.Fatalf("%s %s, %+v, %+v", v.State, *v.Outcome, v.FailedSteps, v.Error)
	}
	for _, f := range v.FailedSteps {
		if f.Because != views.LeftContinueOnError {
			t.Errorf("%+v", f)
		}
	}
}

// A block that is not registered is refused with the versions that there are, or with the block that was meant.
func TestOutcome_UnknownBlockNamesWhatWasMeant(t *testing.T) {
	for block, want := range map[string]string{
		"p/pure:7":    "; the newest that is registered is p/pure:1.0.0",
		"p/puer:1":    `; did you mean "p/pure"?`,
		"other/far:1": "but no registered version matches",
	} {
		s := newHarness(t, 1)
		s.Publish("w", "steps:\n  - {label: a, functionBlock: "+block+", runOn: device}\n")
		id := s.Start("w", "d000")
		settle(s)
		if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error == nil || x.Error.Code != "BLOCK_NOT_FOUND" || !strings.HasSuffix(x.Error.Message, want) {
			t.Errorf("%s: %+v", block, x.Error)
		}
	}
}
