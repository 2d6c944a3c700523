package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// Repetitions that entities leave one by one, each in another, read no more for being later: the engine reads
// the packs of twice as many twice as often, and neither plans nor reads them all again each time.
func TestBreak_ReadsGrowLinearly(t *testing.T) {
	for name, definition := range map[string]string{
		"of the step":                     "  - {label: a, functionBlock: p/pure:1, runOn: device, repeat: {count: COUNT}}\n",
		"of the step, by its condition":   "  - {label: a, functionBlock: p/pure:1, runOn: device, repeat: {count: COUNT, while: a.result > 0}}\n",
		"of a step around":                "  - {label: c, repeat: {count: COUNT}, workflow: {steps: [{label: a, functionBlock: p/pure:1, runOn: device}, {label: g, functionBlock: p/pure:1, runOn: global}]}}\n",
		"of a step around, in a pipeline": "  - {label: c, repeat: {count: COUNT}, workflow: {steps: [{label: b, functionBlock: p/pure:1, runOn: device}, {label: a, functionBlock: p/pure:1, runOn: device, parameters: {last: '${b.result}'}}]}}\n",
		"with results of another step":    "  - {label: c, repeat: {count: COUNT}, workflow: {steps: [{label: a, functionBlock: p/pure:1, runOn: device}, {label: g, functionBlock: p/pure:1, runOn: global}, {label: b, functionBlock: p/pure:1, runOn: device, parameters: {last: '${a.result}'}}]}}\n",
		"of packs with several lanes":     "  - {label: c, repeat: {count: COUNT}, workflow: {steps: [{label: a, functionBlock: p/forever:1, runOn: device}]}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			reads := map[int]int{}
			for _, n := range []int{8, 16} {
				at := map[string]int{}
				for i, id := range harness.DeviceIDs(n) {
					at["a "+id] = i + 1
				}
				s := newHarness(t, n)
				calls, breaks := 0, breaking(at)
				s.Script = func(c harness.BlockCall) *harness.Outcome {
					if c.Step != "a" {
						return &harness.Outcome{Result: []byte("1")}
					}
					calls++
					if strings.Contains(definition, "while") {
						at["a "+c.Entity]--
						return &harness.Outcome{Result: fmt.Append(nil, at["a "+c.Entity])}
					}
					return breaks(c)
				}
				s.Faults = func(c faults.Call) faults.Fault {
					if c.Name == "packs.shard_packs" {
						reads[n]++
					}
					return faults.None
				}
				s.Publish("w", "steps:\n"+strings.ReplaceAll(definition, "COUNT", fmt.Sprint(n+5)))
				id := s.Start("w", harness.DeviceIDs(n)...)
				settle(s)
				x := s.ExpectState(id, sm.ExecutionCompletedAck)
				if calls != n*(n+1)/2 {
					t.Errorf("%d devices: %d calls, want %d", n, calls, n*(n+1)/2)
				}
				for i := range x.StepRuns {
					if r := &x.StepRuns[i]; r.Part != nil && r.Part.Len() != r.Jobs {
						t.Errorf("step run %d: %s take part, of %d jobs", r.Seq, r.Part, r.Jobs)
					}
				}
				if x.Needs() != workflow.SchemaVersion {
					t.Errorf("the release before, which knows nothing of it, reads schema %d", x.Needs())
				}
			}
			if reads[8] == 0 || reads[16] > 9*reads[8]/4 {
				t.Errorf("packs are read %d times for 8 devices, and %d times for 16", reads[8], reads[16])
			}
		})
	}
}
