package view

import (
	"context"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Steps is a run's step runs, rollback waves included, in order of entry.
func (v *View) Steps(ctx context.Context, c workflow.Caller, id string, p workflow.Page) (workflow.List[views.StepView], error) {
	var list workflow.List[views.StepView]
	after, err := numberAfter(p)
	if err != nil {
		return list, err
	}
	i, err := v.engine.Inspect(ctx, c.Tenant, id)
	if err != nil {
		return list, err
	}
	x := i.Execution()
	for n := range x.Runs {
		r := &x.Runs[n]
		if int64(r.RunSeq) <= after {
			continue
		}
		if len(list.Items) == limitOf(p) {
			list.Next = tokenOf(strconv.Itoa(list.Items[len(list.Items)-1].Sequence))
			break
		}
		s, err := v.step(ctx, x, r, i.Packs)
		if err != nil {
			return list, err
		}
		list.Items = append(list.Items, s)
	}
	return list, nil
}

type packsOf func(context.Context, *workflow.StepRun) ([]*workflow.Pack, error)

func (v *View) step(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, packs packsOf) (views.StepView, error) {
	s := views.StepView{
		Sequence: r.RunSeq, Step: r.Label, Visit: r.Visit, Kind: r.Kind, Status: r.Status,
		Block: textPointer(r.Block), EnteredAt: r.EnteredAt, EndedAt: timePointer(r.EndedAt),
		Skipped: r.Skipped, Error: views.FailureOf(r.Tally.Failure),
	}
	if r.Kind == workflow.JobRollback {
		s.Wave = &r.Wave
	}
	if s.Error == nil && x.Error != nil && x.Error.Step == r.Label && r.RunSeq == x.RunSeq {
		s.Error = views.FailureOf(x.Error) // an assertion or a parameter stopped it before any job
	}
	s.Jobs = views.JobCounts{
		Total: r.Jobs, Completed: r.Tally.OK, Failed: r.Tally.Failed,
		Pending: new(int), Claimed: new(int), Running: new(int),
		Cancelled: pointer(r.Tally.NotExecuted), Unknown: pointer(r.Tally.Unknown),
	}
	if r.Open() {
		open, err := packs(ctx, r)
		if err != nil {
			return s, err
		}
		countOpen(&s.Jobs, r, open)
	}
	return s, nil
}
