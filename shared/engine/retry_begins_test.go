package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// A retry executes what has failed and what follows, and nothing that stands. That includes the
// case that the step that cannot be undone is not the one in which an entity has failed, and that
// the failure is handled this time.
func TestRetry_ExecutesWhatHasToBeDoneAgain(t *testing.T) {
	for name, test := range map[string]struct {
		definition string
		want       string // what the second try calls
	}{
		"a failure was tolerated behind a rollout in which something was done that cannot be undone": {
			"config: {failureTolerance: 1}\nsteps: [{label: all, rollout: {batches: [1]}, workflow: {steps: [{label: one, functionBlock: p/forever:1, runOn: device}]}}, {label: two, functionBlock: p/once:1, runOn: device}, {label: three, functionBlock: p/pure:1, runOn: device}]\n",
			"two d000|three d000",
		},
		"the failure is handled": {
			"steps: [{label: two, functionBlock: p/forever:1, runOn: device, onFailure: [{when: 'error.code == \"SECOND\"', next: three}]}, {label: three, functionBlock: p/pure:1, runOn: device}]\n",
			"two d000|three d000",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, 1)
			s.Publish("w", test.definition)
			code := "FIRST"
			s.Script = func(c harness.BlockCall) *harness.Outcome {
				if c.Step == "two" && c.Kind == workflow.JobExecute && (code == "FIRST" || strings.Contains(test.definition, "SECOND")) {
					return &harness.Outcome{FailCode: code}
				}
				return nil
			}
			id := s.Start("w", "d000")
			settle(s)
			s.ExpectState(id, sm.ExecutionFailedUnsafe)
			code, s.BlockCalls = "SECOND", nil
			retry(s, id, views.RetryRequest{})
			settle(s)
			var calls []string
			for _, c := range s.BlockCalls {
				if c.Kind == workflow.JobExecute {
					calls = append(calls, c.Step+" "+c.Entity)
				}
			}
			if got := strings.Join(calls, "|"); got != test.want {
				t.Errorf("executed %s, want %s", got, test.want)
			}
		})
	}
}

// A rollback has ended at a step of which it has undone nothing, because nobody could say how. What
// that step did stands, and so does everything before it: a retry begins with the step that failed.
func TestRetry_RepeatsNothingThatNoRollbackTouched(t *testing.T) {
	const inner = "[{label: one, functionBlock: p/again:1, runOn: global}, {label: two, functionBlock: p/forever:1, runOn: global, compensate: {functionBlock: p/back:1, parameters: {id: '${two.result.none}'}}}, {label: three, functionBlock: p/pure:1, runOn: global}]"
	for name, definition := range map[string]string{
		"steps":     "steps: " + inner + "\n",
		"a loop":    "steps: [{label: all, loop: {over: '${[1]}'}, workflow: {steps: " + inner + "}}]\n",
		"a rollout": "steps: [{label: all, rollout: {batches: [1], onFailure: rollbackAll}, workflow: {steps: [{label: zero, functionBlock: p/pure:1, runOn: device}, " + inner[1:] + "}}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, 1)
			s.RegisterBlock(workflow.Block{Name: "back", Pool: "p", Idempotent: true})
			s.Publish("w", definition)
			mended := false
			s.Script = failUntil("three", "", &mended)
			id := s.Start("w", "d000")
			settle(s)
			x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
			if last := x.LastStepRun(); last.Kind != workflow.JobRollback || last.Label != "two" || last.Counts.Executed() > 0 {
				t.Fatalf("the last step run is %+v", last)
			}
			mended = true
			got := retryToEnd(s, id, views.RetryRequest{})
			s.ExpectState(id, sm.ExecutionCompletedAck)
			if strings.Join(got, "|") != "three EXECUTE" {
				t.Errorf("executed %q, want the step that failed", got)
			}
		})
	}
}

