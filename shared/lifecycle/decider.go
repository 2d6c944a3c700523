package lifecycle

import (
	"encoding/json"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// decider is the working state of one decision: the execution as far as it has
// been decided.
type decider struct {
	execution *workflow.Execution
	facts     Facts
	policy    Policy
	now       time.Time

	timerFired bool      // the alarm has rung
	wakeAt     time.Time // when to look again, if anything is waited for
	idleUntil  time.Time // of a run that rests: when there is something to do after all
	changed    bool      // there is something to commit
	stopped    bool      // nothing more is to be decided now
	decision   Decision
	err        error
}

// need asks for a fact.
func (d *decider) need(n Need) { d.decision.Need = &n }

// idle stops without an alarm: only a command can go on from here.
func (d *decider) idle() {
	d.stopped, d.decision.Idle, d.wakeAt = true, true, time.Time{}
}

// waitUntil stops until a message, or at the latest until at.
func (d *decider) waitUntil(at time.Time) {
	d.stopped, d.decision.Idle, d.wakeAt = true, true, at
}

// commitFirst stops so that what has been decided is committed before going on. The
// alarm covers a handler that dies right after.
func (d *decider) commitFirst() {
	d.stopped, d.wakeAt = true, d.now.Add(d.policy.PollInterval)
}

// setDueAt sets the alarm clock. It is only moved earlier, and later only by the
// look that its ring has caused: whatever else a commit does, an alarm that
// somebody relies on stays. Index writes are the hidden cost of moving it.
func (d *decider) setDueAt() {
	if !d.wakeAt.IsZero() && d.hasDeadline() {
		d.wakeAt = earlier(d.wakeAt, d.execution.Deadline)
	}
	switch {
	case d.wakeAt.IsZero() && d.decision.Idle:
		if !d.execution.DueAt.Equal(d.idleUntil) {
			d.execution.DueAt, d.changed = d.idleUntil, true
		}
	case d.wakeAt.IsZero():
		// Out of transitions for this decision: the caller goes on at once.
		if soon := d.now.Add(d.policy.PollInterval); d.execution.DueAt.IsZero() || d.execution.DueAt.After(soon) {
			d.execution.DueAt, d.changed = soon, true
		}
	case d.execution.DueAt.IsZero(), d.wakeAt.Before(d.execution.DueAt), d.timerFired:
		d.execution.DueAt, d.changed = d.wakeAt, true
	}
}

// transition performs one transition of the execution and records it, if the law
// knows it.
func (d *decider) transition(on sm.Event, to sm.ExecutionState, actor string, data map[string]any) {
	from := d.execution.State
	records, err := sm.TransitionExecution(from, on, to)
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
	d.execution.State = to
	if sm.Terminal(to) && !sm.Acknowledged(to) {
		d.execution.EndedAt = d.now
	}
	d.record(workflow.Event{Layer: string(sm.LayerExecution), Type: string(records), From: string(from), To: string(to), Actor: actor}, data)
}

// record appends an event to the history.
func (d *decider) record(e workflow.Event, data map[string]any) {
	d.execution.Sequence++
	e.Sequence, e.At = d.execution.Sequence, d.now
	if len(data) > 0 {
		raw, err := json.Marshal(data)
		if err != nil {
			d.err = workflow.Errorf(workflow.CodeInternal, "event data: %w", err)
			return
		}
		e.Data = raw
	}
	d.execution.Events = append(d.execution.Events, e)
	d.changed = true
}

// setFailure notes why the run fails. The first reason stays.
func (d *decider) setFailure(cause workflow.Cause, why *workflow.Failure) {
	if d.execution.Error != nil {
		return
	}
	d.execution.Cause, d.execution.Error, d.execution.Reason = cause, why, why.Message
}

// recordWorkflow records an event of the workflow layer, which informs the run and
// never closes it. step is the label of the step that embeds the workflow, "" for
// the run's own.
func (d *decider) recordWorkflow(on sm.Event, from, to sm.WorkflowState, step string) {
	d.record(workflow.Event{Layer: string(sm.LayerWorkflow), Type: string(on), From: string(from), To: string(to), Step: step}, nil)
}

// end moves to a terminal state, closing the workflow layer on the way.
func (d *decider) end(on sm.Event, to sm.ExecutionState, data map[string]any) {
	if !d.execution.StartedAt.IsZero() {
		switch to {
		case sm.ExecutionCancelled:
			d.recordWorkflow(sm.EventWorkflowCancelled, sm.WorkflowRunning, sm.WorkflowCancelled, "")
		default:
			d.recordWorkflow(sm.EventWorkflowFailed, sm.WorkflowRunning, sm.WorkflowFailed, "")
		}
	}
	d.transition(on, to, "", data)
}

// config is the configuration of the run's definition, empty before it is known.
func (d *decider) config() spec.Config {
	if d.facts.Resolution == nil || d.facts.Resolution.Program == nil {
		return spec.Config{}
	}
	return d.facts.Resolution.Program.Config
}

// hasDeadline reports whether the deadline of the whole run still counts: it does
// until the run fails, is cancelled or ends.
func (d *decider) hasDeadline() bool {
	switch d.execution.State {
	case sm.ExecutionNew, sm.ExecutionValid, sm.ExecutionBlockedWaiting, sm.ExecutionReady, sm.ExecutionResourceDiscovery,
		sm.ExecutionResourcesDiscovered, sm.ExecutionScheduled, sm.ExecutionLocking, sm.ExecutionLocked,
		sm.ExecutionRunning, sm.ExecutionWaiting:
		return !d.execution.Deadline.IsZero()
	default:
		return false
	}
}

// earlier is the earlier of two moments.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
