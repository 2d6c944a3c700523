package planner

import (
	"context"
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
		err = p.refuse(ctx, x, r, rep)
	}
	return rep, err
}
