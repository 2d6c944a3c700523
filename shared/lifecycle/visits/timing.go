package visits

import (
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// timer lets the step wait before it begins, once. It reports whether there is
// nothing to wait for any more.
func (d *Visits) timer(n *spec.Node) bool {
	delay := n.Delay.Std()
	if d.X.Round > 1 && n.Repeat != nil {
		delay = n.Repeat.Delay.Std()
	}
	next := d.X.RunSeq + 1
	if delay <= 0 || d.X.Rested == next {
		return true
	}
	d.X.Wait = &workflow.Wait{Kind: workflow.WaitTimer, Since: d.Now, Until: d.Now.Add(delay), Step: n.Label}
	d.Move(sm.EventExecutionPaused, sm.ExecutionWaiting, "", map[string]any{"kind": workflow.WaitTimer, "step": n.Label, "until": d.X.Wait.Until})
	return false
}

// Waiting drives WAITING: a timer that has to run out, a child that has to end.
func (d *Visits) Waiting() {
	w := d.X.Wait
	switch {
	case w == nil:
		d.Err = workflow.Errorf(workflow.CodeInternal, "the run waits, and does not say for what")
	case w.Kind == workflow.WaitChild:
		d.followChild()
	case d.Now.Before(w.Until):
		d.Wait(w.Until)
	default:
		d.Rested("")
	}
}

// Rested goes on after a timer, because it has run out or because an operator
// does not want to wait for it.
func (d *Visits) Rested(actor string) {
	d.X.Rested, d.X.Wait = d.X.RunSeq+1, nil
	d.Move(sm.EventExecutionResumed, sm.ExecutionRunning, actor, nil)
}
