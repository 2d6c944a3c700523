package planner

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/engine/delivery"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Run is a committed step run as the delivery protocol sees it. Its jobs are
// planned when somebody needs them.
func (p *Planner) Run(x *workflow.Execution, r *workflow.StepRun) *delivery.Run {
	step := *r
	common := p.workOf(&step)
	common.Correlation, common.Trace = x.Correlation, x.Trace
	run := &delivery.Run{Tenant: p.Tenant, Execution: p.Execution, Step: &step, Work: common, DueAt: x.DueAt}
	run.Jobs = func(ctx context.Context) ([]workflow.JobInput, error) {
		planned, err := p.Plan(ctx, x, &step)
		return planned.Jobs, err
	}
	if step.Kind == workflow.JobExecute && p.Program.HasRetryWhen(step.Step) {
		run.Again = func(attempt int, why *workflow.Failure) bool { return p.Program.RetryWhen(step.Step, attempt, why) }
	}
	if step.Stretch > 0 {
		run.Lane = func(ctx context.Context, lane int) ([]workflow.JobInput, error) {
			planned, err := p.Lane(ctx, x, &step, lane)
			if err == nil && planned.Plan.Problem != nil {
				err = &delivery.Problem{Cause: planned.Plan.Cause, Failure: planned.Plan.Problem}
			}
			return planned.Jobs, err
		}
	}
	return run
}

// workOf is what all packs of a step run have in common.
func (p *Planner) workOf(r *workflow.StepRun) workflow.Work {
	common := workflow.Work{
		Kind: r.Kind, Block: r.Block, Step: r.Label, Pool: r.Pool, Pure: r.Pure, Idempotent: r.Idempotent, Lanes: r.Lanes(), Floor: p.Floor,
	}
	var written string
	if r.Kind == workflow.JobAcquire {
		written = p.Program.Acquisitions[r.Step].Block
	} else {
		n := &p.Program.Nodes[r.Step]
		written, common.Retry, common.Timeout = n.FunctionBlock, n.Retry, n.Timeout
		common.Guided = r.Stretch > 0 || r.Kind == workflow.JobExecute && p.Program.HasRetryWhen(r.Step)
	}
	b := p.Blocks[written]
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
