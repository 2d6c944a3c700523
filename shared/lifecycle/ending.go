package lifecycle

import (
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// settle acknowledges by itself what needs no operator, which is the one write
// that releases all locks. A cancelled run that left something irreversible
// behind keeps its locks until somebody has looked at it.
func (d *decider) settle() {
	to := map[sm.ExecutionState]sm.ExecutionState{
		sm.ExecutionCompleted:  sm.ExecutionCompletedAck,
		sm.ExecutionFailedSafe: sm.ExecutionFailedSafeAck,
		sm.ExecutionCancelled:  sm.ExecutionCancelledAck,
	}[d.X.State]
	if d.X.State == sm.ExecutionCancelled && len(d.ToUndo()) > 0 {
		d.Rest()
		return
	}
	if d.X.State == sm.ExecutionCompleted && !d.applied() {
		return
	}
	d.abandon()
	var data map[string]any
	if d.X.State == sm.ExecutionCompleted && d.X.Error != nil {
		data = map[string]any{"notApplied": d.X.Error.Message}
	}
	d.Move(sm.EventExecutionSettled, to, "", data)
	d.Out.Release = true
	d.keep()
}

// applied reports whether the updates of entities that the jobs of a completed run
// have asked for stand in the inventory.
func (d *decider) applied() bool {
	if d.X.Applied || !d.Updates() {
		return true
	}
	if !d.F.Applied {
		d.Need(Need{Kind: NeedApplied})
		return false
	}
	d.X.Applied, d.Changed = true, true
	return true
}
