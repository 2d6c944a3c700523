package query

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Steps lists the step runs of an execution in the order in which they were entered. Nested step
// runs follow the surrounding one. Acquire calls and rollback waves are included.
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
	x, bytes := i.Execution(), 0
	var program *spec.Program
	if len(x.StepRuns) > 0 {
		if program, err = i.Program(ctx); err != nil {
			return list, err
		}
	}
	around := &surroundings{inspection: i, program: program}
	for n := range x.StepRuns {
		r := &x.StepRuns[n]
		if int64(r.Seq) <= after {
			continue
		}
		if bytes += valueBytes(r); len(list.Items) == pageLimit(p) || len(list.Items) > 0 && bytes > maxPageBytes {
			list.NextToken = encodePageToken(strconv.Itoa(list.Items[len(list.Items)-1].Sequence))
			break
		}
		s, err := v.stepView(ctx, x, r, i.Packs)
		if err != nil {
			return list, err
		}
		if s.Value, err = stepValue(ctx, i, r); err != nil {
			return list, err
		}
		if err := countChildren(ctx, i, r, s.Children); err != nil {
			return list, err
		}
		if err := around.show(ctx, &s, r); err != nil {
			return list, err
		}
		showWays(&s, x, r, program)
		s.Kept = keptView(r, program)
		list.Items = append(list.Items, s)
	}
	return list, nil
}

// hasValue reports whether a step run shows a value. The value of a handled failure is the failure,
// which is shown separately.
func hasValue(r *workflow.StepRun) bool {
	return shownValue(r) != nil
}

// shownValue returns the value of a step run, or the list of a loop or a foreach.
func shownValue(r *workflow.StepRun) *workflow.Value {
	if r.Status == sm.StepCaseHandled {
		return r.List
	}
	return cmp.Or(r.Value, r.List)
}

// valueBytes returns the size of a step run's value, wherever it is stored.
func valueBytes(r *workflow.StepRun) int {
	switch {
	case !hasValue(r):
		return 0
	case shownValue(r).Stored != nil:
		return shownValue(r).Stored.Bytes
	}
	return len(shownValue(r).Inline)
}

// stepValue loads the value of a step run; nil if there is none, or if it has been deleted.
func stepValue(ctx context.Context, i *engine.Inspection, r *workflow.StepRun) (json.RawMessage, error) {
	if !hasValue(r) {
		return nil, nil
	}
	value, err := loadValue(ctx, i, r.Seq, shownValue(r))
	if value == nil || err != nil || len(r.Waves) == 0 {
		return value, err
	}
	var waves workflow.Waves // the entities of each wave are not shown
	if err := json.Unmarshal(value, &waves); err != nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "the waves of step %q cannot be decoded: %w", r.Label, err)
	}
	return workflow.EncodeJSON(workflow.Waves{List: waves.List})
}

func childView(r *workflow.StepRun) *views.ChildView {
	if r.Child == nil || r.IsSet() {
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
		Superseded: r.SupersededBy > 0, Child: childView(r), Children: childSetView(r),
		Block: nonZeroPtr(r.Block), EnteredAt: r.EnteredAt, EndedAt: timePtr(r.EndedAt),
		Skipped: r.Skipped, Rollout: waveView(x, r), Wait: stepWaitView(r), CaseErrors: []views.CaseError{}, Error: views.NewFailureView(cmp.Or(r.Failure, r.Counts.Failure)),
	}
	if r.Kind != "" {
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
		Total: r.JobCount(), Completed: r.Counts.OK, Failed: r.Counts.Failed,
		Pending: new(int), Claimed: new(int), Running: new(int),
		Cancelled: ptr(r.Counts.NotExecuted), Unknown: ptr(r.Counts.Unknown),
	}
	if r.Open() && r.HasJobs() && !r.JobsOver {
		open, err := packs(ctx, r)
		if err != nil {
			return s, err
		}
		countOpenJobs(&s.Jobs, r, open)
	}
	return s, nil
}
