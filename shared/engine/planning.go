package engine

import (
	"context"
	"errors"

	"github.com/lockstep-run/lockstep/shared/engine/delivery"
	"github.com/lockstep-run/lockstep/shared/engine/planner"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
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
		Input: w.given, Entities: w.Entities, MaxResults: w.e.MaxResults, JobTimeout: w.e.JobTimeout, Floor: w.e.Policy.Floor,
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

// report reads the packs of an open run, or goes on closing it. Of a run that has
// broken and can never be closed, an operator is told why.
func (w *work) report(ctx context.Context, n lifecycle.Need) error {
	var rep *lifecycle.Report
	p, err := w.plans(ctx)
	if err == nil {
		rep, err = p.Report(ctx, w.x, n, w.now)
	}
	if err != nil && w.x.State == sm.ExecutionFailedUnsafe && port.Permanent(err) {
		rep, err = &lifecycle.Report{RunSeq: n.RunSeq, Problem: &workflow.Failure{Code: string(workflow.CodeOf(err)), Message: port.Reason(err)}}, nil
	}
	if err != nil {
		return err
	}
	if w.facts.Reports == nil {
		w.facts.Reports = map[lifecycle.Need]*lifecycle.Report{}
	}
	w.facts.Reports[n] = rep
	return nil
}

// perform sends the packs of a step run that has just been committed, or starts
// its child.
func (w *work) perform(ctx context.Context, d lifecycle.Decision) error {
	r := w.x.RunOf(d.Dispatch)
	if d.Dispatch == 0 || r == nil {
		return nil
	}
	if r.Child != nil {
		return w.startChild(ctx, r)
	}
	p, err := w.plans(ctx)
	if err != nil {
		return err
	}
	if r.Stretch > 0 && r.Kind == workflow.JobExecute {
		ended, err := p.StartStretch(ctx, w.x, r, w.e.now())
		if ended {
			w.tell(ctx, "itself", []workflow.Look{look(w.x, "stretch")})
		}
		return err
	}
	run := p.Run(w.x, r)
	if _, err := run.Jobs(ctx); err != nil { // what that reads is carried too
		return err
	}
	return w.delivery().Dispatch(ctx, run, w.e.now(), w.ports.Meter.Take())
}

// sendLane goes on with a lane that its worker could not: it is one of a stretch,
// its retry policy has a condition, or its chain was cut.
func (w *work) sendLane(ctx context.Context, l workflow.Look) error {
	r := w.x.RunOf(l.RunSeq)
	if !planner.Advances(r) || w.x.Floor != w.e.Policy.Floor {
		return nil
	}
	p, err := w.plans(ctx)
	if err != nil {
		return err
	}
	err = p.SendLane(ctx, w.x, r, *l.Lane, w.e.now(), l.Cost)
	var problem *delivery.Problem
	if errors.As(err, &problem) {
		w.facts.Reports = map[lifecycle.Need]*lifecycle.Report{
			{Kind: lifecycle.NeedReport, RunSeq: r.RunSeq}: {RunSeq: r.RunSeq, Cause: problem.Cause, Problem: problem.Failure},
		}
		return nil
	}
	return err
}
