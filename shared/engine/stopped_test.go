package engine_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// The time of an execution is over while the block of its only step is at work, which ends well. A
// retry would call it once more. It does so unasked only where that does no harm, or where the
// block was to be called again anyhow, because it has asked to wait.
func TestRetry_RepeatsNoStepThatWasStoppedAndEndedWell(t *testing.T) {
	for _, test := range []struct {
		block   string
		waits   bool
		refused bool
	}{{"pure", false, false}, {"once", false, false}, {"forever", false, true}, {"forever", true, false}} {
		s := newHarness(t, 1)
		s.Publish("w", "config: {timeout: 30s}\nsteps:\n  - {label: first, functionBlock: p/"+test.block+":1, runOn: global, outputKey: said}\n"+
			"  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {n: \"${first.result.n}\"}}\n")
		stopped := false
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			o := &harness.Outcome{Result: json.RawMessage(`{"n":7}`)}
			if c.Step == "first" && c.Kind == workflow.JobExecute && !stopped {
				stopped = true
				o.During = func() { s.RunFor(31 * time.Second) }
				if test.waits {
					o.Wait = &workflow.AskedWait{Until: s.Now().Add(time.Hour)}
				}
			}
			return o
		}
		id := s.Start("w", "d000")
		settle(s)
		if x := s.Load(id); x.Cause != workflow.CauseTimeout {
			t.Fatalf("%+v: %s, cause %q", test, x.State, x.Cause)
		}
		_, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{})
		if test.refused {
			if !workflow.Is(err, workflow.CodeIllegalTransition) || !strings.Contains(err.Error(), `retry from "first"`) {
				t.Errorf("%+v: %v", test, err)
			}
			_, err = s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{From: "first"})
		}
		if err != nil {
			t.Fatalf("%+v: %v", test, err)
		}
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		if got := callsWithParameters(s, id); got[len(got)-1] != `after {"n":7}` || strings.Count(strings.Join(got, " "), "first") != 2+strings.Count(strings.Join(s.CallsOf(id), " "), "ROLLBACK") {
			t.Errorf("%+v: %v", test, got)
		}
	}
}
