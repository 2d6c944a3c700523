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

// mustCommand applies an operator's command without faults.
func mustCommand(s *harness.Harness, do func(ctx context.Context) (*workflow.Execution, error)) {
	s.Helper()
	s.WithoutFaults(func() {
		if _, err := do(context.Background()); err != nil {
			s.Fatal(err)
		}
	})
}

// failUntil fails a step for one entity until mended is set.
func failUntil(step, entity string, mended *bool) func(harness.BlockCall) *harness.Outcome {
	return func(c harness.BlockCall) *harness.Outcome {
		if c.Step == step && c.Entity == entity && c.Kind == workflow.JobExecute && !*mended {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
}

// R25: a retry resumes at the step that failed, for the entities that failed or were not
// executed. Later steps see the results of earlier tries.
func TestRetry_ResumesAtFailedStepForFailedEntities(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("w", `steps:
  - {label: one, functionBlock: p/pure:1, runOn: device}
  - {label: two, functionBlock: p/pure:1, runOn: device, condition: one.result != null}
  - {label: all, functionBlock: p/pure:1, runOn: global, parameters: {n: "${size(two.results)}"}}
`)
	mended := false
	s.Script = failUntil("two", "d001", &mended)
	id := s.Start("w", harness.DeviceIDs(3)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	mended = true
	before := len(s.CallsOf(id))
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, harness.Caller, id, views.RetryRequest{Reason: "mended"})
	})
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if diff := cmp.Diff([]string{"two EXECUTE d001", "two EXECUTE d002", "all EXECUTE"}, s.CallsOf(id)[before:]); diff != "" {
		t.Error(diff)
	}
	last := s.BlockCalls[len(s.BlockCalls)-1]
	if string(last.Parameters) != `{"n":3}` || x.Try != 2 {
		t.Errorf("try %d, the last step got %s", x.Try, last.Parameters)
	}
}

