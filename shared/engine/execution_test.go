package engine_test

import (
	"context"
	"fmt"
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

// newHarness registers one block of each kind and imports devices.
func newHarness(t testing.TB, devices int) *harness.Harness {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.ImportDevices(harness.DeviceIDs(devices)...)
	return s
}

// stepsYAML writes the steps of a definition, one per line: "LABEL BLOCK ON [FIELDS]".
func stepsYAML(lines ...string) string {
	var b strings.Builder
	b.WriteString("steps:\n")
	for _, l := range lines {
		f := strings.SplitN(l, " ", 4)
		fmt.Fprintf(&b, "  - {label: %s, functionBlock: p/%s:1, runOn: %s%s}\n", f[0], f[1], f[2], strings.Join(f[3:], ""))
	}
	return b.String()
}

// settle runs everything until nothing is left to do and checks the invariants.
func settle(s *harness.Harness) {
	s.Helper()
	if !s.RunUntilIdle(48 * time.Hour) {
		for id := range s.States(harness.Caller.Tenant) {
			s.Logf("%s: %v", id, s.ExecutionStates(id))
		}
		s.Fatal("the executions do not end within 48 hours")
	}
	s.CheckInvariants()
}

// N1: a valid global workflow passes every state in order.
func TestEngine_PassesEveryStateInOrder(t *testing.T) {
	s := newHarness(t, 0)
	s.Publish("w", stepsYAML("one again global", "two pure global"))
	id := s.Start("w")
	settle(s)
	want := []string{"NEW", "VALID", "READY", "RESOURCE_DISCOVERY", "RESOURCES_DISCOVERED", "SCHEDULED", "LOCKING", "LOCKED", "RUNNING", "COMPLETED", "COMPLETED_ACK"}
	if diff := cmp.Diff(want, s.ExecutionStates(id)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"one EXECUTE", "two EXECUTE"}, s.CallsOf(id)); diff != "" {
		t.Error(diff)
	}
}

// N2: an unknown block fails the execution before anything is called.
func TestStart_UnknownBlockFailsSafely(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one nowhere device"))
	id := s.Start("w", "d000")
	settle(s)
	x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if !strings.Contains(x.Reason, "p/nowhere:1") || x.Cause != workflow.CauseValidation || len(s.Jobs(id)) > 0 || len(s.BlockCalls) > 0 {
		t.Errorf("cause %s, reason %q, jobs %v, calls %v", x.Cause, x.Reason, s.Jobs(id), s.BlockCalls)
	}
}

// N3: an invalid definition cannot be published.
func TestPublish_RefusesInvalidDefinitions(t *testing.T) {
	s := newHarness(t, 0)
	for name, body := range map[string]string{
		"no steps":         "steps: []\n",
		"a reserved label": stepsYAML("parameters pure global"),
		"a repeated label": stepsYAML("one pure global", "one pure global"),
	} {
		_, _, err := s.Catalog.Publish(context.Background(), harness.Caller, []byte("package: p\nname: w\nversion: 1.0.0\n"+body), false)
		if !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// N6: two handlers race for one transition. One wins; the other finds it done and
// continues from there, and nothing happens twice.
func TestAdvance_RacingHandlersActOnce(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("w", stepsYAML("one once device", "two again device"))
	for seed := range uint64(60) {
		s.Reset(seed)
		var id string
		first := s.StartTask("start", func() { id = s.Start("w", harness.DeviceIDs(3)...) })
		first.RunPast("store.create")
		for executionID := range s.States(harness.Caller.Tenant) {
			id = executionID
		}
		advance := func() {
			if err := s.Engine.Advance(context.Background(), workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: id}); err != nil {
				t.Error(err)
			}
		}
		s.Interleave(first, s.StartTask("second", advance), s.StartTask("third", advance))
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
	}
}

// N12: a false condition skips the step, and its assertions are not evaluated.
func TestCondition_FalseSkipsStep(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", stepsYAML(
		`one again device , condition: 'entity.name == "d001"', assert: ['entity.name == "d001"']`,
		`two pure device , condition: "false", assert: ["false"]`, "three pure global"))
	id := s.Start("w", "d000", "d001")
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if diff := cmp.Diff([]string{"one EXECUTE d001", "three EXECUTE"}, s.CallsOf(id)); diff != "" {
		t.Error(diff)
	}
	if x.StepRuns[0].Skipped != 1 || x.StepRuns[1].Status != sm.StepSkipped {
		t.Errorf("step runs %+v", x.StepRuns)
	}
}

