package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// PlanOf makes the plan of a step run, with everything in it besides the jobs.
func (i *Inspection) PlanOf(ctx context.Context, r *workflow.StepRun) (plan.JobPlan, error) {
	p, err := i.w.ensurePlanner(ctx)
	if err != nil {
		return plan.JobPlan{}, err
	}
	return p.Plan(ctx, i.w.execution, r)
}
