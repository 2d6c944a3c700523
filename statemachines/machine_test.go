package statemachines

import (
	"errors"
	"slices"
	"testing"
)

// transitionPath is one way through the table of the execution: each event, and the
// state it leads to.
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

// TestTransitionTable_EachTryHasOneTerminalEvent follows executions through the table
// and checks that each try records exactly one terminal event, under the right name.
func TestTransitionTable_EachTryHasOneTerminalEvent(t *testing.T) {
	for name, c := range map[string]struct {
		path transitionPath
		ends []Event
	}{
		"success": {slices.Concat(pathToRunning, transitionPath{{EventExecutionCompleted, "COMPLETED"}, {EventExecutionSettled, "COMPLETED_ACK"}}), []Event{"execution.completed"}},
		"rejected": {transitionPath{{EventExecutionCreated, "NEW"}, {EventExecutionRejected, "FAILED_SAFE"}, {EventExecutionSettled, "FAILED_SAFE_ACK"}},
			[]Event{"execution.failed_safe"}},
		"blocked until its deadline": {transitionPath{{EventExecutionCreated, "NEW"}, {EventExecutionValidated, "VALID"}, {EventExecutionBlocked, "BLOCKED_WAITING"}, {EventExecutionExpired, "FAILED_SAFE"}},
			[]Event{"execution.failed_safe"}},
		"two lock conflicts, then locked": {slices.Concat(pathToLocking, transitionPath{
			{EventLockDeferred, "SCHEDULED"}, {EventLockRequested, "LOCKING"}, {EventLockDeferred, "SCHEDULED"}, {EventLockRequested, "LOCKING"},
			{EventLockGranted, "LOCKED"}, {EventExecutionStarted, "RUNNING"}, {EventExecutionCompleted, "COMPLETED"},
		}), []Event{"execution.completed"}},
		"lock refused because of a deadlock": {slices.Concat(pathToLocking, transitionPath{{EventLockDeferred, "SCHEDULED"}, {EventLockRefused, "FAILED_SAFE"}}), []Event{"execution.failed_safe"}},
		"rolled back": {slices.Concat(pathToRunning, transitionPath{{EventExecutionFailed, "ERROR"}, {EventRollbackStarted, "ROLLBACK"}, {EventRollbackCompleted, "FAILED_SAFE"}}),
			[]Event{"execution.failed_safe"}},
		"rollback failed, acknowledged, retried": {slices.Concat(pathToRunning, transitionPath{
			{EventExecutionFailed, "ERROR"}, {EventRollbackStarted, "ROLLBACK"}, {EventRollbackFailed, "FAILED_UNSAFE"}, {EventExecutionAcknowledged, "FAILED_UNSAFE_ACK"},
			{EventExecutionRetried, "READY"},
		}, pathToRunning[3:], transitionPath{{EventExecutionCompleted, "COMPLETED"}}), []Event{"execution.failed_unsafe", "execution.completed"}},
		"retried under the locks it holds": {slices.Concat(pathToRunning, transitionPath{
			{EventExecutionBroken, "ERROR"}, {EventExecutionClassifiedUnsafe, "FAILED_UNSAFE"}, {EventExecutionRetried, "RUNNING"}, {EventExecutionCompleted, "COMPLETED"},
		}), []Event{"execution.failed_unsafe", "execution.completed"}},
		"waits and is resumed": {slices.Concat(pathToRunning, transitionPath{
			{EventExecutionPaused, "WAITING"}, {EventExecutionPaused, "WAITING"}, {EventExecutionResumed, "RUNNING"}, {EventExecutionCompleted, "COMPLETED"},
		}), []Event{"execution.completed"}},
		"waits until the deadline": {slices.Concat(pathToRunning, transitionPath{{EventExecutionPaused, "WAITING"}, {EventExecutionExpired, "ERROR"}, {EventExecutionClassifiedSafe, "FAILED_SAFE"}}),
			[]Event{"execution.failed_safe"}},
		"cancelled before it runs": {transitionPath{{EventExecutionCreated, "NEW"}, {EventCancelRequested, "CANCELLING"}, {EventExecutionCancelled, "CANCELLED"}, {EventExecutionSettled, "CANCELLED_ACK"}},
			[]Event{"execution.cancelled"}},
		"cancelled and rolled back": {slices.Concat(pathToRunning, transitionPath{
			{EventCancelRequested, "CANCELLING"}, {EventRollbackStarted, "ROLLBACK"}, {EventRollbackCompleted, "CANCELLED"}, {EventExecutionAcknowledged, "CANCELLED_ACK"},
		}), []Event{"execution.cancelled"}},
	} {
		t.Run(name, func(t *testing.T) {
			var at ExecutionState
			var ends []Event
			for _, step := range c.path {
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

// TestTransitionTable_RefusesAndIgnores checks the verdicts on requests of operators
// and on late messages.
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
				t.Errorf("%s, %s: verdict %s, moves %t", from, on, v, moves)
			}
		}
	}
	if v := Execution.Verdict(ExecutionRunning, EventJobCompleted); v != Refuse {
		t.Errorf("the verdict of an execution on an event of a job is %s", v)
	}
}

// TestTransitionTable_LowerLayers checks moves of the lower layers that other packages
// rely on.
func TestTransitionTable_LowerLayers(t *testing.T) {
	allowed := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	refused := func(err error) {
		t.Helper()
		if err == nil {
			t.Error("the move is allowed")
		}
	}
	allowed(Workflow.Move(WorkflowPending, EventWorkflowInitialized, WorkflowRunning))
	refused(Workflow.Move(WorkflowFailed, EventWorkflowCompleted, WorkflowCompleted))
	for _, s := range []StepState{StepCompleted, StepFailed, StepSkipped, StepCaseHandled, StepCancelled} {
		allowed(Step.Move(StepRunning, EventStepExited, s))
		refused(Step.Move(s, EventStepEntered, StepRunning))
	}
	allowed(Job.Move("", EventJobCreated, JobPending))
	allowed(Job.Move(JobClaimed, EventJobLeaseExpired, JobIssued))
	allowed(Job.Move(JobRunning, EventJobLeaseExpired, JobIssued))
	refused(Job.Move(JobRunning, EventJobCancelled, JobCancelled)) // a started job never counts as not executed
	refused(Job.Move(JobCancelled, EventJobCompleted, JobCompleted))
	refused(Job.Move(JobUnknown, EventJobCompleted, JobCompleted))
	refused(Job.Move(JobRunning, EventJobClaimed, JobClaimed))
	allowed(Tool.Move(ToolRunning, EventToolReturned, ToolBreak))
	refused(Tool.Move(ToolError, EventToolReturned, ToolOK))
	for _, s := range []WorkerState{WorkerRegistered, WorkerUnreachable, WorkerOffline} {
		allowed(Worker.Move(s, EventWorkerHeartbeat, WorkerOnline))
	}
	refused(Worker.Move(WorkerOnline, EventWorkerLost, WorkerOffline))
	refused(Worker.Move(WorkerRemoved, EventWorkerHeartbeat, WorkerOnline))
}