// A rollout has stopped, and what could be undone in its wave is undone and released. A retry under
// the held locks does not include these entities. One that takes all locks anew does, and executes
// again what was undone for them.
func TestRollout_RetryUnderNewLocksRepeatsWhatWasUndone(t *testing.T) {
	for how, want := range map[string]string{"kept": "two 2 | three 1,2", "anew": "one 3 | two 2 | three 1,2,3", "anew after some": "one 3 | three 1,2,3"} {
		mended, three := false, true
		fails := failUntil("two", "d002", &mended)
		s, id := rolledOut(t, 4, `steps:
  - label: all
    rollout: {batches: [1, 4]}
    workflow: {steps: [
      {label: one, functionBlock: p/again:1, runOn: device},
      {label: two, functionBlock: p/forever:1, runOn: device, condition: entity.id != "d003"},
      {label: three, functionBlock: p/pure:1, runOn: device}]}
`, func(c harness.BlockCall) *harness.Outcome {
			if c.Step == "three" && c.Entity == "d001" && !three {
				return &harness.Outcome{FailCode: "NO"}
			}
			return fails(c)
		})
		settle(s)
		s.ExpectState(id, sm.ExecutionFailedUnsafe)
		expectSteps(t, s, id, "one 0 | two 0 | three 0 | one 1,2,3 | two 1,2 | ~one 3")
		mended = true
		if how == "anew after some" {
			three = false
			s.BlockCalls = nil
			retry(s, id, views.RetryRequest{})
			settle(s)
			s.ExpectState(id, sm.ExecutionFailedUnsafe)
			expectSteps(t, s, id, "two 2 | three 1") // stopped before it came to d002
			three = true
		}
		if how != "kept" {
			mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
				return s.Engine.Acknowledge(ctx, harness.Caller, id, "seen")
			})
			s.ExpectState(id, sm.ExecutionFailedUnsafeAck)
		}
		s.BlockCalls = nil
		retry(s, id, views.RetryRequest{})
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		expectSteps(t, s, id, want)
	}
}

// A retry of failures keeps results from the step with which it begins. If it goes back to an
// earlier step, that is executed for all, as in any try that goes back.
func TestRetry_GoingBackExecutesForAll(t *testing.T) {
	for _, push := range []string{"runOn: item, foreach: {items: '${[1, 2]}'}", "runOn: device"} {
		s := newHarness(t, 2)
		s.Publish("w", "steps: [{label: push, functionBlock: p/pure:1, "+push+"}, {label: check, functionBlock: p/pure:1, runOn: global}, "+
			"{label: choose, switch: [{when: {path: n, op: notExists}, steps: [{label: note, set: {n: 1}}], next: push}, {default: end}]}]\n")
		mended := false
		s.Script = failUntil("check", "", &mended)
		id := s.Start("w", harness.DeviceIDs(2)...)
		settle(s)
		s.ExpectState(id, sm.ExecutionFailedSafeAck)
		mended, s.BlockCalls = true, nil
		retry(s, id, views.RetryRequest{Entities: views.RetryFailed})
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		var got []string
		for _, c := range s.BlockCalls {
			got = append(got, c.Step)
		}
		if strings.Join(got, " ") != "check push push check" {
			t.Errorf("%s: executed %q", push, got)
		}
	}
}

// Two entities have failed, which was tolerated. One was undone and released, the other is kept
// because its changes cannot be undone. The retry works on that one, and begins where it failed.
func TestRetry_RepeatsNothingOfReleasedEntities(t *testing.T) {
	mended := false
	s, id := rolledOut(t, 3, `config: {failureTolerance: 2}
steps:
  - {label: one, functionBlock: p/again:1, runOn: device, condition: entity.id != "d001"}
  - {label: count, functionBlock: p/forever:1, runOn: global}
  - {label: two, functionBlock: p/forever:1, runOn: device, condition: entity.id == "d001"}
  - {label: three, functionBlock: p/pure:1, runOn: device}
`, func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "three" && c.Entity != "d000" && !mended {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	})
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	expectSteps(t, s, id, "one 0,2 | count | two 1 | three 0,1,2 | ~one 2")
	mended, s.BlockCalls = true, nil
	retry(s, id, views.RetryRequest{})
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectSteps(t, s, id, "three 1")
}

