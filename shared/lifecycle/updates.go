package lifecycle

import (
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// settle acknowledges an ended execution that needs no operator. This one write releases
// all locks. A completed execution first applies its updates. A cancelled execution that
// left irreversible changes keeps its locks until an operator acknowledges it.
func (d *decider) settle() {
	to := map[sm.ExecutionState]sm.ExecutionState{
		sm.ExecutionCompleted:  sm.ExecutionCompletedAck,
		sm.ExecutionFailedSafe: sm.ExecutionFailedSafeAck,
		sm.ExecutionCancelled:  sm.ExecutionCancelledAck,
	}[d.execution.State]
	if d.execution.State == sm.ExecutionCancelled && HasChanges(d.execution) {
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

// updatesApplied reports whether the entity updates that the jobs of a completed execution
// requested are in the inventory.
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

// hasUpdates reports whether some job requests entity updates that must be applied. The updates of
// a probe are not applied.
func (d *decider) hasUpdates() bool {
	if d.execution.Probe {
		return false
	}
	if d.execution.LockMode == workflow.LockShared {
		return false // its step failed because of the request; a retry keeps its jobs, and others may read what they lock
	}
	for i := range d.execution.StepRuns {
		if r := &d.execution.StepRuns[i]; r.HasUpdates && r.Forward() && r.SupersededBy == 0 {
			return true
		}
	}
	return false
}
