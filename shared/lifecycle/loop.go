package lifecycle

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A loop is one step run that stays open while its steps are executed several times, and counts the
// rounds. Each step run inside it records its round. What a round sees of earlier rounds depends on
// the order in time, not on the order in the program.

// Again says whether a loop with a condition, or a rollout, continues.
type Again struct {
	More    bool
	Problem *workflow.Failure // the condition cannot be evaluated
	Wave    int               // for a rollout: the next wave, counted from 1
}

// enterLoop begins the step run of a loop.
func (d *decider) enterLoop(at int, plan *Plan, r workflow.StepRun) {
	n := &d.facts.Resolution.Program.Nodes[at]
	r.List, r.Items = plan.Value, plan.Items
	d.appendStepRun(d.newStepRun(at, "", &Plan{}, r))
	d.recordWorkflow(sm.EventWorkflowInitialized, sm.WorkflowPending, sm.WorkflowRunning, n.Label)
	d.endRound(d.execution.LastStepRun())
}

// continueLoop begins the step run of a loop inside which a retry begins. It continues with the
// same round, at the step that PC names. The list of the loop stays.
func (d *decider) continueLoop(at int, r workflow.StepRun) {
	r.Continues, r.Times = d.resumedTime(at)
	if before := d.execution.StepRunBySeq(r.Continues); before != nil {
		r.Items, r.Waves = before.Items, before.Waves
	}
	d.appendStepRun(d.newStepRun(at, "", &Plan{}, r))
	d.recordWorkflow(sm.EventWorkflowInitialized, sm.WorkflowPending, sm.WorkflowRunning, d.facts.Resolution.Program.Nodes[at].Label)
	d.cursor().Iteration = 0
}

// resumedTime finds the loop, at a node around the step run where this try begins: the number of
// its first step run, and the round, counted from 1.
func (d *decider) resumedTime(at int) (loop, times int) {
	for r := d.execution.StepRunBySeq(d.execution.ResumeSeq); r != nil && r.In > 0; {
		c := d.execution.StepRunBySeq(r.In)
		if c != nil && c.StepIndex == at {
			return c.Seq, r.Index + 1
		}
		r = c
	}
	return 0, 1
}

// beginRound executes the steps of a loop once more.
func (d *decider) beginRound(c *workflow.StepRun) {
	if c.Times++; c.Times > 1 && d.execution.WentBack == 0 {
		d.execution.WentBack = d.execution.Try
	}
	d.goToStep(d.node(c).First)
}

// endRound continues before the first round of a loop and after each round: with the next round, or
// after the loop.
func (d *decider) endRound(c *workflow.StepRun) {
	n := d.node(c)
	more := c.Times < c.Items
	if n.Loop.While != "" {
		a := d.again(c)
		if a == nil {
			return
		}
		if a.Problem != nil {
			d.failLoop(c, workflow.CauseStepFailed, a.Problem)
			return
		}
		more = a.More
	}
	switch {
	case !more:
		d.endLoop(c)
	case n.Loop.Max == 0 || c.Times < n.Loop.Max:
		d.beginRound(c)
	case n.Loop.OnMax == spec.OnMaxStop:
		c.Capped = true
		d.endLoop(c)
	default:
		d.failLoop(c, workflow.CauseLimit, &workflow.Failure{
			Code: workflow.FailureLimit, Step: n.Label, Message: fmt.Sprintf("step %q is not over after %d times", n.Label, c.Times),
		})
	}
}

// again returns whether a loop with a condition continues, or nil after asking for that.
func (d *decider) again(c *workflow.StepRun) *Again {
	need := Need{Kind: NeedAgain, StepRunSeq: c.Seq, StepIndex: c.StepIndex, Try: d.execution.Try, In: c.LoopSeq(), Index: c.Times}
	if f := d.facts.Agains[need]; f != nil {
		return f
	}
	d.need(need)
	return nil
}

// endLoop ends the step run of a loop as completed.
func (d *decider) endLoop(c *workflow.StepRun) {
	d.recordWorkflow(sm.EventWorkflowCompleted, sm.WorkflowRunning, sm.WorkflowCompleted, c.Label)
	d.exitStepRun(c, sm.StepCompleted)
	d.continueAfter(c)
}

// failLoop ends the step run of a loop as failed.
func (d *decider) failLoop(c *workflow.StepRun, cause workflow.Cause, why *workflow.Failure) {
	d.recordWorkflow(sm.EventWorkflowFailed, sm.WorkflowRunning, sm.WorkflowFailed, c.Label)
	d.failStepRun(c, cause, why)
}

// breakOut leaves what a step run repeats, or is repeated in, whose block has answered BREAK: the step
// itself, or the innermost step around it that executes its steps several times. The rest of these is
// passed. It reports whether there is one: rollouts and branches are not left.
func (d *decider) breakOut(r *workflow.StepRun) bool {
	p := d.facts.Resolution.Program
	if d.node(r).OnEntities() {
		return false // each takes part in no further repetition
	}
	if d.node(r).Repeat != nil {
		d.proceedFrom(r.StepIndex)
		return true
	}
	around := p.Nodes[r.StepIndex].Parent
	for ; around >= 0; around = p.Nodes[around].Parent {
		if n := &p.Nodes[around]; n.Loop != nil || n.Repeat != nil || n.Rollout != nil || n.Parallel != nil {
			break
		}
	}
	if around < 0 || p.Nodes[around].Rollout != nil || p.Nodes[around].Parallel != nil {
		return false
	}
	d.recordPassed(r.StepIndex, &spec.Target{Node: p.Nodes[around].End, In: around})
	for c := d.openContainer(); c != nil; c = d.openContainer() {
		switch {
		case c.StepIndex != around:
			d.closeContainer(c)
			continue
		case d.node(c).Loop != nil:
			d.endLoop(c)
		default:
			d.closeContainer(c)
			d.proceedFrom(around)
		}
		break
	}
	return true
}

// enclosing returns In and Index for a step run that is entered now.
func (d *decider) enclosing() (in, index int) {
	c := d.openContainer()
	switch {
	case c == nil && d.thread != nil:
		return d.thread.In, d.thread.Index
	case c == nil:
		return 0, 0
	case d.node(c).Loop != nil || d.node(c).Rollout != nil:
		return c.LoopSeq(), c.Times - 1
	}
	return c.In, c.Index
}