// A retry takes its locks anew, and does not get them. The next retry begins where that one was to
// begin.
func TestRetry_AfterATryWithoutLocks(t *testing.T) {
	mended := false
	s, id := rolledOut(t, 1, "config: {onLocked: fail}\nsteps: [{label: one, functionBlock: p/pure:1, runOn: global}, {label: two, functionBlock: p/pure:1, runOn: device}]\n", failUntil("two", "d000", &mended))
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	s.Publish("other", "steps: [{label: long, functionBlock: p/pure:1, runOn: device, delay: 1h}]\n")
	s.Start("other", "d000")
	s.RunFor(time.Minute)
	mended, s.BlockCalls = true, nil
	retry(s, id, views.RetryRequest{Entities: views.RetryAll})
	s.RunFor(time.Minute)
	if x := s.Load(id); x.State != sm.ExecutionFailedSafeAck || x.Try != 2 {
		t.Fatalf("it is in %s, try %d", x.State, x.Try)
	}
	settle(s)
	s.BlockCalls = nil
	retry(s, id, views.RetryRequest{Entities: views.RetryAll})
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectSteps(t, s, id, "two 0")
}

// The same in a wave of a rollout that has executed the step more than once, because the definition
// jumps back: the next retry begins with the run of the step that failed, and knows the variables
// set before it.
func TestRetry_AfterATryWithoutLocksKnowsWhatWasSet(t *testing.T) {
	calls := 0
	s, id := rolledOut(t, 1, "config: {onLocked: fail}\nsteps: [{label: all, rollout: {by: entity.id, onFailure: rollbackAll}, workflow: {steps: [{label: count, set: {n: '${has(vars.n) ? vars.n + 1 : 1}'}}, "+
		"{label: two, functionBlock: p/pure:1, runOn: device}, {label: choose, switch: [{when: vars.n < 2, next: count}, {default: true, steps: [{label: note, set: {done: true}}]}]}]}}]\n", func(harness.BlockCall) *harness.Outcome {
		if calls++; calls == 2 {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	})
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	s.Publish("other", "steps: [{label: wait, wait: {signal: {name: go, deadline: 1h}}}, {label: long, functionBlock: p/pure:1, runOn: device}]\n")
	s.Start("other", "d000")
	s.RunFor(time.Minute)
	retry(s, id, views.RetryRequest{})
	s.RunFor(time.Minute)
	if x := s.Load(id); x.State != sm.ExecutionFailedSafeAck || x.Try != 2 {
		t.Fatalf("it is in %s, try %d", x.State, x.Try)
	}
	settle(s)
	s.BlockCalls = nil
	retry(s, id, views.RetryRequest{})
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectSteps(t, s, id, "two 0")
}

// An entity has failed behind the step with which a retry begins again: in the try before, which was rolled
// back. That leaves it out of nothing: it is still to come.
func TestRetry_LeavesOutNobodyForWhatIsStillToCome(t *testing.T) {
	try := 1
	s, id := rolledOut(t, 1, `config: {failureTolerance: 1}
steps:
  - label: all
    rollout: {batches: [1], onFailure: rollbackAll}
    workflow: {steps: [
      {label: one, functionBlock: p/again:1, runOn: device},
      {label: two, functionBlock: p/once:1, runOn: device},
      {label: three, functionBlock: p/pure:1, runOn: global}]}
`, func(c harness.BlockCall) *harness.Outcome {
		if c.Kind == workflow.JobExecute && (c.Step == "two" && try == 2 || c.Step == "three" && try < 3) {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	})
	settle(s)
	for try = 2; try <= 3; try++ {
		s.ExpectState(id, sm.ExecutionFailedSafeAck)
		s.BlockCalls = nil
		retry(s, id, views.RetryRequest{Entities: views.RetryFailed})
		settle(s)
	}
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectSteps(t, s, id, "one 0 | two 0 | three")
}

// An entity has failed in a step that the retry does not enter, because it handles an earlier
// failure differently than the previous try. That excludes it from nothing, wherever the retry
// continues.
func TestRetry_LeavesOutNobodyForWhatItPasses(t *testing.T) {
	for _, last := range []string{"{label: three, functionBlock: p/pure:1, runOn: device}", "{label: three, loop: {over: '${[1]}'}, workflow: {steps: [{label: four, functionBlock: p/pure:1, runOn: device}]}}"} {
		try := 1
		s, id := rolledOut(t, 1, "steps: [{label: one, functionBlock: p/again:1, runOn: device, onFailure: [{next: three}]}, {label: two, functionBlock: p/pure:1, runOn: device}, "+last+"]\n", func(c harness.BlockCall) *harness.Outcome {
			if c.Kind == workflow.JobExecute && (c.Step == "two" && try == 1 || c.Step == "one" && try == 2) {
				return &harness.Outcome{FailCode: "NO"}
			}
			return nil
		})
		settle(s)
		s.ExpectState(id, sm.ExecutionFailedSafeAck)
		try, s.BlockCalls = 2, nil
		retry(s, id, views.RetryRequest{Entities: views.RetryFailed})
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		if got := callsByStep(s, id); got != "one 0 | three 0 | ~one 0" && got != "one 0 | four 0 | ~one 0" {
			t.Errorf("executed %s", got)
		}
	}
}

// A retry goes back to a step before its beginning. It reads the variables that were set before the beginning,
// whatever try has set them.
func TestRetry_GoingBackReadsWhatStands(t *testing.T) {
	mended := false
	s, id := rolledOut(t, 1, "steps: [{label: read, functionBlock: p/pure:1, runOn: global, parameters: {n: '${has(vars.n) ? vars.n : 0}'}}, {label: note, set: {n: 3}}, {label: check, functionBlock: p/pure:1, runOn: global}, "+
		"{label: choose, switch: [{when: {path: again, op: notExists}, steps: [{label: once, set: {again: 1}}], next: read}, {default: end}]}]\n", failUntil("check", "", &mended))
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	mended, s.BlockCalls = true, nil
	retry(s, id, views.RetryRequest{})
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if got := strings.Join(callsWithParameters(s, id), "|"); got != `check {}|read {"n":3}|check {}` {
		t.Errorf("executed %s", got)
	}
}

// No wave continues after an unknown outcome, whatever its steps say about failures. A retry
// continues with the step that has left it, and repeats nothing of the wave.
func TestRollout_RetryGoesOnWithTheDoubt(t *testing.T) {
	for _, onFailure := range []string{"stop", "rollbackAll"} {
		crashes := true
		s, id := rolledOut(t, 1, `steps:
  - label: all
    rollout: {batches: [1], onFailure: `+onFailure+`}
    workflow: {steps: [
      {label: one, functionBlock: p/pure:1, runOn: device},
      {label: count, functionBlock: p/pure:1, runOn: global},
      {label: two, functionBlock: p/forever:1, runOn: device, continueOnError: true}]}
`, func(c harness.BlockCall) *harness.Outcome { return &harness.Outcome{Crash: crashes && c.Step == "two"} })
		settle(s)
		s.ExpectState(id, sm.ExecutionFailedUnsafe)
		crashes, s.BlockCalls = false, nil
		retry(s, id, views.RetryRequest{})
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		expectSteps(t, s, id, "two 0")
	}
}

// An unknown outcome is left in a loop, and the definition has continued after it. A retry
// continues with the step and the round that have left it.
func TestLoop_RetryGoesOnWithTheDoubt(t *testing.T) {
	calls, mended := 0, false
	s, id := rolledOut(t, 1, `steps:
  - label: all
    loop: {over: "${[1, 2, 3]}"}
    workflow: {steps: [{label: one, functionBlock: p/pure:1, runOn: device}, {label: two, functionBlock: p/forever:1, runOn: device, continueOnError: true}]}
`, func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "two" {
			calls++
		}
		return &harness.Outcome{Crash: c.Step == "two" && calls == 2 && !mended}
	})
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	expectSteps(t, s, id, "one 0 | two 0 | one 0 | two 0 | one 0 | two 0")
	mended, s.BlockCalls = true, nil
	retry(s, id, views.RetryRequest{})
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectSteps(t, s, id, "two 0 | one 0 | two 0")
}
