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
	}[d.execution.State]
	if d.execution.State == sm.ExecutionCancelled && len(d.stepRunsToUndo()) > 0 {
		d.idle()
		return
	}
	if d.execution.State == sm.ExecutionCompleted && !d.updatesApplied() {
		return
	}
	d.cancelOpenStepRuns()
	var data map[string]any
	if d.execution.State == sm.ExecutionCompleted && d.execution.Error != nil {
		data = map[string]any{"notApplied": d.execution.Error.Message}
	}
	d.transition(sm.EventExecutionSettled, to, "", data)
	d.decision.WakeWaiters = true
	d.retain()
}

// updatesApplied reports whether the updates of entities that the jobs of a completed run
// have asked for stand in the inventory.
func (d *decider) updatesApplied() bool {
	if d.execution.UpdatesApplied || !d.hasUpdates() {
		return true
	}
	if !d.facts.UpdatesApplied {
		d.need(Need{Kind: NeedUpdatesApplied})
		return false
	}
	d.execution.UpdatesApplied, d.changed = true, true
	return true
}

// CodeUpdatesNotApplied is the code of the error of an execution that has completed,
// but whose updates of the inventory could not be written.
const CodeUpdatesNotApplied = "UPDATES_NOT_APPLIED"
