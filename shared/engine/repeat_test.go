package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// What a step run reads does not grow with the number of step runs before it: twice as
// many repetitions read twice as much, not four times.
func TestRepeat_ReadsGrowLinearly(t *testing.T) {
	reads := map[string]int{}
	for _, count := range []string{"10", "20"} {
		s := newHarness(t, 2)
		s.Publish("w", stepsYAML("one pure device , repeat: {count: "+count+"}", `two pure device , parameters: {last: "${one.result}"}`))
		s.Script = func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{Result: []byte(`"r"`)} }
		s.Faults = func(c faults.Call) faults.Fault {
			if strings.HasPrefix(c.Name, "packs.shard_packs") {
				reads[count]++
			}
			return faults.None
		}
		id := s.Start("w", harness.DeviceIDs(2)...)
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
	}
	if reads["10"] == 0 || reads["20"] > 5*reads["10"]/2 {
		t.Errorf("20 repetitions read packs %d times, 10 read them %d times", reads["20"], reads["10"])
	}
}

// The same if not all entities take part: one was left out before the step, by its condition or by
// a failure in it, or ends earlier than the others. Later steps see the last result of each.
func TestRepeat_ReadsGrowLinearlyWithoutSomeEntities(t *testing.T) {
	const zero, two = "  - {label: zero, functionBlock: p/pure:1, runOn: device}\n", "  - {label: two, functionBlock: p/pure:1, runOn: device, parameters: {last: '${one.result}'}}\n"
	for name, c := range map[string]struct {
		step    string
		failing string         // the call of d000 that fails
		calls   map[string]int // of step one, in 40 repetitions
	}{
		"one failed before":     {zero + "  - {label: one, functionBlock: p/pure:1, runOn: device, repeat: {count: %d}}\n" + two, "zero 1", map[string]int{"d001": 40, "d002": 40}},
		"one fails in it":       {"  - {label: one, functionBlock: p/pure:1, runOn: device, repeat: {count: %d}}\n" + two, "one 3", map[string]int{"d000": 3, "d001": 40, "d002": 40}},
		"one has no condition":  {"  - {label: one, functionBlock: p/pure:1, runOn: device, condition: entity.id != 'd000', repeat: {count: %d}}\n" + strings.Replace(two, "runOn: device", "runOn: device, condition: entity.id != 'd000'", 1), "", map[string]int{"d001": 40, "d002": 40}},
		"one ends earlier":      {"  - {label: one, functionBlock: p/pure:1, runOn: device, repeat: {count: %d, while: one.result != 'd000 at 5'}}\n" + two, "", map[string]int{"d000": 5, "d001": 40, "d002": 40}},
		"another ends later":    {zero + "  - {label: one, functionBlock: p/pure:1, runOn: device, repeat: {count: %d, while: one.result != 'd001 at 7'}}\n" + two, "zero 1", map[string]int{"d001": 7, "d002": 40}},
		"a step around repeats": {zero + "  - {label: all, repeat: {count: %d}, workflow: {steps: [{label: one, functionBlock: p/pure:1, runOn: device, parameters: {last: '${zero.result}'}}]}}\n  - {label: two, functionBlock: p/pure:1, runOn: device}\n", "zero 1", map[string]int{"d001": 40, "d002": 40}},
	} {
		t.Run(name, func(t *testing.T) {
			reads := map[int]float64{}
			for _, count := range []int{20, 40} {
				s := newHarness(t, 3)
				calls, last := map[string]map[string]int{"zero": {}, "one": {}, "two": {}}, map[string]string{}
				s.Script = func(c2 harness.BlockCall) *harness.Outcome {
					n := calls[c2.Step]
					n[c2.Entity]++
					if at := fmt.Sprintf("%s %d", c2.Step, n[c2.Entity]); c2.Entity == "d000" && at == c.failing {
						return &harness.Outcome{FailCode: "REFUSED"}
					}
					if c2.Step == "two" {
						last[c2.Entity] = string(c2.Parameters)
					}
					return &harness.Outcome{Result: fmt.Appendf(nil, "\"%s at %d\"", c2.Entity, n[c2.Entity])}
				}
				s.Publish("w", "config: {failureTolerance: 60%}\nsteps:\n"+fmt.Sprintf(c.step, count))
				before := s.Consumed().ReadUnits["jobs"]
				id := s.Start("w", harness.DeviceIDs(3)...)
				settle(s)
				s.ExpectState(id, sm.ExecutionCompletedAck)
				reads[count] = s.Consumed().ReadUnits["jobs"] - before
				if count != 40 {
					continue
				}
				if diff := cmp.Diff(c.calls, calls["one"]); diff != "" {
					t.Error(diff)
				}
				for entity := range calls["two"] {
					if want := fmt.Sprintf(`{"last":"%s at %d"}`, entity, c.calls[entity]); strings.Contains(c.step, "one.result}") && last[entity] != want {
						t.Errorf("step two of %s got %s, want %s", entity, last[entity], want)
					}
				}
			}
			if reads[20] == 0 || reads[40] > 9*reads[20]/4 {
				t.Errorf("20 repetitions read %v units, 40 read %v", reads[20], reads[40])
			}
		})
	}
}

