package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// compensations are the calls of block p/back of an execution: its step, its entity, and its
// parameters.
func compensations(s *harness.Harness, id string) (calls []string) {
	for _, c := range s.BlockCalls {
		if c.Execution == id && c.Block == "p/back" {
			calls = append(calls, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", c.Step, c.Entity, c.Parameters)), " "))
		}
	}
	return calls
}

// answers gives each call of a step the result {"id": "STEP-N"}, where N counts the calls of the
// step, and fails those of the given steps.
func answers(failing ...string) func(harness.BlockCall) *harness.Outcome {
	calls := map[string]int{}
	return func(c harness.BlockCall) *harness.Outcome {
		if c.Block == "p/back" || c.Kind != workflow.JobExecute {
			return nil
		}
		calls[c.Step]++
		if slices.Contains(failing, c.Step) {
			return &harness.Outcome{FailCode: "NO"}
		}
		return &harness.Outcome{Result: fmt.Appendf(nil, `{"id":"%s%s-%d"}`, c.Step, c.Entity, calls[c.Step])}
	}
}

const trip = `config: {rollback: {onFailure: %s}}
steps:
  - {label: flight, functionBlock: p/forever:1, runOn: global, compensate: {functionBlock: p/back:1, parameters: {id: "${flight.result.id}", who: "${parameters.who}"}}}
  - {label: hotel, functionBlock: p/once:1, runOn: global, parameters: {flight: "${flight.result.id}"}, compensate: {functionBlock: p/back:1, parameters: {id: "${hotel.result.id}", of: "${flight.result.id}"}, rawParameters: {note: "${x}"}}}
  - {label: look, functionBlock: p/pure:1, runOn: global}
  - {label: charge, functionBlock: p/forever:1, runOn: global, compensate: {functionBlock: p/back:1, parameters: {id: "${has(charge.result) ? charge.result.id : 'none'}"}}}
`

func startTrip(t *testing.T, definition string, script func(harness.BlockCall) *harness.Outcome) (*harness.Harness, string) {
	t.Helper()
	s := newHarness(t, 1)
	s.RegisterBlock(workflow.Block{Name: "back", Idempotent: true, ParameterSchema: []byte(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`)})
	s.Publish("w", definition)
	s.Script = script
	req := harness.NewStartRequest("w", "d000")
	req.Parameters = []byte(`{"who":"bob"}`)
	id := s.StartWith(req)
	settle(s)
	return s, id
}

// R46: after a failure, what each step has done is undone by its compensation, newest first, the
// step that failed included: the blocks have no rollback of their own.
func TestCompensation_UndoesNewestFirst(t *testing.T) {
	s, id := startTrip(t, fmt.Sprintf(trip, "stop"), answers("charge"))
	x := s.Load(id)
	if x.State != sm.ExecutionFailedSafeAck || !x.RolledBack {
		t.Fatalf("%s, rolled back %v, %+v", x.State, x.RolledBack, x.Error)
	}
	want := []string{`charge {"id":"none"}`, `hotel {"id":"hotel-1","note":"${x}","of":"flight-1"}`, `flight {"id":"flight-1","who":"bob"}`}
	if got := compensations(s, id); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, c := range s.BlockCalls {
		if c.Block != "p/back" && c.Kind == workflow.JobRollback {
			t.Errorf("the rollback of %s was called", c.Block)
		}
		if c.Block == "p/back" && c.Kind != workflow.JobExecute {
			t.Errorf("the compensation of %s was called to %s", c.Step, c.Kind)
		}
	}
}

// A failed compensation leaves the execution unsafe. If the definition says so, the other steps are
// undone all the same.
func TestCompensation_Fails(t *testing.T) {
	for onFailure, want := range map[string][]string{
		"stop":     {"charge", "hotel"},
		"continue": {"charge", "hotel", "flight"},
	} {
		t.Run(onFailure, func(t *testing.T) {
			does := answers("charge")
			s, id := startTrip(t, fmt.Sprintf(trip, onFailure), func(c harness.BlockCall) *harness.Outcome {
				if c.Block == "p/back" && c.Step == "hotel" {
					return &harness.Outcome{FailCode: "GONE"}
				}
				return does(c)
			})
			x := s.Load(id)
			if x.State != sm.ExecutionFailedUnsafe || x.RolledBack {
				t.Errorf("%s, rolled back %v", x.State, x.RolledBack)
			}
			var steps []string
			for _, call := range compensations(s, id) {
				steps = append(steps, strings.Fields(call)[0])
			}
			if !slices.Equal(steps, want) {
				t.Errorf("undone: %v, want %v", steps, want)
			}
		})
	}
}

// Parameters that cannot be filled, or that the block's schema refuses, fail the rollback and name
// the step: nothing is called with what may be wrong.
func TestCompensation_NeedsItsParameters(t *testing.T) {
	for name, parameters := range map[string]string{"missing": `{id: "${charge.result.id}"}`, "schema": `{id: 7}`} {
		t.Run(name, func(t *testing.T) {
			s, id := startTrip(t, "steps:\n  - {label: charge, functionBlock: p/forever:1, runOn: global, compensate: {functionBlock: p/back:1, parameters: "+parameters+"}}\n", answers("charge"))
			x := s.Load(id)
			if x.State != sm.ExecutionFailedUnsafe || len(compensations(s, id)) > 0 {
				t.Fatalf("%s, %v", x.State, compensations(s, id))
			}
			if v := executionView(t, s, id); v.Remains == nil || !strings.Contains(*v.Remains, "compensate") {
				t.Errorf("%+v", v)
			}
			wave := x.StepRuns[len(x.StepRuns)-1]
			if why := wave.Counts.Failure; why == nil || why.Code != workflow.FailureParameters || !strings.Contains(why.Message, "compensate") || why.Step != "charge" {
				t.Errorf("%+v", why)
			}
		})
	}
}

// The parameters see the result of their own entity, and of the round that is undone: a job without
// a result does not get that of an earlier round.
func TestCompensation_SeesItsOwnResult(t *testing.T) {
	s := newHarness(t, 2)
	s.RegisterBlock(workflow.Block{Name: "back"})
	s.Publish("w", `steps:
  - label: rounds
    loop: {over: "${[1, 2]}"}
    workflow:
      steps:
        - {label: book, functionBlock: p/forever:1, runOn: device, parameters: {n: "${item}"}, compensate: {functionBlock: p/back:1, parameters: {id: "${has(book.result) ? book.result.id : 'none'}", n: "${item}", on: "${entity.id}"}}}
`)
	does := answers()
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Block == "p/forever" && c.Entity == "d001" && strings.Contains(string(c.Parameters), "2") {
			return &harness.Outcome{FailCode: "NO"}
		}
		return does(c)
	}
	id := s.Start("w", harness.DeviceIDs(2)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	got := compensations(s, id)
	want := []string{
		`book d000 {"id":"bookd000-3","n":2,"on":"d000"}`, `book d001 {"id":"none","n":2,"on":"d001"}`,
		`book d000 {"id":"bookd000-1","n":1,"on":"d000"}`, `book d001 {"id":"bookd001-2","n":1,"on":"d001"}`,
	}
	slices.Sort(got[:2])
	slices.Sort(got[2:])
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A job with an unknown outcome is compensated if the definition says that this does no harm, and
// leaves the execution unsafe otherwise.
func TestCompensation_OfWhatNobodyKnows(t *testing.T) {
	for harmless, want := range map[string]sm.ExecutionState{"false": sm.ExecutionFailedUnsafe, "true": sm.ExecutionFailedSafeAck} {
		t.Run(harmless, func(t *testing.T) {
			called := false
			s, id := startTrip(t, "steps:\n  - {label: charge, functionBlock: p/forever:1, runOn: global, compensate: {functionBlock: p/back:1, undoHarmless: "+harmless+", parameters: {id: \"${has(charge.result) ? 'some' : 'none'}\"}}}\n",
				func(c harness.BlockCall) *harness.Outcome {
					crash := c.Block == "p/forever" && !called
					called = true
					return &harness.Outcome{Crash: crash}
				})
			s.ExpectState(id, want)
			if got := compensations(s, id); (len(got) == 1) != (harmless == "true") {
				t.Errorf("%v", got)
			}
		})
	}
}

// A compensation has its own retry, whatever the step says about its own block.
func TestCompensation_HasItsOwnRetry(t *testing.T) {
	for retry, want := range map[string]sm.ExecutionState{"": sm.ExecutionFailedUnsafe, ", retry: {maxRetries: 1, on: [CONFLICT]}": sm.ExecutionFailedSafeAck} {
		tries := 0
		s, id := startTrip(t, "steps:\n  - {label: charge, functionBlock: p/forever:1, runOn: global, retry: {maxRetries: 3, on: [BUSY]}, compensate: {functionBlock: p/back:1, parameters: {id: some}"+retry+"}}\n", func(c harness.BlockCall) *harness.Outcome {
			if c.Block != "p/back" {
				return &harness.Outcome{FailCode: "NO"}
			}
			if tries++; tries == 1 {
				return &harness.Outcome{FailCode: "CONFLICT"}
			}
			return nil
		})
		s.ExpectState(id, want)
	}
}

// A compensating block that may run any number of times leaves no doubt when its worker is lost.
func TestCompensation_ByAPureBlock(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "steps:\n  - {label: one, functionBlock: p/forever:1, runOn: global, compensate: {functionBlock: p/pure:1}}\n  - {label: two, functionBlock: p/forever:1, runOn: global, condition: \"true\", assert: \"false\"}\n")
	crashed := false
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Block == "p/pure" && !crashed {
			crashed = true
			return &harness.Outcome{Crash: true}
		}
		return nil
	}
	id := s.Start("w")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
}