// A retry executes again what was rolled back, from the first step that was. If the
// retry fails too, it is rolled back as well.
func TestRetry_RepeatsRolledBackSteps(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", `steps:
  - {label: one, functionBlock: p/once:1, runOn: device}
  - {label: two, functionBlock: p/pure:1, runOn: device}
`)
	mended := false
	s.Script = failUntil("two", "d001", &mended)
	id := s.Start("w", harness.DeviceIDs(2)...)
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); !x.RolledBack {
		t.Error("the execution was not rolled back")
	}
	again := func() {
		mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
			return s.Engine.Retry(ctx, harness.Caller, id, views.RetryRequest{Reason: "once more"})
		})
		settle(s)
	}
	again()
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); !x.RolledBack || x.Try != 2 {
		t.Errorf("rolled back %v in try %d", x.RolledBack, x.Try)
	}
	mended = true
	again()
	s.ExpectState(id, sm.ExecutionCompletedAck)
	n := map[string]int{}
	for _, c := range s.CallsOf(id) {
		n[c]++
	}
	if n["one EXECUTE d000"] != 3 || n["one ROLLBACK d000"] != 2 {
		t.Errorf("calls %v", n)
	}
}

// A retry of an execution that ended unsafely continues under the locks that it has
// kept. After an unlock it acquires them again.
func TestRetry_FailedUnsafeKeepsItsLocks(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", "steps: [{label: one, functionBlock: p/forever:1, runOn: device}]\n")
	s.Publish("other", "steps: [{label: one, functionBlock: p/pure:1, runOn: device}]\n")
	mended := false
	s.Script = failUntil("one", "d001", &mended)
	id := s.Start("w", harness.DeviceIDs(2)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	waiting := s.Start("other", "d000")
	s.RunUntilIdle(10 * time.Minute)
	if x := s.Load(waiting); x.State != sm.ExecutionScheduled {
		t.Fatalf("the other is in %s", x.State)
	}
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, harness.Caller, id, views.RetryRequest{Reason: "once more"})
	})
	s.RunUntilIdle(10 * time.Minute)
	x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
	if x.Epoch != 1 || s.Load(waiting).State != sm.ExecutionScheduled {
		t.Errorf("epoch %d, the other is in %s", x.Epoch, s.Load(waiting).State)
	}
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Unlock(ctx, harness.Caller, id, "the other is urgent")
	})
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	s.ExpectState(waiting, sm.ExecutionCompletedAck)
	if l := s.Locks(); len(l) > 0 {
		t.Errorf("still locked: %+v", l)
	}
	mended = true
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, harness.Caller, id, views.RetryRequest{Reason: "mended"})
	})
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.Epoch <= 2 {
		t.Errorf("epoch %d", x.Epoch)
	}
	want := []string{"one EXECUTE d000", "one EXECUTE d001", "one EXECUTE d001", "one EXECUTE d001"}
	if diff := cmp.Diff(want, s.CallsOf(id)); diff != "" {
		t.Error(diff)
	}
}

// Resume ends a delay early.
func TestResume_EndsDelay(t *testing.T) {
	s := newHarness(t, 0)
	s.Publish("w", "steps: [{label: one, functionBlock: p/pure:1, runOn: global, delay: 20h}]\n")
	id := s.Start("w")
	s.RunUntilIdle(time.Hour)
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Resume(ctx, harness.Caller, id, "now")
	})
	s.RunUntilIdle(time.Minute)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if x.EndedAt.Sub(x.CreatedAt) > 2*time.Hour {
		t.Error("the execution waited for the whole delay")
	}
}

// N50: a cancel also cancels the children, unless cascade is false.
func TestCancel_CascadesToChildren(t *testing.T) {
	for name, test := range map[string]struct {
		cascade bool
		child   sm.ExecutionState
	}{"cascade": {true, sm.ExecutionCancelledAck}, "no cascade": {false, sm.ExecutionCompletedAck}} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, 1)
			s.Publish("sub", "steps: [{label: one, functionBlock: p/pure:1, runOn: global, delay: 1h}]\n")
			s.Publish("w", "steps: [{label: go, workflowReference: {workflow: p/sub, mode: dispatch}}]\n")
			id := s.Start("w")
			s.RunUntilIdle(time.Minute)
			x := s.Load(id)
			if x.State != sm.ExecutionWaiting {
				t.Fatalf("in %s", x.State)
			}
			mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
				return s.Engine.Cancel(ctx, harness.Caller, id, views.CancelRequest{Reason: "enough", Cascade: &test.cascade})
			})
			settle(s)
			s.ExpectState(id, sm.ExecutionCancelledAck)
			s.ExpectState(x.StepRuns[0].Child.ID, test.child)
		})
	}
}

// R52: a timeout closes what is open and ends the execution.
func TestTimeout_EndsExecution(t *testing.T) {
	for name, source := range map[string]string{
		"of the execution": "config: {timeout: 10m}\nsteps: [{label: one, functionBlock: p/pure:1, runOn: global, delay: 1h}]\n",
		"of the step":      "steps: [{label: one, functionBlock: p/nobody:1, runOn: global, stepTimeout: 10m}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, 0)
			s.RegisterBlock(workflow.Block{Name: "nobody", Pure: true, Pool: "nowhere"})
			s.Publish("w", source)
			id := s.Start("w")
			settle(s)
			x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
			if x.Cause != workflow.CauseTimeout || x.EndedAt.Sub(x.CreatedAt) > 15*time.Minute {
				t.Errorf("cause %s after %s", x.Cause, x.EndedAt.Sub(x.CreatedAt))
			}
		})
	}
}

// retryToEnd retries an execution, runs it to its end, and returns the calls of the new
// try.
func retryToEnd(s *harness.Harness, id string, req views.RetryRequest) (calls []string) {
	s.Helper()
	before := len(s.CallsOf(id))
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, harness.Caller, id, req)
	})
	settle(s)
	return s.CallsOf(id)[before:]
}

// A retry of the failed entities also executes those again that were rolled back: a
// completed execution has executed every step for every entity.
func TestRetry_RepeatsUndoneEntities(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("w", `steps: [{label: one, functionBlock: p/once:1, runOn: device}, {label: two, functionBlock: p/pure:1, runOn: device}]`)
	mended := false
	s.Script = failUntil("one", "d001", &mended)
	id := s.Start("w", harness.DeviceIDs(3)...)
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); !x.RolledBack {
		t.Error("the execution was not rolled back")
	}
	mended = true
	got := retryToEnd(s, id, views.RetryRequest{Reason: "mended", From: "one", Entities: "failed"})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	want := []string{"one EXECUTE d000", "one EXECUTE d001", "one EXECUTE d002", "two EXECUTE d000", "two EXECUTE d001", "two EXECUTE d002"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	s.WithoutFaults(func() {
		if x, err := s.Query.Execution(t.Context(), harness.Caller, id); err != nil || x.Progress.Jobs.Total != 6 || x.Progress.Jobs.Completed != 6 {
			t.Errorf("%+v %v", x.Progress.Jobs, err)
		}
	})
}

// A rollback that failed for one entity has undone the others, which are released. A retry
// executes that one again, and nothing else.
func TestRetry_RepeatsEntityThatWasNotUndone(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("w", `steps: [{label: one, functionBlock: p/once:1, runOn: device}, {label: two, functionBlock: p/pure:1, runOn: device}]`)
	mended := false
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if !mended && (c.Step == "two" && c.Entity == "d002" || c.Kind == workflow.JobRollback && c.Entity == "d001") {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(3)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	mended = true
	got := retryToEnd(s, id, views.RetryRequest{Reason: "mended"})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if diff := cmp.Diff([]string{"one EXECUTE d001", "two EXECUTE d001"}, got); diff != "" {
		t.Error(diff)
	}
	x := s.Load(id)
	if x.Outcome() != workflow.OutcomePartial || x.Result == nil || x.Result.Sets[workflow.EntityFailedSafe].String() != "1,3" {
		t.Errorf("outcome %s, result %+v", x.Outcome(), x.Result)
	}
}

// A retry from a named step keeps the entities that are OK, in that step and all later ones.
func TestRetry_KeepsSucceededEntities(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("w", `steps:
  - {label: one, functionBlock: p/pure:1, runOn: device}
  - {label: two, functionBlock: p/forever:1, runOn: device}
  - {label: all, functionBlock: p/pure:1, runOn: global, parameters: {n: "${size(two.results)}"}}
`)
	mended := false
	s.Script = failUntil("two", "d002", &mended)
	id := s.Start("w", harness.DeviceIDs(3)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	mended = true
	got := retryToEnd(s, id, views.RetryRequest{Reason: "mended", From: "one", Entities: "failed"})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if diff := cmp.Diff([]string{"two EXECUTE d002", "all EXECUTE"}, got); diff != "" {
		t.Error(diff)
	}
	if last := s.BlockCalls[len(s.BlockCalls)-1]; string(last.Parameters) != `{"n":3}` {
		t.Errorf("the last step got %s", last.Parameters)
	}
	var states []sm.StepState
	for _, r := range s.Load(id).StepRuns {
		if r.Try == 2 {
			states = append(states, r.Status)
		}
	}
	if diff := cmp.Diff([]sm.StepState{sm.StepCompleted, sm.StepCompleted, sm.StepCompleted}, states); diff != "" {
		t.Error(diff)
	}
}

// An entity whose failure was tolerated, and whose job succeeds in a retry, takes part in
// later steps of that retry and of the next one.
func TestRetry_ReadmitsEntitiesThatSucceed(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("w", `config: {failureTolerance: 1}
steps:
  - {label: one, functionBlock: p/pure:1, runOn: device}
  - {label: two, functionBlock: p/pure:1, runOn: device}
`)
	failing := []string{"one d000", "two d001"}
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if slices.Contains(failing, c.Step+" "+c.Entity) {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(3)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	failing = []string{"two d001", "two d002"}
	got := retryToEnd(s, id, views.RetryRequest{Reason: "mended", From: "one", Entities: "failed"})
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if !slices.Contains(got, "two EXECUTE d000") {
		t.Errorf("the first retry called %v", got)
	}
	failing = nil
	got = retryToEnd(s, id, views.RetryRequest{Reason: "mended", From: "two", Entities: "all"})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"two EXECUTE d000", "two EXECUTE d001", "two EXECUTE d002"}, got); diff != "" {
		t.Error(diff)
	}
}

// A retry cannot start after a step that was rolled back.
func TestRetry_RefusesStepAfterRolledBackOne(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", `steps: [{label: one, functionBlock: p/once:1, runOn: device}, {label: two, functionBlock: p/pure:1, runOn: device}]`)
	mended := false
	s.Script = failUntil("two", "d000", &mended)
	id := s.Start("w", "d000")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	s.WithoutFaults(func() {
		_, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "on", From: "two"})
		if !workflow.Is(err, workflow.CodeInvalid) || !strings.Contains(err.Error(), `"one" was rolled back`) {
			t.Error(err)
		}
	})
}
