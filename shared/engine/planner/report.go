package planner

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Report reads the packs of an open run, or goes on closing it.
func (p *Planner) Report(ctx context.Context, x *workflow.Execution, n lifecycle.Need, now time.Time) (*lifecycle.Report, error) {
	r := x.RunOf(n.RunSeq)
	if r == nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "there is no step run %d to report", n.RunSeq)
	}
	run := p.Run(x, r)
	rang := !x.DueAt.IsZero() && !x.DueAt.After(now)
	var rep *lifecycle.Report
	var err error
	switch {
	case n.Kind == lifecycle.NeedClosing:
		rep, err = p.Delivery.Close(ctx, run, now)
	case r.Stretch > 0:
		rep, err = p.stretchReport(ctx, x, r, run, now, rang)
	default:
		rep, err = p.Delivery.Report(ctx, run, now, rang)
	}
	if err == nil && rep.Complete && rep.Updates && r.Kind == workflow.JobExecute {
		err = p.refuseForeign(ctx, x, r, rep)
	}
	return rep, err
}

// refuseForeign looks for updates of entities that the run does not hold.
func (p *Planner) refuseForeign(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, rep *lifecycle.Report) error {
	ended := *r
	ended.Status = "" // its packs are final: what is read of them stays
	updates, err := p.Updates(ctx, x, &ended)
	if err != nil {
		return err
	}
	held, err := p.Entities(ctx, x.ScopeOf(r))
	if err != nil {
		return err
	}
	known := make(map[workflow.EntityKey]bool, len(held))
	for _, e := range held {
		known[e.Key] = true
	}
	for _, u := range updates {
		if !known[u.Entity] || x.LockMode == workflow.LockShared {
			rep.Cause, rep.Problem = workflow.CauseStepFailed, &workflow.Failure{
				Code: lifecycle.CodeNotHeld, Step: r.Label, Entity: u.Entity.String(),
				Message: fmt.Sprintf("a job of step %q asks for an update of %s, which the run does not hold", r.Label, u.Entity),
			}
			return nil
		}
	}
	return nil
}
