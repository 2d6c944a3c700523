package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// An execution sets at most 500 variables, those of embedded definitions included. The step that would set
// more fails before it does anything.
func TestFlow_VariablesOfAllDefinitionsAreBounded(t *testing.T) {
	const embed = `steps:
  - {label: twice, loop: {over: "${[1, 2]}"}, workflow: {steps: [{label: many, workflowReference: {workflow: 'p/many:1', mode: embed}}]}}
  - {label: own, set: {v0: 1}}
`
	set := func(n int) string {
		var values []string
		for i := range n {
			values = append(values, fmt.Sprintf("v%d: %d", i, i))
		}
		return "steps: [{label: all, set: {" + strings.Join(values, ", ") + "}}]\n"
	}
	for _, c := range []struct {
		name, steps string
		state       sm.ExecutionState
		step, calls string
	}{
		{"as many as it may", "  - {label: one, functionBlock: 'p/pure:1', runOn: global, outputKey: v0}\n", sm.ExecutionCompletedAck, "", "[one EXECUTE]"},
		{"one more by a set", "  - {label: one, set: {v1: 1}}\n  - {label: two, functionBlock: 'p/pure:1', runOn: global}\n", sm.ExecutionFailedSafeAck, "one", "[]"},
		{"one more by a result", "  - {label: one, functionBlock: 'p/pure:1', runOn: global, outputKey: v1}\n", sm.ExecutionFailedSafeAck, "one", "[]"},
		{"one more by branches", "  - {label: one, parallel: {branches: [{label: a, functionBlock: 'p/pure:1'}, {label: b, functionBlock: 'p/pure:1'}]}, outputKey: v1}\n", sm.ExecutionFailedSafeAck, "one", "[]"},
		{"one more, which is handled", "  - {label: one, functionBlock: 'p/pure:1', runOn: global, outputKey: v1, onFailure: [{when: error.code == 'LIMIT_KEYS', steps: [{label: two, functionBlock: 'p/pure:1', runOn: global}]}]}\n", sm.ExecutionCompletedAck, "", "[two EXECUTE]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newHarness(t, 0)
			s.Publish("many", set(499))
			s.Publish("w", embed+c.steps)
			id := s.Start("w")
			settle(s)
			x := s.ExpectState(id, c.state)
			if got := fmt.Sprint(s.CallsOf(id)); got != c.calls {
				t.Errorf("%s, want %s", got, c.calls)
			}
			if c.step != "" && (x.Error == nil || x.Error.Code != workflow.FailureLimitKeys || x.Error.Step != c.step || x.Cause != workflow.CauseLimit) {
				t.Errorf("%+v because of %s", x.Error, x.Cause)
			}
		})
	}
}
