package engine_test

import (
	"encoding/json"
	"strconv"
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
