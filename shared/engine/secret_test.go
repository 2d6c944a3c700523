package engine_test

import (
	"strings"
	"testing"

	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// R33: a block is called with the values of secrets, also when it is retried and rolled back. The
// message has their places and the references, and so has what is planned. A starter's parameter
// that contains the text of a reference stays unchanged.
func TestSecrets_AreFilledInByWorkers(t *testing.T) {
	s := newHarness(t, 1)
	s.Secrets = map[string]string{"team/key": "hunter22"}
	s.Publish("w", `steps:
  - {label: one, functionBlock: p/again:1, runOn: device, parameters: {key: "Bearer ${secret.team/key}", own: "${parameters.own}", text: "$${secret.team/key}"}, retry: {maxRetries: 1, delay: 1s}}
  - {label: own, functionBlock: p/once:1, runOn: device, compensate: {functionBlock: p/again:1, parameters: {key: "Bearer ${secret.team/key}", own: "${parameters.own}", text: "$${secret.team/key}"}}}
  - {label: two, functionBlock: p/pure:1, runOn: global, parameters: {key: "${secret.none}"}}
`)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "one" && c.Attempt == 1 && c.Kind == "EXECUTE" {
			return &harness.Outcome{FailCode: "BUSY", FailMessage: "not with hunter22", Retryable: true}
		}
		return nil
	}
	req := harness.NewStartRequest("w", "d000")
	req.Parameters = []byte(`{"own":"${secret.team/key}"}`)
	id := s.StartWith(req)
	settle(s)
	x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if x.Error == nil || x.Error.Code != "SECRET" || !strings.Contains(x.Error.Message, `"none"`) {
		t.Errorf("%+v", x.Error)
	}
	kinds := ""
	for _, c := range s.BlockCalls {
		kinds += " " + c.Step + "/" + string(c.Kind)
		if got := string(c.Parameters); got != "{}" && got != `{"key":"Bearer hunter22","own":"${secret.team/key}","text":"${secret.team/key}"}` {
			t.Errorf("%s is called with %s", c.Job, got)
		}
	}
	if kinds != " one/EXECUTE one/EXECUTE own/EXECUTE own/EXECUTE one/ROLLBACK" {
		t.Errorf("called:%s", kinds)
	}
	if where := s.Storing("hunter22"); len(where) > 0 {
		t.Errorf("a secret is stored in %v", where)
	}
}
