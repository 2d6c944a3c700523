package engine_test

import (
	"strings"
	"testing"

	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/faults"
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
