package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// amongYAML starts the child that its parameter names, one of two.
const amongYAML = `steps:
  - label: go
    workflowReference: {workflow: "${parameters.which}", among: ["p/left:1", "p/right"], mode: MODE}
    onFailure: [{when: error.code == "UNKNOWN_WORKFLOW", next: sorry}]
    next: end
  - {label: sorry, functionBlock: p/pure:1, runOn: global}
`

// A step that evaluates which workflow it starts starts one of its list, in the version that the execution is
// pinned to, and fails with a code of its own otherwise.
func TestAmong_StartsOneOfItsList(t *testing.T) {
	for _, mode := range []string{"dispatch", "fireAndForget"} {
		for which, want := range map[string]string{`"p/left:1"`: "p/left:1.0.0", `"p/right"`: "p/right:1.0.0", `"p/left"`: "", `"p/other:1"`: "", `"p/right:1"`: "", `7`: "", `{"a": 1}`: ""} {
			t.Run(mode+" "+which, func(t *testing.T) {
				s := newHarness(t, 0)
				for _, name := range []string{"left", "right", "other"} {
					s.Publish(name, "steps: [{label: work, functionBlock: p/pure:1, runOn: global}]\n")
				}
				s.Publish("w", strings.ReplaceAll(amongYAML, "MODE", mode))
				req := harness.NewStartRequest("w")
				req.Parameters = fmt.Appendf(nil, `{"which": %s}`, which)
				id := s.StartWith(req)
				settle(s)
				x := s.ExpectState(id, sm.ExecutionCompletedAck)
				var started string
				for i := range x.StepRuns {
					if c := x.StepRuns[i].Child; c != nil {
						started = c.Workflow.String()
						s.ExpectState(c.ID, sm.ExecutionCompletedAck)
					}
				}
				if calls := calledFor(s, id); started != want || (calls == "sorry:1") != (want == "") {
					t.Errorf("it has started %q and called %q, want %q", started, calls, want)
				}
			})
		}
	}
}

// A name that is not in the list is told with the list.
func TestAmong_SaysWhichItMayBe(t *testing.T) {
	s := newHarness(t, 0)
	s.Publish("left", "steps: [{label: work, functionBlock: p/pure:1, runOn: global}]\n")
	s.Publish("w", "steps: [{label: go, workflowReference: {workflow: '${parameters.which}', among: ['p/left:1'], mode: dispatch}}]\n")
	req := harness.NewStartRequest("w")
	req.Parameters = []byte(`{"which": "p/other"}`)
	id := s.StartWith(req)
	settle(s)
	x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if x.Error == nil || x.Error.Code != workflow.FailureUnknownWorkflow || !strings.Contains(x.Error.Message, `"p/other"`) || !strings.Contains(x.Error.Message, "p/left:1") {
		t.Errorf("it has failed with %+v", x.Error)
	}
	req.Parameters = []byte(`{}`)
	id = s.StartWith(req)
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error == nil || x.Error.Code != workflow.FailureParameters {
		t.Errorf("without a value it has failed with %+v", x.Error)
	}
}
