package statemachines

import (
	"errors"
	"slices"
	"testing"
)

// transitionPath is one way through the execution's law, written as an operator would
// tell it: the event, and the state it leads to.
type transitionPath []struct {
	on Event
	to ExecutionState
}

var pathToLocking = transitionPath{
	{EventExecutionCreated, "NEW"}, {EventExecutionValidated, "VALID"}, {EventExecutionReady, "READY"},
	{EventDiscoveryStarted, "RESOURCE_DISCOVERY"}, {EventDiscoveryCompleted, "RESOURCES_DISCOVERED"},
	{EventExecutionScheduled, "SCHEDULED"}, {EventLockRequested, "LOCKING"},
}

var pathToRunning = slices.Concat(pathToLocking, transitionPath{{EventLockGranted, "LOCKED"}, {EventExecutionStarted, "RUNNING"}})

// TestTransitionTable_EachTryHasOneTerminalEvent walks lives of executions and asks that each try of each has
// exactly one terminal event, of the right name.
func TestTransitionTable_EachTryHasOneTerminalEvent(t *testing.T) {
	for name, c := range map[string]struct {
		life transitionPath
		ends []Event
	}{
		"success": {slices.Concat(pathToRunning, transitionPath{{EventExecutionCompleted, "COMPLETED"}, {EventExecutionSettled, "COMPLETED_ACK"}}), []Event{"execution.completed"}},
		"rejected": {transitionPath{{EventExecutionCreated, "NEW"}, {EventExecutionRejected, "FAILED_SAFE"}, {EventExecutionSettled, "FAILED_SAFE_ACK"}},
			[]Event{"execution.failed_safe"}},
		"blocked, then too late": {transitionPath{{EventExecutionCreated, "NEW"}, {EventExecutionValidated, "VALID"}, {EventExecutionBlocked, "BLOCKED_WAITING"}, {EventExecutionExpired, "FAILED_SAFE"}},
			[]Event{"execution.failed_safe"}},
		"locked out twice, then in": {slices.Concat(pathToLocking, transitionPath{
			{EventLockDeferred, "SCHEDULED"}, {EventLockRequested, "LOCKING"}, {EventLockDeferred, "SCHEDULED"}, {EventLockRequested, "LOCKING"},
			{EventLockGranted, "LOCKED"}, {EventExecutionStarted, "RUNNING"}, {EventExecutionCompleted, "COMPLETED"},
		}), []Event{"execution.completed"}},
		"would be a deadlock": {slices.Concat(pathToLocking, transitionPath{{EventLockDeferred, "SCHEDULED"}, {EventLockRefused, "FAILED_SAFE"}}), []Event{"execution.failed_safe"}},
		"rolled back": {slices.Concat(pathToRunning, transitionPath{{EventExecutionFailed, "ERROR"}, {EventRollbackStarted, "ROLLBACK"}, {EventRollbackCompleted, "FAILED_SAFE"}}),
			[]Event{"execution.failed_safe"}},
		"half rolled back, looked at, tried again": {slices.Concat(pathToRunning, transitionPath{
			{EventExecutionFailed, "ERROR"}, {EventRollbackStarted, "ROLLBACK"}, {EventRollbackFailed, "FAILED_UNSAFE"}, {EventExecutionAcknowledged, "FAILED_UNSAFE_ACK"},
			{EventExecutionRetried, "READY"},
		}, pathToRunning[3:], transitionPath{{EventExecutionCompleted, "COMPLETED"}}), []Event{"execution.failed_unsafe", "execution.completed"}},
		"tried again under its locks": {slices.Concat(pathToRunning, transitionPath{
			{EventExecutionBroken, "ERROR"}, {EventExecutionClassifiedUnsafe, "FAILED_UNSAFE"}, {EventExecutionRetried, "RUNNING"}, {EventExecutionCompleted, "COMPLETED"},
		}), []Event{"execution.failed_unsafe", "execution.completed"}},
		"waits for a person": {slices.Concat(pathToRunning, transitionPath{
			{EventExecutionPaused, "WAITING"}, {EventExecutionPaused, "WAITING"}, {EventExecutionResumed, "RUNNING"}, {EventExecutionCompleted, "COMPLETED"},
		}), []Event{"execution.completed"}},
		"waits too long": {slices.Concat(pathToRunning, transitionPath{{EventExecutionPaused, "WAITING"}, {EventExecutionExpired, "ERROR"}, {EventExecutionClassifiedSafe, "FAILED_SAFE"}}),
			[]Event{"execution.failed_safe"}},
		"cancelled at once": {transitionPath{{EventExecutionCreated, "NEW"}, {EventCancelRequested, "CANCELLING"}, {EventExecutionCancelled, "CANCELLED"}, {EventExecutionSettled, "CANCELLED_ACK"}},
			[]Event{"execution.cancelled"}},
		"cancelled and rolled back": {slices.Concat(pathToRunning, transitionPath{
			{EventCancelRequested, "CANCELLING"}, {EventRollbackStarted, "ROLLBACK"}, {EventRollbackCompleted, "CANCELLED"}, {EventExecutionAcknowledged, "CANCELLED_ACK"},
		}), []Event{"execution.cancelled"}},
	} {
		t.Run(name, func(t *testing.T) {
			var at ExecutionState
			var ends []Event
			for _, step := range c.life {
				records, err := TransitionExecution(at, step.on, step.to)
				if err != nil {
					t.Fatal(err)
				}
				if Terminal(step.to) && !Terminal(at) {
					ends = append(ends, records)
				} else if records != step.on {
					t.Errorf("%s from %s to %s is recorded as %s", step.on, at, step.to, records)
				}
				at = step.to
			}
			if !slices.Equal(ends, c.ends) {
				t.Errorf("terminal events %v, want %v", ends, c.ends)
			}
		})
	}
}

