package planner

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Report reads the packs of an open run, or goes on closing it.
func (p *Planner) Report(ctx context.Context, x *workflow.Execution, n lifecycle.Need, now time.Time) (*lifecycle.Report, error) {
	r := x.StepRunBySeq(n.StepRunSeq)
	if r == nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "there is no step run %d to report", n.StepRunSeq)
	}
	stepRun := p.StepRun(x, r)
	timerFired := !x.DueAt.IsZero() && !x.DueAt.After(now)
	var rep *lifecycle.Report
	var err error
	switch {
	case n.Kind == lifecycle.NeedClose:
		rep, err = p.Dispatcher.CloseStepRun(ctx, stepRun, now)
	case r.Pipeline > 0:
		rep, err = p.pipelineReport(ctx, x, r, stepRun, now, timerFired)
	default:
		rep, err = p.Dispatcher.Report(ctx, stepRun, now, timerFired)
	}
	if err == nil && rep.Complete && rep.HasUpdates && r.Kind == workflow.JobExecute {
		err = p.checkUpdates(ctx, x, r, rep)
	}
	return rep, err
}