// N13: a false assertion fails the step before any job exists.
func TestAssertion_FalseFailsStepBeforeJobs(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", stepsYAML(`one again device , assert: ['entity.name == "d001"']`))
	id := s.Start("w", "d000", "d001")
	settle(s)
	x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if x.Cause != workflow.CauseAssertion || x.Error.Entity != "device/d000" || len(s.BlockCalls) > 0 || len(s.Jobs(id)) > 0 {
		t.Errorf("cause %s, error %+v, jobs %v", x.Cause, x.Error, s.Jobs(id))
	}
}

// N18: a global step between device steps executes once, after all devices.
func TestGlobalStep_IsBarrier(t *testing.T) {
	s := newHarness(t, 7)
	s.QueueFaults.Shuffle = true
	s.Publish("w", stepsYAML("before again device", "middle once global", "after again device"))
	id := s.Start("w", harness.DeviceIDs(7)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	calls := s.CallsOf(id)
	if len(calls) != 15 || calls[7] != "middle EXECUTE" {
		t.Errorf("calls %v", calls)
	}
}

// N21: a step over 100 devices has exactly 100 jobs, however they are packed.
func TestStep_CreatesOneJobPerEntity(t *testing.T) {
	for _, block := range []string{"once", "again", "pure"} {
		s := newHarness(t, 100)
		s.Publish("w", stepsYAML("one "+block+" device"))
		id := s.Start("w", harness.DeviceIDs(100)...)
		if n := len(s.Jobs(id)); n != 100 {
			t.Errorf("%s: %d jobs before any worker starts, want 100", block, n)
		}
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		if jobs := s.Jobs(id); len(jobs) != 100 || len(s.BlockCalls) != 100 {
			t.Errorf("%s: %d jobs, %d calls", block, len(jobs), len(s.BlockCalls))
		}
	}
}

// maxInFlight limits the lanes in flight. Workers start the next lane without the
// engine.
func TestMaxInFlight_LimitsLanes(t *testing.T) {
	s := newHarness(t, 20)
	s.Publish("w", "config: {maxInFlight: 3}\n"+stepsYAML("one once device"))
	id := s.Start("w", harness.DeviceIDs(20)...)
	most := 0
	for s.Deliver() {
		most = max(most, s.PoolQueue("default").Len())
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if most > 3 || len(s.BlockCalls) != 20 {
		t.Errorf("%d lanes were in flight at a time, %d calls", most, len(s.BlockCalls))
	}
}

// An embedded definition lowers maxInFlight for its own steps, also when they are part of a
// pipeline; it cannot raise the limit of the definition around it.
func TestMaxInFlight_HoldsWhereItIsEmbedded(t *testing.T) {
	for name, c := range map[string]struct {
		outer, inner       string
		wantOwn, wantInner int
	}{
		"lower":       {"", "config: {maxInFlight: 3}\n", 20, 3},
		"higher":      {"config: {maxInFlight: 2}\n", "config: {maxInFlight: 5}\n", 2, 2},
		"none":        {"config: {maxInFlight: 4}\n", "", 4, 4},
		"in parallel": {"config: {executionStrategy: {parallel: true}}\n", "config: {maxInFlight: 3}\n", 20, 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, 20)
			s.Publish("innermost", stepsYAML("deep once device"))
			s.Publish("inner", c.inner+stepsYAML("one once device", "two once device")+"  - {label: more, workflowReference: {workflow: p/innermost}}\n")
			s.Publish("w", c.outer+stepsYAML("own once device")+"  - {label: sub, workflowReference: {workflow: p/inner}}\n")
			id := s.Start("w", harness.DeviceIDs(20)...)
			most := map[string]int{}
			for s.Deliver() {
				for _, r := range s.Load(id).StepRuns {
					if r.Status == sm.StepRunning && r.Kind == workflow.JobExecute {
						most[r.Label] = max(most[r.Label], s.PoolQueue("default").Len())
					}
				}
			}
			settle(s)
			s.ExpectState(id, sm.ExecutionCompletedAck)
			if most["own"] > c.wantOwn || most["own"] == 0 || len(s.BlockCalls) != 80 {
				t.Errorf("%d lanes of the outer step were in flight, %d calls", most["own"], len(s.BlockCalls))
			}
			for _, label := range []string{"sub.one", "sub.two", "sub.more.deep"} {
				if most[label] > c.wantInner || most[label] == 0 {
					t.Errorf("%d lanes of %s were in flight at a time, want at most %d", most[label], label, c.wantInner)
				}
			}
		})
	}
}

