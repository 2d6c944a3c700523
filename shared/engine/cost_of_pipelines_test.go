package engine_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// Where the engine sends every lane, what it reads grows with the entities and not with their square:
// a wake-up of a lane looks at the done sets only if there may be something to decide.
func TestCost_LanesThatTheEngineSendsGrowLinearly(t *testing.T) {
	for name, definition := range map[string]string{
		"pipeline":              "config: {executionStrategy: {parallel: true}}\n" + stepsYAML("one once device", "two once device"),
		"pipeline with windows": "config: {executionStrategy: {parallel: true}, maxInFlight: 10}\n" + stepsYAML("one once device", "two once device"),
		"retry.when":            "steps: [{label: one, functionBlock: p/again:1, runOn: device, retry: {maxRetries: 1, when: 'error.code != \"X\"'}}]\n",
	} {
		const devices = 1000
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
		id := s.Start("w", fourDigitIDs(devices)...)
		for s.Deliver() {
		}
		x := s.ExpectState(id, sm.ExecutionCompletedAck)
		sets := len(x.StepRuns) * x.StepRuns[0].Shards()
		if doneSets > 2*sets*sets { // all of them when one is complete, not when a lane ends
			t.Errorf("%s: %d done sets were read, of %d", name, doneSets, sets)
		}
	}
}
