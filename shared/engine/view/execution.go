package view

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/view/attempts"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
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
	e.Progress.Steps = steps(x, program)
	counts := &e.Progress.Jobs
	counts.Pending, counts.Claimed, counts.Running = new(int), new(int), new(int)
	counts.Cancelled, counts.Unknown = new(int), new(int)
	for n := range x.Runs {
		r := &x.Runs[n]
		if r.Kind != workflow.JobExecute || r.Superseded > 0 || repeated(x, r) {
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
	states := attempts.Latest(packs)
	for index := range r.Jobs {
		switch states[index].State {
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
		Children: []string{}, Blocks: x.Blocks, Try: x.Try, Version: x.Version, Engine: x.Engine,
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
	if e.Blocks == nil {
		e.Blocks = map[string]string{}
	}
	if x.Parent != nil {
		e.Parent = &x.Parent.Execution
	}
	for n := range x.Runs {
		r := &x.Runs[n]
		if r.Child != nil {
			e.Children = append(e.Children, r.Child.ID)
		}
		if r.Kind != workflow.JobExecute || r.Superseded > 0 {
			continue
		}
		if repeated(x, r) {
			stands := standing(x, r)
			e.Progress.Jobs.Completed += stands
			e.Progress.Jobs.Total += stands
			continue
		}
		e.Progress.Jobs.Completed += r.Tally.OK
		e.Progress.Jobs.Total += r.Jobs
		e.Progress.Jobs.Failed += r.Tally.Failed
	}
	e.Progress.Steps = steps(x, nil)
	e.CurrentStep = currentStep(x)
	return e
}

// repeated reports whether a later try has repeated what failed in the run, so
// that only what came to OK in it still counts.
func repeated(x *workflow.Execution, r *workflow.StepRun) bool {
	for n := range x.Runs {
		if o := &x.Runs[n]; o.OnlyFailed && o.Step == r.Step && o.Kind == r.Kind && o.Try > r.Try && o.Superseded == 0 {
			return true
		}
	}
	return false
}

// standing is how many jobs of a run that a later try has repeated still count:
// those that came to OK, but for as many as were undone. A rollback undoes what
// has failed, too, and is taken to have done so last.
func standing(x *workflow.Execution, r *workflow.StepRun) int {
	left := r.Tally.OK
	for n := range x.Runs {
		if u := &x.Runs[n]; u.Kind == workflow.JobRollback && u.Undoes == r.RunSeq {
			left -= u.Tally.Executed()
		}
	}
	return max(0, left)
}

// steps counts the steps and those that are over: their last visit is, or that of
// a step around them. Without the program the steps are those entered so far.
func steps(x *workflow.Execution, program *spec.Program) views.StepProgress {
	over := map[int]bool{}
	for n := range x.Runs {
		if r := &x.Runs[n]; r.Forward() && r.Superseded == 0 {
			over[r.Step] = !r.Open()
		}
	}
	p := views.StepProgress{Total: len(over)}
	if program == nil {
		for _, o := range over {
			if o {
				p.Done++
			}
		}
		return p
	}
	p.Total = len(program.Nodes)
	for n := range program.Nodes {
		for at := n; at >= 0; at = program.Nodes[at].Parent {
			if over[at] {
				p.Done++
				break
			}
		}
	}
	return p
}

// currentStep is the label of the innermost step that is open, or nil. Of steps
// that are open together it is the first.
func currentStep(x *workflow.Execution) *string {
	current := openRun(x)
	if current == nil || current.Label == "" {
		return nil
	}
	return &current.Label
}

func openRun(x *workflow.Execution) *workflow.StepRun {
	for n := len(x.Runs) - 1; n >= 0; n-- {
		r := &x.Runs[n]
		if !r.Open() {
			continue
		}
		for first := 0; r.Stretch > 0 && first < n; first++ {
			if o := &x.Runs[first]; o.Open() && o.Stretch == r.Stretch {
				return o
			}
		}
		return r
	}
	return nil
}
