package engine_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// If the engine sends every lane, its reads grow with the entities and not with their square: a
// wake-up of a lane reads the entities of the lane, and reads the done sets only if there may be
// something to decide.
func TestCost_LanesThatTheEngineSendsGrowLinearly(t *testing.T) {
	const few, times = 200, 5
	for name, definition := range map[string]string{
		"pipeline":              "config: {executionStrategy: {parallel: true}}\n" + stepsYAML("one once device", "two once device"),
		"pipeline with windows": "config: {executionStrategy: {parallel: true}, maxInFlight: 10}\n" + stepsYAML("one once device", "two once device"),
		"second pipeline":       "config: {executionStrategy: {parallel: true}}\n" + stepsYAML("zero again device", "all pure global", "one once device", "two once device"),
		"retry.when":            "steps: [{label: one, functionBlock: p/again:1, runOn: device, retry: {maxRetries: 1, when: 'error.code != \"X\"'}}]\n",
	} {
		scopes := map[int]float64{}
		for _, devices := range []int{few, few * times} {
			o := harness.Options()
			o.Policy.PackSize, o.Policy.MinPackedJobs = 1, devices+1
			s := harness.New(t, 1, o)
			s.RegisterBlocks()
			s.ImportDevices(fourDigitIDs(devices)...)
			s.Publish("w", definition)
			doneSets := 0
			s.Faults = func(c faults.Call) faults.Fault {
				if c.Name == "packs.done_set" {
					doneSets++
				}
				return faults.None
			}
			before := s.Consumed().ReadUnits["executions"]
			id := s.Start("w", fourDigitIDs(devices)...)
			for s.Deliver() {
			}
			scopes[devices] = s.Consumed().ReadUnits["executions"] - before
			x := s.ExpectState(id, sm.ExecutionCompletedAck)
			sets := len(x.StepRuns) * x.StepRuns[0].Shards()
			if doneSets > 2*sets*sets { // all of them when one is complete, not when a lane ends
				t.Errorf("%s: %d done sets were read, of %d", name, doneSets, sets)
			}
		}
		if scopes[few*times] > 1.2*times*scopes[few] {
			t.Errorf("%s: %v items of the execution were read for %d devices, %v for %d", name, scopes[few*times], few*times, scopes[few], few)
		}
	}
}

// A lane reads of a step before its pipeline what concerns its own entities, results and failures. Where their packs do
// not say that, because others have failed an assertion or may be updated, it reads all: these reads grow with the square of the
// entities, and not faster. docs/limits.md says what this test logs.
func TestCost_LanesThatReadWhatWasBefore(t *testing.T) {
	const parallel = "config: {failureTolerance: 60%, onEntityFailure: leave, executionStrategy: {parallel: true}}\n"
	const read = ", parameters: {before: '${has(zero.result) ? zero.result : null}'}"
	pipeline := func(zero, one string) string {
		return parallel + stepsYAML("zero again device "+zero, "all pure global", "one once device "+one, "two once device")
	}
	for name, c := range map[string]struct {
		definition string
		first      *harness.Outcome // of the first device in step zero
		square     int              // read units for each pair of entities
	}{
		"without":          {pipeline("", ""), nil, 0},
		"a result":         {pipeline("", read), nil, 0},
		"a failure":        {pipeline("", ""), &harness.Outcome{FailCode: "REFUSED"}, 0},
		"both":             {pipeline("", read), &harness.Outcome{FailCode: "REFUSED"}, 0},
		"a result, steps":  {"config: {failureTolerance: 60%}\n" + stepsYAML("zero again device", "all pure global", "one once device "+read, "two once device"), nil, 0},
		"a result of some": {pipeline(", condition: entity.id != 'd0000'", read), nil, 0},
		"an assertion":     {pipeline(", assert: entity.id != 'd0000'", read), nil, 1},
		"an update":        {pipeline("", ""), &harness.Outcome{SetAttributes: map[string]any{"n": 1}}, 1},
	} {
		for _, devices := range []int{100, 200, 400} {
			o := harness.Options()
			o.Policy.PackSize, o.Policy.MinPackedJobs = 1, devices+1
			s := harness.New(t, 1, o)
			s.RegisterBlocks()
			s.ImportDevices(fourDigitIDs(devices)...)
			s.Script = func(call harness.BlockCall) *harness.Outcome {
				if call.Step == "zero" && call.Entity == "d0000" && c.first != nil {
					return c.first
				}
				return &harness.Outcome{Result: []byte(`"r"`)}
			}
			s.Publish("w", c.definition)
			before := s.Consumed()
			id := s.Start("w", fourDigitIDs(devices)...)
			for s.Deliver() {
			}
			settle(s)
			s.ExpectState(id, sm.ExecutionCompletedAck)
			after := s.Consumed()
			jobs, executions := after.ReadUnits["jobs"]-before.ReadUnits["jobs"], after.ReadUnits["executions"]-before.ReadUnits["executions"]
			t.Logf("%s, %d devices: %v read units of jobs, %v of executions", name, devices, jobs, executions)
			if most := float64(devices * (12 + c.square*devices)); jobs > most || c.square == 0 && executions > most/2 {
				t.Errorf("%s, %d devices: %v read units of jobs and %v of executions, want at most %v", name, devices, jobs, executions, most)
			}
		}
	}
}
