package lifecycle

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// The starter of an execution can hold it before it acquires locks, and can let it enter one step
// at a time. Both are waits that only an operator ends.

// hold blocks an execution if its starter asked to hold it, and reports whether it did.
func (d *decider) hold() bool {
	if d.execution.Hold {
		d.blockOn(workflow.Wait{Kind: workflow.WaitHold, Since: d.now, Until: d.now.Add(workflow.MaxStepWait)})
		d.execution.Wait.Event = d.execution.Sequence
	}
	return d.execution.Hold
}

// followHold waits until somebody releases a held execution.
func (d *decider) followHold() {
	w := d.execution.Wait
	if d.now.Before(w.Until) {
		d.waitUntil(w.Until)
		return
	}
	d.setFailure(workflow.CauseTimeout, &workflow.Failure{Code: workflow.FailureTimeout, Message: fmt.Sprintf("nobody has released it in %s", w.Until.Sub(w.Since))})
	d.execution.Wait = nil
	d.failBeforeRunning(sm.EventExecutionExpired, nil)
}

// release releases a held execution. Conditions that its definition sets for its beginning still
// apply.
func (d *decider) release(c Command, data map[string]any) {
	d.execution.Hold = false
	d.execution.Wait = &workflow.Wait{Kind: workflow.WaitTimer, Since: d.now, Until: d.now, Condition: waitNotBefore}
	d.transition(sm.EventExecutionResumed, sm.ExecutionBlockedWaiting, c.Actor, data)
}

// mayEnter reports whether the next step run may be entered. If an operator goes through the
// execution step by step, it waits before each step that does something itself. Branches count as
// one step.
func (d *decider) mayEnter(n *spec.Node) bool {
	x := d.execution
	if !x.Stepping || d.thread != nil || n.IsContainer() && n.Parallel == nil || x.NextSeq == x.StepRunSeq+1 {
		return true
	}
	if x.NextSeq == anyNext {
		x.NextSeq = x.StepRunSeq + 1
		return true
	}
	x.Wait, d.paused = &workflow.Wait{Kind: workflow.WaitStep, Since: d.now, Until: d.now.Add(workflow.MaxStepWait), Step: n.Label}, true
	d.transition(sm.EventExecutionPaused, sm.ExecutionWaiting, "", map[string]any{"kind": workflow.WaitStep, "step": n.Label})
	x.Wait.Event = x.Sequence
	return false
}

// followStepping waits until an operator lets the execution enter the next step.
func (d *decider) followStepping() {
	w := d.execution.Wait
	if d.now.Before(w.Until) {
		d.waitUntil(w.Until)
		return
	}
	d.setFailure(workflow.CauseTimeout, &workflow.Failure{Code: workflow.FailureTimeout, Step: w.Step,
		Message: fmt.Sprintf("nobody has let it enter step %q in %s", w.Step, w.Until.Sub(w.Since))})
	d.execution.Wait = nil
	d.transition(sm.EventExecutionExpired, sm.ExecutionError, "", map[string]any{"step": w.Step})
	d.stopAll()
}

// next lets an execution enter one more step, or all of them, or begin if it is held. A request
// that names the event with which the wait began takes effect once.
func (d *decider) next(c Command, data map[string]any) error {
	x, w := d.execution, d.execution.Wait
	asked := w != nil && (w.Kind == workflow.WaitHold || w.Kind == workflow.WaitStep)
	switch {
	case asked && c.Sequence > w.Event:
		return invalidRequest("sequence", fmt.Sprintf("the wait began with event %d", w.Event))
	case c.Sequence > 0 && (asked && c.Sequence < w.Event || !asked && c.Sequence <= x.Sequence):
		d.repeated = true
		return nil
	case !asked:
		return d.notStepping()
	case w.Kind == workflow.WaitHold:
		x.Stepping = x.Stepping && !c.All
		d.release(c, data)
		return nil
	}
	data["step"] = w.Step
	if x.NextSeq = x.StepRunSeq + 1; c.All {
		x.Stepping, data["all"] = false, true
	}
	d.leaveWaiting(sm.EventExecutionResumed, c.Actor, data)
	return nil
}

// notStepping refuses to enter a step of an execution that does not wait for that.
func (d *decider) notStepping() error {
	return &workflow.Error{Code: workflow.CodeIllegalTransition, Message: fmt.Sprintf(
		"execution %s in state %s is not held, and does not wait in front of a step: only one started with hold, or with mode step, does", d.execution.ID, d.execution.State)}
}

