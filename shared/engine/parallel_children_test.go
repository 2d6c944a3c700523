package engine_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// branchesYAML starts an execution in each of two branches, and executes a block in a third.
const branchesYAML = `steps:
  - label: all
    parallel:
      branches:
        - label: left
          steps:
            - {label: one, workflowReference: {workflow: "p/LEFT:1", mode: MODE}}
            - {label: then, functionBlock: p/pure:1, runOn: global}
          result: "${one.result}"
        - {label: right, steps: [{label: two, workflowReference: {workflow: "p/RIGHT:1", mode: MODE}}]}
        - {label: third, functionBlock: p/once:1, runOn: global}
      allowPartial: PARTIAL
    STEP
  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {left: "${has(all.branches.left) ? string(all.branches.left.output.n) : ''}", failed: "${all.failed.map(f, f.branch)}"}}
`

// The workflows that branches start.
var branchChildren = map[string]string{
	"waits": "steps: [{label: soak, wait: {for: 1h}}]\noutput: {n: 7}\n",
	"asks":  "steps: [{label: may, wait: {input: {title: \"May I?\", deadline: 24h}}}]\noutput: {n: 8}\n",
	"fails": "steps: [{label: soak, wait: {for: 10m}}, {label: bad, assert: \"false\", functionBlock: p/pure:1, runOn: global}]\n",
	"never": "steps: [{label: may, wait: {input: {deadline: 200h}}}]\n",
}

type branchCase struct{ left, right, mode, partial, step string }

// startBranches starts branches with children, and returns the parent and its children, as far as they exist.
func startBranches(t *testing.T, c branchCase, script func(harness.BlockCall) *harness.Outcome) (s *harness.Harness, id string) {
	t.Helper()
	s = newHarness(t, 0)
	for name, definition := range branchChildren {
		s.Publish(name, definition)
	}
	replace := strings.NewReplacer("LEFT", c.left, "RIGHT", c.right, "MODE", orElse(c.mode, "dispatch"), "PARTIAL", orElse(c.partial, "false"), "STEP", c.step)
	s.Publish("w", replace.Replace(branchesYAML))
	s.Script = script
	id = s.Start("w")
	s.Drain()
	return s, id
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// childOfStep is the execution that a step has started last.
func childOfStep(s *harness.Harness, id, step string) string {
	s.Helper()
	x := s.Load(id)
	for i := len(x.StepRuns) - 1; i >= 0; i-- {
		if r := &x.StepRuns[i]; r.Label == step && r.Child != nil {
			return r.Child.ID
		}
	}
	s.Fatalf("step %q has started nothing", step)
	return ""
}

// Executions that branches start work side by side. The parent waits while they do, shows
// first the one that asks a person, and gives what each has given.
func TestParallelChildren_WorkSideBySide(t *testing.T) {
	s, id := startBranches(t, branchCase{left: "waits", right: "asks"}, nil)
	x := s.ExpectState(id, sm.ExecutionWaiting)
	one, two := childOfStep(s, id, "one"), childOfStep(s, id, "two")
	if x.Wait.Kind != workflow.WaitChildInput || x.Wait.Child != two || x.Wait.Reason != "May I?" || x.Wait.Step != "two" {
		t.Errorf("%+v", x.Wait)
	}
	v, err := s.Query.Execution(t.Context(), harness.Caller, id)
	if err != nil || len(v.Waiting.All) != 2 || v.Waiting.All[0].Kind != workflow.WaitChild || *v.Waiting.All[0].Child != one || v.Waiting.All[0].Until != nil || v.Waiting.All[1].Step != "two" {
		t.Errorf("%+v, %v", v.Waiting, err)
	}
	answerIn(s, two, "may")
	s.Drain()
	s.ExpectState(two, sm.ExecutionCompletedAck)
	if x = s.ExpectState(id, sm.ExecutionWaiting); x.Wait.Kind != workflow.WaitChild || x.Wait.Child != one {
		t.Errorf("%+v", x.Wait)
	}
	s.RunFor(2 * time.Hour)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, callsWithParameters(s, id), "third {}", "then {}", `after {"failed":[],"left":"7"}`)
}

// A branch whose job fails closes the others, with what they have started, before the step fails.
func TestParallelChildren_AreClosedByAnotherBranch(t *testing.T) {
	s, id := startBranches(t, branchCase{left: "waits", right: "asks"}, func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "third" && c.Attempt == 1 {
			return &harness.Outcome{FailCode: "BUSY"}
		}
		return nil
	})
	s.RunFor(time.Minute)
	if x := s.Load(id); !sm.Terminal(x.State) {
		t.Fatalf("third has failed, and the execution is in %s", x.State)
	}
	for _, step := range []string{"one", "two"} { // nothing of them goes on after the end of their parent
		if x := s.Load(childOfStep(s, id, step)); x.State != sm.ExecutionCancelledAck || x.Cancellation.Source != "parent" || x.EndedAt.After(s.Load(id).EndedAt) {
			t.Errorf("%s: %s, %+v, ended %s, its parent %s", step, x.State, x.Cancellation, x.EndedAt, s.Load(id).EndedAt)
		}
	}
}

