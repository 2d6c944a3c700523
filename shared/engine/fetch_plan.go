package engine

import (
	"context"
	"errors"

	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/engine/planner"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// ensurePlanner is the planner of this look, once the run's program is known.
func (w *workspace) ensurePlanner(ctx context.Context) (*planner.Planner, error) {
	if w.planner != nil {
		return w.planner, nil
	}
	if w.facts.Resolution == nil {
		if err := w.fetchResolution(ctx); err != nil {
			return nil, err
		}
	}
	if p := w.facts.Resolution.Problem; p != nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "%s", p.Message)
	}
	w.planner = &planner.Planner{
		Tenant: w.tenant, Execution: w.id, Dispatcher: w.dispatcher(), Program: w.program, Blocks: w.facts.Resolution.Blocks,
		Input: w.startInput, Entities: w.loadEntities, MaxResultBytes: w.e.MaxResultBytes, JobTimeout: w.e.JobTimeout, MinFencingToken: w.e.Policy.MinFencingToken,
	}
	return w.planner, nil
}

// fetchPlan answers NeedPlan for the draft.
func (w *workspace) fetchPlan(ctx context.Context, n lifecycle.Need, draft *workflow.Execution) error {
	p, err := w.ensurePlanner(ctx)
	if err != nil {
		return err
	}
	r := n.StepRun()
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

// fetchReport reads the packs of an open run, or goes on closing it. Of a run that has
// broken and can never be closed, an operator is told why.
func (w *workspace) fetchReport(ctx context.Context, n lifecycle.Need) error {
	var rep *lifecycle.Report
	p, err := w.ensurePlanner(ctx)
	if err == nil {
		rep, err = p.Report(ctx, w.execution, n, w.now)
	}
	if err != nil && w.execution.State == sm.ExecutionFailedUnsafe && port.Permanent(err) {
		rep, err = &lifecycle.Report{StepRunSeq: n.StepRunSeq, Problem: &workflow.Failure{Code: string(workflow.CodeOf(err)), Message: port.Reason(err)}}, nil
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

// dispatchStepRun sends the packs of a step run that has just been committed, or starts
// its child.
func (w *workspace) dispatchStepRun(ctx context.Context, d lifecycle.Decision) error {
	r := w.execution.StepRunBySeq(d.DispatchSeq)
	if d.DispatchSeq == 0 || r == nil {
		return nil
	}
	if r.Child != nil {
		return w.startChild(ctx, r)
	}
	p, err := w.ensurePlanner(ctx)
	if err != nil {
		return err
	}
	if r.Pipeline > 0 && r.Kind == workflow.JobExecute {
		ended, err := p.StartPipeline(ctx, w.execution, r, w.e.now())
		if ended {
			w.sendWakeups(ctx, "itself", []workflow.Wakeup{wakeup(w.execution, "stretch")})
		}
		return err
	}
	stepRun := p.StepRun(w.execution, r)
	if _, err := stepRun.Jobs(ctx); err != nil { // what that reads is carried too
		return err
	}
	return w.dispatcher().Dispatch(ctx, stepRun, w.e.now(), w.ports.Meter.Take())
}

// sendLane goes on with a lane that its worker could not: it is one of a stretch,
// its retry policy has a condition, or its chain was cut.
func (w *workspace) sendLane(ctx context.Context, l workflow.Wakeup) error {
	r := w.execution.StepRunBySeq(l.StepRunSeq)
	if !planner.CanAdvance(r) || w.execution.MinFencingToken != w.e.Policy.MinFencingToken {
		return nil
	}
	p, err := w.ensurePlanner(ctx)
	if err != nil {
		return err
	}
	err = p.SendLane(ctx, w.execution, r, *l.Lane, w.e.now(), l.Cost)
	var problem *dispatch.PlanError
	if errors.As(err, &problem) {
		w.facts.Reports = map[lifecycle.Need]*lifecycle.Report{
			{Kind: lifecycle.NeedReport, StepRunSeq: r.Seq}: {StepRunSeq: r.Seq, Cause: problem.Cause, Problem: problem.Failure},
		}
		return nil
	}
	return err
}