// anyNext is NextSeq of an execution that may enter the next step it would wait in front of,
// whatever number its step run has then.
const anyNext = -1

// enterFollowing lets an execution enter the step that follows the one that is being answered, or
// all later ones. Branches are entered together: what follows in them needs no leave.
func (d *decider) enterFollowing(all bool) {
	x := d.execution
	if all {
		x.Stepping = false
	} else if d.thread == nil {
		x.NextSeq = anyNext
	}
}

// rewind goes back to an earlier step under the locks that are held, by beginning a new try there.
// Nothing may be running, and nothing may have been changed since, unless the request forces it.
func (d *decider) rewind(c Command, data map[string]any) error {
	x := d.execution
	if _, err := sm.TransitionExecution(x.State, sm.EventExecutionRewound, sm.ExecutionRunning); err != nil {
		return d.refusal(c, err)
	}
	if err := d.mayTryAgain(); err != nil {
		return err
	}
	if open := d.openStepRuns(); len(open) > 0 {
		return &workflow.Error{Code: workflow.CodeIllegalTransition, Message: fmt.Sprintf("cannot rewind execution %s: step %q is at work", x.ID, open[0].Label)}
	}
	if d.facts.Resolution == nil {
		d.need(Need{Kind: NeedResolution})
		return nil
	}
	p := d.facts.Resolution.Program
	to, err := stepNamed(p, c.FromStep, "to", "go back to")
	if err != nil {
		return err
	}
	if d.firstOf(to) == 0 {
		return invalidRequest("to", fmt.Sprintf("step %q has not been reached", c.FromStep))
	}
	to, begin := d.lastRunOf(p, to, nil)
	if r := d.changedSince(to, begin); r != nil && !c.Force {
		return &workflow.Error{Code: workflow.CodeIllegalTransition,
			Message: fmt.Sprintf("cannot rewind execution %s to step %q: step %q has been executed since, and is not pure; force it if it may be executed again", x.ID, p.Nodes[to].Label, r.Label)}
	}
	if x.Kept != nil && d.facts.Entities == nil {
		d.need(Need{Kind: NeedEntities})
		return nil
	}
	d.cancelOpenStepRuns()
	d.leaveContainers()
	deadline := x.Deadline
	x.KeptBranches = nil
	d.resetForTry(to, begin, false, sm.ExecutionRunning)
	x.Deadline = deadline
	data["to"], data["try"] = p.Nodes[to].Label, x.Try
	if c.Force {
		data["force"] = true
	}
	d.transition(sm.EventExecutionRewound, sm.ExecutionRunning, c.Actor, data)
	return nil
}

// leaveContainers ends all open steps with nested steps, and their branches: the execution goes
// elsewhere, and nothing in them is running.
func (d *decider) leaveContainers() {
	for c := d.openContainer(); c != nil; c = d.openContainer() {
		n := d.node(c)
		for _, t := range d.execution.Threads {
			if t.In == c.Seq && !t.Done {
				d.recordWorkflow(sm.EventWorkflowCancelled, sm.WorkflowRunning, sm.WorkflowCancelled, n.Label+"."+n.Parallel.Branches[t.Index].Label)
			}
		}
		if n.RunsWorkflow() {
			d.recordWorkflow(sm.EventWorkflowCancelled, sm.WorkflowRunning, sm.WorkflowCancelled, c.Label)
		}
		d.exitStepRun(c, sm.StepCancelled)
	}
	d.execution.Threads = nil
}

// changedSince returns the first step run that may have changed something, among those that a try
// that begins at the step executes again; nil if there is none. It may also be from an earlier try,
// for entities that had not failed.
func (d *decider) changedSince(step int, begin *workflow.StepRun) *workflow.StepRun {
	isBefore := d.standsBefore(step, begin)
	for i := range d.execution.StepRuns {
		r := &d.execution.StepRuns[i]
		executed := r.Counts.OK + r.Counts.Failed + r.Counts.Unknown
		if r.SupersededBy == 0 && !isBefore(r) && (r.Child != nil || r.Kind == workflow.JobExecute && !r.Pure && executed > 0) {
			return r
		}
	}
	return nil
}
