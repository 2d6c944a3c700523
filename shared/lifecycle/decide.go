package lifecycle

import (
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// maxTransitions bounds one decision. A run of many steps without any job is cut
// into several commits; a mistake that never settles becomes an error.
const maxTransitions = 256

// NewExecution is the execution in state NEW with its first event. id must be a UUIDv7.
func NewExecution(req workflow.Execution, now time.Time) *workflow.Execution {
	x := req
	x.Schema, x.State, x.Try, x.CreatedAt = workflow.SchemaVersion, "", 1, now
	d := decider{execution: &x, now: now}
	d.transition(sm.EventExecutionCreated, sm.ExecutionNew, x.CreatedBy, map[string]any{"workflow": x.Workflow.String()})
	return d.execution
}

// Decide says what has to happen to the execution next. It changes none of its
// arguments. An error is either the typed refusal of a command, or an internal
// mistake: a transition that the law does not know.
func Decide(x *workflow.Execution, f Facts, p Policy, now time.Time) (Decision, error) {
	d := &decider{
		execution: x.Clone(), facts: f, policy: p, now: now, timerFired: !x.DueAt.IsZero() && !x.DueAt.After(now),
	}
	interrupted, err := d.handleRestore()
	if err != nil {
		return Decision{}, err
	}
	if f.Command != nil && !interrupted {
		if err := d.applyCommand(*f.Command); err != nil {
			return Decision{}, err
		}
		if d.decision.Need != nil {
			return Decision{Need: d.decision.Need, Uncommitted: d.execution}, nil
		}
	}
	for n := 0; n < maxTransitions && !d.stopped; n++ {
		if d.advanceOnce(); d.err != nil {
			return Decision{}, d.err
		}
		if d.decision.Need != nil {
			return Decision{Need: d.decision.Need, Uncommitted: d.execution}, nil
		}
	}
	d.setDueAt()
	if d.changed {
		d.execution.Version++
		d.decision.Next = d.execution
	}
	return d.decision, nil
}

// advanceOnce performs the one transition that is due in the current state, or stops.
func (d *decider) advanceOnce() {
	if d.endRestored() || d.failExecutionTimeout() {
		return
	}
	switch d.execution.State {
	case sm.ExecutionNew:
		d.resolve()
	case sm.ExecutionValid:
		d.checkReadiness()
	case sm.ExecutionBlockedWaiting:
		d.driveBlocked()
	case sm.ExecutionReady:
		d.transition(sm.EventDiscoveryStarted, sm.ExecutionResourceDiscovery, "", nil)
	case sm.ExecutionResourceDiscovery:
		d.discover()
	case sm.ExecutionResourcesDiscovered:
		d.transition(sm.EventExecutionScheduled, sm.ExecutionScheduled, "", nil)
	case sm.ExecutionScheduled:
		d.schedule()
	case sm.ExecutionLocking:
		d.acquireLocks()
	case sm.ExecutionLocked:
		d.begin()
	case sm.ExecutionRunning:
		d.driveRunning()
	case sm.ExecutionWaiting:
		d.driveWaiting()
	case sm.ExecutionError:
		d.classify()
	case sm.ExecutionCancelling:
		d.driveCancelling()
	case sm.ExecutionRollback:
		d.driveRollback()
	case sm.ExecutionCompleted, sm.ExecutionFailedSafe, sm.ExecutionCancelled:
		d.settle()
	case sm.ExecutionFailedUnsafe:
		d.idle() // it waits for an operator
	default:
		d.retain()
	}
}
