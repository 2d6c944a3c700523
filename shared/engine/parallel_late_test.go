package engine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"

	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A branch whose last step has ended in time has not timed out, even if the handler that was to end
// it died, and the next one comes too late. One that has another step to enter has.
func TestParallelWait_BranchWhoseLastStepEndedInTime(t *testing.T) {
	for last, inTime := range map[string]bool{
		`ASK`: true,
		`{label: around, workflow: {steps: [{label: inner, workflow: {steps: [ASK]}}]}}`:                                                                       true,
		`{label: around, switch: [{when: "1 == 1", steps: [ASK]}, {default: true}]}`:                                                                           true,
		`{label: around, switch: [{when: "1 == 1", steps: [ASK], next: no}, {default: true}]}, {label: no, wait: {for: 1h}}`:                                   false,
		`{label: around, switch: [{when: "1 == 1", steps: [ASK]}, {default: true}]}, {label: no, wait: {for: 1h}}`:                                             false,
		`{label: around, loop: {over: "${[1]}"}, workflow: {steps: [ASK]}}`:                                                                                    true,
		`{label: around, loop: {over: "${[1, 2]}"}, workflow: {steps: [ASK]}}`:                                                                                 false,
		`{label: around, loop: {while: "index < 1", max: 3}, workflow: {steps: [ASK]}}`:                                                                        true,
		`{label: around, loop: {while: "index < 2", max: 3}, workflow: {steps: [ASK]}}`:                                                                        false,
		`{label: around, loop: {while: "index >= 0", max: 1, onMax: stop}, workflow: {steps: [ASK]}}`:                                                          true,
		`{label: around, repeat: {count: 1}, workflow: {steps: [ASK]}}`:                                                                                        true,
		`{label: around, repeat: {count: 2}, workflow: {steps: [ASK]}}`:                                                                                        false,
		`{label: around, parallel: {branches: [{label: x, steps: [ASK]}, {label: y, steps: [{label: soon, wait: {for: 1m}}]}]}}`:                               true,
		`{label: around, parallel: {branches: [{label: x, steps: [ASK, {label: no, wait: {for: 1h}}]}, {label: y, steps: [{label: soon, wait: {for: 1m}}]}]}}`: false,
	} {
		s := newHarness(t, 1)
		s.Publish("child", "steps: [{label: one, functionBlock: p/pure:1, runOn: global}]\n")
		s.Publish("w", `steps:
- label: all
  stepTimeout: 1h
  parallel:
    allowPartial: true
    branches:
    - {label: a, steps: [{label: one, delay: 10m, workflowReference: {workflow: p/child:1, mode: dispatch}}]}
    - {label: b, steps: [{label: other, delay: 10m, workflowReference: {workflow: p/child:1, mode: dispatch}}]}
    - {label: c, steps: [`+strings.Replace(last, "ASK", "{label: ask, wait: {input: {schema: {type: object}}}}", 1)+`]}
`)
		id := s.Start("w", "d000")
		s.RunFor(5 * time.Minute)
		s.Advance(15 * time.Minute)
		s.Faults = faults.Next("store.create", faults.CrashBefore)
		faults.CatchCrash(func() {
			_, _ = s.Engine.Answer(t.Context(), harness.Caller, id, views.AnswerRequest{Step: "ask", Input: json.RawMessage(`{}`)})
		})
		s.Faults = nil
		s.Advance(2 * time.Hour)
		settle(s)
		state, ended, failed := sm.ExecutionCompletedAck, "[2]", 2
		if !inTime {
			state, ended, failed = sm.ExecutionFailedSafeAck, "[]", 0
		}
		x := s.ExpectState(id, state)
		if r := x.LastStepRun(); r.EnteredAt.Sub(x.StartedAt) > time.Hour {
			t.Errorf("%s: %s is entered when the time is over", last, r.Label)
		}
		if all := x.StepRunBySeq(1); fmt.Sprint(all.EndedWell) != ended || all.FailedBranches != failed {
			t.Errorf("%s: %s: branches %v of step run %+v ended well", last, x.Outcome(), all.EndedWell, all)
		}
	}
}

// An entity that fails in branches whose failure is handled has not failed, whether that failure or the end of the time
// of the branches comes first.
func TestParallel_HandledFailureInLateBranches(t *testing.T) {
	for seconds, code := range map[int]string{5: "REFUSED", 20: "TIMEOUT", 25: "TIMEOUT"} {
		s := newHarness(t, 2)
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			if c.Step != "b" || c.Entity != "d001" {
				return nil
			}
			return &harness.Outcome{FailCode: "REFUSED", During: func() { passTime(s, time.Duration(seconds)*time.Second) }}
		}
		s.Publish("w", `steps:
  - label: all
    stepTimeout: 20s
    parallel: {branches: [{label: x, functionBlock: p/pure:1, runOn: global}, {label: y, steps: [{label: b, functionBlock: p/harmless:1, runOn: device}]}]}
    onFailure: [{when: 'error.code == "`+code+`"', steps: [{label: h, functionBlock: p/again:1, runOn: device}]}]
`)
		id := s.Start("w", "d000", "d001")
		settle(s)
		x := s.ExpectState(id, sm.ExecutionCompletedAck)
		if outcome := x.Outcome(); outcome != workflow.OutcomeSucceeded || !s.HasCalled(id, "h EXECUTE d001") {
			t.Errorf("after %d seconds: outcome %s, %v, %v", seconds, outcome, x.Result, s.CallsOf(id))
		}
	}
}

// A step whose time is over before enough of its branches have ended well has run out of time, for who handles its
// failure and at the end of the execution, also if a branch had failed before.
func TestParallel_RunsOutOfTimeAfterAFailure(t *testing.T) {
	for _, handled := range []bool{false, true} {
		s := newHarness(t, 1)
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			if c.Step == "fails" {
				return &harness.Outcome{FailCode: "REFUSED"}
			}
			return nil
		}
		handler := ""
		if handled {
			handler = ", onFailure: [{when: 'error.code == \"TIMEOUT\" && error.step == \"both\"', steps: [{label: note, set: {why: '${error.code}'}}]}]"
		}
		s.Publish("w", "steps:\n  - {label: both, stepTimeout: 30s"+handler+", parallel: {allowPartial: true, branches: [\n"+
			"      {label: l, steps: [{label: fails, functionBlock: p/pure:1, runOn: global}]}, {label: m, steps: [{label: waits, wait: {for: 1h}}]}]}}\noutput: {why: '${has(vars.why) ? vars.why : \"\"}'}\n")
		id := s.Start("w", "d000")
		s.RunFor(5 * time.Minute)
		if handled {
			if x := s.ExpectState(id, sm.ExecutionCompletedAck); string(x.Output.Inline) != `{"why":"TIMEOUT"}` {
				t.Errorf("its output is %s", x.Output.Inline)
			}
			continue
		}
		if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Cause != workflow.CauseTimeout || x.Error == nil || x.Error.Code != workflow.FailureTimeout || x.Error.Step != "both" {
			t.Errorf("it fails with %s, %+v", x.Cause, x.Error)
		}
	}
}
