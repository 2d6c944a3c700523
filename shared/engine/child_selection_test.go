package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// What a start refuses of a selection, a step refuses for the execution that it would start, with
// the same words: one of no type, and a query that is no expression.
func TestChild_SelectionIsCheckedAsOfAStart(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.ImportDevices("d000")
	s.Publish("seeded", "assertNotEmpty: false\nsteps: [{label: one, functionBlock: p/pure:1, runOn: device}]")
	free := "package: p\nname: free\nversion: 1.0.0\nsteps: [{label: one, functionBlock: p/pure:1, runOn: device}]\n"
	if _, _, err := s.Catalog.Publish(context.Background(), harness.Caller, []byte(free), false); err != nil {
		t.Fatal(err)
	}
	none := "executeOnParameters.type: name the entity type"
	for n, c := range []struct{ workflow, selector, want string }{
		{"free", "{ids: ['${parameters.id}']}", none},
		{"free", "{ids: '${[]}'}", none},
		{"free", "{groups: '${[]}'}", none},
		{"free", "{query: 'true'}", none},
		{"free", "{type: device, query: '${parameters.query}'}", "executeOnParameters.query: "},
		{"free", "{type: device, ids: ['${parameters.id}']}", ""},
		{"seeded", "{ids: '${[]}'}", ""},
		{"seeded", "{ids: ['${parameters.id}']}", ""},
	} {
		for name, step := range map[string]string{
			"one": "{label: go, workflowReference: {workflow: 'p/" + c.workflow + ":1', mode: dispatch, executeOnParameters: " + c.selector + "}}",
			"set": "{label: go, foreach: {items: '${[1, 2]}', as: i}, workflowReference: {workflow: 'p/" + c.workflow + ":1', mode: dispatch, executeOnParameters: " + c.selector + "}}",
		} {
			w := fmt.Sprint("w", n, name)
			s.Publish(w, "parameters: {type: object}\nsteps: ["+step+"]\n")
			req := harness.NewStartRequest(w)
			req.Parameters = []byte(`{"id":"d000","query":"entity.x =="}`)
			id := s.StartWith(req)
			settle(s)
			x := s.Load(id)
			if c.want == "" {
				if x.State != sm.ExecutionCompletedAck {
					t.Errorf("%s %s of %s: %s, %+v", name, c.selector, c.workflow, x.State, x.Error)
				}
				continue
			}
			code := map[string]string{"one": workflow.FailureParameters, "set": string(workflow.CauseChildFailed)}[name]
			if x.State != sm.ExecutionFailedSafeAck || x.Error.Code != code || !strings.Contains(x.Error.Message, c.want) {
				t.Errorf("%s %s of %s: %s, %+v", name, c.selector, c.workflow, x.State, x.Error)
			}
		}
	}
	for _, selector := range []*workflow.Selector{{IDs: []string{}}, {IDs: []string{"d000"}}, {Query: "true"}} {
		_, _, err := s.Engine.Start(context.Background(), harness.Caller, views.StartRequest{Workflow: "p/free:1", ExecuteOnParameters: selector})
		if !workflow.Is(err, workflow.CodeInvalid) || !strings.Contains(err.Error(), "executeOnParameters.type") {
			t.Errorf("a start with %+v: %v", selector, err)
		}
	}
}
