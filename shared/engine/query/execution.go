package query

import (
	"context"
	"math"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Execution returns one execution in detail, with its parameters and with current job counts of its
// open step runs.
func (v *Service) Execution(ctx context.Context, c workflow.Caller, id string) (views.ExecutionView, error) {
	i, err := v.engine.Inspect(ctx, c.Tenant, id)
	if err != nil {
		return views.ExecutionView{}, err
	}
	return v.executionDetail(ctx, i)
}

func (v *Service) executionDetail(ctx context.Context, i *engine.Inspection) (views.ExecutionView, error) {
	x := i.Execution()
	e := executionSummary(x)
	in, err := i.Input(ctx)
	if err != nil {
		return e, err
	}
	e.Parameters, e.Metadata = in.Shown(), in.Metadata
	if output := x.GivenOutput(); output != nil {
		if e.Output, err = loadValue(ctx, i, 0, output); err != nil {
			return e, err
		}
	}
	program, err := i.Program(ctx)
	if err != nil {
		return e, err
	}
	for n := range e.ChildSets {
		s := &e.ChildSets[n]
		if err := countChildren(ctx, i, x.StepRunBySeq(s.Sequence), s); err != nil {
			return e, err
		}
	}
	e.Progress.Steps = stepProgress(x, program)
	counts := &e.Progress.Jobs
	counts.Pending, counts.Claimed, counts.Running = new(int), new(int), new(int)
	counts.Cancelled, counts.Unknown = new(int), new(int)
	for n := range x.StepRuns {
		r := &x.StepRuns[n]
		if r.Kind != workflow.JobExecute || r.SupersededBy > 0 || x.RetriedLater(r) {
			continue
		}
		if !r.Open() || r.JobsOver {
			*counts.Cancelled += r.Counts.NotExecuted
			*counts.Unknown += r.Counts.Unknown
			continue
		}
		packs, err := i.Packs(ctx, r)
		if err != nil {
			return e, err
		}
		countOpenJobs(counts, r, packs)
		addProgress(&e.Progress, packs)
	}
	if err := v.addCompensated(ctx, x, e.FailedRollback); err != nil {
		return e, err
	}
	if e.FollowUp, e.FollowUpFailure, err = i.FollowUp(ctx); err != nil {
		return e, err
	}
	if e.Unacknowledged, e.UnacknowledgedMore, err = unacknowledgedChildren(ctx, i); err != nil {
		return e, err
	}
	e.Progress.AsOf = ptr(v.engine.Now().UTC().Truncate(time.Millisecond))
	e.Waiting = v.waiting(ctx, i)
	return e, nil
}

// countOpenJobs adds the jobs of an open step run to counts, by their current states.
func countOpenJobs(counts *views.JobCounts, r *workflow.StepRun, packs []*workflow.Pack) {
	states := latestAttempts(packs)
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

// addProgress adds the progress that running jobs report. If they report none, the progress from an
// earlier open step stays.
func addProgress(p *views.Progress, packs []*workflow.Pack) {
	sum, n := 0.0, 0
	var last *workflow.JobProgress
	for _, pack := range packs {
		for i := range pack.Jobs {
			rec := &pack.Jobs[i]
			if pack.Final() || rec.Code != workflow.JobCodeStarted || rec.Progress == nil {
				continue
			}
			if sum, n = sum+rec.Progress.Percent, n+1; last == nil || last.At.Before(rec.Progress.At) {
				last = rec.Progress
			}
		}
	}
	if n > 0 {
		p.Percent, p.Message = ptr(math.Round(sum/float64(n)*10)/10), nonZeroPtr(last.Message)
	}
}

// executionSummary returns the part of the view that needs only the state item.
func executionSummary(x *workflow.Execution) views.ExecutionView {
	e := views.ExecutionView{
		ID: x.ID, Workflow: x.Workflow, State: x.State, Status: x.Status(),
		Reason: x.Reason, RolledBack: x.RolledBack, Labels: x.Labels, Tenant: x.Tenant,
		CreatedBy: x.CreatedBy, CreatedAt: x.CreatedAt, UpdatedAt: updatedAt(x),
		StartedAt: timePtr(x.StartedAt), EndedAt: timePtr(x.EndedAt),
		Entities: x.Scope.Counts, Dropped: droppedView(x), Error: views.NewFailureView(x.Error), Cancellation: x.Cancellation,
		Children: []string{}, Unacknowledged: []views.UnacknowledgedChild{}, Blocks: x.Blocks, Try: x.Try, Version: x.Version, EngineVersion: x.EngineVersion,
	}
	if !x.Input.Offloaded {
		e.Parameters, e.Metadata = x.Input.Shown(), x.Input.Metadata
	}
	if output := x.GivenOutput(); output != nil && output.Stored == nil {
		e.Output = output.Inline
	}
	if x.Cause != "" {
		e.Cause = &x.Cause
	}
	addOutcome(&e, x)
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
		e.Parent, e.Compensates = &x.Parent.Execution, x.Parent.Compensates
		if m := x.Parent.Member; m != nil {
			e.Item = &m.Item
		}
	}
	for n := range x.StepRuns {
		r := &x.StepRuns[n]
		if s := childSetView(r); s != nil {
			e.ChildSets = append(e.ChildSets, *s)
		} else if r.Child != nil && !r.LacksChild() {
			e.Children = append(e.Children, r.Child.ID)
		}
		if r.Kind != workflow.JobExecute || r.SupersededBy > 0 {
			continue
		}
		if x.RetriedLater(r) {
			counted := completedJobs(x, r)
			e.Progress.Jobs.Completed += counted
			e.Progress.Jobs.Total += counted
			continue
		}
		e.Progress.Jobs.Completed += r.Counts.OK
		e.Progress.Jobs.Total += r.JobCount()
		e.Progress.Jobs.Failed += r.Counts.Failed
	}
	e.Progress.Steps = stepProgress(x, nil)
	e.CurrentStep = currentStep(x)
	return e
}

// updatedAt returns the time of the latest event of an execution. The item keeps the newest events,
// and has had one since it was created.
func updatedAt(x *workflow.Execution) time.Time {
	if n := len(x.Events); n > 0 {
		return x.Events[n-1].At
	}
	return x.CreatedAt
}

// completedJobs returns how many jobs of a retried step run still count: those that ended OK, minus
// those that a rollback has undone. A rollback also undoes failed jobs; this assumes that it undid
// the completed ones first.
func completedJobs(x *workflow.Execution, r *workflow.StepRun) int {
	left := r.Counts.OK
	for n := range x.StepRuns {
		if u := &x.StepRuns[n]; u.Kind == workflow.JobRollback && u.Undoes == r.Seq {
			left -= u.Counts.Executed()
		}
	}
	return max(0, left)
}

// stepProgress counts the steps, and the finished ones: a step is finished if its last step run is
// closed, or that of a surrounding step. Without a program it counts only the steps that have been
// entered.
func stepProgress(x *workflow.Execution, program *spec.Program) views.StepProgress {
	done := map[int]bool{}
	for n := range x.StepRuns {
		if r := &x.StepRuns[n]; r.Forward() && r.SupersededBy == 0 {
			done[r.StepIndex] = !r.Open()
		}
	}
	p := views.StepProgress{Total: len(done)}
	if program == nil {
		for _, isDone := range done {
			if isDone {
				p.Done++
			}
		}
		return p
	}
	p.Total = len(program.Nodes)
	for n := range program.Nodes {
		for at := n; at >= 0; at = program.Nodes[at].Parent {
			if done[at] {
				p.Done++
				break
			}
		}
	}
	return p
}

// currentStep returns the label of the innermost open step, or nil. In a pipeline it is the first
// open step.
func currentStep(x *workflow.Execution) *string {
	current := openStepRun(x)
	if current == nil || current.Label == "" {
		return nil
	}
	return &current.Label
}

func openStepRun(x *workflow.Execution) *workflow.StepRun {
	for n := len(x.StepRuns) - 1; n >= 0; n-- {
		r := &x.StepRuns[n]
		if !r.Open() {
			continue
		}
		for first := 0; r.Pipeline > 0 && first < n; first++ {
			if o := &x.StepRuns[first]; o.Open() && o.Pipeline == r.Pipeline {
				return o
			}
		}
		return r
	}
	return nil
}

// Status returns the lifecycle of an execution in the form of the status contract. It never shows
// variables.
func (v *Service) Status(ctx context.Context, c workflow.Caller, id string) (views.StatusView, error) {
	i, err := v.engine.Inspect(ctx, c.Tenant, id)
	if err != nil {
		return views.StatusView{}, err
	}
	return statusView(i.Execution()), nil
}

func statusView(x *workflow.Execution) views.StatusView {
	s := views.StatusView{
		ExecutionID: x.ID, State: x.Status(), CurrentStep: currentStep(x),
		StartedAt: timePtr(x.StartedAt), EndedAt: timePtr(x.EndedAt),
	}
	if e := sm.TerminalEvent(x.State); e != "" {
		s.TerminalEvent = ptr(string(e))
	}
	return s
}
