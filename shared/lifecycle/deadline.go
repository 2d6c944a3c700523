package lifecycle

import (
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// NextDeadline returns the earliest time at which something in an execution ends by itself: a wait,
// an open step run with a timeout or that waits, or the execution. It is zero if there is none. The
// timer of an execution is never later.
func NextDeadline(x *workflow.Execution) (at time.Time) {
	add := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if hasDeadline(x) {
		add(x.Deadline)
	}
	switch x.State {
	case sm.ExecutionBlockedWaiting, sm.ExecutionWaiting, sm.ExecutionRunning:
		if x.Wait != nil {
			add(x.Wait.Until)
		}
		add(nextDelay(x))
		for i := range x.StepRuns {
			r := &x.StepRuns[i]
			switch {
			case !r.Open() || r.Closing:
			case r.HasJobs() || r.Child != nil || r.ByEngine:
				add(r.Deadline)
			default:
				add(branchDeadline(x, r))
			}
			if r := &x.StepRuns[i]; r.Waiting() {
				add(r.Wait.Until)
				add(r.Wait.Next)
			}
		}
	}
	return at
}

// hasDeadline reports whether the deadline of an execution still applies: it does until
// the execution fails, is cancelled or ends.
func hasDeadline(x *workflow.Execution) bool {
	switch x.State {
	case sm.ExecutionNew, sm.ExecutionValid, sm.ExecutionBlockedWaiting, sm.ExecutionReady, sm.ExecutionResourceDiscovery,
		sm.ExecutionResourcesDiscovered, sm.ExecutionScheduled, sm.ExecutionLocking, sm.ExecutionLocked,
		sm.ExecutionRunning, sm.ExecutionWaiting:
		return !x.Deadline.IsZero()
	default:
		return false
	}
}

// stepTimedOut reports whether an open step run has timed out. This is reported once: while the
// step run is being stopped, its timeout no longer matters.
func (d *decider) stepTimedOut(r *workflow.StepRun) bool {
	return !r.Deadline.IsZero() && !r.Closing && !d.now.Before(r.Deadline)
}
