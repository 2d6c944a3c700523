package planner

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// StepRun is a committed step run as the delivery protocol sees it. Its jobs are
// planned when somebody needs them.
func (p *Planner) StepRun(x *workflow.Execution, r *workflow.StepRun) *dispatch.StepRun {
	step := *r
	common := p.workOf(&step)
	common.CorrelationID, common.TraceParent = x.CorrelationID, x.TraceParent
	stepRun := &dispatch.StepRun{Tenant: p.Tenant, Execution: p.Execution, Step: &step, Work: common, DueAt: x.DueAt}
	stepRun.Jobs = func(ctx context.Context) ([]workflow.JobInput, error) {
		planned, err := p.Plan(ctx, x, &step)
		return planned.Jobs, err
	}
	if step.Kind == workflow.JobExecute && p.Program.HasRetryWhen(step.StepIndex) {
		stepRun.ShouldRetry = func(attempt int, why *workflow.Failure) bool {
			return p.Program.RetryWhen(step.StepIndex, attempt, why)
		}
	}
	if step.Pipeline > 0 {
		stepRun.LaneJobs = func(ctx context.Context, lane int) ([]workflow.JobInput, error) {
			planned, err := p.PlanLane(ctx, x, &step, lane)
			if err == nil && planned.Plan.Problem != nil {
				err = &dispatch.PlanError{Cause: planned.Plan.Cause, Failure: planned.Plan.Problem}
			}
			return planned.Jobs, err
		}
	}
	return stepRun
}

// workOf is what all packs of a step run have in common.
func (p *Planner) workOf(r *workflow.StepRun) workflow.Work {
	common := workflow.Work{
		Kind: r.Kind, Block: r.Block, Step: r.Label, Pool: r.Pool, Pure: r.Pure, Idempotent: r.Idempotent, Lanes: r.Lanes(), MinFencingToken: p.MinFencingToken,
	}
	var blockRef string
	if r.Kind == workflow.JobAcquire {
		blockRef = p.Program.Acquisitions[r.StepIndex].Block
	} else {
		n := &p.Program.Nodes[r.StepIndex]
		blockRef, common.Retry, common.Timeout = n.FunctionBlock, n.Retry, n.Timeout
		common.EngineDriven = r.Pipeline > 0 || r.Kind == workflow.JobExecute && p.Program.HasRetryWhen(r.StepIndex)
	}
	b := p.Blocks[blockRef]
	for _, d := range []workflow.Duration{b.Timeout, workflow.Duration(p.JobTimeout)} {
		if common.Timeout == 0 {
			common.Timeout = d
		}
	}
	if common.Pool == "" {
		common.Pool = defaultPool
	}
	common.HTTP = b.HTTP
	if r.Kind == workflow.JobExecute {
		common.ResultSchema = b.ResultSchema
	}
	return common
}

// defaultPool serves blocks that name none: the stock worker's.
const defaultPool = "default"
