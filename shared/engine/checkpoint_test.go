package engine_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/tests/sim/harness"

	sm "github.com/lockstep-run/lockstep/statemachines"
)

// An attempt that the engine sends, because the condition of its retry has to be evaluated or its message
// was lost, has what the attempts before have saved.
func TestCheckpoint_ReachesAttemptsThatTheEngineSends(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML(`one again device , retry: {maxRetries: 2, when: "error.code == 'BUSY'"}`))
	var found []int
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		found = append(found, len(c.Checkpoints))
		if c.Attempt == 3 {
			return nil
		}
		return &harness.Outcome{FailCode: "BUSY", Saves: []string{fmt.Sprint("a", c.Attempt)}, Saved: func(string) {}}
	}
	id := s.Start("w", "d000")
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if fmt.Sprint(found) != "[0 1 2]" {
		t.Errorf("the calls had %v checkpoints, want 0, 1 and 2", found)
	}
}

// R27: whatever crashes, is lost or comes twice, a call of a job has all that calls before it know to
// have saved.
func TestCheckpoint_IsNeverLostUnderRandomFaults(t *testing.T) {
	continued := 0
	for seed := range uint64(80) {
		s := harness.New(t, seed, harness.Options())
		s.RegisterBlocks()
		s.ImportDevices("d000", "d001", "d002", "d003", "d004")
		kind := []string{"again", "pure"}[seed%2]
		s.Publish("w", stepsYAML("one "+kind+" device , retry: {maxRetries: 4, delay: 10s}"))
		random := rand.New(rand.NewPCG(seed, 27))
		s.Faults = faults.Randomly(random, 25, faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated)
		saved := map[string]map[string]bool{}
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			job := c.Job[:strings.LastIndex(c.Job, ".")] // without the attempt
			known := saved[job]
			if known == nil {
				known = map[string]bool{}
				saved[job] = known
			}
			for key := range known {
				if c.Checkpoints[key] == nil {
					t.Errorf("seed %d: %s has %v, and %s had been saved", seed, c.Job, c.Checkpoints, key)
				}
				continued++
			}
			o := &harness.Outcome{Saves: []string{fmt.Sprint("n", len(s.BlockCalls))}, Saved: func(key string) { known[key] = true }}
			switch random.IntN(4) {
			case 0:
				o.FailCode, o.Retryable = "BUSY", true
			case 1:
				o.Crash = true
			}
			return o
		}
		s.Start("w", "d000", "d001", "d002", "d003", "d004")
		settle(s)
	}
	if continued < 100 {
		t.Errorf("%d checkpoints were looked for: too few to show anything", continued)
	}
}