// N37: if only pure steps have executed when one fails, nothing is rolled back.
func TestRollback_SkipsPureSteps(t *testing.T) {
	s := newHarness(t, 2)
	s.Script = failCalls("two EXECUTE d001")
	s.Publish("w", stepsYAML("one pure device", "two pure device"))
	id := s.Start("w", "d000", "d001")
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.RolledBack || x.Cause != workflow.CauseStepFailed || x.Error.Entity != "device/d001" || x.Error.Step != "two" {
		t.Errorf("rolled back %v, cause %s, error %+v", x.RolledBack, x.Cause, x.Error)
	}
	for _, j := range s.Jobs(id) {
		if j.Kind == workflow.JobRollback {
			t.Errorf("a rollback job: %+v", j)
		}
	}
}

// failCalls fails the named calls: "STEP KIND [ENTITY]".
func failCalls(calls ...string) func(harness.BlockCall) *harness.Outcome {
	return func(c harness.BlockCall) *harness.Outcome {
		if slices.Contains(calls, strings.TrimSpace(c.Step+" "+string(c.Kind)+" "+c.Entity)) {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
}

// N38: an execution that fails after an irreversible step is FAILED_UNSAFE.
func TestRollback_IrreversibleStepFailsUnsafe(t *testing.T) {
	s := newHarness(t, 1)
	s.Script = failCalls("two EXECUTE d000")
	s.Publish("w", stepsYAML("one forever device", "two pure device"))
	id := s.Start("w", "d000")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	if diff := cmp.Diff([]string{"one EXECUTE d000", "two EXECUTE d000"}, s.CallsOf(id)); diff != "" {
		t.Error(diff)
	}
}

// N39: rollback undoes the steps in reverse, one wave each, for exactly the entities
// that were executed.
func TestRollback_UndoesWavesInReverse(t *testing.T) {
	s := newHarness(t, 2)
	s.Script = failCalls("two EXECUTE d001")
	s.Publish("w", stepsYAML("one once device", "check pure device", "two once device"))
	id := s.Start("w", "d000", "d001")
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); !x.RolledBack {
		t.Error("RolledBack is not set")
	}
	calls := s.CallsOf(id)
	undone := calls[slices.IndexFunc(calls, func(c string) bool { return strings.Contains(c, "ROLLBACK") }):]
	if len(undone) != 4 {
		t.Fatalf("undone: %v", undone)
	}
	slices.Sort(undone[:2])
	slices.Sort(undone[2:])
	if diff := cmp.Diff([]string{"two ROLLBACK d000", "two ROLLBACK d001", "one ROLLBACK d000", "one ROLLBACK d001"}, undone); diff != "" {
		t.Error(diff)
	}
	for _, c := range s.BlockCalls {
		if c.Kind == workflow.JobRollback && c.Step == "one" && string(c.Result) != `{"attempt":1}` {
			t.Errorf("%s was undone without its result: %s", c.Job, c.Result)
		}
	}
}

// N40: if a rollback job fails, the remaining waves do not start.
func TestRollback_StopsWhenJobFails(t *testing.T) {
	s := newHarness(t, 1)
	s.Script = failCalls("three EXECUTE d000", "two ROLLBACK d000")
	s.Publish("w", stepsYAML("one once device", "two once device", "three pure device"))
	id := s.Start("w", "d000")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	if s.HasCalled(id, "one ROLLBACK d000") || !s.HasCalled(id, "two ROLLBACK d000") {
		t.Errorf("calls %v", s.CallsOf(id))
	}
}

// N47, N48: after a cancel, pending jobs cannot be claimed any more. What was executed
// is rolled back, unless it is pure or irreversible.
func TestCancel_StopsPendingJobs(t *testing.T) {
	for block, end := range map[string]sm.ExecutionState{"pure": sm.ExecutionCancelledAck, "once": sm.ExecutionCancelledAck, "forever": sm.ExecutionCancelled} {
		s := newHarness(t, 4)
		s.Publish("w", "config: {maxInFlight: 2}\n"+stepsYAML("one "+block+" device", "two pure device"))
		id := s.Start("w", harness.DeviceIDs(4)...)
		for len(s.BlockCalls) == 0 {
			s.Deliver()
		}
		done := len(s.BlockCalls)
		if _, err := s.Engine.Cancel(context.Background(), harness.Caller, id, views.CancelRequest{Reason: "enough"}); err != nil {
			t.Fatal(err)
		}
		settle(s)
		x := s.ExpectState(id, end)
		if x.Cancellation == nil || x.Cancellation.Reason != "enough" || x.Cancellation.By != harness.Caller.Actor {
			t.Errorf("cancellation %+v", x.Cancellation)
		}
		var undone int
		for _, c := range s.BlockCalls[done:] {
			if c.Kind == workflow.JobRollback {
				undone++
			} else if block != "pure" { // a pure block needs no claim to be called, but its result is dropped
				t.Errorf("%s: called after the cancel: %+v", block, c)
			}
		}
		for _, j := range s.Jobs(id) {
			if j.Kind == workflow.JobExecute && (j.State == sm.JobCompleted) != (j.Entity.ID < harness.DeviceIDs(4)[done]) {
				t.Errorf("%s: %s is %s", block, j.ID, j.State)
			}
		}
		if want := map[string]int{"once": done}[block]; undone != want {
			t.Errorf("%s: %d undone, want %d", block, undone, want)
		}
		if held := len(s.Locks()) > 0; held != (block == "forever") {
			t.Errorf("%s: locks %v", block, s.Locks())
		}
		if block == "forever" {
			if _, err := s.Engine.Acknowledge(context.Background(), harness.Caller, id, "seen"); err != nil {
				t.Fatal(err)
			}
			s.ExpectState(id, sm.ExecutionCancelledAck)
		}
	}
}

// failStepTwoAndRollback fails step two and every rollback.
func failStepTwoAndRollback(c harness.BlockCall) *harness.Outcome {
	if c.Step == "two" || c.Kind == workflow.JobRollback {
		return &harness.Outcome{FailCode: "REFUSED"}
	}
	return nil
}

const twoStepWorkflow = "steps: [{label: one, functionBlock: p/once:1, runOn: device}, {label: two, functionBlock: p/pure:1, runOn: device}]\n"

// After a failed rollback the changes are still there: a retry that fails before it has
// executed anything else ends unsafely too.
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

// If the rollback of a child fails, the parent ends unsafely.
func TestRollback_FailedInChildMakesParentUnsafe(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("sub", twoStepWorkflow)
	s.Publish("w", "steps: [{label: go, workflowReference: {workflow: p/sub, mode: dispatch, executeOnParameters: {ids: [d000]}}}]\n")
	s.Script = failStepTwoAndRollback
	id := s.Start("w")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
}
