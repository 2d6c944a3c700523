package lifecycle

import (
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle/draft"
	"github.com/lockstep-run/lockstep/shared/lifecycle/visits"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// maxTransitions bounds one decision. A run of many steps without any job is cut
// into several commits; a mistake that never settles becomes an error.
const maxTransitions = 256

// New is the execution in state NEW with its first event. id must be a UUIDv7.
func New(req workflow.Execution, now time.Time) *workflow.Execution {
	x := req
	x.Schema, x.State, x.Try, x.CreatedAt = workflow.SchemaVersion, "", 1, now
	d := draft.Draft{X: &x, Now: now}
	d.Move(sm.EventExecutionCreated, sm.ExecutionNew, x.CreatedBy, map[string]any{"workflow": x.Workflow.String()})
	return d.X
}

// Decide says what has to happen to the execution next. It changes none of its
// arguments. An error is either the typed refusal of a command, or an internal
// mistake: a transition that the law does not know.
func Decide(x *workflow.Execution, f Facts, p Policy, now time.Time) (Decision, error) {
	d := &decider{visits.Visits{Draft: &draft.Draft{
		X: x.Clone(), F: f, P: p, Now: now, Rang: !x.DueAt.IsZero() && !x.DueAt.After(now),
	}}}
	met, err := d.restored()
	if err != nil {
		return Decision{}, err
	}
	if f.Command != nil && !met {
		if err := d.command(*f.Command); err != nil {
			return Decision{}, err
		}
		if d.Out.Need != nil {
			return Decision{Need: d.Out.Need, Draft: d.X}, nil
		}
	}
	for n := 0; n < maxTransitions && !d.Stop; n++ {
		if d.step(); d.Err != nil {
			return Decision{}, d.Err
		}
		if d.Out.Need != nil {
			return Decision{Need: d.Out.Need, Draft: d.X}, nil
		}
	}
	d.Alarm()
	if d.Changed {
		d.X.Version++
		d.Out.Next = d.X
	}
	return d.Out, nil
}

// decider decides about everything but the steps, and leaves these to visits.
type decider struct{ visits.Visits }

// step performs the one transition that is due in the current state, or stops.
func (d *decider) step() {
	if d.lost() || d.expired() {
		return
	}
	switch d.X.State {
	case sm.ExecutionNew:
		d.resolve()
	case sm.ExecutionValid:
		d.ready()
	case sm.ExecutionBlockedWaiting:
		d.blocked()
	case sm.ExecutionReady:
		d.Move(sm.EventDiscoveryStarted, sm.ExecutionResourceDiscovery, "", nil)
	case sm.ExecutionResourceDiscovery:
		d.discover()
	case sm.ExecutionResourcesDiscovered:
		d.Move(sm.EventExecutionScheduled, sm.ExecutionScheduled, "", nil)
	case sm.ExecutionScheduled:
		d.schedule()
	case sm.ExecutionLocking:
		d.lock()
	case sm.ExecutionLocked:
		d.begin()
	case sm.ExecutionRunning:
		d.Run()
	case sm.ExecutionWaiting:
		d.Waiting()
	case sm.ExecutionError:
		d.classify()
	case sm.ExecutionCancelling:
		d.cancel()
	case sm.ExecutionRollback:
		d.Rollback()
	case sm.ExecutionCompleted, sm.ExecutionFailedSafe, sm.ExecutionCancelled:
		d.settle()
	case sm.ExecutionFailedUnsafe:
		d.Rest() // it waits for an operator
	default:
		d.keep()
	}
}
