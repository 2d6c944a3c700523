package lifecycle

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// An execution that depends on other items than its own checks in: after its item exists, and
// before it does anything. It does so when it is new, and again on each retry, because it had ended
// in between. docs/models/keys.pml models this.

// MustCheckIn reports whether the execution has yet to check in. An execution that becomes ready
// for the first time has checked in.
func MustCheckIn(x *workflow.Execution) bool {
	return asksParent(x) || x.Key != "" && undecided(x)
}

// asksParent reports whether the execution has yet to ask its parent whether it may begin. A child
// in fire-and-forget mode asks once.
func asksParent(x *workflow.Execution) bool {
	return x.Awaited() && undecided(x) || x.Parent != nil && x.State == sm.ExecutionNew
}

func undecided(x *workflow.Execution) bool {
	return x.State == sm.ExecutionNew || (x.State == sm.ExecutionValid || x.State == sm.ExecutionReady) && x.Try > 1
}

// checkIn reports whether the execution may continue: its parent lets it begin, if it has one, and
// it holds its business key, if it has one.
//
// If another execution holds the key and has checked in, this one gives way. On a retry it waits
// for the end of the holder instead. It also waits for a holder that has yet to check in, because
// that one may still give way.
func (d *decider) checkIn() bool {
	if !MustCheckIn(d.execution) {
		return true
	}
	if d.changed || d.execution.Version == 0 { // others must be able to see the execution first
		d.changed = true
		d.commitFirst()
		return false
	}
	if asksParent(d.execution) {
		if p := d.parent(); p == nil || d.cancelForParent(p) {
			return false
		}
	}
	if d.execution.Key == "" {
		return true
	}
	switch f := d.facts.CheckIn; {
	case f == nil:
		d.need(Need{Kind: NeedCheckIn})
	case f.Key == KeyMine:
		return true
	case f.Key == KeyUndecided:
		d.waitUntil(d.now.Add(d.policy.PollInterval))
	default:
		d.yieldTo(f.Owner)
	}
	return false
}

// yieldTo cancels an execution because another one holds its key. The commit requires that no
// signal has arrived since the existing ones were handed over.
func (d *decider) yieldTo(owner string) {
	x := d.execution
	why := fmt.Sprintf("execution %s has the key %q", owner, x.Key)
	x.KeyOwner, x.Cause, x.Reason = owner, workflow.CauseCancelled, why
	x.Cancellation = &workflow.Cancellation{Source: workflow.CancelledByKey, Reason: why, At: d.now, Rollback: workflow.RollbackNever}
	data := map[string]any{"reason": why, "source": workflow.CancelledByKey, "owner": owner}
	if n := len(x.Signals); n > 0 {
		data["signals"] = n
	}
	d.handedOver = true
	d.transition(sm.EventCancelRequested, sm.ExecutionCancelling, "", data)
}
