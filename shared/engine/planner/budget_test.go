package planner_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// slowCondition costs some ten thousand for each entity.
const slowCondition = `steps:
  - label: one
    functionBlock: p/once:1
    runOn: device
    condition: '[1,2,3,4,5,6,7,8,9,10].map(a, [1,2,3,4,5,6,7,8,9,10].map(b, [1,2,3,4,5,6,7,8,9,10].map(c, a + b + c))).size() == 10'
`

// A plan whose expressions are each within their limit, but together cost more than a
// wake-up may, fails the step by name, and does so after the same entity each time.
func TestPlan_CostOfAllEntitiesIsBounded(t *testing.T) {
	f := newFixture(t, slowCondition, 2000, false)
	p, err := f.planner.Plan(t.Context(), f.execution, &f.execution.StepRuns[0])
	if err != nil {
		t.Fatal(err)
	}
	if why := p.Plan.Problem; why == nil || why.Code != workflow.FailureLimit || why.Step != "one" || p.Plan.Cause != workflow.CauseLimit || !strings.Contains(why.Message, "for all entities together") {
		t.Errorf("planned %d jobs, problem %+v, cause %s", p.Plan.Jobs, why, p.Plan.Cause)
	}
	f = newFixture(t, slowCondition, 20, false)
	if p, err := f.planner.Plan(t.Context(), f.execution, &f.execution.StepRuns[0]); err != nil || p.Plan.Jobs != 20 {
		t.Errorf("20 entities: %+v, %v", p.Plan, err)
	}
}

// A plan ends with the context of its wake-up. It is an error that names the step, not a
// step without jobs.
func TestPlan_EndsWithItsContext(t *testing.T) {
	f := newFixture(t, slowCondition, 50, false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, err := f.planner.Plan(ctx, f.execution, &f.execution.StepRuns[0])
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), `step "one" for 50 entities`) {
		t.Errorf("planned %+v, %v", p.Plan, err)
	}
}
