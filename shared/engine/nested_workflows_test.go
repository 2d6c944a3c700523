package engine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// N19: the steps of embedded workflows execute depth first, and a later step waits for
// all of their jobs.
func TestEmbeddedWorkflow_RunsDepthFirst(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", `steps:
  - label: outer
    workflow:
      steps:
        - {label: one, functionBlock: p/again:1, runOn: device}
        - label: inner
          workflow: {steps: [{label: two, functionBlock: p/pure:1, runOn: device, condition: one.result != null}]}
  - {label: after, functionBlock: p/pure:1, runOn: global}
`)
	id := s.Start("w", harness.DeviceIDs(2)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	want := []string{"one EXECUTE d000", "one EXECUTE d001", "two EXECUTE d000", "two EXECUTE d001", "after EXECUTE"}
	if diff := cmp.Diff(want, s.CallsOf(id)); diff != "" {
		t.Error(diff)
	}
}

// N20: an embedded definition executes under the execution's own locks, with its own
// parameters, and is rolled back with the execution.
func TestEmbeddedDefinition_SharesLocksAndRollsBack(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("sub", `parameters: {type: object, required: [speed], properties: {speed: {type: integer}}}
steps:
  - {label: one, functionBlock: p/once:1, runOn: device, parameters: {speed: "${parameters.speed}"}}
  - {label: two, functionBlock: p/pure:1, runOn: device, condition: one.result != null}
`)
	s.Publish("w", `steps:
  - {label: first, functionBlock: p/pure:1, runOn: device}
  - {label: sub, workflowReference: {workflow: "p/sub:1", mode: embed}, parameters: {speed: "${size(first.results) + 5}"}}
  - {label: last, functionBlock: p/pure:1, runOn: global}
`)
	var speeds []string
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "sub.one" && c.Kind == workflow.JobExecute {
			speeds = append(speeds, string(c.Parameters))
		}
		if c.Step == "last" {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(2)...)
	settle(s)
	x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if !x.RolledBack || len(speeds) != 2 || speeds[0] != `{"speed":7}` {
		t.Errorf("rolled back %v, speeds %v", x.RolledBack, speeds)
	}
	calls := strings.Join(s.CallsOf(id), ", ")
	if !strings.Contains(calls, "sub.one ROLLBACK") || !strings.Contains(calls, "sub.two EXECUTE") {
		t.Errorf("calls %s", calls)
	}
}

// Of the config of an embedded definition, the tolerance and the window hold for its steps: the window
// where it is smaller than that around it.
func TestEmbeddedDefinition_KeepsItsToleranceAndWindow(t *testing.T) {
	for _, c := range []struct {
		inner, outer string
		state        sm.ExecutionState
		sent         int // packs of the embedded step that are sent at once
	}{
		{"{failureTolerance: 1, maxInFlight: 2}", "{}", sm.ExecutionCompletedAck, 2},
		{"{failureTolerance: 1, maxInFlight: 2}", "{failureTolerance: 0, maxInFlight: 3}", sm.ExecutionCompletedAck, 2},
		{"{maxInFlight: 3}", "{failureTolerance: 1, maxInFlight: 1}", sm.ExecutionCompletedAck, 1},
		{"{failureTolerance: 1}", "{failureTolerance: 0}", sm.ExecutionCompletedAck, 5},
		{"{failureTolerance: 0}", "{failureTolerance: 4}", sm.ExecutionFailedSafeAck, 5},
		{"{}", "{failureTolerance: 4}", sm.ExecutionCompletedAck, 5},
		{"{}", "{failureTolerance: 0}", sm.ExecutionFailedSafeAck, 5},
	} {
		s := newHarness(t, 5)
		s.Publish("sub", "config: "+c.inner+"\nsteps: [{label: one, functionBlock: p/once:1, runOn: device}]\n")
		s.Publish("w", "config: "+c.outer+"\nsteps: [{label: sub, workflowReference: {workflow: 'p/sub:1', mode: embed}}]\n")
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			if c.Entity == "d004" && c.Kind == workflow.JobExecute {
				return &harness.Outcome{FailCode: "REFUSED"}
			}
			return nil
		}
		id := s.Start("w", harness.DeviceIDs(5)...)
		s.DrainWakeups()
		if n := s.PoolQueue("default").Len(); n != c.sent {
			t.Errorf("%s in %s: %d packs are sent at once, want %d", c.inner, c.outer, n, c.sent)
		}
		settle(s)
		s.ExpectState(id, c.state)
	}
}

// A reference to a definition that does not exist fails the execution before anything
// is called.
func TestEmbeddedDefinition_UnknownReferenceFailsSafely(t *testing.T) {
	s := newHarness(t, 0)
	s.Publish("w", `steps: [{label: sub, workflowReference: {workflow: "p/nowhere:3"}}]
`)
	id := s.Start("w")
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Cause != workflow.CauseValidation || !strings.Contains(x.Reason, "p/nowhere:3") {
		t.Errorf("cause %s, reason %q", x.Cause, x.Reason)
	}
}

// N20, N50: a dispatched workflow is an execution of its own, with its own locks. The
// parent waits for it, and is notified when it ends.
func TestChild_RunsWithOwnLocksAndNotifiesParent(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("sub", `
parameters: {type: object, required: [n], properties: {n: {type: integer}}}
steps: [{label: one, functionBlock: p/again:1, runOn: device}]
`)
	s.Publish("w", `steps:
  - {label: first, functionBlock: p/pure:1, runOn: device}
  - {label: go, workflowReference: {workflow: "p/sub", mode: dispatch, executeOnParameters: {ids: [d001, "${parameters.other}"]}}, parameters: {n: 3}}
  - {label: last, functionBlock: p/pure:1, runOn: device, condition: steps.go.status == "COMPLETED" && go.result.state == "COMPLETED_ACK"}
`)
	req := harness.NewStartRequest("w", "d000")
	req.Parameters = json.RawMessage(`{"other":"d002"}`)
	id := s.StartWith(req)
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	child := x.StepRuns[1].Child
	if child == nil || child.State != sm.ExecutionCompletedAck {
		t.Fatalf("child %+v", child)
	}
	c := s.ExpectState(child.ID, sm.ExecutionCompletedAck)
	if c.Parent == nil || c.Parent.Execution != id || c.Scope.Total() != 2 {
		t.Errorf("the child's parent is %+v, its scope %+v", c.Parent, c.Scope)
	}
	if diff := cmp.Diff([]string{"first EXECUTE d000", "last EXECUTE d000"}, s.CallsOf(id)); diff != "" {
		t.Error(diff)
	}
}

// What the definition of a child gives is in the result of the step that started it, small or
// large, also once the child is gone. A child that failed gives nothing.
func TestChild_GivesItsOutput(t *testing.T) {
	for name, size := range map[string]int{"small": 3, "large": 5000} {
		s := newHarness(t, 1)
		s.Publish("sub", `parameters: {type: object}
steps:
  - {label: check, functionBlock: p/pure:1, runOn: global, condition: parameters.fails, assert: "false"}
output: {text: "${parameters.text}", n: "${parameters.n + 1}"}
`)
		s.Publish("w", `steps:
  - {label: one, workflowReference: {workflow: "p/sub", mode: dispatch}, outputKey: first, parameters: {text: "${parameters.text}", n: 1, fails: false}}
  - {label: two, workflowReference: {workflow: "p/sub", mode: dispatch}, parameters: {text: "", n: "${one.result.output.n}", fails: false}}
  - {label: three, workflowReference: {workflow: "p/sub", mode: dispatch}, continueOnError: true, parameters: {text: "", n: 1, fails: true}}
  - {label: plain, wait: {for: 1h}}
  - {label: look, functionBlock: p/pure:1, runOn: global, parameters: {n: "${two.result.output.n}", size: "${size(vars.first.output.text)}", state: "${three.result.state}", none: "${has(three.result.output)}"}}
`)
		req := harness.NewStartRequest("w")
		req.Parameters = json.RawMessage(fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", size)))
		id := s.StartWith(req)
		s.RunFor(10 * time.Minute)
		x := s.ExpectState(id, sm.ExecutionWaiting)
		if stored := x.StepRuns[0].Value.Stored != nil; stored != (name == "large") || x.Schema != workflow.SchemaVersion {
			t.Errorf("%s: stored apart: %v, schema %d", name, stored, x.Schema)
		}
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		want := fmt.Sprintf(`{"n":3,"none":false,"size":%d,"state":"FAILED_SAFE_ACK"}`, size)
		if calls := s.BlockCalls; len(calls) != 1 || string(calls[0].Parameters) != want {
			t.Errorf("%s: %+v, want %s", name, calls, want)
		}
		for step, parts := range map[string][]string{"one": {`"state":"COMPLETED_ACK"`, `"output":{"n":2,`}, "three": {`"state":"FAILED_SAFE_ACK"`}} {
			r, err := s.Query.Result(t.Context(), harness.Caller, id)
			for _, part := range parts {
				if err != nil || !strings.Contains(string(r.Steps[step].Result), part) {
					t.Errorf("%s: the result of %s is %.80s, %v", name, step, r.Steps[step].Result, err)
				}
			}
		}
	}
}

// A child that needs an entity that its parent holds would wait forever: it fails with
// LOCK_DEADLOCK, and its parent fails too.
func TestChild_FailsOnEntityHeldByParent(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("sub", "steps: [{label: one, functionBlock: p/pure:1, runOn: device}]\n")
	s.Publish("w", `steps:
  - {label: first, functionBlock: p/pure:1, runOn: device}
  - {label: go, workflowReference: {workflow: "p/sub", mode: dispatch, executeOnParameters: {ids: [d000]}}}
`)
	id := s.Start("w", "d000")
	settle(s)
	x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if x.Cause != workflow.CauseChildFailed {
		t.Errorf("cause %s", x.Cause)
	}
	if c := s.Load(x.StepRuns[1].Child.ID); c.Cause != workflow.CauseLockDeadlock {
		t.Errorf("the child ended in %s, cause %s", c.State, c.Cause)
	}
}

// N43: a retry stops as soon as its condition is false.
func TestRetryWhen_FalseStopsRetries(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", `config: {failureTolerance: 2}
steps:
  - {label: one, functionBlock: p/again:1, runOn: device, retry: {maxRetries: 3, delay: 10s, when: 'error.code == "BUSY" && attempt < 3'}}
`)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Kind == workflow.JobRollback {
			return nil
		}
		if c.Entity == "d000" {
			return &harness.Outcome{FailCode: "BUSY"}
		}
		return &harness.Outcome{FailCode: "BROKEN", Retryable: true}
	}
	id := s.Start("w", harness.DeviceIDs(2)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	tries := map[string]int{}
	for _, c := range s.CallsOf(id) {
		tries[c]++
	}
	if diff := cmp.Diff(map[string]int{"one EXECUTE d000": 3, "one EXECUTE d001": 1, "one ROLLBACK d000": 1, "one ROLLBACK d001": 1}, tries); diff != "" {
		t.Error(diff)
	}
}

// N46: each entity counts its own repetitions.
func TestRepeat_CountsPerEntity(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", `steps:
  - {label: poll, functionBlock: p/again:1, runOn: device, repeat: {count: 4, while: poll.result.n < 3, delay: 5s}}
`)
	n := map[string]int{}
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		n[c.Entity]++
		left := n[c.Entity]
		if c.Entity == "d001" {
			left = 1
		}
		return &harness.Outcome{Result: json.RawMessage(`{"n":` + string(rune('0'+left)) + `}`)}
	}
	id := s.Start("w", harness.DeviceIDs(2)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if n["d000"] != 3 || n["d001"] != 4 {
		t.Errorf("calls %v", n)
	}
}

// A step with a delay does not start before the delay is over.
func TestDelay_WaitsBeforeStep(t *testing.T) {
	s := newHarness(t, 0)
	s.Publish("w", "steps: [{label: one, functionBlock: p/pure:1, runOn: global, delay: 90s}]\n")
	id := s.Start("w")
	if x := s.Load(id); x.State != sm.ExecutionWaiting || x.Wait.Kind != workflow.WaitTimer {
		t.Fatalf("state %s, waits for %+v", x.State, x.Wait)
	}
	s.RunUntilIdle(80 * time.Second)
	if len(s.BlockCalls) != 0 {
		t.Error("the step did not wait")
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// A delay before the first step begins when the locks are taken, however long that took.
func TestDelay_CountsFromWhenLocksAreTaken(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "steps: [{label: one, functionBlock: p/pure:1, runOn: device, delay: 10s}]\n")
	locked := s.Now()
	s.Faults = func(c faults.Call) faults.Fault {
		if c.Name == "locks.take" {
			s.Advance(30 * time.Second)
			locked = s.Now()
		}
		return faults.None
	}
	id := s.Start("w", harness.DeviceIDs(1)...)
	x := s.Load(id)
	if x.State != sm.ExecutionWaiting || x.Wait.Until.Before(locked.Add(10*time.Second)) {
		t.Errorf("in %s, locked at %s, waits for %+v", x.State, locked, x.Wait)
	}
}

// A short delay ends on time, not at the next sweep.
func TestDelay_EndsOnTime(t *testing.T) {
	s := newHarness(t, 0)
	s.Publish("w", "steps: [{label: one, functionBlock: p/pure:1, runOn: global, delay: 3s}]\n")
	id := s.Start("w")
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if took := x.EndedAt.Sub(x.CreatedAt); took < 3*time.Second || took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

// A definition that starts itself three times would make 3^10 executions. The size of the family is
// limited: the step that would start one more fails and names the first execution and the limit,
// and all of them end.
func TestChild_DescendantsOfOneExecutionAreLimited(t *testing.T) {
	o := harness.Options()
	o.MaxDescendants = 20
	s := harness.New(t, 1, o)
	again := "{label: %s, workflowReference: {workflow: p/w, mode: fireAndForget}}"
	s.Publish("w", fmt.Sprintf("steps: ["+again+", "+again+", "+again+"]", "one", "two", "three"))
	id := s.Start("w")
	settle(s)
	executions, limited := 0, 0
	for child := range s.States(harness.Caller.Tenant) {
		x := s.Load(child)
		executions++
		if !sm.Terminal(x.State) {
			t.Errorf("execution %s is %s", x.ID, x.State)
		}
		if x.Error != nil && x.Error.Code == workflow.FailureLimit && !strings.Contains(x.Reason, "nested too deeply") {
			limited++
			if x.Cause != workflow.CauseLimit || !strings.Contains(x.Reason, id) || !strings.Contains(x.Reason, "20 executions") {
				t.Errorf("cause %s, reason %q", x.Cause, x.Reason)
			}
		}
	}
	if executions != 21 || limited == 0 {
		t.Errorf("%d executions, %d of which failed by the limit", executions, limited)
	}
}

// A handler that dies between counting a child and creating it is repeated: the child counts
// once.
func TestChild_RepeatedStartCountsOnce(t *testing.T) {
	o := harness.Options()
	o.MaxDescendants = 1
	s := harness.New(t, 1, o)
	s.RegisterBlocks()
	s.Publish("sub", "steps: [{label: one, functionBlock: p/pure:1, runOn: global}]")
	s.Publish("w", "steps: [{label: go, workflowReference: {workflow: p/sub, mode: dispatch}}]")
	counted := 0
	s.Faults = func(c faults.Call) faults.Fault {
		if c.Name == "store.count_descendant" {
			if counted++; counted == 1 {
				return faults.CrashAfter
			}
		}
		return faults.None
	}
	id := s.Start("w")
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if counted < 2 {
		t.Errorf("the start was not repeated")
	}
}
