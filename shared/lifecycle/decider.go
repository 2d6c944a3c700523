package lifecycle

import (
	"cmp"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// decider is the working state of one decision: the execution as decided so far, and what the
// decision will return.
type decider struct {
	execution *workflow.Execution
	facts     Facts
	policy    Policy
	now       time.Time

	thread     *workflow.Thread // thread that makes a transition; nil for the execution as a whole
	entered    int              // size, as JSON, of the step runs that this decision has entered
	timerFired bool             // the timer of the execution is due
	paused     bool             // this decision has paused the execution: nothing in it is running
	wakeAt     time.Time        // when to advance again; zero if the execution waits for nothing
	idleUntil  time.Time        // for an idle execution: the timer that it needs anyway, or zero
	announceAt time.Time        // when to announce its events again; zero if they are published, or if there are no subscriptions
	changed    bool             // there is something to commit
	handedOver bool             // the execution that holds the key has every signal of this one
	repeated   bool             // the command was applied before: nothing is left to do for it
	stopped    bool             // this decision ends here
	decision   Decision
	err        error
}

// need asks for a fact.
func (d *decider) need(n Need) { d.decision.Need = &n }

// idle stops without a timer: only a command can continue from here.
func (d *decider) idle() {
	d.stopped, d.decision.Idle, d.wakeAt = true, true, time.Time{}
}

// waitUntil stops until a message arrives, or until at.
func (d *decider) waitUntil(at time.Time) {
	d.stopped, d.decision.Idle, d.wakeAt = true, true, at
}

// commitFirst stops so that the decision is committed before the execution continues. The timer
// covers a handler that crashes right after the commit.
func (d *decider) commitFirst() {
	d.stopped, d.wakeAt = true, d.now.Add(d.policy.PollInterval)
}

// setDueAt sets the timer of the execution. Any commit may move the timer earlier. Only two may
// move it later, so that no commit drops a timer that something relies on: a commit in the wake-up
// of the timer itself, and one that pauses the execution, because then nothing is running that
// could rely on it.
//
// If several steps are running, the timer's wake-up moves it only after looking at all of them;
// until then, the timer may have fired for a later one. Moving the timer costs an index write,
// which a pause costs anyway.
func (d *decider) setDueAt() {
	if at := NextDeadline(d.execution); !d.wakeAt.IsZero() && !at.IsZero() {
		d.wakeAt = earlier(d.wakeAt, at)
	}
	d.keepNear()
	switch {
	case d.wakeAt.IsZero() && d.decision.Idle:
		if !d.execution.DueAt.Equal(d.idleUntil) {
			d.execution.DueAt, d.changed = d.idleUntil, true
		}
	case d.wakeAt.IsZero():
		// The decision has reached maxTransitions, so the caller continues at once.
		if soon := d.now.Add(d.policy.PollInterval); d.execution.DueAt.IsZero() || d.execution.DueAt.After(soon) {
			d.execution.DueAt, d.changed = soon, true
		}
	case d.execution.DueAt.IsZero(), d.wakeAt.Before(d.execution.DueAt), d.canDelayTimer():
		d.execution.DueAt, d.changed = d.wakeAt, true
	}
}

// canDelayTimer reports whether nothing relies on the current timer: it has fired and all
// running steps were looked at, or the execution pauses.
func (d *decider) canDelayTimer() bool {
	lookedAtAll := d.decision.Idle || len(d.openStepRuns()) < 2
	pauses := d.paused && d.execution.State == sm.ExecutionWaiting
	return d.timerFired && lookedAtAll || pauses
}

// transition performs one transition of the execution and records it. A transition
// that is not in the table sets d.err.
func (d *decider) transition(on sm.Event, to sm.ExecutionState, actor string, data map[string]any) {
	from := d.execution.State
	recordedAs, err := sm.TransitionExecution(from, on, to)
	if err != nil {
		d.err = workflow.Errorf(workflow.CodeInternal, "decided on a transition that is not in the table: %w", err)
		return
	}
	if recordedAs != on {
		if data == nil {
			data = map[string]any{}
		}
		data["trigger"] = string(on)
	}
	if sm.AcceptsSignals(from) && !sm.AcceptsSignals(to) {
		d.closeMailbox()
	}
	leavesLocking := (from == sm.ExecutionLocking || from == sm.ExecutionLocked) && (to == sm.ExecutionCancelling || to == sm.ExecutionFailedUnsafe)
	if d.execution.Epoch > 0 && on != sm.EventLockRequested && (!sm.HoldsLocks(from) && sm.HoldsLocks(to) || leavesLocking) {
		d.execution.Epoch++ // it must not seem to hold what it has released at this epoch, or has only begun to acquire
	}
	d.execution.State = to
	if on == sm.EventExecutionAcknowledged {
		reason, _ := data["reason"].(string)
		seen := workflow.Acknowledgement{By: actor, Reason: reason, At: d.now}
		if n, named := data["released"].(int); named {
			seen.Entities = &n
		}
		d.execution.Acknowledged = d.execution.Acknowledged.And(seen)
	}
	if sm.Terminal(to) && !sm.Acknowledged(to) && from != to {
		d.execution.EndedAt = d.now
	}
	d.record(workflow.Event{Layer: string(sm.LayerExecution), Type: string(recordedAs), From: string(from), To: string(to), Actor: actor}, data)
}

// record appends an event to the history.
func (d *decider) record(e workflow.Event, data map[string]any) {
	d.execution.Sequence++
	e.Sequence, e.At = d.execution.Sequence, d.now
	if len(data) > 0 {
		raw, err := workflow.EncodeJSON(data)
		if err != nil {
			d.err = workflow.Errorf(workflow.CodeInternal, "encode event data: %w", err)
			return
		}
		e.Data = raw
	}
	d.execution.Events = append(d.execution.Events, e)
	d.changed = true
}

// setFailure records why the execution fails. The first failure is kept.
func (d *decider) setFailure(cause workflow.Cause, why *workflow.Failure) {
	if d.execution.Error != nil {
		return
	}
	why = executionFailure(why)
	d.execution.Cause, d.execution.Error, d.execution.Reason = cause, why, why.Message
}

// recordWorkflow records an event of the workflow layer, which informs the execution and never
// closes it. step is the label of the step that embeds the workflow; "" for the workflow of the
// execution itself.
func (d *decider) recordWorkflow(on sm.Event, from, to sm.WorkflowState, step string) {
	d.record(workflow.Event{Layer: string(sm.LayerWorkflow), Type: string(on), From: string(from), To: string(to), Step: step}, nil)
}

// end moves to a terminal state and closes the workflow layer first.
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
	if d.execution.OwnerStatus().NeedsPerson() {
		d.decision.WakeWaiters = true // what it keeps may stay locked for days, so the executions that wait must know
	}
}