// TestTransitionTable_RefusesAndIgnores asks what operators and late messages are told.
func TestTransitionTable_RefusesAndIgnores(t *testing.T) {
	for _, c := range []struct {
		from    ExecutionState
		on      Event
		to      ExecutionState
		verdict Verdict
	}{
		{ExecutionError, EventCancelRequested, ExecutionCancelling, Refuse},
		{ExecutionCancelling, EventCancelRequested, ExecutionCancelling, Refuse},
		{ExecutionRollback, EventCancelRequested, ExecutionCancelling, Refuse},
		{ExecutionCompleted, EventCancelRequested, ExecutionCancelling, Refuse},
		{ExecutionFailedUnsafe, EventCancelRequested, ExecutionCancelling, Refuse},
		{ExecutionCancelledAck, EventCancelRequested, ExecutionCancelling, Refuse},
		{ExecutionRunning, EventExecutionAcknowledged, ExecutionFailedUnsafeAck, Refuse},
		{ExecutionFailedSafe, EventExecutionAcknowledged, ExecutionFailedSafeAck, Refuse},
		{ExecutionFailedUnsafe, EventExecutionSettled, ExecutionFailedUnsafeAck, Refuse},
		{ExecutionFailedUnsafe, EventExecutionAcknowledged, ExecutionCancelledAck, Refuse}, // the wrong destination
		{ExecutionFailedUnsafeAck, EventExecutionRetried, ExecutionRunning, Refuse},        // its locks are gone
		{ExecutionCompletedAck, EventExecutionRetried, ExecutionReady, Refuse},
		{ExecutionRunning, EventExecutionResumed, ExecutionRunning, Refuse},
		{ExecutionRunning, EventLockGranted, ExecutionLocked, Ignore},
		{ExecutionReady, EventLockDeferred, ExecutionScheduled, Ignore}, // after a retry
		{ExecutionNew, EventLockGranted, ExecutionLocked, Refuse},
		{ExecutionRunning, EventExecutionCreated, ExecutionNew, Ignore},
		{ExecutionRollback, EventExecutionExpired, ExecutionError, Ignore},
		{ExecutionCompleted, EventExecutionBroken, ExecutionError, Ignore},
		{ExecutionRunning, EventJobCompleted, ExecutionCompleted, Refuse}, // a lower layer closes nothing
		{ExecutionRunning, EventStepExited, ExecutionCompleted, Refuse},
		{ExecutionRunning, EventWorkflowCompleted, ExecutionCompleted, Refuse},
		{"", EventExecutionStarted, ExecutionRunning, Refuse},
		{"PAUSED", EventExecutionResumed, ExecutionRunning, Refuse},
	} {
		err := Execution.Move(c.from, c.on, c.to)
		var r *TransitionError
		if !errors.As(err, &r) {
			t.Errorf("%s, %s: %v", c.from, c.on, err)
			continue
		}
		if r.Verdict != c.verdict || r.Layer != LayerExecution || r.State != string(c.from) || r.Event != c.on || r.To != string(c.to) || r.Reason == "" || r.Error() == "" {
			t.Errorf("%s, %s: %+v", c.from, c.on, r)
		}
	}
}

func TestTransitionTable_VerdictAgreesWithMove(t *testing.T) {
	for _, from := range ExecutionStates() {
		for _, on := range Execution.Machine().Events {
			moves := slices.ContainsFunc(ExecutionStates(), func(to ExecutionState) bool { return Execution.Move(from, on, to) == nil })
			if v := Execution.Verdict(from, on); moves != (v == Move) {
				t.Errorf("%s, %s: %s, and it moves: %t", from, on, v, moves)
			}
		}
	}
	if v := Execution.Verdict(ExecutionRunning, EventJobCompleted); v != Refuse {
		t.Errorf("a job's event is %s by an execution", v)
	}
}

// TestTransitionTable_LowerLayers spells out what the lower layers promise.
func TestTransitionTable_LowerLayers(t *testing.T) {
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	no := func(err error) {
		t.Helper()
		if err == nil {
			t.Error("allowed")
		}
	}
	ok(Workflow.Move(WorkflowPending, EventWorkflowInitialized, WorkflowRunning))
	no(Workflow.Move(WorkflowFailed, EventWorkflowCompleted, WorkflowCompleted))
	for _, s := range []StepState{StepCompleted, StepFailed, StepSkipped, StepCaseHandled, StepCancelled} {
		ok(Step.Move(StepRunning, EventStepExited, s))
		no(Step.Move(s, EventStepEntered, StepRunning))
	}
	ok(Job.Move("", EventJobCreated, JobPending))
	ok(Job.Move(JobClaimed, EventJobLeaseExpired, JobIssued))
	ok(Job.Move(JobRunning, EventJobLeaseExpired, JobIssued))
	no(Job.Move(JobRunning, EventJobCancelled, JobCancelled)) // what was started is never "not executed"
	no(Job.Move(JobCancelled, EventJobCompleted, JobCompleted))
	no(Job.Move(JobUnknown, EventJobCompleted, JobCompleted))
	no(Job.Move(JobRunning, EventJobClaimed, JobClaimed))
	ok(Tool.Move(ToolRunning, EventToolReturned, ToolBreak))
	no(Tool.Move(ToolError, EventToolReturned, ToolOK))
	for _, s := range []WorkerState{WorkerRegistered, WorkerUnreachable, WorkerOffline} {
		ok(Worker.Move(s, EventWorkerHeartbeat, WorkerOnline))
	}
	no(Worker.Move(WorkerOnline, EventWorkerLost, WorkerOffline))
	no(Worker.Move(WorkerRemoved, EventWorkerHeartbeat, WorkerOnline))
}