// An execution that fails fails its branch. Without allowPartial the others are closed, with
// what they have started; with it they go on.
func TestParallelChildren_Failure(t *testing.T) {
	s, id := startBranches(t, branchCase{left: "asks", right: "fails"}, nil)
	s.RunFor(time.Hour)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Cause != workflow.CauseChildFailed || x.Error.Step != "two" {
		t.Errorf("%s %+v", x.Cause, x.Error)
	}
	one := childOfStep(s, id, "one")
	s.ExpectState(one, sm.ExecutionCancelledAck)
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{}); err != nil { // it starts others
		t.Fatal(err)
	}
	s.Drain()
	if again := childOfStep(s, id, "one"); again == one {
		t.Error("the retry has started nothing")
	} else {
		s.ExpectState(again, sm.ExecutionWaiting)
	}
	s.RunFor(time.Hour)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)

	s, id = startBranches(t, branchCase{left: "asks", right: "fails", partial: "true"}, nil)
	s.RunFor(time.Hour)
	x := s.ExpectState(id, sm.ExecutionWaiting)
	if x.Wait.Kind != workflow.WaitChildInput || x.Wait.Step != "one" {
		t.Errorf("%+v", x.Wait)
	}
	answerIn(s, childOfStep(s, id, "one"), "may")
	settle(s)
	x = s.ExpectState(id, sm.ExecutionCompletedAck)
	if calls := callsWithParameters(s, id); x.Outcome() != workflow.OutcomePartial || calls[len(calls)-1] != `after {"failed":["right"],"left":"8"}` {
		t.Errorf("%s %v", x.Outcome(), calls)
	}
}

// When the time of the step is over, what branches have started is cancelled before the step ends;
// what is abandoned goes on, and leaves a doubt.
func TestParallelChildren_StepTimeout(t *testing.T) {
	s, id := startBranches(t, branchCase{left: "waits", right: "never", partial: "true", step: "stepTimeout: 2h"}, nil)
	s.RunFor(119 * time.Minute)
	if x := s.ExpectState(id, sm.ExecutionWaiting); x.Wait.Step != "two" {
		t.Errorf("%+v", x.Wait)
	}
	s.RunFor(2 * time.Minute)
	s.ExpectState(childOfStep(s, id, "two"), sm.ExecutionCancelledAck)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if calls := callsWithParameters(s, id); calls[len(calls)-1] != `after {"failed":["right"],"left":"7"}` {
		t.Error(calls)
	}

	s, id = startBranches(t, branchCase{left: "waits", right: "never", partial: "true", mode: "dispatch, onParentClose: abandon", step: "stepTimeout: 2h"}, nil)
	s.RunFor(121 * time.Minute)
	s.ExpectState(childOfStep(s, id, "two"), sm.ExecutionWaiting)
	if x := s.ExpectState(id, sm.ExecutionFailedUnsafe); x.Cause != workflow.CauseTimeout {
		t.Errorf("%s %+v", x.Cause, x.Error)
	}
}

// A cancel reaches all that branches have started at once; without cascade it goes on.
func TestParallelChildren_Cancel(t *testing.T) {
	for _, cascade := range []bool{true, false} {
		s, id := startBranches(t, branchCase{left: "waits", right: "asks"}, nil)
		if _, err := s.Engine.Cancel(t.Context(), harness.Caller, id, views.CancelRequest{Cascade: &cascade}); err != nil {
			t.Fatal(err)
		}
		s.Drain()
		want := map[bool]sm.ExecutionState{true: sm.ExecutionCancelledAck, false: sm.ExecutionWaiting}[cascade]
		s.ExpectState(childOfStep(s, id, "one"), want)
		s.ExpectState(childOfStep(s, id, "two"), want)
		s.ExpectState(id, sm.ExecutionCancelledAck)
	}
}

// What nobody waits for has begun once it exists, and its branch goes on.
func TestParallelChildren_Forgotten(t *testing.T) {
	s, id := startBranches(t, branchCase{left: "waits", right: "never", mode: "fireAndForget"}, nil)
	s.Drain()
	s.ExpectState(id, sm.ExecutionFailedSafeAck) // there is no output that a later step may read
	s.ExpectState(childOfStep(s, id, "one"), sm.ExecutionWaiting)
	s.ExpectState(childOfStep(s, id, "two"), sm.ExecutionWaiting)
}

