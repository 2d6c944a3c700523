package view

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Execution is one run in detail: with its parameters, and with the packs of the
// open step run counted now.
func (v *View) Execution(ctx context.Context, c workflow.Caller, id string) (views.ExecutionView, error) {
	i, err := v.engine.Inspect(ctx, c.Tenant, id)
	if err != nil {
		return views.ExecutionView{}, err
	}
	return v.detail(ctx, i)
}

// Detail is the view of an execution that has just been changed.
func (v *View) Detail(ctx context.Context, x *workflow.Execution) (views.ExecutionView, error) {
	return v.detail(ctx, v.engine.InspectLoaded(x))
}

func (v *View) detail(ctx context.Context, i *engine.Inspection) (views.ExecutionView, error) {
	x := i.Execution()
	e := cheap(x)
	in, err := i.Input(ctx)
	if err != nil {
		return e, err
	}
	e.Parameters = in.Parameters
	program, err := i.Program(ctx)
	if err != nil {
		return e, err
	}
	if program != nil {
		e.Progress.Steps.Total = len(program.Nodes)
	}
	counts := &e.Progress.Jobs
	counts.Pending, counts.Claimed, counts.Running = new(int), new(int), new(int)
	counts.Cancelled, counts.Unknown = new(int), new(int)
	for n := range x.Runs {
		r := &x.Runs[n]
		if r.Kind != workflow.JobExecute {
			continue
		}
		if !r.Open() {
			*counts.Cancelled += r.Tally.NotExecuted
			*counts.Unknown += r.Tally.Unknown
			continue
		}
		packs, err := i.Packs(ctx, r)
		if err != nil {
			return e, err
		}
		countOpen(counts, r, packs)
	}
	e.Progress.AsOf = pointer(v.engine.Now().UTC().Truncate(time.Millisecond))
	e.Waiting = v.waiting(ctx, i)
	return e, nil
}

// countOpen adds the jobs of a run that is not over by what their packs say now.
func countOpen(counts *views.JobCounts, r *workflow.StepRun, packs []*workflow.Pack) {
	states := latestStates(packs)
	for index := range r.Jobs {
		switch states[index].state {
		case sm.JobCompleted:
			counts.Completed++
		case sm.JobFailed:
			counts.Failed++
		case sm.JobUnknown:
			*counts.Unknown++
		case sm.JobCancelled:
			*counts.Cancelled++
		case sm.JobRunning:
			*counts.Running++
		case sm.JobClaimed:
			*counts.Claimed++
		default:
			*counts.Pending++
		}
	}
}

// cheap is as much of a run as its state item says.
func cheap(x *workflow.Execution) views.ExecutionView {
	e := views.ExecutionView{
		ID: x.ID, Workflow: x.Workflow, State: x.State, Status: x.Status(),
		Reason: x.Reason, RolledBack: x.RolledBack, Labels: x.Labels, Tenant: x.Tenant,
		CreatedBy: x.CreatedBy, CreatedAt: x.CreatedAt,
		StartedAt: timePointer(x.StartedAt), EndedAt: timePointer(x.EndedAt),
		Entities: x.Scope.Counts, Dropped: dropped(x), Error: views.FailureOf(x.Error), Cancellation: x.Cancellation,
		Children: []string{}, Try: x.Try, Version: x.Version,
	}
	if !x.Input.Stored {
		e.Parameters = x.Input.Parameters
	}
	if x.Cause != "" {
		e.Cause = &x.Cause
	}
	if e.Labels == nil {
		e.Labels = map[string]string{}
	}
	if e.Entities == nil {
		e.Entities = map[string]int{}
	}
	for n := range x.Runs {
		r := &x.Runs[n]
		if r.Kind != workflow.JobExecute {
			continue
		}
		e.Progress.Jobs.Total += r.Jobs
		e.Progress.Jobs.Completed += r.Tally.OK
		e.Progress.Jobs.Failed += r.Tally.Failed
		if !r.Open() {
			e.Progress.Steps.Done++
		}
	}
	e.Progress.Steps.Total = len(x.Runs)
	e.CurrentStep = currentStep(x)
	return e
}

// currentStep is the label of the open step run, or nil.
func currentStep(x *workflow.Execution) *string {
	if r := x.Run(); r.Open() {
		return &r.Label
	}
	return nil
}
