package engine_test

import (
	"testing"
	"time"

	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// The pause before the next attempt is that of the policy or, if longer, the one that the server
// asked for, whether the worker or the engine sends the attempt. Only jobs that are retried may ask
// for one.
func TestRetryAfter_IsKept(t *testing.T) {
	for name, c := range map[string]struct {
		code  string
		after any
		retry string
		want  time.Duration
	}{
		"longer":     {"HTTP_429", 40, "maxRetries: 1, delay: 5s", 40 * time.Second},
		"shorter":    {"HTTP_503", 2, "maxRetries: 1, delay: 5s", 5 * time.Second},
		"by engine":  {"HTTP_429", 40, "maxRetries: 1, delay: 5s, when: attempt < 2", 40 * time.Second},
		"of a block": {"BUSY", 40, "maxRetries: 1, delay: 5s", 5 * time.Second},
		"no number":  {"HTTP_429", "soon", "maxRetries: 1, delay: 5s", 5 * time.Second},
		"too long":   {"HTTP_429", 1e9, "maxRetries: 1, delay: 5s", time.Hour},
	} {
		s := newHarness(t, 1)
		s.Publish("w", "steps: [{label: call, runOn: global, retry: {"+c.retry+"}, http: {url: 'http://a/'}}]\n")
		var calls []time.Time
		s.Script = func(harness.BlockCall) *harness.Outcome {
			if calls = append(calls, s.Now()); len(calls) == 1 {
				return &harness.Outcome{FailCode: c.code, Retryable: true, FailDetails: map[string]any{"retryAfter": c.after}}
			}
			return &harness.Outcome{Result: []byte(`{"status":200}`)}
		}
		id := s.StartWith(harness.NewStartRequest("w", "d000"))
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		if len(calls) != 2 || calls[1].Sub(calls[0]) < c.want || calls[1].Sub(calls[0]) > c.want+2*time.Minute {
			t.Errorf("%s: called at %v, want a pause of %s", name, calls, c.want)
		}
	}
}
