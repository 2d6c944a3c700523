package lifecycle

import (
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// delayElapsed lets the step wait before it begins, once. It reports whether there is
// nothing to wait for any more.
func (d *decider) delayElapsed(n *spec.Node) bool {
	delay := n.Delay.Std()
	if d.execution.Iteration > 1 && n.Repeat != nil {
		delay = n.Repeat.Delay.Std()
	}
	next := d.execution.StepRunSeq + 1
	if delay <= 0 || d.execution.DelayDoneSeq == next {
		return true
	}
	d.execution.Wait = &workflow.Wait{Kind: workflow.WaitTimer, Since: d.now, Until: d.now.Add(delay), Step: n.Label}
	d.transition(sm.EventExecutionPaused, sm.ExecutionWaiting, "", map[string]any{"kind": workflow.WaitTimer, "step": n.Label, "until": d.execution.Wait.Until})
	return false
}

// driveWaiting drives WAITING: a timer that has to run out, a child that has to end.
func (d *decider) driveWaiting() {
	w := d.execution.Wait
	switch {
	case w == nil:
		d.err = workflow.Errorf(workflow.CodeInternal, "the run waits, and does not say for what")
	case w.Kind == workflow.WaitChild:
		d.followChild()
	case d.now.Before(w.Until):
		d.waitUntil(w.Until)
	default:
		d.endDelay("")
	}
}

// endDelay goes on after a timer, because it has run out or because an operator
// does not want to wait for it.
func (d *decider) endDelay(actor string) {
	d.execution.DelayDoneSeq, d.execution.Wait = d.execution.StepRunSeq+1, nil
	d.transition(sm.EventExecutionResumed, sm.ExecutionRunning, actor, nil)
}
