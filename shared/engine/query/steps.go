package query

import (
	"cmp"
	"context"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Steps lists the step runs of an execution in the order of entry. The step runs of nested
// steps follow that of the step around them. Acquire calls and rollback waves are included.
func (v *Service) Steps(ctx context.Context, c workflow.Caller, id string, p workflow.Page) (workflow.List[views.StepView], error) {
	var list workflow.List[views.StepView]
	after, err := parseSequenceToken(p)
	if err != nil {
		return list, err
	}
	i, err := v.engine.Inspect(ctx, c.Tenant, id)
	if err != nil {
		return list, err
	}
	x := i.Execution()
	for n := range x.StepRuns {
		r := &x.StepRuns[n]
		if int64(r.Seq) <= after {
			continue
		}
		if len(list.Items) == pageLimit(p) {
			list.NextToken = encodePageToken(strconv.Itoa(list.Items[len(list.Items)-1].Sequence))
			break
		}
		s, err := v.stepView(ctx, x, r, i.Packs)
		if err != nil {
			return list, err
		}
		list.Items = append(list.Items, s)
	}
	return list, nil
}

func childView(r *workflow.StepRun) *views.ChildView {
	if r.Child == nil {
		return nil
	}
	c := &views.ChildView{ID: r.Child.ID, Workflow: r.Child.Workflow, Mode: r.Child.Mode}
	if r.Child.State != "" {
		c.State = &r.Child.State
	}
	return c
}

type packLoader func(context.Context, *workflow.StepRun) ([]*workflow.Pack, error)

func (v *Service) stepView(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, packs packLoader) (views.StepView, error) {
	s := views.StepView{
		Sequence: r.Seq, Step: r.Label, Try: max(r.Try, 1), Ordinal: r.Ordinal, Status: r.Status,
		Superseded: r.SupersededBy > 0, Child: childView(r),
		Block: nonZeroPtr(r.Block), EnteredAt: r.EnteredAt, EndedAt: timePtr(r.EndedAt),
		Skipped: r.Skipped, Error: views.NewFailureView(cmp.Or(r.Failure, r.Counts.Failure)),
	}
	if r.HasJobs() {
		s.Kind = &r.Kind
	}
	if r.Iteration > 0 {
		s.Iteration = &r.Iteration
	}
	if r.Pipeline > 0 {
		s.Pipeline = &r.Pipeline
	}
	if r.Kind == workflow.JobRollback {
		s.Wave = &r.Wave
	}
	if s.Error == nil && x.Error != nil && x.Error.Step == r.Label && r.Seq == x.StepRunSeq {
		s.Error = views.NewFailureView(x.Error) // an assertion or a parameter failed before any job started
	}
	s.Jobs = views.JobCounts{
		Total: r.Jobs, Completed: r.Counts.OK, Failed: r.Counts.Failed,
		Pending: new(int), Claimed: new(int), Running: new(int),
		Cancelled: ptr(r.Counts.NotExecuted), Unknown: ptr(r.Counts.Unknown),
	}
	if r.Open() && r.HasJobs() {
		open, err := packs(ctx, r)
		if err != nil {
			return s, err
		}
		countOpenJobs(&s.Jobs, r, open)
	}
	return s, nil
}
