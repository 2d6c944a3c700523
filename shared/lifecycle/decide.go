package lifecycle

import (
	"encoding/json"
	"time"

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
	d := decider{x: &x, now: now}
	d.move(sm.EventExecutionCreated, sm.ExecutionNew, x.CreatedBy, map[string]any{"workflow": x.Workflow.String()})
	return d.x
}

// Decide says what has to happen to the execution next. It changes none of its
// arguments. An error is either the typed refusal of a command, or an internal
// mistake: a transition that the law does not know.
func Decide(x *workflow.Execution, f Facts, p Policy, now time.Time) (Decision, error) {
	d := &decider{x: x.Clone(), f: f, p: p, now: now, rang: !x.DueAt.IsZero() && !x.DueAt.After(now)}
	d.resting = x.DueAt.IsZero() && x.Version > 0
	if f.Command != nil {
		if err := d.command(*f.Command); err != nil {
			return Decision{}, err
		}
		if d.out.Need != nil {
			return Decision{Need: d.out.Need, Draft: d.x}, nil
		}
	}
	for n := 0; n < maxTransitions && !d.stop; n++ {
		if d.step(); d.err != nil {
			return Decision{}, d.err
		}
		if d.out.Need != nil {
			return Decision{Need: d.out.Need, Draft: d.x}, nil
		}
	}
	d.alarm()
	if d.changed {
		d.x.Version++
		d.out.Next = d.x
	}
	return d.out, nil
}

// decider is the scratchpad of one decision.
type decider struct {
	x   *workflow.Execution
	f   Facts
	p   Policy
	now time.Time

	rang    bool      // the alarm has rung
	resting bool      // no alarm was set
	wake    time.Time // when to look again, if anything is waited for
	changed bool
	stop    bool
	out     Decision
	err     error
}

// step performs the one transition that is due in the current state, or stops.
func (d *decider) step() {
	if d.expired() {
		return
	}
	switch d.x.State {
	case sm.ExecutionNew:
		d.resolve()
	case sm.ExecutionValid:
		d.move(sm.EventExecutionReady, sm.ExecutionReady, "", nil)
	case sm.ExecutionBlockedWaiting:
		d.move(sm.EventExecutionReady, sm.ExecutionReady, "", nil)
	case sm.ExecutionReady:
		d.move(sm.EventDiscoveryStarted, sm.ExecutionResourceDiscovery, "", nil)
	case sm.ExecutionResourceDiscovery:
		d.discover()
	case sm.ExecutionResourcesDiscovered:
		d.move(sm.EventExecutionScheduled, sm.ExecutionScheduled, "", nil)
	case sm.ExecutionScheduled:
		d.schedule()
	case sm.ExecutionLocking:
		d.lock()
	case sm.ExecutionLocked:
		d.begin()
	case sm.ExecutionRunning:
		d.run()
	case sm.ExecutionWaiting:
		d.waiting()
	case sm.ExecutionError:
		d.classify()
	case sm.ExecutionCancelling:
		d.cancel()
	case sm.ExecutionRollback:
		d.rollback()
	case sm.ExecutionCompleted, sm.ExecutionFailedSafe, sm.ExecutionCancelled:
		d.settle()
	default:
		// FAILED_UNSAFE waits for an operator, and every _ACK is the end.
		d.rest()
	}
}

// need asks for a fact.
func (d *decider) need(n Need) { d.out.Need = &n }

// rest stops without an alarm: only a command can go on from here.
func (d *decider) rest() {
	d.stop, d.out.Rest, d.wake = true, true, time.Time{}
}

// wait stops until a message, or at the latest until at.
func (d *decider) wait(at time.Time) {
	d.stop, d.out.Rest, d.wake = true, true, at
}

// pause stops so that what has been decided is committed before going on. The
// alarm covers a handler that dies right after.
func (d *decider) pause() {
	d.stop, d.wake = true, d.now.Add(d.p.Poll)
}

// alarm sets the alarm clock. It is only moved earlier, and later only by the
// look that its ring has caused: whatever else a commit does, an alarm that
// somebody relies on stays. Index writes are the hidden cost of moving it.
func (d *decider) alarm() {
	if !d.wake.IsZero() && d.deadlined() {
		d.wake = earlier(d.wake, d.x.Deadline)
	}
	switch {
	case d.wake.IsZero() && d.out.Rest:
		if !d.x.DueAt.IsZero() {
			d.x.DueAt, d.changed = time.Time{}, true
		}
	case d.wake.IsZero():
		// Out of transitions for this decision: the caller goes on at once.
		if d.x.DueAt.IsZero() {
			d.x.DueAt, d.changed = d.now.Add(d.p.Poll), true
		}
	case d.x.DueAt.IsZero(), d.wake.Before(d.x.DueAt), d.rang:
		d.x.DueAt, d.changed = d.wake, true
	}
}

// move performs one transition of the execution and records it, if the law
// knows it.
func (d *decider) move(on sm.Event, to sm.ExecutionState, actor string, data map[string]any) {
	from := d.x.State
	records, err := sm.MoveExecution(from, on, to)
	if err != nil {
		d.err = workflow.Errorf(workflow.CodeInternal, "decided a transition that does not exist: %w", err)
		return
	}
	if records != on {
		if data == nil {
			data = map[string]any{}
		}
		data["trigger"] = string(on)
	}
	d.x.State = to
	if sm.Terminal(to) && !sm.Acknowledged(to) {
		d.x.EndedAt = d.now
	}
	d.record(workflow.Event{Layer: string(sm.LayerExecution), Type: string(records), From: string(from), To: string(to), Actor: actor}, data)
}

// record appends an event to the history.
func (d *decider) record(e workflow.Event, data map[string]any) {
	d.x.Sequence++
	e.Sequence, e.At = d.x.Sequence, d.now
	if len(data) > 0 {
		raw, err := json.Marshal(data)
		if err != nil {
			d.err = workflow.Errorf(workflow.CodeInternal, "event data: %w", err)
			return
		}
		e.Data = raw
	}
	d.x.Events = append(d.x.Events, e)
	d.changed = true
}

// fail notes why the run fails. The first reason stays.
func (d *decider) fail(cause workflow.Cause, why *workflow.Failure) {
	if d.x.Error != nil {
		return
	}
	d.x.Cause, d.x.Error, d.x.Reason = cause, why, why.Message
}