// The same if all jobs fail and the definition continues: what failed before is not read again for each step run.
func TestRepeat_ReadsGrowLinearlyWithFailures(t *testing.T) {
	const steps = "{label: one, functionBlock: p/pure:1, runOn: %s, continueOnError: true%s}, {label: two, functionBlock: p/pure:1, runOn: %s%s}"
	const last = ", parameters: {last: '${has(one.result) ? one.result : 0}'}"
	for name, steps := range map[string]string{
		"a global step":                    fmt.Sprintf(steps, "global", "", "global", ""),
		"a step on entities":               fmt.Sprintf(steps, "device", "", "global", ""),
		"a step that reads others":         fmt.Sprintf(steps, "device", ", parameters: {before: '${zero.result}'}", "global", ""),
		"a global step that may be read":   fmt.Sprintf(steps, "global", "", "global", last),
		"a step on entities that are read": fmt.Sprintf(steps, "device", "", "device", last),
	} {
		t.Run(name, func(t *testing.T) {
			reads := map[int]float64{}
			for _, count := range []int{20, 40} {
				s := newHarness(t, 3)
				failed := 0
				s.Script = func(c harness.BlockCall) *harness.Outcome {
					if c.Step != "one" {
						return nil
					}
					failed++
					return &harness.Outcome{FailCode: "REFUSED"}
				}
				list := strings.TrimSuffix(strings.Repeat("0,", count), ",")
				s.Publish("w", "steps:\n  - {label: zero, functionBlock: p/pure:1, runOn: device}\n  - label: each\n    loop: {over: '${["+list+"]}', as: n}\n    workflow: {steps: ["+steps+"]}\n")
				before := s.Consumed().ReadUnits["jobs"]
				id := s.Start("w", harness.DeviceIDs(3)...)
				settle(s)
				s.ExpectState(id, sm.ExecutionCompletedAck)
				if failed < count {
					t.Errorf("%d jobs have failed in %d repetitions", failed, count)
				}
				reads[count] = s.Consumed().ReadUnits["jobs"] - before
			}
			if reads[20] == 0 || reads[40] > 9*reads[20]/4 {
				t.Errorf("20 repetitions read %v units, 40 read %v", reads[20], reads[40])
			}
		})
	}
}

// Failures that a tolerance allows, and updates that jobs ask for, are read again for each step run after them: their reads
// grow with the square of the step runs that have some, and not faster. docs/limits.md says what this test logs.
func TestRepeat_ReadsOfWhatEachRepetitionLeaves(t *testing.T) {
	for name, c := range map[string]struct {
		leaves func(number int, entity string) *harness.Outcome
		square int // read units for each pair of repetitions
	}{
		"nothing": {func(int, string) *harness.Outcome { return nil }, 0},
		"a failure": {func(number int, entity string) *harness.Outcome {
			if entity == harness.DeviceIDs(number)[number-1] {
				return &harness.Outcome{FailCode: "REFUSED"}
			}
			return nil
		}, 1},
		"an update": {func(number int, _ string) *harness.Outcome {
			return &harness.Outcome{SetAttributes: map[string]any{"n": number}}
		}, 15},
	} {
		for _, count := range []int{10, 20, 40} {
			s := newHarness(t, 50)
			calls := map[string]int{}
			s.Script = func(call harness.BlockCall) *harness.Outcome {
				calls[call.Entity]++
				return c.leaves(calls[call.Entity], call.Entity)
			}
			s.Publish("w", fmt.Sprintf("config: {failureTolerance: 100%%}\nsteps: [{label: one, functionBlock: p/pure:1, runOn: device, repeat: {count: %d}}]\n", count))
			before := s.Consumed().ReadUnits["jobs"]
			id := s.Start("w", harness.DeviceIDs(50)...)
			settle(s)
			x := s.ExpectState(id, sm.ExecutionCompletedAck)
			reads := s.Consumed().ReadUnits["jobs"] - before
			t.Logf("%d repetitions that each leave %s: %v read units of jobs", len(x.StepRuns), name, reads)
			if most := float64(count * (70 + c.square*count)); len(x.StepRuns) != count || reads > most {
				t.Errorf("%d repetitions that each leave %s: %v read units of jobs, want at most %v", len(x.StepRuns), name, reads, most)
			}
		}
	}
}