// config returns the configuration of the definition; empty before it is resolved.
func (d *decider) config() spec.Config {
	if d.facts.Resolution == nil || d.facts.Resolution.Program == nil {
		return spec.Config{}
	}
	return d.facts.Resolution.Program.Config
}

// openStepRuns lists the step runs that have jobs, a child or work of the engine outstanding: those of the
// thread that makes a transition, or all.
func (d *decider) openStepRuns() []*workflow.StepRun {
	var open []*workflow.StepRun
	for i := range d.execution.StepRuns {
		if r := &d.execution.StepRuns[i]; r.IsWorking() && d.inThread(r) {
			open = append(open, r)
		}
	}
	return open
}

// openContainer returns the innermost open step run of a step with nested steps; nil if there is
// none.
func (d *decider) openContainer() *workflow.StepRun {
	for i := len(d.execution.StepRuns) - 1; i >= 0; i-- {
		if r := &d.execution.StepRuns[i]; r.Open() && !r.HasJobs() && r.Child == nil && r.Wait == nil && !r.ByEngine && d.inThread(r) {
			return r
		}
	}
	return nil
}

// currentStepRun returns the step run to show to people: the last open one, or else the last one.
func (d *decider) currentStepRun() *workflow.StepRun {
	if open := d.openStepRuns(); len(open) > 0 {
		return open[len(open)-1]
	}
	return d.execution.LastStepRun()
}

// appendStepRun adds a step run and records that it was entered.
func (d *decider) appendStepRun(r workflow.StepRun) {
	d.execution.StepRunSeq = r.Seq
	if d.thread != nil {
		d.thread.Delay = nil
	}
	d.execution.StepRuns = append(d.execution.StepRuns, r)
	d.entered += d.jsonBytes(r)
	data := map[string]any{"jobs": r.Jobs}
	if r.Kind == workflow.JobRollback {
		data["kind"], data["wave"] = r.Kind, r.Wave
	}
	if r.Kind == workflow.JobAcquire {
		data["kind"] = r.Kind
	}
	if r.Iteration > 0 {
		data["repeat"] = r.Iteration
	}
	if r.In > 0 {
		data["index"] = r.Index
	}
	if len(r.Waves) > 0 {
		data["waves"] = len(r.Waves)
	}
	if r.Child != nil && !r.IsSet() {
		data["child"] = r.Child.ID
	}
	d.record(workflow.Event{
		Layer: string(sm.LayerStep), Type: string(sm.EventStepEntered), Step: r.Label,
		From: string(sm.StepPending), To: string(sm.StepRunning),
	}, data)
}

// exitStepRun ends a step run. This is local: it closes nothing above the step.
func (d *decider) exitStepRun(r *workflow.StepRun, status sm.StepState) {
	r.Status, r.EndedAt = status, d.now
	data := map[string]any{}
	for name, n := range map[string]int{
		"ok": r.Counts.OK, "failed": r.Counts.Failed, "unknown": r.Counts.Unknown,
		"notExecuted": r.Counts.NotExecuted, "skipped": r.Skipped, "unmet": r.Unmet, "times": r.Times, "case": r.Route, "handled": r.Handled, "stoppedAt": r.StoppedAt,
	} {
		if n > 0 {
			data[name] = n
		}
	}
	if why := cmp.Or(r.Failure, r.Counts.Failure); status == sm.StepCaseHandled && why != nil {
		data["code"] = workflow.Truncate(why.Code, workflow.MaxShortCode)
	}
	if len(r.CaseErrors) > 0 {
		var cases []int
		for _, e := range r.CaseErrors {
			cases = append(cases, e.Case)
		}
		data["caseErrors"] = cases
	}
	if r.Capped {
		data["capped"] = true
	}
	if r.Wait != nil && r.Wait.Unfit > 0 {
		data["unfit"] = r.Wait.Unfit
	}
	d.record(workflow.Event{
		Layer: string(sm.LayerStep), Type: string(sm.EventStepExited), Step: r.Label,
		From: string(sm.StepRunning), To: string(status),
	}, data)
}

// earlier returns the earlier of two times.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
