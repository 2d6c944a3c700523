package lifecycle

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// driveRunning drives RUNNING: it follows the open visits to their end, goes on to the
// next step, depth first, and completes the execution after the last.
//
// x.At is the step that comes next. A step with nested steps has a visit that
// stays open until At has left them.
func (d *decider) driveRunning() {
	if d.facts.Resolution == nil {
		d.need(Need{Kind: NeedResolution})
		return
	}
	if open := d.openStepRuns(); len(open) > 0 {
		d.followStepRuns(open)
		return
	}
	nodes := d.facts.Resolution.Program.Nodes
	if c := d.openContainer(); c != nil && d.execution.PC >= nodes[c.StepIndex].End {
		d.leaveContainer(c)
		return
	}
	if d.execution.PC >= len(nodes) {
		d.recordWorkflow(sm.EventWorkflowCompleted, sm.WorkflowRunning, sm.WorkflowCompleted, "")
		d.transition(sm.EventExecutionCompleted, sm.ExecutionCompleted, "", nil)
		if d.hasUpdates() {
			d.commitFirst() // that it has completed must stand before anything is written to the inventory
		}
		return
	}
	if outer := d.outermostUnopened(nodes[d.execution.PC].Parent); outer >= 0 {
		// A retry begins in the middle of nested steps.
		d.enterContainer(outer, 0)
		return
	}
	d.enterStep(d.execution.PC)
}

// openStepRuns lists the visits that have jobs or a child outstanding.
func (d *decider) openStepRuns() []*workflow.StepRun {
	var open []*workflow.StepRun
	for i := range d.execution.StepRuns {
		if r := &d.execution.StepRuns[i]; r.Open() && (r.HasJobs() || r.Child != nil) {
			open = append(open, r)
		}
	}
	return open
}

// openContainer is the innermost visit of a step with nested steps that is open.
func (d *decider) openContainer() *workflow.StepRun {
	for i := len(d.execution.StepRuns) - 1; i >= 0; i-- {
		if r := &d.execution.StepRuns[i]; r.Open() && !r.HasJobs() && r.Child == nil {
			return r
		}
	}
	return nil
}

// currentStepRun is the visit that the run is at, for people: the last one that is open,
// or the last of all.
func (d *decider) currentStepRun() *workflow.StepRun {
	if open := d.openStepRuns(); len(open) > 0 {
		return open[len(open)-1]
	}
	return d.execution.LastStepRun()
}

// outermostUnopened is the outermost of a node and those around it that has no open visit,
// -1 if all have.
func (d *decider) outermostUnopened(node int) int {
	open := map[int]bool{}
	for i := range d.execution.StepRuns {
		if d.execution.StepRuns[i].Open() {
			open[d.execution.StepRuns[i].StepIndex] = true
		}
	}
	missing := -1
	for ; node >= 0; node = d.facts.Resolution.Program.Nodes[node].Parent {
		if !open[node] {
			missing = node
		}
	}
	return missing
}

// enterStep begins the visit of a step: which entities take part, whether an
// assertion or a parameter stops it before any job exists, and into how many
// packs its jobs are cut.
func (d *decider) enterStep(at int) {
	p := d.facts.Resolution.Program
	n := &p.Nodes[at]
	d.execution.Iteration = max(d.execution.Iteration, 1)
	r := workflow.StepRun{Seq: d.execution.StepRunSeq + 1, Try: d.execution.Try, StepIndex: at}
	if n.Repeat != nil {
		r.Iteration = d.execution.Iteration
	}
	end := at + 1
	if n.FunctionBlock != "" {
		r.OnlyFailed = d.execution.OnlyFailed
		if end = p.PipelineEnd(at); end > at+1 && !r.OnlyFailed {
			r.Pipeline = r.Seq
		}
	}
	plan := d.plan(NeedForPlan(&r))
	switch {
	case plan == nil:
		return
	case r.Iteration > 1 && plan.Jobs == 0 && plan.Problem == nil:
		d.goToStep(n.End) // nobody goes round once more
		return
	case len(d.execution.StepRuns) >= d.policy.MaxStepRuns || r.Seq > maxStepRunSeq || d.execution.Sequence >= workflow.MaxEvents:
		d.failAtLimit(n)
		return
	case plan.Jobs > 0 && plan.Problem == nil && !d.delayElapsed(n):
		return
	}
	switch {
	case plan.Problem != nil:
		d.appendStepRun(d.newStepRun(at, jobKindOf(n), plan, r))
		d.failStepRun(d.execution.LastStepRun(), plan.Cause, plan.Problem)
	case plan.Jobs == 0 && (r.Pipeline == 0 || plan.Entities == 0):
		r.Pipeline = 0
		d.appendStepRun(d.newStepRun(at, jobKindOf(n), plan, r))
		status := sm.StepCompleted
		if plan.Skipped > 0 && plan.AlreadyOK == 0 {
			status = sm.StepSkipped
		}
		d.exitStepRun(d.execution.LastStepRun(), status)
		d.continueAfter(d.execution.LastStepRun())
	case n.IsContainer():
		d.enterContainer(at, r.Iteration)
	case n.StartsChild():
		d.startChild(at, plan, r)
	case r.Pipeline > 0:
		d.openPipeline(at, end, plan, r)
	default:
		d.appendStepRun(d.newStepRun(at, workflow.JobExecute, plan, r))
		d.decision.DispatchSeq = d.execution.StepRunSeq
		d.waitUntil(d.now.Add(d.policy.PollInterval))
	}
}

