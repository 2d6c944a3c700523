package lifecycle

import (
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// deadlined reports whether the deadline of the whole run still counts: it does
// until the run fails, is cancelled or ends.
func (d *decider) deadlined() bool {
	switch d.x.State {
	case sm.ExecutionNew, sm.ExecutionValid, sm.ExecutionBlockedWaiting, sm.ExecutionReady, sm.ExecutionResourceDiscovery,
		sm.ExecutionResourcesDiscovered, sm.ExecutionScheduled, sm.ExecutionLocking, sm.ExecutionLocked,
		sm.ExecutionRunning, sm.ExecutionWaiting:
		return !d.x.Deadline.IsZero()
	default:
		return false
	}
}

// expired ends a run whose deadline has passed: as a failure with the cause
// TIMEOUT, and with a cancellation whose source is the timeout.
func (d *decider) expired() bool {
	if !d.deadlined() || d.now.Before(d.x.Deadline) {
		return false
	}
	why := &workflow.Failure{
		Code: "TIMEOUT", Message: fmt.Sprintf("the run has not ended by %s, its timeout", d.x.Deadline.Format(time.RFC3339)),
	}
	if r := d.current(); r != nil {
		why.Step = r.Label
	}
	d.fail(workflow.CauseTimeout, why)
	d.x.Cancellation = &workflow.Cancellation{Source: "timeout", Reason: why.Message, At: d.now}
	to := sm.ExecutionFailedSafe
	if d.x.State == sm.ExecutionRunning || d.x.State == sm.ExecutionWaiting {
		to = sm.ExecutionError
	}
	d.x.Wait, d.x.BlockedBy = nil, nil
	d.move(sm.EventExecutionExpired, to, "", nil)
	if to == sm.ExecutionError {
		d.stopAll()
	} else {
		d.abandon()
	}
	return true
}

// timer lets the step wait before it begins, once. It reports whether there is
// nothing to wait for any more.
func (d *decider) timer(n *workflow.Node) bool {
	delay := n.Delay.Std()
	if d.x.Round > 1 && n.Repeat != nil {
		delay = n.Repeat.Delay.Std()
	}
	next := d.x.RunSeq + 1
	if delay <= 0 || d.x.Rested == next {
		return true
	}
	d.x.Wait = &workflow.Wait{Kind: workflow.WaitTimer, Since: d.now, Until: d.now.Add(delay), Step: n.Label}
	d.move(sm.EventExecutionPaused, sm.ExecutionWaiting, "", map[string]any{"kind": workflow.WaitTimer, "step": n.Label, "until": d.x.Wait.Until})
	return false
}

// waiting drives WAITING: a timer that has to run out, a child that has to end.
func (d *decider) waiting() {
	w := d.x.Wait
	switch {
	case w == nil:
		d.err = workflow.Errorf(workflow.CodeInternal, "the run waits, and does not say for what")
	case w.Kind == workflow.WaitChild:
		d.followChild()
	case d.now.Before(w.Until):
		d.wait(w.Until)
	default:
		d.rested("")
	}
}

// rested goes on after a timer, because it has run out or because an operator
// does not want to wait for it.
func (d *decider) rested(actor string) {
	d.x.Rested, d.x.Wait = d.x.RunSeq+1, nil
	d.move(sm.EventExecutionResumed, sm.ExecutionRunning, actor, nil)
}
