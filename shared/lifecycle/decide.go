// Package lifecycle is the decider: a pure function from the state item of an execution, the known
// facts and the time to the next state of the item.
//
//	Decide(execution, facts, policy, now) -> Decision
//
// A [Decision] either names one fact that must be fetched first ([Need]), or carries the next state
// to commit, or says that there is nothing to do until the next call. Decide performs as many
// transitions as it can in one call. Each is one event in the history, and each is checked against
// the transition tables of package statemachines.
//
// A tour of the package. Each [NeedKind] has a file named for it, which holds the transitions that
// need the fact; shared/engine/fetch_<need>.go fetches it:
//
//   - facts.go: the facts, needs, policy and decision. decider.go: the working state
//     of one decision.
//   - check_in.go, parent.go, resolution.go, readiness.go, discovery.go: NEW to
//     RESOURCES_DISCOVERED.
//   - blocker.go, locks.go: SCHEDULED to RUNNING.
//   - running.go: RUNNING and WAITING: which step is next. probe.go: where a probe
//     ends. plan.go: how a step is entered. report.go: how an open step run ends.
//     child.go: steps that start an execution. children.go: steps that start one for
//     each item. wait.go: steps that wait. answer.go: questions to people.
//   - close.go: how everything that is open is closed. classify.go: what a failed
//     execution has changed, and how it ends. rollback.go: ROLLBACK. updates.go:
//     how an ended execution settles. retention.go: how long it is kept.
//   - before_running.go: how a try ends that has executed nothing.
//   - deadline.go: what ends by itself, and when.
//   - command.go, cancel.go, retry.go: commands of operators.
//   - narrow.go: releasing the locks of some entities, and retrying the others.
//   - rerun.go: an ended execution whose entities another one repeats.
//   - restore.go: executions from before the tables were restored to an earlier time.
//   - mailbox.go: signals.
//   - published.go: the timer that stays near until all events are published to
//     subscribers.
//   - deadletter.go: dead-lettered messages.
//
// The jobs of a step are made in package plan.
//
// The package reads no clock, draws no random number, logs nothing and does no I/O. A decision can
// be repeated from its inputs, and the golden scripts in testdata do so.
package lifecycle

import (
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// maxTransitions bounds one decision. An execution with many steps without jobs is committed
// several times; a bug that never settles becomes an error.
const maxTransitions = 256

// NewExecution returns the execution in state NEW with its first event. The id of req must be a
// UUIDv7. The reason of a rerun is kept only in the event.
func NewExecution(req workflow.Execution, now time.Time) *workflow.Execution {
	x := req
	x.Schema, x.State, x.Try, x.CreatedAt = x.Needs(), "", 1, now
	d := decider{execution: &x, now: now}
	data := map[string]any{"workflow": x.Workflow.String()}
	if x.RerunOf != "" {
		data["rerunOf"], data["reason"], x.Reason = x.RerunOf, workflow.Truncate(x.Reason, workflow.MaxReasonBytes), ""
	}
	if x.Key != "" {
		data["key"] = x.Key
	}
	d.transition(sm.EventExecutionCreated, sm.ExecutionNew, x.CreatedBy, data)
	return d.execution
}

// Decide returns what must happen to the execution next. It does not change its arguments. An error
// is either the refusal of a command, with its code, or a bug: a transition that is not in the
// table.
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
		if d.repeated {
			return Decision{Idle: true}, nil
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
	if d.checkPublished(x.Sequence); d.decision.Need != nil {
		return Decision{Need: d.decision.Need, Uncommitted: d.execution}, nil
	}
	d.setDueAt()
	if d.changed {
		boundFailures(d.execution.StepRuns, d.execution.Threads)
		d.awaitSignals()
		d.execution.Version++
		d.decision.Next = d.execution
	}
	return d.decision, nil
}

// advanceOnce performs the one transition that is due in the current state, or stops.
func (d *decider) advanceOnce() {
	if d.endRestored() || d.failExecutionTimeout() || d.closedByParent() {
		return
	}
	switch d.execution.State {
	case sm.ExecutionNew:
		if d.checkIn() {
			d.resolve()
		}
	case sm.ExecutionValid:
		if d.checkIn() {
			d.checkReadiness()
		}
	case sm.ExecutionBlockedWaiting:
		d.driveBlocked()
	case sm.ExecutionReady:
		if d.checkIn() {
			d.transition(sm.EventDiscoveryStarted, sm.ExecutionResourceDiscovery, "", nil)
		}
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

// failExecutionTimeout ends an execution whose deadline has passed: as a failure with the cause
// TIMEOUT, or LIMIT if that was the end of all its time, and a cancellation whose source is the
// timeout. It reports whether it did.
func (d *decider) failExecutionTimeout() bool {
	if !hasDeadline(d.execution) || d.now.Before(d.execution.Deadline) {
		return false
	}
	cause, why := workflow.CauseTimeout, &workflow.Failure{
		Code:    workflow.FailureTimeout,
		Message: fmt.Sprintf("the execution has not ended by its deadline, %s", d.execution.Deadline.Format(time.RFC3339)),
	}
	if d.execution.Deadline.Equal(wallEnd(d.execution)) {
		d.decision.LimitReached = true
		cause, why.Code = workflow.CauseLimit, workflow.FailureLimit
		why.Message = fmt.Sprintf("the execution has not ended within %s of its creation (limits.wall)", d.execution.Limits.Wall.Std())
	}
	if r := d.currentStepRun(); r != nil {
		why.Step = r.Label
	}
	d.setFailure(cause, why)
	d.execution.Cancellation = &workflow.Cancellation{Source: workflow.CancelledByTimeout, Reason: why.Message, At: d.now}
	d.execution.Wait, d.execution.BlockedBy = nil, nil
	if d.execution.State == sm.ExecutionRunning || d.execution.State == sm.ExecutionWaiting {
		d.transition(sm.EventExecutionExpired, sm.ExecutionError, "", nil)
		d.stopAll()
		return true
	}
	d.failBeforeRunning(sm.EventExecutionExpired, nil)
	return true
}
