package draft

import (
	"encoding/json"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Draft is the scratchpad of one decision: the execution as far as it has been
// decided.
type Draft struct {
	X   *workflow.Execution
	F   Facts
	P   Policy
	Now time.Time

	Rang    bool      // the alarm has rung
	Wake    time.Time // when to look again, if anything is waited for
	Sleep   time.Time // of a run that rests: when there is something to do after all
	Changed bool      // there is something to commit
	Stop    bool      // nothing more is to be decided now
	Out     Decision
	Err     error
}

// Need asks for a fact.
func (d *Draft) Need(n Need) { d.Out.Need = &n }

// Rest stops without an alarm: only a command can go on from here.
func (d *Draft) Rest() {
	d.Stop, d.Out.Rest, d.Wake = true, true, time.Time{}
}

// Wait stops until a message, or at the latest until at.
func (d *Draft) Wait(at time.Time) {
	d.Stop, d.Out.Rest, d.Wake = true, true, at
}

// Pause stops so that what has been decided is committed before going on. The
// alarm covers a handler that dies right after.
func (d *Draft) Pause() {
	d.Stop, d.Wake = true, d.Now.Add(d.P.Poll)
}

// Alarm sets the alarm clock. It is only moved earlier, and later only by the
// look that its ring has caused: whatever else a commit does, an alarm that
// somebody relies on stays. Index writes are the hidden cost of moving it.
func (d *Draft) Alarm() {
	if !d.Wake.IsZero() && d.Deadlined() {
		d.Wake = Earlier(d.Wake, d.X.Deadline)
	}
	switch {
	case d.Wake.IsZero() && d.Out.Rest:
		if !d.X.DueAt.Equal(d.Sleep) {
			d.X.DueAt, d.Changed = d.Sleep, true
		}
	case d.Wake.IsZero():
		// Out of transitions for this decision: the caller goes on at once.
		if soon := d.Now.Add(d.P.Poll); d.X.DueAt.IsZero() || d.X.DueAt.After(soon) {
			d.X.DueAt, d.Changed = soon, true
		}
	case d.X.DueAt.IsZero(), d.Wake.Before(d.X.DueAt), d.Rang:
		d.X.DueAt, d.Changed = d.Wake, true
	}
}

// Move performs one transition of the execution and records it, if the law
// knows it.
func (d *Draft) Move(on sm.Event, to sm.ExecutionState, actor string, data map[string]any) {
	from := d.X.State
	records, err := sm.MoveExecution(from, on, to)
	if err != nil {
		d.Err = workflow.Errorf(workflow.CodeInternal, "decided a transition that does not exist: %w", err)
		return
	}
	if records != on {
		if data == nil {
			data = map[string]any{}
		}
		data["trigger"] = string(on)
	}
	d.X.State = to
	if sm.Terminal(to) && !sm.Acknowledged(to) {
		d.X.EndedAt = d.Now
	}
	d.Record(workflow.Event{Layer: string(sm.LayerExecution), Type: string(records), From: string(from), To: string(to), Actor: actor}, data)
}

// Record appends an event to the history.
func (d *Draft) Record(e workflow.Event, data map[string]any) {
	d.X.Sequence++
	e.Sequence, e.At = d.X.Sequence, d.Now
	if len(data) > 0 {
		raw, err := json.Marshal(data)
		if err != nil {
			d.Err = workflow.Errorf(workflow.CodeInternal, "event data: %w", err)
			return
		}
		e.Data = raw
	}
	d.X.Events = append(d.X.Events, e)
	d.Changed = true
}

// Fail notes why the run fails. The first reason stays.
func (d *Draft) Fail(cause workflow.Cause, why *workflow.Failure) {
	if d.X.Error != nil {
		return
	}
	d.X.Cause, d.X.Error, d.X.Reason = cause, why, why.Message
}

// Workflow records an event of the workflow layer, which informs the run and
// never closes it. step is the label of the step that embeds the workflow, "" for
// the run's own.
func (d *Draft) Workflow(on sm.Event, from, to sm.WorkflowState, step string) {
	d.Record(workflow.Event{Layer: string(sm.LayerWorkflow), Type: string(on), From: string(from), To: string(to), Step: step}, nil)
}

// End moves to a terminal state, closing the workflow layer on the way.
func (d *Draft) End(on sm.Event, to sm.ExecutionState, data map[string]any) {
	if !d.X.StartedAt.IsZero() {
		switch to {
		case sm.ExecutionCancelled:
			d.Workflow(sm.EventWorkflowCancelled, sm.WorkflowRunning, sm.WorkflowCancelled, "")
		default:
			d.Workflow(sm.EventWorkflowFailed, sm.WorkflowRunning, sm.WorkflowFailed, "")
		}
	}
	d.Move(on, to, "", data)
}

// Config is the configuration of the run's definition, empty before it is known.
func (d *Draft) Config() spec.Config {
	if d.F.Resolved == nil || d.F.Resolved.Program == nil {
		return spec.Config{}
	}
	return d.F.Resolved.Program.Config
}

// Deadlined reports whether the deadline of the whole run still counts: it does
// until the run fails, is cancelled or ends.
func (d *Draft) Deadlined() bool {
	switch d.X.State {
	case sm.ExecutionNew, sm.ExecutionValid, sm.ExecutionBlockedWaiting, sm.ExecutionReady, sm.ExecutionResourceDiscovery,
		sm.ExecutionResourcesDiscovered, sm.ExecutionScheduled, sm.ExecutionLocking, sm.ExecutionLocked,
		sm.ExecutionRunning, sm.ExecutionWaiting:
		return !d.X.Deadline.IsZero()
	default:
		return false
	}
}

// Earlier is the earlier of two moments.
func Earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
