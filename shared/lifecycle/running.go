package lifecycle

import (
	"cmp"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// driveRunning drives RUNNING. It follows the open step runs to their end, enters the
// next step, depth first, and completes the execution after the last step.
//
// The cursor's PC is the index of the next step. A step with nested steps has a step run
// that stays open until PC has left the nested steps.
func (d *decider) driveRunning() {
	if d.facts.Resolution == nil {
		d.need(Need{Kind: NeedResolution})
		return
	}
	if len(d.execution.Threads) > 0 {
		d.driveThreads()
		return
	}
	if open := d.openStepRuns(); len(open) > 0 {
		d.followStepRuns(open)
		return
	}
	if len(d.waitingStepRuns()) > 0 {
		d.pause()
		return
	}
	d.advanceCursor()
}

// advanceCursor enters the next step, or leaves a step with nested steps that are over.
func (d *decider) advanceCursor() {
	nodes, pc := d.facts.Resolution.Program.Nodes, d.cursor().PC
	if c := d.openContainer(); c != nil && pc >= nodes[c.StepIndex].End {
		d.leaveContainer(c)
		return
	}
	if d.thread != nil && pc >= d.node(d.execution.StepRunBySeq(d.thread.In)).End {
		d.endBranch(nil, "")
		return
	}
	if pc >= len(nodes) {
		d.complete()
		return
	}
	if outer := d.outermostUnopened(nodes[pc].Parent); outer >= 0 {
		// A retry begins inside nested steps.
		iteration := 0
		if nodes[outer].Repeat != nil {
			iteration = d.repetitionToBegin(outer)
		}
		d.enterContainer(outer, iteration)
		return
	}
	d.enterStep(pc)
}

// outermostUnopened returns the outermost of a node and its ancestors that has no open step run; -1
// if all have one.
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

// enterContainer opens the step run of a step with nested steps and continues with the first of
// these or, if a retry begins among them, with the step that PC names.
func (d *decider) enterContainer(at, iteration int) {
	n := &d.facts.Resolution.Program.Nodes[at]
	r := workflow.StepRun{Seq: d.execution.StepRunSeq + 1, StepIndex: at, Iteration: iteration}
	r.In, r.Index = d.enclosing()
	if n.Loop != nil || n.Rollout != nil {
		d.continueLoop(at, r)
		return
	}
	if len(n.Cases) > 0 {
		r.Route = n.CaseOf(d.cursor().PC)
	}
	d.appendStepRun(d.newStepRun(at, "", &Plan{}, r))
	if n.RunsWorkflow() {
		d.recordWorkflow(sm.EventWorkflowInitialized, sm.WorkflowPending, sm.WorkflowRunning, n.Label)
	}
	c := d.cursor()
	if c.Iteration = 0; c.PC == at {
		c.PC = n.First
	}
}

// leaveContainer ends the step run of a step whose nested steps are all over.
func (d *decider) leaveContainer(c *workflow.StepRun) {
	if d.node(c).Loop != nil {
		d.endRound(c)
		return
	}
	if d.node(c).Rollout != nil {
		d.endWave(c)
		return
	}
	if len(d.node(c).Cases) > 0 {
		d.leaveSwitch(c)
		return
	}
	d.recordWorkflow(sm.EventWorkflowCompleted, sm.WorkflowRunning, sm.WorkflowCompleted, c.Label)
	d.exitStepRun(c, sm.StepCompleted)
	d.continueAfter(c)
}

// leaveFailedContainers ends the step runs around a step that failed, up to the one that handles
// the failure: as its onFailure says, if route is not nil.
func (d *decider) leaveFailedContainers(handler int, why *workflow.Failure, route *Route) {
	p := d.facts.Resolution.Program
	for c := d.openContainer(); c != nil && (c.StepIndex == handler || p.Encloses(handler, c.StepIndex)); c = d.openContainer() {
		if p.Nodes[c.StepIndex].RunsWorkflow() {
			d.recordWorkflow(sm.EventWorkflowFailed, sm.WorkflowRunning, sm.WorkflowFailed, c.Label)
		}
		status := sm.StepFailed
		if route != nil {
			c.Handled = route.Case
			if c.StepIndex == handler {
				status, c.Failure, c.Value = sm.StepCaseHandled, why, route.Error
			}
		}
		d.exitStepRun(c, status)
	}
}

// continueAfter continues after a step run that has ended well: with the next iteration if the step
// repeats, otherwise after the step and everything nested in it.
func (d *decider) continueAfter(r *workflow.StepRun) {
	n := &d.facts.Resolution.Program.Nodes[r.StepIndex]
	if n.Repeat != nil && r.Status == sm.StepCompleted && (n.Repeat.Count == 0 || r.Iteration < n.Repeat.Count) {
		c := d.cursor()
		c.PC, c.Iteration, c.Resumes = r.StepIndex, r.Iteration+1, 0
		d.changed = true
		return
	}
	d.proceedFrom(r.StepIndex)
}

// proceedFrom continues after a node that is over: where the node says, or with the next one.
func (d *decider) proceedFrom(at int) {
	n := &d.facts.Resolution.Program.Nodes[at]
	if to := cmp.Or(n.Goto, n.AfterGoto); to != nil {
		d.jump(at, to)
		return
	}
	d.goToStep(n.After)
}

// goToStep makes another step the next.
func (d *decider) goToStep(to int) {
	c := d.cursor()
	c.PC, c.Iteration, c.Resumes = to, 0, 0
	d.changed = true
	if d.thread != nil {
		d.thread.Delay = nil
	}
}

// delayElapsed reports whether the delay before the step is over. If it is not, the execution waits
// for it, once for each step run.
func (d *decider) delayElapsed(n *spec.Node) bool {
	delay := n.Delay.Std()
	if d.cursor().Iteration > 1 && n.Repeat != nil {
		delay = n.Repeat.Delay.Std()
	}
	if d.thread != nil && delay > 0 && d.cursor().Resumes == 0 {
		return d.branchDelayElapsed(n, delay)
	}
	next := d.execution.StepRunSeq + 1
	if delay <= 0 || d.cursor().Resumes > 0 || d.cursor().DelayDoneSeq == next {
		return true
	}
	d.execution.Wait = &workflow.Wait{Kind: workflow.WaitTimer, Since: d.now, Until: d.now.Add(delay), Step: n.Label}
	d.transition(sm.EventExecutionPaused, sm.ExecutionWaiting, "", map[string]any{"kind": workflow.WaitTimer, "step": n.Label, "until": d.execution.Wait.Until})
	return false
}

// driveWaiting drives WAITING, in which the execution waits for a delay, for a child, or for what
// its steps wait for.
func (d *decider) driveWaiting() {
	w := d.execution.Wait
	open := d.waitingStepRuns()
	switch {
	case w == nil:
		d.err = workflow.Errorf(workflow.CodeInternal, "execution in state %s has no wait", d.execution.State)
	case len(d.execution.Threads) > 0:
		d.followPausedThreads()
	case len(open) > 0:
		d.followWaits(open)
	case w.Kind == workflow.WaitStep:
		d.followStepping()
	case w.Kind == workflow.WaitChild, w.Kind == workflow.WaitChildInput:
		d.followOnlyChild()
	case d.now.Before(w.Until):
		d.waitUntil(w.Until)
	default:
		d.endDelay("", nil)
	}
}

// endDelay continues after a delay, because it is over or because an operator ends it.
func (d *decider) endDelay(actor string, data map[string]any) {
	d.cursor().DelayDoneSeq, d.execution.Wait = d.execution.StepRunSeq+1, nil
	d.transition(sm.EventExecutionResumed, sm.ExecutionRunning, actor, data)
}
