package lifecycle

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// An execution that depends on what is not its own item checks in: after its item exists, and
// before it does anything. It does so when it is new, and again when it is tried again, because
// it had ended in between. docs/models/keys.pml is the model of this.

// MustCheckIn reports whether the execution has still to check in. One that becomes ready for
// the first time has done so.
func MustCheckIn(x *workflow.Execution) bool {
	return asksParent(x) || x.Key != "" && undecided(x)
}

// asksParent reports whether the execution has still to ask its parent whether it may begin: one
// that nobody waits for does so once.
func asksParent(x *workflow.Execution) bool {
	return x.Awaited() && undecided(x) || x.Parent != nil && x.State == sm.ExecutionNew
}

func undecided(x *workflow.Execution) bool {
	return x.State == sm.ExecutionNew || (x.State == sm.ExecutionValid || x.State == sm.ExecutionReady) && x.Try > 1
}

// checkIn reports whether the execution may go on: its parent lets it begin, if it has one, and it has its business key, if it has one. It gives way to an execution that has the key and has checked in itself, unless it is tried again:
// then it waits for its end. One that has still to check in may give way too: for that one it waits.
func (d *decider) checkIn() bool {
	if !MustCheckIn(d.execution) {
		return true
	}
	if d.changed || d.execution.Version == 0 { // others have to see that it is there
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
		d.giveWay(f.Owner)
	}
	return false
}

// giveWay cancels an execution whose key another one has. The commit depends on that no signal
// has come since those that it had were handed over.
func (d *decider) giveWay(owner string) {
	x := d.execution
	why := fmt.Sprintf("execution %s has the key %q", owner, x.Key)
	x.KeyOwner, x.Cause, x.Reason = owner, workflow.CauseCancelled, why
	x.Cancellation = &workflow.Cancellation{Source: sourceKey, Reason: why, At: d.now, Rollback: workflow.RollbackNever}
	data := map[string]any{"reason": why, "source": sourceKey, "owner": owner}
	if n := len(x.Signals); n > 0 {
		data["signals"] = n
	}
	d.handedOver = true
	d.transition(sm.EventCancelRequested, sm.ExecutionCancelling, "", data)
}
