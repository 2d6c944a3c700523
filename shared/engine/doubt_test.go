package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// A lost worker also ends the rollout if its job may be repeated and undone, and if it was running
// in the pipeline when another step of it failed.
func TestRollout_DoubtByLostWorker(t *testing.T) {
	for steps, config := range map[string]string{
		"{label: one, functionBlock: p/again:1, runOn: device}": "",
		"{label: box, continueOnError: true, workflow: {steps: [{label: first, functionBlock: p/pure:1, runOn: device}, {label: one, functionBlock: p/forever:1, runOn: device}]}}": "config: {executionStrategy: {parallel: true}}\n",
	} {
		slow := false
		s, id := rolledOut(t, 4, config+`steps:
  - {label: all, rollout: {batches: [2]`+map[bool]string{true: ", failureTolerance: 100%"}[config == ""]+`}, workflow: {steps: [`+steps+`]}}
`, func(c harness.BlockCall) *harness.Outcome {
			switch {
			case c.Step == "one" && c.Entity == "d000":
				return &harness.Outcome{Crash: true}
			case c.Step == "first" && c.Entity == "d001" && !slow:
				slow = true
				return &harness.Outcome{Crash: true}
			case c.Step == "first" && c.Entity == "d001":
				return &harness.Outcome{FailCode: "NO"}
			}
			return nil
		})
		settle(s)
		s.ExpectState(id, sm.ExecutionFailedUnsafe)
		if l := s.Locks(); len(l) != 1 || l[0].Entity.ID != "d000" {
			t.Errorf("%s: locks %+v", steps, l)
		}
		if calls := callsByStep(s, id); strings.ContainsAny(calls, "23") || !strings.Contains(calls, "one 0") {
			t.Errorf("%s: %s", steps, calls)
		}
	}
}

// inDoubt are the codes of failures that leave unknown how far the block was executed.
var inDoubt = []string{workflow.FailureTimeout, workflow.FailureHTTPTimeout, workflow.FailureHTTPUnreachable, workflow.FailureBadGateway, workflow.FailureGatewayTimeout}

// A job that did not answer in time leaves the same unknown outcome as one whose worker was lost,
// even behind tolerated failures. There is none if the job can be repeated and undone.
func TestRollout_DoubtByTimeout(t *testing.T) {
	for _, c := range []struct {
		block, extra, calls string
		state               sm.ExecutionState
		locks               int
	}{
		{"forever", "", "one 0,1", sm.ExecutionFailedUnsafe, 2},
		{"forever", ", continueOnError: true", "one 0,1", sm.ExecutionFailedUnsafe, 2},
		{"forever", ", failureTolerance: 100%", "one 0,1", sm.ExecutionFailedUnsafe, 2},
		{"forever", ", onFailure: [{steps: [{label: two, functionBlock: p/pure:1, runOn: global}]}]", "one 0,1", sm.ExecutionFailedUnsafe, 2},
		{"once", "", "one 0,1 | ~one 0,1", sm.ExecutionCompletedAck, 0},
		{"again", "", "one 0,1,2,3 | ~one 0,1", sm.ExecutionCompletedAck, 0},
		{"pure", "", "one 0,1,2,3", sm.ExecutionCompletedAck, 0},
	} {
		for _, code := range inDoubt {
			s, id := rolledOut(t, 4, `steps:
  - {label: all, rollout: {batches: [2], failureTolerance: 100%}, workflow: {steps: [{label: one, functionBlock: p/`+c.block+`:1, runOn: device`+c.extra+`}]}}
`, func(call harness.BlockCall) *harness.Outcome {
				switch {
				case call.Kind == workflow.JobRollback:
				case call.Entity == "d000":
					return &harness.Outcome{FailCode: "NO"}
				case call.Entity == "d001":
					return &harness.Outcome{FailCode: code}
				}
				return nil
			})
			settle(s)
			x := s.ExpectState(id, c.state)
			if c.locks > 0 && (x.Error == nil || x.Error.Step != "one") || len(s.Locks()) != c.locks {
				t.Errorf("%s%s, %s: %+v, locks %v", c.block, c.extra, code, x.Error, s.Locks())
			}
			expectSteps(t, s, id, c.calls)
		}
	}
}

// An entity in doubt is neither left as it is nor taken for one that succeeded, whatever the definition
// tolerates or handles: it needs somebody to look at it.
func TestOutcome_DoubtIsUnsafe(t *testing.T) {
	for _, def := range []string{
		"config: {failureTolerance: 1, onEntityFailure: leave}\nsteps: [{label: a, functionBlock: p/forever:1, runOn: device}]\n",
		"steps: [{label: a, functionBlock: p/forever:1, runOn: device, continueOnError: true}]\n",
		"steps: [{label: a, functionBlock: p/forever:1, runOn: device, onFailure: [{steps: [{label: n, set: {x: 1}}]}]}]\n",
	} {
		for _, code := range append([]string{"NO"}, inDoubt...) {
			s := newHarness(t, 3)
			s.Script = func(c harness.BlockCall) *harness.Outcome {
				if c.Entity == "d000" {
					return &harness.Outcome{FailCode: code}
				}
				return nil
			}
			s.Publish("w", def)
			id := s.Start("w", "d000", "d001", "d002")
			s.RunFor(20 * time.Minute)
			if code == "NO" {
				s.ExpectState(id, sm.ExecutionCompletedAck)
			} else if x := s.ExpectState(id, sm.ExecutionFailedUnsafe); x.Kept == nil || x.Kept.Len() != 1 || x.Result.Sets.Of(1) != workflow.EntityFailedUnsafe {
				t.Errorf("%s after %s: kept %v, %v", def, code, x.Kept, x.Result.Sets)
			}
		}
	}
}

// A failure may be handled, and the execution succeed all the same. With an unknown outcome it does
// not, though the definition continues as it says.
func TestFlow_HandledDoubtIsNoSuccess(t *testing.T) {
	for block, whenUnknown := range map[string]workflow.Outcome{"forever": workflow.OutcomePartial, "once": workflow.OutcomePartial, "again": workflow.OutcomeSucceeded, "pure": workflow.OutcomeSucceeded} {
		for code, want := range map[string]workflow.Outcome{"NO": workflow.OutcomeSucceeded, workflow.FailureTimeout: whenUnknown, workflow.FailureHTTPUnreachable: whenUnknown, workflow.FailureGatewayTimeout: whenUnknown} {
			for _, step := range []string{
				`{label: f, functionBlock: p/` + block + `:1, runOn: global, parameters: {n: 2}, onFailure: [{next: last}]}`,
				`{label: box, workflow: {steps: [{label: f, functionBlock: p/` + block + `:1, runOn: global, parameters: {n: 2}}]}, onFailure: [{next: last}]}`,
				`{label: f, functionBlock: p/` + block + `:1, runOn: item, foreach: {items: "${[1, 3, 2]}"}, parameters: {n: "${item}"}, onFailure: [{next: last}]}`,
			} {
				s, id, _ := flow(t, "steps:\n  - "+step+"\n  - {label: last, functionBlock: p/pure:1, runOn: global}\n", "", func(c harness.BlockCall) *harness.Outcome {
					if c.Step == "f" && strings.Contains(string(c.Parameters), "2") {
						return &harness.Outcome{FailCode: code}
					}
					return nil
				})
				if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.Outcome() != want || !s.HasCalled(id, "last EXECUTE") {
					t.Errorf("%s, %s, %s: %s, want %s", block, code, step, x.Outcome(), want)
				}
			}
		}
	}
}
