package engine_test

import (
	"testing"

	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// A retry policy with codes repeats failures with these codes and no others, whatever the block
// says of them.
func TestRetry_RepeatsTheCodesItLists(t *testing.T) {
	for _, test := range []struct {
		code      string
		retryable bool
		calls     int
		want      sm.ExecutionState
	}{
		{"BUSY", false, 2, sm.ExecutionCompletedAck}, {"BUSY", true, 2, sm.ExecutionCompletedAck},
		{"OTHER", true, 1, sm.ExecutionFailedSafeAck}, {"OTHER", false, 1, sm.ExecutionFailedSafeAck},
	} {
		s := newHarness(t, 1)
		s.Publish("w", stepsYAML("one pure device , retry: {maxRetries: 2, on: [BUSY, HTTP_503]}"))
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			if c.Attempt > 1 {
				return nil
			}
			return &harness.Outcome{FailCode: test.code, Retryable: test.retryable}
		}
		id := s.Start("w", "d000")
		settle(s)
		s.ExpectState(id, test.want)
		if len(s.BlockCalls) != test.calls {
			t.Errorf("%+v: %d calls", test, len(s.BlockCalls))
		}
	}
}
