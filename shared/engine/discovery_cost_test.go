package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// The queries and expansions that select the entities of an execution share one budget: an
// execution that needs more ends with LIMIT, and its plan says so. Otherwise its wake-ups would run
// out of time one after another.
func TestDiscovery_QueriesHaveOneBudget(t *testing.T) {
	const slow = `[1,2,3,4,5,6,7,8,9,10].map(a, [1,2,3,4,5,6,7,8,9,10].map(b, a + b)).size() == 10`
	const devices = 40
	query, err := expr.CompileQuery(slow)
	if err != nil {
		t.Fatal(err)
	}
	one := query.Select()
	one.Match(workflow.Entity{Type: "device", ID: "d"})
	selector := func(query string) *workflow.Selector { return &workflow.Selector{Type: "device", Query: query} }
	for name, c := range map[string]struct {
		definition string
		selector   *workflow.Selector
		fails      bool
	}{
		"one query within":          {"", selector(slow), false},
		"start and acquisition":     {"acquire: [{type: device, query: '" + slow + "'}]\n", selector(slow), true},
		"two acquisitions":          {"acquire: [{type: device, query: '" + slow + "'}, {type: device, query: '" + slow + "'}]\n", selector(`entity.id == "d000"`), true},
		"a query and an expansion":  {"acquire: [{type: link, expand: {from: device, ids: '" + slow + " ? [\"l1\"] : []'}}]\n", selector(slow), true},
		"groups cost nothing":       {"acquire: [{type: device, groups: [all]}]\n", selector(slow), false},
		"an expansion that is easy": {"acquire: [{type: link, expand: {from: device, ids: '[\"l1\"]'}}]\n", selector(slow), false},
	} {
		o := harness.Options()
		o.MaxPlanCost = one.Cost() * devices * 3 / 2 // for one query and not for two
		s := harness.New(t, 1, o)
		s.RegisterBlocks()
		s.ImportDevices(harness.DeviceIDs(devices)...)
		if _, err := s.Open().Registry.PutEntities(s.Context(), harness.Caller.Tenant, []workflow.Entity{{Type: "link", ID: "l1"}}); err != nil {
			t.Fatal(err)
		}
		s.Publish("w", c.definition+stepsYAML("one once device"))
		req := views.StartRequest{Workflow: "p/w", ExecuteOnParameters: c.selector}
		p, err := s.Engine.Preview(s.Context(), harness.Caller, req)
		if err != nil || (p.Problem != nil) != c.fails {
			t.Errorf("%s: the plan says %+v, %v", name, p, err)
		}
		id := s.StartWith(req)
		s.Drain()
		if !c.fails {
			s.ExpectState(id, sm.ExecutionCompletedAck)
			continue
		}
		x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
		if x.Error == nil || x.Error.Code != workflow.FailureLimit || !strings.Contains(x.Error.Message, fmt.Sprint(o.MaxPlanCost)) || p.Problem == nil || p.Problem.Code != workflow.FailureLimit {
			t.Errorf("%s: %+v, %+v", name, x.Error, p.Problem)
		}
	}
}
