package lifecycle

import (
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// checkReadiness moves VALID to READY, or to BLOCKED_WAITING if the execution must wait for
// notBefore, for a condition or for the rate of its workflow. Most executions have none of these,
// and need no fact to find that out.
func (d *decider) checkReadiness() {
	if d.hold() {
		return
	}
	if d.facts.Resolution == nil {
		d.need(Need{Kind: NeedResolution})
		return
	}
	if c := d.config(); d.execution.NotBefore.IsZero() && c.StartWhen == "" && c.NotBefore == "" && (c.Rate == nil || d.execution.Probe) {
		d.transition(sm.EventExecutionReady, sm.ExecutionReady, "", nil)
		return
	}
	f := d.facts.Readiness
	switch {
	case f == nil:
		d.need(Need{Kind: NeedReadiness})
	case f.Problem != nil:
		d.rejectStart(f.Problem)
	case d.now.Before(f.NotBefore):
		d.blockOn(workflow.Wait{Kind: workflow.WaitTimer, Since: d.now, Until: f.NotBefore, Condition: waitNotBefore})
	case !f.Ready:
		d.blockOn(d.conditionWait(f))
	case d.now.Before(f.RateAt):
		d.execution.RateAt = f.RateAt
		d.blockOn(d.rateWait())
	default:
		d.execution.RateAt = f.RateAt
		d.transition(sm.EventExecutionReady, sm.ExecutionReady, "", nil)
	}
}

// rejectStart ends an execution if it cannot be determined when it may begin.
func (d *decider) rejectStart(why *workflow.Failure) {
	cause := workflow.CauseValidation
	if why.Code == workflow.FailureLimit {
		cause = workflow.CauseLimit
	}
	d.setFailure(cause, why)
	d.failBeforeRunning(sm.EventExecutionBroken, map[string]any{"reason": why.Message})
}

// waitNotBefore is the Condition of a wait for notBefore.
const waitNotBefore = "notBefore"

func (d *decider) blockOn(w workflow.Wait) {
	d.execution.Wait = &w
	d.transition(sm.EventExecutionBlocked, sm.ExecutionBlockedWaiting, "",
		map[string]any{"kind": w.Kind, "condition": w.Condition, "until": w.Until})
}

// conditionWait returns the wait for startWhen, beginning now.
func (d *decider) conditionWait(f *Readiness) workflow.Wait {
	timeout := d.policy.StartTimeout
	if c := d.config(); c.StartDeadline > 0 {
		timeout = c.StartDeadline.Std()
	}
	return workflow.Wait{Kind: workflow.WaitCondition, Since: d.now, Until: d.now.Add(timeout), Condition: f.Condition}
}

// rateWait returns the wait until the rate of the workflow lets the execution begin.
func (d *decider) rateWait() workflow.Wait {
	return workflow.Wait{Kind: workflow.WaitTimer, Since: d.now, Until: d.execution.RateAt, Reason: fmt.Sprintf("executions of the workflow may begin %s", d.config().Rate.Limit)}
}

// driveBlocked drives BLOCKED_WAITING: first notBefore must pass; then the condition, evaluated at
// every wake-up, must become true before its deadline; then the rate of the workflow must let the
// execution begin.
func (d *decider) driveBlocked() {
	w := d.execution.Wait
	switch {
	case w == nil:
		d.err = workflow.Errorf(workflow.CodeInternal, "execution in state %s has no wait", d.execution.State)
		return
	case w.Kind == workflow.WaitHold:
		d.followHold()
		return
	case w.Kind == workflow.WaitTimer && d.now.Before(w.Until):
		d.waitUntil(w.Until)
		return
	case d.facts.Resolution == nil:
		d.need(Need{Kind: NeedResolution})
		return
	case d.facts.Readiness == nil:
		d.need(Need{Kind: NeedReadiness})
		return
	}
	f := d.facts.Readiness
	switch {
	case f.Problem != nil:
		d.execution.Wait = nil
		d.rejectStart(f.Problem)
	case d.now.Before(f.NotBefore): // it was held until now
		d.execution.Wait, d.changed = &workflow.Wait{Kind: workflow.WaitTimer, Since: d.now, Until: f.NotBefore, Condition: waitNotBefore}, true
		d.waitUntil(f.NotBefore)
	case f.Ready && d.now.Before(f.RateAt):
		d.execution.RateAt = f.RateAt
		next := d.rateWait()
		d.execution.Wait, d.changed = &next, true
		d.waitUntil(next.Until)
	case f.Ready:
		d.execution.Wait, d.execution.RateAt = nil, f.RateAt
		d.transition(sm.EventExecutionReady, sm.ExecutionReady, "", nil)
	case w.Kind == workflow.WaitTimer:
		next := d.conditionWait(f)
		d.execution.RateAt = time.Time{} // it takes from the rate again once its condition is true
		d.execution.Wait, d.changed = &next, true
		d.waitUntil(earlier(d.nextConditionCheck(next.Since), next.Until))
	case d.now.Before(w.Until):
		d.waitUntil(earlier(d.nextConditionCheck(w.Since), w.Until))
	default:
		d.failStartTimeout(w, f)
	}
}

// maxConditionInterval is the longest time between two evaluations of a condition.
const maxConditionInterval = 10 * time.Minute

// nextConditionCheck returns when to evaluate a condition again that has been false since since,
// even if none of the entities that it read was written: it may depend on the time, or on an entity
// that does not exist. The longer the execution has waited, the longer the pause, up to a tenth of
// that time.
func (d *decider) nextConditionCheck(since time.Time) time.Time {
	return d.now.Add(min(max(d.policy.PollInterval, d.now.Sub(since)/10), maxConditionInterval))
}

// failStartTimeout ends an execution whose condition has not become true in time.
func (d *decider) failStartTimeout(w *workflow.Wait, f *Readiness) {
	text := fmt.Sprintf("waited %s for this condition to become true: %s", w.Until.Sub(w.Since).Round(time.Millisecond), w.Condition)
	if f.Reason != "" {
		text += " (" + f.Reason + ")"
	}
	d.setFailure(workflow.CauseTimeout, &workflow.Failure{Code: workflow.FailureTimeout, Message: text})
	d.execution.Wait = nil
	d.failBeforeRunning(sm.EventExecutionExpired, map[string]any{"condition": w.Condition})
}