// jobKindOf is the kind of job that a visit of the step has, "" if it has none.
func jobKindOf(n *spec.Node) workflow.JobKind {
	if n.FunctionBlock != "" {
		return workflow.JobExecute
	}
	return ""
}

// maxStepRunSeq is the largest number of a step run: the fence has four digits for
// it.
const maxStepRunSeq = 9999

func (d *decider) failAtLimit(n *spec.Node) {
	d.decision.LimitReached = true
	d.setFailure(workflow.CauseLimit, &workflow.Failure{
		Code: string(workflow.CodeLimit), Step: n.Label,
		Message: fmt.Sprintf("the run has visited %d steps and has %d events: one of them is the limit", len(d.execution.StepRuns), d.execution.Sequence),
	})
	d.transition(sm.EventExecutionFailed, sm.ExecutionError, "", map[string]any{"step": n.Label})
}

// plan is the plan that is needed, or nil after asking for it.
func (d *decider) plan(n Need) *Plan {
	p := d.facts.Plans[n]
	if p == nil {
		d.need(n)
	}
	return p
}

// openPipeline opens the visits of a stretch of per-entity pipelines together. They
// have the same lanes, so that a lane can go from one to the next by itself.
func (d *decider) openPipeline(at, end int, plan *Plan, first workflow.StepRun) {
	stepRuns := make([]workflow.StepRun, 0, end-at)
	size := d.policy.PackSize
	for i := at; i < end; i++ {
		r := d.newStepRun(i, workflow.JobExecute, &Plan{Jobs: plan.Entities}, workflow.StepRun{
			Seq: first.Seq + i - at, Pipeline: first.Seq,
		})
		size = min(size, r.PackSize)
		stepRuns = append(stepRuns, r)
	}
	for _, r := range stepRuns {
		r.PackSize = size
		r.Window = 0
		if limit := d.config().MaxInFlight; limit > 0 {
			if lanes := max(1, limit/size); lanes < r.Lanes() {
				r.Window = lanes
			}
		}
		d.appendStepRun(r)
	}
	d.decision.DispatchSeq = first.Seq
	d.waitUntil(d.now.Add(d.policy.PollInterval))
}

// enterContainer opens the visit of a step with nested steps and goes on with the first
// of these, or, where a retry begins in their middle, with that one.
func (d *decider) enterContainer(at, repeat int) {
	n := &d.facts.Resolution.Program.Nodes[at]
	d.appendStepRun(d.newStepRun(at, "", &Plan{}, workflow.StepRun{Seq: d.execution.StepRunSeq + 1, StepIndex: at, Iteration: repeat}))
	d.recordWorkflow(sm.EventWorkflowInitialized, sm.WorkflowPending, sm.WorkflowRunning, n.Label)
	d.execution.Iteration = 0
	if d.execution.PC == at {
		d.execution.PC = at + 1
	}
}

// leaveContainer ends the visit of a step whose nested steps have all been visited.
func (d *decider) leaveContainer(c *workflow.StepRun) {
	d.recordWorkflow(sm.EventWorkflowCompleted, sm.WorkflowRunning, sm.WorkflowCompleted, c.Label)
	d.exitStepRun(c, sm.StepCompleted)
	d.continueAfter(c)
}

// continueAfter goes on after a visit that has ended well: once more where the step
// repeats, otherwise behind it and everything nested in it.
func (d *decider) continueAfter(r *workflow.StepRun) {
	n := &d.facts.Resolution.Program.Nodes[r.StepIndex]
	if n.Repeat != nil && r.Status == sm.StepCompleted && (n.Repeat.Count == 0 || r.Iteration < n.Repeat.Count) {
		d.execution.PC, d.execution.Iteration = r.StepIndex, r.Iteration+1
		d.changed = true
		return
	}
	d.goToStep(n.End)
}

// goToStep goes on with another step.
func (d *decider) goToStep(to int) {
	d.execution.PC, d.execution.Iteration = to, 0
	d.changed = true
}
