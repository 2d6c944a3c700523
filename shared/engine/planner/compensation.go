package planner

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// references returns what the expressions of a step run read. Undoes is set if these are the
// parameters of a compensation.
func (p *Planner) references(r *workflow.StepRun) expr.References {
	if r.Undoes > 0 {
		return p.Program.CompensationReferences(r.StepIndex)
	}
	return p.Program.References(r.StepIndex)
}

// planCompensation gives the jobs of a rollback wave the parameters of the block that undoes the
// step. They are evaluated as if directly after the step run that is undone: they see its results,
// and nothing that came later.
func (p *Planner) planCompensation(ctx context.Context, x *workflow.Execution, undo *workflow.StepRun, planned plan.JobPlan) (plan.JobPlan, error) {
	if planned.Plan.Problem != nil || len(planned.Jobs) == 0 {
		return planned, nil
	}
	fail := func(entity string, cause workflow.Cause, code, message string) plan.JobPlan {
		return plan.JobPlan{Plan: lifecycle.Plan{Cause: cause, Problem: &workflow.Failure{Code: code, Message: message, Step: undo.Label, Entity: entity}}}
	}
	behind := &workflow.StepRun{
		Seq: undo.Seq + 1, Try: undo.Try, StepIndex: undo.StepIndex, Label: undo.Label, Kind: workflow.JobExecute, In: undo.In, Index: undo.Index, Undoes: undo.Seq,
	}
	scope, err := p.buildExprScope(ctx, x, behind)
	var tooLarge *resultsTooLargeError
	if errors.As(err, &tooLarge) {
		return plan.JobPlan{Plan: lifecycle.Plan{Cause: workflow.CauseLimit, Problem: tooLarge.failure}}, nil
	}
	if err != nil {
		return plan.JobPlan{}, err
	}
	expressions := scope.expressions.ForPlan(ctx, p.MaxPlanCost)
	for i := range planned.Jobs {
		j := &planned.Jobs[i]
		j.Result, j.ResultRef, j.Resume = nil, nil, nil
		var e *workflow.ScopeEntity
		switch {
		case j.Item != nil:
			e = &workflow.ScopeEntity{Key: j.Key(), Attributes: j.Item.Value}
		case j.Entity != nil:
			e = &workflow.ScopeEntity{Key: *j.Entity, Attributes: j.Attributes, Token: j.Token}
			if at, ok := scope.index()[*j.Entity]; ok {
				e.Attributes = scope.entities[at].Attributes
			}
		}
		j.Parameters, err = expressions.CompensationParameters(undo.StepIndex, e)
		if stopped := ctx.Err(); stopped != nil {
			return plan.JobPlan{}, fmt.Errorf("planning the compensation of step %q for %d jobs was cut off: %w", undo.Label, len(planned.Jobs), stopped)
		}
		if over := expressions.Err(); over != nil {
			return fail("", workflow.CauseLimit, workflow.FailureLimit, over.Error()), nil
		}
		if err != nil {
			return fail(j.Name(), workflow.CauseStepFailed, workflow.FailureParameters, "compensate: "+plan.ErrorText(err)), nil
		}
	}
	return planned, nil
}
