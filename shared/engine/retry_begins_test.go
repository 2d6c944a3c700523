package engine_test

import (
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// A retry executes what has failed and what follows, and nothing that stands: also where the step that
// cannot be undone is another one than that in which an entity has failed, and where the failure is
// handled this time.
func TestRetry_ExecutesWhatHasToBeDoneAgain(t *testing.T) {
	for name, test := range map[string]struct {
		definition string
		want       string // what the second try calls
	}{
		"a failure was tolerated behind a rollout in which something was done that cannot be undone": {
			"config: {failureTolerance: 1}\nsteps: [{label: all, rollout: {batches: [1]}, workflow: {steps: [{label: one, functionBlock: p/forever:1, runOn: device}]}}, {label: two, functionBlock: p/once:1, runOn: device}, {label: three, functionBlock: p/pure:1, runOn: device}]\n",
			"two d000|three d000",
		},
		"the failure is handled": {
			"steps: [{label: two, functionBlock: p/forever:1, runOn: device, onFailure: [{when: 'error.code == \"SECOND\"', next: three}]}, {label: three, functionBlock: p/pure:1, runOn: device}]\n",
			"two d000|three d000",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, 1)
			s.Publish("w", test.definition)
			code := "FIRST"
			s.Script = func(c harness.BlockCall) *harness.Outcome {
				if c.Step == "two" && c.Kind == workflow.JobExecute && (code == "FIRST" || strings.Contains(test.definition, "SECOND")) {
					return &harness.Outcome{FailCode: code}
				}
				return nil
			}
			id := s.Start("w", "d000")
			settle(s)
			s.ExpectState(id, sm.ExecutionFailedUnsafe)
			code, s.BlockCalls = "SECOND", nil
			retry(s, id, views.RetryRequest{})
			settle(s)
			var calls []string
			for _, c := range s.BlockCalls {
				if c.Kind == workflow.JobExecute {
					calls = append(calls, c.Step+" "+c.Entity)
				}
			}
			if got := strings.Join(calls, "|"); got != test.want {
				t.Errorf("executed %s, want %s", got, test.want)
			}
		})
	}
}
