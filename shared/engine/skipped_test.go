package engine_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// TestOutcome_EntityWithoutWorkIsSkipped: an entity of which the condition of no step was true is
// SKIPPED, and the execution has succeeded all the same.
func TestOutcome_EntityWithoutWorkIsSkipped(t *testing.T) {
	some := `functionBlock: "p/pure:1", runOn: device, condition: 'entity.id != "d001"'`
	for name, c := range map[string]struct {
		definition string
		want       map[workflow.EntityOutcome]int // of three devices, without SUCCEEDED
	}{
		"no condition":                {"steps: [{label: a, functionBlock: p/pure:1, runOn: device}]", nil},
		"one step":                    {"steps: [{label: a, " + some + "}]", map[workflow.EntityOutcome]int{workflow.EntitySkipped: 1}},
		"a condition that no one has": {"steps: [{label: a, functionBlock: p/pure:1, runOn: device, condition: 'entity.id == \"x\"'}]", map[workflow.EntityOutcome]int{workflow.EntitySkipped: 3}},
		"one step for all":            {"steps: [{label: a, " + some + "}, {label: b, functionBlock: p/pure:1, runOn: device}]", nil},
		"one step for each": {
			"steps: [{label: a, " + some + "}, {label: b, functionBlock: p/pure:1, runOn: device, condition: 'entity.id != \"d002\"'}]", nil,
		},
		"steps after each other for an entity": {
			"config: {executionStrategy: {parallel: true}}\nsteps: [{label: a, " + some + "}, {label: b, " + some + "}]", map[workflow.EntityOutcome]int{workflow.EntitySkipped: 1},
		},
		"the other case of a switch": {
			"steps: [{label: a, switch: [{when: 'true', steps: [{label: b, functionBlock: p/pure:1, runOn: global}]}, {default: true, steps: [{label: c, functionBlock: p/pure:1, runOn: device}]}]}]",
			map[workflow.EntityOutcome]int{workflow.EntitySkipped: 3},
		},
		"a branch that is closed before their turn": {
			"config: {maxInFlight: 1}\nsteps: [{label: a, parallel: {branches: [{label: x, steps: [{label: b, functionBlock: p/forever:1, runOn: device}]}, {label: y, steps: [{label: c, functionBlock: p/pure:1, runOn: global}, {label: d, assert: 'false', functionBlock: p/pure:1, runOn: global}]}]}, onFailure: [{next: end}]}]",
			map[workflow.EntityOutcome]int{workflow.EntitySkipped: 2},
		},
		"no step on entities": {"steps: [{label: a, functionBlock: p/pure:1, runOn: global}]", nil},
		"steps on entities only after a failure": {
			"steps: [{label: a, functionBlock: p/pure:1, runOn: global, onFailure: [{steps: [{label: b, switch: [{default: true, steps: [{label: c, functionBlock: p/pure:1, runOn: device}]}]}]}]}]", nil,
		},
		"waves": {
			"steps: [{label: a, rollout: {batches: [1, 100%]}, workflow: {steps: [{label: b, functionBlock: p/pure:1, runOn: device}]}}]", nil,
		},
		"a condition in waves": {
			"steps: [{label: a, rollout: {batches: [1, 100%]}, workflow: {steps: [{label: b, " + some + "}]}}]", map[workflow.EntityOutcome]int{workflow.EntitySkipped: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, 3)
			s.Publish("w", c.definition+"\n")
			id := s.Start("w", harness.DeviceIDs(3)...)
			s.RunUntilIdle(time.Hour)
			x := s.ExpectState(id, sm.ExecutionCompletedAck)
			var got map[workflow.EntityOutcome]int
			if x.Result != nil {
				got = x.Result.Count
			}
			if diff := cmp.Diff(c.want, got); diff != "" || x.Outcome() != workflow.OutcomeSucceeded {
				t.Errorf("%s %s", x.Outcome(), diff)
			}
			s.CheckInvariants()
		})
	}
}
