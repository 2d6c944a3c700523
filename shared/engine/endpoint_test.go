package engine_test

import (
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// An execution that calls an endpoint which this stage lacks ends before it has done anything, and
// names the endpoint. An execution that has begun continues: its jobs that call the endpoint fail.
func TestEndpoints_MissingOneIsRefusedAtTheStart(t *testing.T) {
	for name, steps := range map[string]string{
		"step":  "steps: [{label: one, functionBlock: p/pure:1, runOn: global}, {label: call, runOn: global, http: {endpoint: shop, path: /x}}]\n",
		"block": "steps: [{label: one, functionBlock: p/pure:1, runOn: global}, {label: call, runOn: global, functionBlock: p/shop:1}]\n",
	} {
		s := newHarness(t, 1)
		s.Engine.Endpoints = workflow.Endpoints{"shop": "http://shop.test"}
		s.Endpoints = s.Engine.Endpoints
		s.RegisterBlock(workflow.Block{Package: "p", Name: "shop", HTTP: &workflow.Endpoint{Endpoint: "shop"}})
		s.Publish("w", steps)
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			s.Engine.Endpoints = nil // the configuration has changed
			if c.Step == "call" {
				return &harness.Outcome{Result: []byte("{}")}
			}
			return nil
		}
		if name == "step" {
			id := s.StartWith(harness.NewStartRequest("w", "d000"))
			settle(s)
			s.ExpectState(id, sm.ExecutionCompletedAck)
		}
		s.Engine.Endpoints = nil
		s.BlockCalls = nil
		id := s.StartWith(harness.NewStartRequest("w", "d000"))
		settle(s)
		x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
		if x.Error == nil || x.Error.Code != workflow.FailureEndpoint || x.Error.Step != "call" || !strings.Contains(x.Error.Message, `no endpoint "shop"`) || len(s.BlockCalls) > 0 {
			t.Errorf("%s: %+v, calls %v", name, x.Error, s.BlockCalls)
		}
	}
}
