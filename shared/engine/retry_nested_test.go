package engine_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// A retry of all entities that begins in a step nested in several that repeat begins with the first
// repetition of each. What an earlier try did in later repetitions is still to come: nobody is left
// out because of a failure there, and nothing of it is read.
func TestRetry_InNestedRepetitionsForgetsLaterOnes(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", `config: {failureTolerance: 1}
steps:
  - label: outer
    repeat: {count: 2}
    workflow: {steps: [
      {label: count, functionBlock: p/pure:1, runOn: global},
      {label: inner, repeat: {count: 2}, workflow: {steps: [{label: one, functionBlock: p/forever:1, runOn: device}]}},
      {label: two, functionBlock: p/forever:1, runOn: device, parameters: {n: "${count.result}"}}]}
`)
	try, counts, ones := 1, 0, 0
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		switch {
		case c.Step == "count":
			counts++
			return &harness.Outcome{Result: json.RawMessage(strconv.Itoa(counts))}
		case c.Step == "one":
			if ones++; try == 1 && ones == 8 {
				return &harness.Outcome{FailCode: "REFUSED"} // of d001, in the last repetition
			}
		case c.Step == "two" && counts == 2 && try == 1:
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(2)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	try, s.BlockCalls = 2, nil
	retry(s, id, views.RetryRequest{From: "two", Entities: views.RetryAll})
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	var got []string
	for _, c := range s.BlockCalls {
		if c.Kind == workflow.JobExecute {
			got = append(got, c.Step+" "+c.Entity+" "+string(c.Parameters))
		}
	}
	want := []string{
		`two d000 {"n":1}`, `two d001 {"n":1}`,
		"count  {}", "one d000 {}", "one d001 {}", "one d000 {}", "one d001 {}", `two d000 {"n":3}`, `two d001 {"n":3}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A step has repeated, and a retry of failures had nothing left to repeat. A retry of all from the step
// behind it keeps all repetitions.
func TestRetry_KeepsRepetitionsThatNobodyRepeated(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "steps: [{label: one, repeat: {count: 2}, functionBlock: p/pure:1, runOn: device}, {label: two, functionBlock: p/pure:1, runOn: device, parameters: {n: '${one.result}'}}]\n")
	try, ones := 1, 0
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "one" {
			ones++
			return &harness.Outcome{Result: json.RawMessage(strconv.Itoa(ones))}
		}
		if try < 3 {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	}
	id := s.Start("w", "d000")
	settle(s)
	for _, req := range []views.RetryRequest{{From: "one", Entities: views.RetryFailed}, {From: "two", Entities: views.RetryAll}} {
		s.ExpectState(id, sm.ExecutionFailedSafeAck)
		try++
		retry(s, id, req)
		settle(s)
	}
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if last := s.BlockCalls[len(s.BlockCalls)-1]; ones != 2 || string(last.Parameters) != `{"n":2}` {
		t.Errorf("%d calls of the first step, and the last one of the second got %s", ones, last.Parameters)
	}
}