// A retry of a step that repeats continues with the repetition that failed. The entity that failed
// executes that one again, and all later ones; the others execute those that they have not
// executed.
func TestRepeat_RetryGoesOnWhereItFailed(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", stepsYAML("one pure device , repeat: {count: 3}"))
	calls, mended := map[string]int{}, false
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if calls[c.Entity]++; c.Entity == "d001" && calls[c.Entity] == 2 && !mended {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(2)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	mended = true
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, harness.Caller, id, views.RetryRequest{Reason: "mended"})
	})
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if calls["d000"] != 3 || calls["d001"] != 4 {
		t.Errorf("calls %v, want 3 of d000 and 4 of d001, of which one failed", calls)
	}
}

// A retry that begins within a step that repeats repeats it as often as the definition says.
func TestRepeat_RetryInsideRepeatsNoMoreOften(t *testing.T) {
	s := newHarness(t, 0)
	s.Publish("w", `steps:
  - label: outer
    repeat: {count: 2}
    workflow:
      steps:
        - {label: one, functionBlock: p/pure:1, runOn: global}
        - {label: two, functionBlock: p/pure:1, runOn: global}
`)
	mended := false
	s.Script = failUntil("two", "", &mended)
	id := s.Start("w")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	mended = true
	before := len(s.CallsOf(id))
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, harness.Caller, id, views.RetryRequest{Reason: "mended"})
	})
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if diff := cmp.Diff([]string{"two EXECUTE", "one EXECUTE", "two EXECUTE"}, s.CallsOf(id)[before:]); diff != "" {
		t.Error(diff)
	}
}

// An assertion that is false for all entities of a repetition fails them like any other: the
// repetition is not skipped as one without participants.
func TestRepeat_AssertionFailsWhoeverIsLeft(t *testing.T) {
	for tolerance, want := range map[string]struct {
		state   sm.ExecutionState
		outcome workflow.Outcome
		calls   []string
	}{
		"0": {sm.ExecutionFailedSafeAck, workflow.OutcomeFailedSafe, []string{"one EXECUTE d000"}},
		"1": {sm.ExecutionCompletedAck, workflow.OutcomePartial, []string{"one EXECUTE d000"}},
	} {
		s := newHarness(t, 1)
		s.Publish("w", "config: {failureTolerance: "+tolerance+`}
steps:
  - {label: one, functionBlock: p/pure:1, runOn: device, assert: '!has(entity.worn)', repeat: {count: 3}}
  - {label: two, functionBlock: p/pure:1, runOn: device}
`)
		s.Script = func(harness.BlockCall) *harness.Outcome {
			return &harness.Outcome{SetAttributes: map[string]any{"worn": true}}
		}
		id := s.Start("w", harness.DeviceIDs(1)...)
		settle(s)
		if x := s.ExpectState(id, want.state); x.Outcome() != want.outcome {
			t.Errorf("with the tolerance %s: %s", tolerance, x.Outcome())
		}
		if diff := cmp.Diff(want.calls, s.CallsOf(id)); diff != "" {
			t.Errorf("with the tolerance %s: %s", tolerance, diff)
		}
	}
}

// The results of a step include all entities that the execution has locked, however few of them a
// retry works on.
func TestRetry_SeesResultsOfReleasedEntities(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("w", `steps:
  - {label: one, functionBlock: p/pure:1, runOn: device, repeat: {count: 2, while: 'entity.id != "d002"'}}
  - {label: two, functionBlock: p/forever:1, runOn: device, condition: 'entity.id == "d001"'}
  - {label: all, functionBlock: p/pure:1, runOn: global, parameters: {n: "${size(one.results)}"}}
`)
	mended := false
	s.Script = failUntil("two", "d001", &mended)
	id := s.Start("w", harness.DeviceIDs(3)...)
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedUnsafe); x.Kept == nil || x.Kept.Len() != 1 {
		t.Fatalf("keeps %v", x.Kept)
	}
	mended = true
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, harness.Caller, id, views.RetryRequest{Reason: "mended"})
	})
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if last := s.BlockCalls[len(s.BlockCalls)-1]; last.Step != "all" || string(last.Parameters) != `{"n":3}` {
		t.Errorf("the last call is %s with %s", last.Step, last.Parameters)
	}
}

