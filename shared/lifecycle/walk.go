package lifecycle

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// run drives RUNNING: it follows the open visits to their end, goes on to the
// next step, depth first, and completes the execution after the last.
//
// x.At is the step that comes next. A step with nested steps has a visit that
// stays open until At has left them.
func (d *decider) run() {
	if d.f.Resolved == nil {
		d.need(Need{Kind: NeedResolved})
		return
	}
	if open := d.open(); len(open) > 0 {
		d.follow(open)
		return
	}
	nodes := d.f.Resolved.Program.Nodes
	if c := d.container(); c != nil && d.x.At >= nodes[c.Step].End {
		d.leave(c)
		return
	}
	if d.x.At >= len(nodes) {
		d.workflow(sm.EventWorkflowCompleted, sm.WorkflowRunning, sm.WorkflowCompleted, "")
		d.move(sm.EventExecutionCompleted, sm.ExecutionCompleted, "", nil)
		if d.updates() {
			d.pause() // that it has completed must stand before anything is written to the inventory
		}
		return
	}
	if outer := d.outer(nodes[d.x.At].Parent); outer >= 0 {
		// A retry begins in the middle of nested steps.
		d.contain(outer, 0)
		return
	}
	d.enter(d.x.At)
}

// open lists the visits that have jobs or a child outstanding.
func (d *decider) open() []*workflow.StepRun {
	var open []*workflow.StepRun
	for i := range d.x.Runs {
		if r := &d.x.Runs[i]; r.Open() && (r.HasJobs() || r.Child != nil) {
			open = append(open, r)
		}
	}
	return open
}

// container is the innermost visit of a step with nested steps that is open.
func (d *decider) container() *workflow.StepRun {
	for i := len(d.x.Runs) - 1; i >= 0; i-- {
		if r := &d.x.Runs[i]; r.Open() && !r.HasJobs() && r.Child == nil {
			return r
		}
	}
	return nil
}

// current is the visit that the run is at, for people: the last one that is open,
// or the last of all.
func (d *decider) current() *workflow.StepRun {
	if open := d.open(); len(open) > 0 {
		return open[len(open)-1]
	}
	return d.x.Run()
}

// outer is the outermost of a node and those around it that has no open visit,
// -1 if all have.
func (d *decider) outer(node int) int {
	open := map[int]bool{}
	for i := range d.x.Runs {
		if d.x.Runs[i].Open() {
			open[d.x.Runs[i].Step] = true
		}
	}
	missing := -1
	for ; node >= 0; node = d.f.Resolved.Program.Nodes[node].Parent {
		if !open[node] {
			missing = node
		}
	}
	return missing
}

// enter begins the visit of a step: which entities take part, whether an
// assertion or a parameter stops it before any job exists, and into how many
// packs its jobs are cut.
func (d *decider) enter(at int) {
	p := d.f.Resolved.Program
	n := &p.Nodes[at]
	d.x.Round = max(d.x.Round, 1)
	r := workflow.StepRun{RunSeq: d.x.RunSeq + 1, Try: d.x.Try, Step: at}
	if n.Repeat != nil {
		r.Repeat = d.x.Round
	}
	end := at + 1
	if n.FunctionBlock != "" {
		r.OnlyFailed = d.x.OnlyFailed
		if end = p.Stretch(at); end > at+1 && !r.OnlyFailed {
			r.Stretch = r.RunSeq
		}
	}
	plan := d.plan(PlanNeed(&r))
	switch {
	case plan == nil:
		return
	case r.Repeat > 1 && plan.Jobs == 0 && plan.Problem == nil:
		d.advance(n.End) // nobody goes round once more
		return
	case len(d.x.Runs) >= d.p.MaxSteps || r.RunSeq > maxRunSeq:
		d.limit(n)
		return
	case plan.Jobs > 0 && plan.Problem == nil && !d.timer(n):
		return
	}
	d.x.OnlyFailed = d.x.OnlyFailed && n.FunctionBlock == ""
	switch {
	case plan.Problem != nil:
		d.append(d.newRun(at, kindOf(n), plan, r))
		d.failVisit(d.x.Run(), plan.Cause, plan.Problem)
	case plan.Jobs == 0 && (r.Stretch == 0 || plan.Entities == 0):
		r.Stretch = 0
		d.append(d.newRun(at, kindOf(n), plan, r))
		status := sm.StepCompleted
		if plan.Skipped > 0 {
			status = sm.StepSkipped
		}
		d.exit(d.x.Run(), status)
		d.visited(d.x.Run())
	case n.Container():
		d.contain(at, r.Repeat)
	case n.Starts():
		d.spawn(at, plan, r)
	case r.Stretch > 0:
		d.stretch(at, end, plan, r)
	default:
		d.append(d.newRun(at, workflow.JobExecute, plan, r))
		d.out.Dispatch = d.x.RunSeq
		d.wait(d.now.Add(d.p.Poll))
	}
}