// Sets of executions in branches have done sets, windows and questions of their own.
func TestParallelChildren_Sets(t *testing.T) {
	s := newHarness(t, 0)
	for name, definition := range branchChildren {
		s.Publish(name, definition)
	}
	s.Publish("w", `steps:
  - label: all
    parallel:
      branches:
        - {label: left, steps: [{label: some, foreach: {items: "${[1, 2, 3]}", maxInFlight: 1}, workflowReference: {workflow: "p/waits:1", mode: dispatch}}]}
        - {label: right, steps: [{label: others, foreach: {items: "${[1, 2]}"}, workflowReference: {workflow: "p/asks:1", mode: dispatch}}]}
  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {n: "${size(all.branches.left) + size(all.branches.right)}"}}
`)
	id := s.Start("w")
	s.Drain()
	x := s.ExpectState(id, sm.ExecutionWaiting)
	if x.Wait.Kind != workflow.WaitChildInput || x.Wait.Step != "others" {
		t.Errorf("%+v", x.Wait)
	}
	r := x.StepRuns[slices.IndexFunc(x.StepRuns, func(r workflow.StepRun) bool { return r.Label == "others" })]
	for lane := range 2 {
		answerIn(s, r.ChildID(id, lane), "may")
		s.Drain()
	}
	if x = s.ExpectState(id, sm.ExecutionWaiting); x.Wait.Kind != workflow.WaitChild || x.Wait.Step != "some" {
		t.Errorf("%+v", x.Wait)
	}
	s.RunFor(2*time.Hour + time.Minute)
	s.ExpectState(id, sm.ExecutionWaiting) // one at a time
	s.RunFor(time.Hour)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, callsWithParameters(s, id), `after {"n":5}`)
}

// Delays in branches: each holds up its own branch, is shown, and can be ended.
func TestParallelDelay_HoldsUpItsBranch(t *testing.T) {
	s, id := waiting(t, `steps:
  - label: all
    parallel:
      branches:
        - {label: a, steps: [{label: late, delay: 30m, functionBlock: p/pure:1, runOn: global}]}
        - {label: b, steps: [{label: twice, repeat: {count: 3, delay: 10m}, functionBlock: p/pure:1, runOn: global}]}
        - {label: c, steps: [{label: soak, wait: {for: 2h}}]}
`, "", nil)
	x := s.ExpectState(id, sm.ExecutionWaiting)
	if x.Wait.Kind != workflow.WaitTimer || len(s.CallsOf(id)) != 1 {
		t.Errorf("%+v, %v", x.Wait, s.CallsOf(id))
	}
	v, err := s.Query.Execution(t.Context(), harness.Caller, id)
	if err != nil || len(v.Waiting.All) != 3 || v.Waiting.All[0].Kind != workflow.WaitTimer {
		t.Errorf("%+v, %v", v.Waiting, err)
	}
	s.RunFor(21 * time.Minute)
	if calls := s.CallsOf(id); len(calls) != 3 {
		t.Errorf("%v", calls)
	}
	_, err = s.Engine.Resume(t.Context(), harness.Caller, id, "go")
	expectCode(t, err, workflow.CodeInvalid, "late")
	if _, err := s.Engine.ResumeStep(t.Context(), harness.Caller, id, "late", "go"); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	if calls := s.CallsOf(id); len(calls) != 4 {
		t.Errorf("%v", calls)
	}
	s.RunFor(2 * time.Hour)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// Whatever fails on the way, nothing of a family is at work after its parent's end, and all comes to
// an end.
func TestParallelChildren_UnderRandomFaults(t *testing.T) {
	for seed := range uint64(40) {
		s, id := startBranches(t, branchCase{left: "waits", right: []string{"waits", "fails"}[seed%2], partial: []string{"true", "false"}[seed/2%2]}, nil)
		s.Faults = faults.Randomly(rand.New(rand.NewPCG(seed, 7)), 60, faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated)
		s.RunFor(5 * time.Hour)
		s.Faults = nil
		s.RunFor(time.Hour)
		x := s.Load(id)
		if !sm.Terminal(x.State) {
			t.Fatalf("seed %d: %s, %+v", seed, x.State, x.Wait)
		}
		for _, step := range []string{"one", "two"} {
			if c := s.Load(childOfStep(s, id, step)); !sm.Terminal(c.State) || c.EndedAt.After(x.EndedAt) {
				t.Errorf("seed %d: %s is in %s, ended %s, its parent %s", seed, step, c.State, c.EndedAt, x.EndedAt)
			}
		}
	}
}