// What a step did in the first try is not kept if a retry has executed an earlier step again since,
// also if the step then failed before it had a job.
func TestRetry_ExecutesAgainWhatFollowsWhatARetryExecuted(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", `steps:
  - {label: one, functionBlock: p/forever:1, runOn: device, continueOnError: true}
  - {label: two, functionBlock: p/forever:1, runOn: device, assert: 'has(entity.ready) ? entity.ready : true'}
  - {label: three, functionBlock: p/pure:1, runOn: device}
`)
	mended, calls := false, 0
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		switch {
		case c.Step == "one":
			if calls++; calls == 1 {
				return &harness.Outcome{FailCode: "REFUSED"}
			}
			return &harness.Outcome{SetAttributes: map[string]any{"ready": calls > 2}}
		case c.Step == "three" && !mended:
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(1)...)
	retry := func(from string) {
		mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
			return s.Engine.Retry(ctx, harness.Caller, id, views.RetryRequest{Reason: "again", From: from, Entities: "failed"})
		})
		settle(s)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	mended = true
	retry("one") // step two has to be executed again, and its assertion fails
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	retry("two")
	if x := s.ExpectState(id, sm.ExecutionFailedUnsafe); x.Cause != workflow.CauseAssertion {
		t.Errorf("the cause is %s: %s", x.Cause, x.Reason)
	}
}

// A failure in a later repetition leaves nobody out of an earlier one: what was undone there is
// executed again, as it was not by a retry of failures.
func TestRetry_RepeatsWhatWasUndoneInEarlierRepetitions(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", `config: {maxInFlight: 1}
output: {checks: "${size(check.results)}"}
steps:
  - label: round
    repeat: {count: 2}
    workflow: {steps: [
      {label: check, functionBlock: p/pure:1, runOn: device},
      {label: work, functionBlock: p/once:1, runOn: device}]}
`)
	checks := 0
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "check" {
			if checks++; checks == 3 {
				return &harness.Outcome{FailCode: "REFUSED"}
			}
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(2)...)
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); !x.RolledBack {
		t.Fatal("the execution was not rolled back")
	}
	got := retryToEnd(s, id, views.RetryRequest{Reason: "mended", From: "round", Entities: "failed"})
	if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.Output == nil || string(x.Output.Inline) != `{"checks":2}` {
		t.Errorf("the output is %+v", x.Output)
	}
	want := []string{
		"work EXECUTE d000", "work EXECUTE d001", // neither those who failed later nor those who were not called then are left out
		"check EXECUTE d000", "check EXECUTE d001", "work EXECUTE d000", "work EXECUTE d001",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// An assertion that is false for more entities than may fail fails its step before it has a job, so
// nobody has failed in it. So a retry leaves nobody out of earlier steps, where they would be
// reported as skipped.
func TestRetry_NobodyHasFailedWhereAnAssertionFailedTheStep(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", `steps:
  - label: round
    repeat: {count: 2}
    workflow: {steps: [
      {label: check, functionBlock: p/forever:1, runOn: device, assert: 'has(entity.ready) ? entity.ready : true'},
      {label: work, functionBlock: p/forever:1, runOn: device}]}
`)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "check" {
			return &harness.Outcome{SetAttributes: map[string]any{"ready": false}}
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(1)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	if calls := retryToEnd(s, id, views.RetryRequest{Reason: "again", From: "round", Entities: "failed"}); len(calls) > 0 {
		t.Errorf("called again: %v", calls)
	}
	x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
	var kept []workflow.StepRun
	for _, r := range x.StepRuns {
		if r.Label == "work" && r.Try == 2 {
			kept = append(kept, r)
		}
	}
	if len(kept) != 1 || kept[0].Jobs != 0 || kept[0].Skipped != 0 || kept[0].Status != sm.StepCompleted || x.Cause != workflow.CauseAssertion {
		t.Errorf("%s: %+v", x.Cause, kept)
	}
}

// Nothing is written to the inventory under shared locks: a job that asks for it fails its step,
// and a retry that keeps the job does not write it either.
func TestRetry_WritesNothingUnderSharedLocks(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "config: {lockMode: shared}\nsteps: [{label: one, functionBlock: p/pure:1, runOn: device, continueOnError: true}]")
	s.Script = func(harness.BlockCall) *harness.Outcome {
		return &harness.Outcome{SetAttributes: map[string]any{"by": "one"}}
	}
	id := s.Start("w", harness.DeviceIDs(1)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, harness.Caller, id, views.RetryRequest{Reason: "again"})
	})
	settle(s)
	e, err := s.Catalog.Entity(context.Background(), harness.Caller, workflow.EntityKey{Type: "device", ID: "d000"})
	if err != nil || strings.Contains(string(e.Attributes), "by") {
		t.Errorf("the device has %s, %v", e.Attributes, err)
	}
}