// kindOf is the kind of job that a visit of the step has, "" if it has none.
func kindOf(n *workflow.Node) workflow.JobKind {
	if n.FunctionBlock != "" {
		return workflow.JobExecute
	}
	return ""
}

// maxRunSeq is the largest number of a step run: the fence has four digits for
// it.
const maxRunSeq = 9999

func (d *decider) limit(n *workflow.Node) {
	d.fail(workflow.CauseLimit, &workflow.Failure{
		Code: string(workflow.CodeLimit), Step: n.Label,
		Message: fmt.Sprintf("the run has visited %d steps, the limit", len(d.x.Runs)),
	})
	d.move(sm.EventExecutionFailed, sm.ExecutionError, "", map[string]any{"step": n.Label})
}

// plan is the plan that is needed, or nil after asking for it.
func (d *decider) plan(n Need) *Plan {
	p := d.f.Plans[n]
	if p == nil {
		d.need(n)
	}
	return p
}

// stretch opens the visits of a stretch of per-entity pipelines together. They
// have the same lanes, so that a lane can go from one to the next by itself.
func (d *decider) stretch(at, end int, plan *Plan, first workflow.StepRun) {
	runs := make([]workflow.StepRun, 0, end-at)
	size := d.p.PackSize
	for i := at; i < end; i++ {
		r := d.newRun(i, workflow.JobExecute, &Plan{Jobs: plan.Entities}, workflow.StepRun{
			RunSeq: first.RunSeq + i - at, Stretch: first.RunSeq,
		})
		size = min(size, r.PackSize)
		runs = append(runs, r)
	}
	for _, r := range runs {
		r.PackSize = size
		r.Window = 0
		if limit := d.config().MaxInFlight; limit > 0 {
			if lanes := max(1, limit/size); lanes < r.Lanes() {
				r.Window = lanes
			}
		}
		d.append(r)
	}
	d.out.Dispatch = first.RunSeq
	d.wait(d.now.Add(d.p.Poll))
}

// contain opens the visit of a step with nested steps and goes on with the first
// of these, or, where a retry begins in their middle, with that one.
func (d *decider) contain(at, repeat int) {
	n := &d.f.Resolved.Program.Nodes[at]
	d.append(d.newRun(at, "", &Plan{}, workflow.StepRun{RunSeq: d.x.RunSeq + 1, Step: at, Repeat: repeat}))
	d.workflow(sm.EventWorkflowInitialized, sm.WorkflowPending, sm.WorkflowRunning, n.Label)
	d.x.Round = 0
	if d.x.At == at {
		d.x.At = at + 1
	}
}

// leave ends the visit of a step whose nested steps have all been visited.
func (d *decider) leave(c *workflow.StepRun) {
	d.workflow(sm.EventWorkflowCompleted, sm.WorkflowRunning, sm.WorkflowCompleted, c.Label)
	d.exit(c, sm.StepCompleted)
	d.visited(c)
}

// visited goes on after a visit that has ended well: once more where the step
// repeats, otherwise behind it and everything nested in it.
func (d *decider) visited(r *workflow.StepRun) {
	n := &d.f.Resolved.Program.Nodes[r.Step]
	if n.Repeat != nil && r.Status == sm.StepCompleted && (n.Repeat.Count == 0 || r.Repeat < n.Repeat.Count) {
		d.x.At, d.x.Round = r.Step, r.Repeat+1
		d.changed = true
		return
	}
	d.advance(n.End)
}

// advance goes on with another step.
func (d *decider) advance(to int) {
	d.x.At, d.x.Round = to, 0
	d.changed = true
}
