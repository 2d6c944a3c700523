package lifecycle

import (
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// end moves to a terminal state, closing the workflow layer on the way.
func (d *decider) end(on sm.Event, to sm.ExecutionState, data map[string]any) {
	if !d.x.StartedAt.IsZero() {
		switch to {
		case sm.ExecutionCancelled:
			d.workflow(sm.EventWorkflowCancelled, sm.WorkflowRunning, sm.WorkflowCancelled, "")
		default:
			d.workflow(sm.EventWorkflowFailed, sm.WorkflowRunning, sm.WorkflowFailed, "")
		}
	}
	d.move(on, to, "", data)
}

// settle acknowledges by itself what needs no operator, which is the one write
// that releases all locks. A cancelled run that left something irreversible
// behind keeps its locks until somebody has looked at it.
func (d *decider) settle() {
	to := map[sm.ExecutionState]sm.ExecutionState{
		sm.ExecutionCompleted:  sm.ExecutionCompletedAck,
		sm.ExecutionFailedSafe: sm.ExecutionFailedSafeAck,
		sm.ExecutionCancelled:  sm.ExecutionCancelledAck,
	}[d.x.State]
	if d.x.State == sm.ExecutionCancelled && len(d.toUndo()) > 0 {
		d.rest()
		return
	}
	if d.x.State == sm.ExecutionCompleted && !d.applied() {
		return
	}
	d.abandon()
	d.move(sm.EventExecutionSettled, to, "", nil)
	d.out.Release = true
	d.rest()
}

// applied reports whether the updates of entities that the jobs of a completed run
// have asked for stand in the inventory.
func (d *decider) applied() bool {
	if d.x.Applied || !d.updates() {
		return true
	}
	if !d.f.Applied {
		d.need(Need{Kind: NeedApplied})
		return false
	}
	d.x.Applied, d.changed = true, true
	return true
}

func (d *decider) updates() bool {
	for i := range d.x.Runs {
		if r := &d.x.Runs[i]; r.Updates && r.Forward() && r.Superseded == 0 {
			return true
		}
	}
	return false
}
