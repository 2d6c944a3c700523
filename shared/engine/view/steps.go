package view

import (
	"cmp"
	"context"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Steps is a run's step runs in order of entry: visits of nested steps after that
// of the step around them, calls of a block's acquire and rollback waves included.
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

func childOf(r *workflow.StepRun) *views.ChildView {
	if r.Child == nil {
		return nil
	}
	c := &views.ChildView{ID: r.Child.ID, Workflow: r.Child.Workflow, Mode: r.Child.Mode}
	if r.Child.State != "" {
		c.State = &r.Child.State
	}
	return c
}

type packsOf func(context.Context, *workflow.StepRun) ([]*workflow.Pack, error)

func (v *View) step(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, packs packsOf) (views.StepView, error) {
	s := views.StepView{
		Sequence: r.RunSeq, Step: r.Label, Try: max(r.Try, 1), Visit: r.Visit, Status: r.Status,
		Superseded: r.Superseded > 0, Child: childOf(r),
		Block: textPointer(r.Block), EnteredAt: r.EnteredAt, EndedAt: timePointer(r.EndedAt),
		Skipped: r.Skipped, Error: views.FailureOf(cmp.Or(r.Failure, r.Tally.Failure)),
	}
	if r.HasJobs() {
		s.Kind = &r.Kind
	}
	if r.Repeat > 0 {
		s.Repeat = &r.Repeat
	}
	if r.Stretch > 0 {
		s.Stretch = &r.Stretch
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
	if r.Open() && r.HasJobs() {
		open, err := packs(ctx, r)
		if err != nil {
			return s, err
		}
		countOpen(&s.Jobs, r, open)
	}
	return s, nil
}
