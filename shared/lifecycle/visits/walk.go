package visits

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/lifecycle/draft"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Run drives RUNNING: it follows the open visits to their end, goes on to the
// next step, depth first, and completes the execution after the last.
//
// x.At is the step that comes next. A step with nested steps has a visit that
// stays open until At has left them.
func (d *Visits) Run() {
	if d.F.Resolved == nil {
		d.Need(draft.Need{Kind: draft.NeedResolved})
		return
	}
	if open := d.Open(); len(open) > 0 {
		d.follow(open)
		return
	}
	nodes := d.F.Resolved.Program.Nodes
	if c := d.container(); c != nil && d.X.At >= nodes[c.Step].End {
		d.leave(c)
		return
	}
	if d.X.At >= len(nodes) {
		d.Workflow(sm.EventWorkflowCompleted, sm.WorkflowRunning, sm.WorkflowCompleted, "")
		d.Move(sm.EventExecutionCompleted, sm.ExecutionCompleted, "", nil)
		if d.Updates() {
			d.Pause() // that it has completed must stand before anything is written to the inventory
		}
		return
	}
	if outer := d.outer(nodes[d.X.At].Parent); outer >= 0 {
		// A retry begins in the middle of nested steps.
		d.contain(outer, 0)
		return
	}
	d.enter(d.X.At)
}

// Open lists the visits that have jobs or a child outstanding.
func (d *Visits) Open() []*workflow.StepRun {
	var open []*workflow.StepRun
	for i := range d.X.Runs {
		if r := &d.X.Runs[i]; r.Open() && (r.HasJobs() || r.Child != nil) {
			open = append(open, r)
		}
	}
	return open
}

// container is the innermost visit of a step with nested steps that is open.
func (d *Visits) container() *workflow.StepRun {
	for i := len(d.X.Runs) - 1; i >= 0; i-- {
		if r := &d.X.Runs[i]; r.Open() && !r.HasJobs() && r.Child == nil {
			return r
		}
	}
	return nil
}

// Current is the visit that the run is at, for people: the last one that is open,
// or the last of all.
func (d *Visits) Current() *workflow.StepRun {
	if open := d.Open(); len(open) > 0 {
		return open[len(open)-1]
	}
	return d.X.Run()
}

// outer is the outermost of a node and those around it that has no open visit,
// -1 if all have.
func (d *Visits) outer(node int) int {
	open := map[int]bool{}
	for i := range d.X.Runs {
		if d.X.Runs[i].Open() {
			open[d.X.Runs[i].Step] = true
		}
	}
	missing := -1
	for ; node >= 0; node = d.F.Resolved.Program.Nodes[node].Parent {
		if !open[node] {
			missing = node
		}
	}
	return missing
}

// enter begins the visit of a step: which entities take part, whether an
// assertion or a parameter stops it before any job exists, and into how many
// packs its jobs are cut.
func (d *Visits) enter(at int) {
	p := d.F.Resolved.Program
	n := &p.Nodes[at]
	d.X.Round = max(d.X.Round, 1)
	r := workflow.StepRun{RunSeq: d.X.RunSeq + 1, Try: d.X.Try, Step: at}
	if n.Repeat != nil {
		r.Repeat = d.X.Round
	}
	end := at + 1
	if n.FunctionBlock != "" {
		r.OnlyFailed = d.X.OnlyFailed
		if end = p.Stretch(at); end > at+1 && !r.OnlyFailed {
			r.Stretch = r.RunSeq
		}
	}
	plan := d.Plan(draft.PlanNeed(&r))
	switch {
	case plan == nil:
		return
	case r.Repeat > 1 && plan.Jobs == 0 && plan.Problem == nil:
		d.advance(n.End) // nobody goes round once more
		return
	case len(d.X.Runs) >= d.P.MaxSteps || r.RunSeq > maxRunSeq || d.X.Sequence >= workflow.MaxHistory:
		d.limit(n)
		return
	case plan.Jobs > 0 && plan.Problem == nil && !d.timer(n):
		return
	}
	switch {
	case plan.Problem != nil:
		d.Append(d.newRun(at, kindOf(n), plan, r))
		d.failVisit(d.X.Run(), plan.Cause, plan.Problem)
	case plan.Jobs == 0 && (r.Stretch == 0 || plan.Entities == 0):
		r.Stretch = 0
		d.Append(d.newRun(at, kindOf(n), plan, r))
		status := sm.StepCompleted
		if plan.Skipped > 0 && plan.Kept == 0 {
			status = sm.StepSkipped
		}
		d.Exit(d.X.Run(), status)
		d.visited(d.X.Run())
	case n.Container():
		d.contain(at, r.Repeat)
	case n.Starts():
		d.spawn(at, plan, r)
	case r.Stretch > 0:
		d.stretch(at, end, plan, r)
	default:
		d.Append(d.newRun(at, workflow.JobExecute, plan, r))
		d.Out.Dispatch = d.X.RunSeq
		d.Wait(d.Now.Add(d.P.Poll))
	}
}

