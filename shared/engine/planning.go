package engine

import (
	"context"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/engine/delivery"
	"github.com/lockstep-run/lockstep/shared/engine/planner"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// plans is the planner of this look, once the run's program is known.
func (w *work) plans(ctx context.Context) (*planner.Planner, error) {
	if w.planner != nil {
		return w.planner, nil
	}
	if w.facts.Resolved == nil {
		if err := w.resolve(ctx); err != nil {
			return nil, err
		}
	}
	if p := w.facts.Resolved.Problem; p != nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "%s", p.Message)
	}
	w.planner = &planner.Planner{
		Tenant: w.tenant, Execution: w.id, Delivery: w.delivery(), Program: w.program, Blocks: w.facts.Resolved.Blocks,
		Input: w.loadInput, Entities: w.entities, MaxResults: w.e.MaxResults,
	}
	return w.planner, nil
}

// plan answers NeedPlan for the draft.
func (w *work) plan(ctx context.Context, n lifecycle.Need, draft *workflow.Execution) error {
	p, err := w.plans(ctx)
	if err != nil {
		return err
	}
	r := n.Run()
	planned, err := p.Plan(ctx, draft, &r)
	if err != nil {
		return err
	}
	if w.facts.Plans == nil {
		w.facts.Plans = map[lifecycle.Need]*lifecycle.Plan{}
	}
	w.facts.Plans[n] = &planned.Plan
	return nil
}

// run is a committed step run as the delivery protocol sees it. Its jobs are
// planned when somebody needs them.
func (w *work) run(ctx context.Context, r *workflow.StepRun) (*delivery.Run, error) {
	p, err := w.plans(ctx)
	if err != nil {
		return nil, err
	}
	step := *r
	run := &delivery.Run{Tenant: w.tenant, Execution: w.id, Step: &step, Work: w.workOf(&step)}
	run.Jobs = func(ctx context.Context) ([]workflow.JobInput, error) {
		planned, err := p.Plan(ctx, w.x, &step)
		return planned.Jobs, err
	}
	if step.Kind == workflow.JobExecute && w.program.HasRetryWhen(step.Step) {
		run.Again = func(attempt int, why *workflow.Failure) bool { return w.program.RetryWhen(step.Step, attempt, why) }
	}
	if step.Stretch > 0 {
		run.Lane = func(ctx context.Context, lane int) ([]workflow.JobInput, error) {
			planned, err := p.Lane(ctx, w.x, &step, lane)
			if err == nil && planned.Plan.Problem != nil {
				err = &delivery.Problem{Cause: planned.Plan.Cause, Failure: planned.Plan.Problem}
			}
			return planned.Jobs, err
		}
	}
	return run, nil
}

// workOf is what all packs of a step run have in common.
func (w *work) workOf(r *workflow.StepRun) workflow.Work {
	common := workflow.Work{
		Kind: r.Kind, Block: r.Block, Step: r.Label, Pool: r.Pool, Pure: r.Pure, Idempotent: r.Idempotent, Lanes: r.Lanes(),
	}
	written := ""
	if r.Kind == workflow.JobAcquire {
		written = w.program.Acquisitions[r.Step].Block
	} else {
		n := &w.program.Nodes[r.Step]
		written, common.Retry, common.Timeout = n.FunctionBlock, n.Retry, n.Timeout
		common.Guided = r.Stretch > 0 || r.Kind == workflow.JobExecute && w.program.HasRetryWhen(r.Step)
	}
	b := w.facts.Resolved.Blocks[written]
	for _, d := range []workflow.Duration{b.Timeout, workflow.Duration(w.e.JobTimeout)} {
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

// report reads the packs of an open run, or goes on closing it.
func (w *work) report(ctx context.Context, n lifecycle.Need) error {
	r := w.x.RunOf(n.RunSeq)
	if r == nil {
		return workflow.Errorf(workflow.CodeInternal, "there is no step run %d to report", n.RunSeq)
	}
	run, err := w.run(ctx, r)
	if err != nil {
		return err
	}
	now := w.e.now()
	var rep *lifecycle.Report
	switch {
	case n.Kind == lifecycle.NeedClosing:
		rep, err = w.delivery().Close(ctx, run, now)
	case r.Stretch > 0:
		rep, err = w.stretchReport(ctx, r, run)
	default:
		rep, err = w.delivery().Report(ctx, run, now, w.rang(now))
	}
	if err != nil {
		return err
	}
	if rep.Complete && rep.Updates && r.Kind == workflow.JobExecute {
		if err := w.refuseForeign(ctx, r, rep); err != nil {
			return err
		}
	}
	if w.facts.Reports == nil {
		w.facts.Reports = map[int]*lifecycle.Report{}
	}
	w.facts.Reports[n.RunSeq] = rep
	return nil
}

// refuseForeign looks for updates of entities that the run does not hold.
func (w *work) refuseForeign(ctx context.Context, r *workflow.StepRun, rep *lifecycle.Report) error {
	p, err := w.plans(ctx)
	if err != nil {
		return err
	}
	ended := *r
	ended.Status = "" // its packs are final: what is read of them stays
	updates, err := p.Updates(ctx, w.x, &ended)
	if err != nil {
		return err
	}
	held, err := w.entities(ctx, w.x.ScopeOf(r))
	if err != nil {
		return err
	}
	known := make(map[workflow.EntityKey]bool, len(held))
	for _, e := range held {
		known[e.Key] = true
	}
	for _, u := range updates {
		if !known[u.Entity] || w.x.LockMode == workflow.LockShared {
			rep.Cause, rep.Problem = workflow.CauseStepFailed, &workflow.Failure{
				Code: lifecycle.CodeNotHeld, Step: r.Label, Entity: u.Entity.String(),
				Message: fmt.Sprintf("a job of step %q asks for an update of %s, which the run does not hold", r.Label, u.Entity),
			}
			return nil
		}
	}
	return nil
}

// executed is a run's plan with all of its packs.
func (w *work) executed(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (plan.Planned, []*workflow.Pack, error) {
	p, err := w.plans(ctx)
	if err != nil {
		return plan.Planned{}, nil, err
	}
	return p.Executed(ctx, x, r)
}