// A step in one that repeats was first entered in a later repetition. A retry that begins with it
// continues in that repetition: what was executed in earlier ones stands, and nothing is executed
// there that the definition has passed. The same holds for a retry that begins with a step that was
// not entered but was to be next.
func TestRetry_GoesOnInTheRepetitionThatEnteredItsStep(t *testing.T) {
	const (
		choice = `{label: choose, switch: [{when: count.result > 1, steps: [{label: work, functionBlock: p/pure:1, runOn: global}]}, {default: true}]}`
		part   = `{label: part, continueOnError: true, workflow: {steps: [{label: check, functionBlock: p/pure:1, runOn: global}, {label: work, delay: 2h, functionBlock: p/pure:1, runOn: global, parameters: {c: "${check.result}"}}]}}`
		second = `work {}|after d000 {"n":2,"seen":1}|after d001 {"n":2,"seen":1}|count {}|`
		third  = `work {}|after d000 {"n":3,"seen":2}|after d001 {"n":3,"seen":2}`
	)
	repeated := func(middle string) string {
		return `{label: all, repeat: {count: 3}, workflow: {steps: [
    {label: count, functionBlock: p/pure:1, runOn: global},
    ` + middle + `,
    {label: after, functionBlock: p/forever:1, runOn: device, parameters: {n: "${count.result}", seen: "${has(entity.n) ? entity.n : 0}"}}]}}`
	}
	for name, test := range map[string]struct{ definition, want string }{
		"a step that repeats":         {"steps: [" + repeated(choice) + "]\n", second + third},
		"one in a loop":               {"steps: [{label: once, loop: {over: '${[1]}'}, workflow: {steps: [" + repeated(choice) + "]}}]\n", second + third},
		"one in another":              {"steps: [{label: once, repeat: {count: 1}, workflow: {steps: [" + repeated(choice) + "]}}]\n", second + third},
		"a step that was not entered": {"config: {timeout: 1h}\nsteps: [" + repeated(part) + "]\n", strings.Replace(second, "{}", `{"c":2}`, 1) + "check {}|" + strings.Replace(third, "{}", `{"c":3}`, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			counts, mended := 0, false
			s, id := rolledOut(t, 2, test.definition, func(c harness.BlockCall) *harness.Outcome {
				switch {
				case c.Step == "count":
					counts++
				case c.Step == "after":
					return &harness.Outcome{SetAttributes: map[string]any{"n": counts}}
				case c.Step == "check" && counts == 1, c.Step == "work" && !mended:
					return &harness.Outcome{FailCode: "REFUSED"}
				}
				return &harness.Outcome{Result: json.RawMessage(strconv.Itoa(counts))}
			})
			settle(s)
			s.ExpectState(id, sm.ExecutionFailedUnsafe)
			mended, s.BlockCalls = true, nil
			retry(s, id, views.RetryRequest{Entities: views.RetryFailed})
			for s.Drain(); s.Load(id).State == sm.ExecutionWaiting; s.Drain() {
				mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
					return s.Engine.Resume(ctx, harness.Caller, id, "now")
				})
			}
			s.ExpectState(id, sm.ExecutionCompletedAck)
			if got := strings.Join(callsWithParameters(s, id), "|"); got != test.want {
				t.Errorf("executed\n%s, want\n%s", got, test.want)
			}
		})
	}
}

// An entity has failed in a step, which was tolerated. A retry that continues in a later repetition
// also leaves it out of that step, as the previous try did.
func TestRetry_LeavesOutWhoFailedInAnEarlierRepetition(t *testing.T) {
	counts, ones, mended := 0, 0, false
	s, id := rolledOut(t, 2, `config: {failureTolerance: 1}
steps:
  - label: all
    repeat: {count: 3}
    workflow: {steps: [
      {label: one, functionBlock: p/forever:1, runOn: device},
      {label: count, functionBlock: p/pure:1, runOn: global},
      {label: choose, switch: [{when: count.result > 1, steps: [{label: work, functionBlock: p/pure:1, runOn: global}]}, {default: true}]}]}
`, func(c harness.BlockCall) *harness.Outcome {
		switch c.Step {
		case "one":
			if ones++; c.Entity == "d001" && ones < 3 {
				return &harness.Outcome{FailCode: "NO"}
			}
		case "count":
			counts++
			return &harness.Outcome{Result: json.RawMessage(strconv.Itoa(counts))}
		case "work":
			if !mended {
				return &harness.Outcome{FailCode: "NO"}
			}
		}
		return nil
	})
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	mended, s.BlockCalls = true, nil
	retry(s, id, views.RetryRequest{Entities: views.RetryFailed})
	settle(s)
	expectSteps(t, s, id, "work | one 0 | count | work")
}

// What a retry of failures was to do again and passes this time, because a step before it has failed, is seen by
// nobody: it is still to come. If the retry comes there, what it keeps is seen.
func TestRetry_DoesNotSeeWhatItPasses(t *testing.T) {
	for _, passes := range []bool{true, false} {
		fail := map[string]bool{"last d000": true}
		s, id, _ := flow(t, `steps:
  - {label: around, continueOnError: true, workflow: {steps: [{label: look, functionBlock: p/pure:1, runOn: global}, {label: read, functionBlock: p/pure:1, runOn: device}]}}
  - {label: last, functionBlock: p/pure:1, runOn: device, condition: 'read.result.n == 1'}
`, "", func(c harness.BlockCall) *harness.Outcome {
			if fail[strings.TrimSpace(c.Step+" "+c.Entity)] {
				return &harness.Outcome{FailCode: "NO"}
			}
			return &harness.Outcome{Result: []byte(`{"n":1}`)}
		})
		s.ExpectState(id, sm.ExecutionFailedSafeAck)
		fail["last d000"], fail["look"] = false, passes
		if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "again", From: "look", Entities: views.RetryFailed}); err != nil {
			t.Fatal(err)
		}
		settle(s)
		x := s.ExpectState(id, sm.ExecutionCompletedAck)
		if r := x.LastStepRun(); r.Label != "last" || r.Try != 2 || (r.Jobs == 0) != passes {
			t.Errorf("passes %v: %s has %d jobs, %d skipped", passes, r.Label, r.Jobs, r.Skipped)
		}
	}
}