// kindOf is the kind of job that a visit of the step has, "" if it has none.
func kindOf(n *spec.Node) workflow.JobKind {
	if n.FunctionBlock != "" {
		return workflow.JobExecute
	}
	return ""
}

// maxRunSeq is the largest number of a step run: the fence has four digits for
// it.
const maxRunSeq = 9999

func (d *Visits) limit(n *spec.Node) {
	d.Out.Stopped = true
	d.Fail(workflow.CauseLimit, &workflow.Failure{
		Code: string(workflow.CodeLimit), Step: n.Label,
		Message: fmt.Sprintf("the run has visited %d steps and has %d events: one of them is the limit", len(d.X.Runs), d.X.Sequence),
	})
	d.Move(sm.EventExecutionFailed, sm.ExecutionError, "", map[string]any{"step": n.Label})
}

// Plan is the plan that is needed, or nil after asking for it.
func (d *Visits) Plan(n draft.Need) *draft.Plan {
	p := d.F.Plans[n]
	if p == nil {
		d.Need(n)
	}
	return p
}

// stretch opens the visits of a stretch of per-entity pipelines together. They
// have the same lanes, so that a lane can go from one to the next by itself.
func (d *Visits) stretch(at, end int, plan *draft.Plan, first workflow.StepRun) {
	runs := make([]workflow.StepRun, 0, end-at)
	size := d.P.PackSize
	for i := at; i < end; i++ {
		r := d.newRun(i, workflow.JobExecute, &draft.Plan{Jobs: plan.Entities}, workflow.StepRun{
			RunSeq: first.RunSeq + i - at, Stretch: first.RunSeq,
		})
		size = min(size, r.PackSize)
		runs = append(runs, r)
	}
	for _, r := range runs {
		r.PackSize = size
		r.Window = 0
		if limit := d.Config().MaxInFlight; limit > 0 {
			if lanes := max(1, limit/size); lanes < r.Lanes() {
				r.Window = lanes
			}
		}
		d.Append(r)
	}
	d.Out.Dispatch = first.RunSeq
	d.Wait(d.Now.Add(d.P.Poll))
}

// contain opens the visit of a step with nested steps and goes on with the first
// of these, or, where a retry begins in their middle, with that one.
func (d *Visits) contain(at, repeat int) {
	n := &d.F.Resolved.Program.Nodes[at]
	d.Append(d.newRun(at, "", &draft.Plan{}, workflow.StepRun{RunSeq: d.X.RunSeq + 1, Step: at, Repeat: repeat}))
	d.Workflow(sm.EventWorkflowInitialized, sm.WorkflowPending, sm.WorkflowRunning, n.Label)
	d.X.Round = 0
	if d.X.At == at {
		d.X.At = at + 1
	}
}

// leave ends the visit of a step whose nested steps have all been visited.
func (d *Visits) leave(c *workflow.StepRun) {
	d.Workflow(sm.EventWorkflowCompleted, sm.WorkflowRunning, sm.WorkflowCompleted, c.Label)
	d.Exit(c, sm.StepCompleted)
	d.visited(c)
}

// visited goes on after a visit that has ended well: once more where the step
// repeats, otherwise behind it and everything nested in it.
func (d *Visits) visited(r *workflow.StepRun) {
	n := &d.F.Resolved.Program.Nodes[r.Step]
	if n.Repeat != nil && r.Status == sm.StepCompleted && (n.Repeat.Count == 0 || r.Repeat < n.Repeat.Count) {
		d.X.At, d.X.Round = r.Step, r.Repeat+1
		d.Changed = true
		return
	}
	d.advance(n.End)
}

// advance goes on with another step.
func (d *Visits) advance(to int) {
	d.X.At, d.X.Round = to, 0
	d.Changed = true
}
