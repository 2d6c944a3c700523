package statemachines

import "slices"

// ExecutionState is the state of one run of a definition. The empty state is
// that of an execution that does not exist.
type ExecutionState string

// The states of an execution, in the order of its life.
const (
	ExecutionNew                 ExecutionState = "NEW"
	ExecutionValid               ExecutionState = "VALID"
	ExecutionBlockedWaiting      ExecutionState = "BLOCKED_WAITING"
	ExecutionReady               ExecutionState = "READY"
	ExecutionResourceDiscovery   ExecutionState = "RESOURCE_DISCOVERY"
	ExecutionResourcesDiscovered ExecutionState = "RESOURCES_DISCOVERED"
	ExecutionScheduled           ExecutionState = "SCHEDULED"
	ExecutionLocking             ExecutionState = "LOCKING"
	ExecutionLocked              ExecutionState = "LOCKED"
	ExecutionRunning             ExecutionState = "RUNNING"
	ExecutionWaiting             ExecutionState = "WAITING"
	ExecutionCancelling          ExecutionState = "CANCELLING"
	ExecutionError               ExecutionState = "ERROR"
	ExecutionRollback            ExecutionState = "ROLLBACK"
	ExecutionCompleted           ExecutionState = "COMPLETED"
	ExecutionFailedSafe          ExecutionState = "FAILED_SAFE"
	ExecutionFailedUnsafe        ExecutionState = "FAILED_UNSAFE"
	ExecutionCancelled           ExecutionState = "CANCELLED"
	ExecutionCompletedAck        ExecutionState = "COMPLETED_ACK"
	ExecutionFailedSafeAck       ExecutionState = "FAILED_SAFE_ACK"
	ExecutionFailedUnsafeAck     ExecutionState = "FAILED_UNSAFE_ACK"
	ExecutionCancelledAck        ExecutionState = "CANCELLED_ACK"
)

// The events of an execution.
const (
	EventExecutionCreated          Event = "execution.created"
	EventExecutionValidated        Event = "execution.validated"
	EventExecutionRejected         Event = "execution.rejected"
	EventExecutionBlocked          Event = "execution.blocked"
	EventExecutionReady            Event = "execution.ready"
	EventDiscoveryStarted          Event = "discovery.started"
	EventDiscoveryCompleted        Event = "discovery.completed"
	EventDiscoveryFailed           Event = "discovery.failed"
	EventExecutionScheduled        Event = "execution.scheduled"
	EventLockRequested             Event = "lock.requested"
	EventLockGranted               Event = "lock.granted"
	EventLockDeferred              Event = "lock.deferred"
	EventLockRefused               Event = "lock.refused"
	EventLockReleased              Event = "lock.released"
	EventExecutionStarted          Event = "execution.started"
	EventExecutionPaused           Event = "execution.paused"
	EventExecutionResumed          Event = "execution.resumed"
	EventExecutionExpired          Event = "execution.expired"
	EventExecutionCompleted        Event = "execution.completed"
	EventExecutionFailed           Event = "execution.failed"
	EventExecutionBroken           Event = "execution.broken"
	EventExecutionClassifiedSafe   Event = "execution.classified_safe"
	EventExecutionClassifiedUnsafe Event = "execution.classified_unsafe"
	EventRollbackStarted           Event = "rollback.started"
	EventRollbackCompleted         Event = "rollback.completed"
	EventRollbackFailed            Event = "rollback.failed"
	EventCancelRequested           Event = "cancel.requested"
	EventExecutionCancelled        Event = "execution.cancelled"
	EventExecutionSettled          Event = "execution.settled"
	EventExecutionAcknowledged     Event = "execution.acknowledged"
	EventExecutionRetried          Event = "execution.retried"
)

// Two of the four terminal events are never a trigger: several triggers lead to
// these states, and the history has one name for having got there. The other
// two, EventExecutionCompleted and EventExecutionCancelled, are both.
const (
	EventExecutionFailedSafe   Event = "execution.failed_safe"
	EventExecutionFailedUnsafe Event = "execution.failed_unsafe"
)

// Who may move an execution, as the tables name them.
const (
	byEngine   = "engine"
	byTimer    = "alarm clock, engine"
	byOperator = "operator"
)

var (
	executionBeforeLocking = []ExecutionState{
		ExecutionNew, ExecutionValid, ExecutionBlockedWaiting, ExecutionReady,
		ExecutionResourceDiscovery, ExecutionResourcesDiscovered, ExecutionScheduled,
	}
	executionBeforeRunning = slices.Concat(executionBeforeLocking, []ExecutionState{ExecutionLocking, ExecutionLocked})
	executionEnded         = []ExecutionState{ExecutionCompleted, ExecutionFailedSafe, ExecutionFailedUnsafe, ExecutionCancelled}
	executionAcknowledged  = []ExecutionState{ExecutionCompletedAck, ExecutionFailedSafeAck, ExecutionFailedUnsafeAck, ExecutionCancelledAck}

	executionTerminalEvents = map[string]Event{
		string(ExecutionCompleted):    EventExecutionCompleted,
		string(ExecutionFailedSafe):   EventExecutionFailedSafe,
		string(ExecutionFailedUnsafe): EventExecutionFailedUnsafe,
		string(ExecutionCancelled):    EventExecutionCancelled,
	}
)

// Execution is the law of the outermost layer. Its owner is the engine.
var Execution = newTransitionTable[ExecutionState](Machine{
	Layer:       LayerExecution,
	States:      stateNames(ExecutionStates()...),
	Initial:     string(ExecutionNew),
	Terminal:    stateNames(slices.Concat(executionEnded, executionAcknowledged)...),
	Closed:      stateNames(executionAcknowledged...),
	ReopenEvent: EventExecutionRetried,
	Events: []Event{
		EventExecutionCreated, EventExecutionValidated, EventExecutionRejected, EventExecutionBlocked, EventExecutionReady,
		EventDiscoveryStarted, EventDiscoveryCompleted, EventDiscoveryFailed, EventExecutionScheduled,
		EventLockRequested, EventLockGranted, EventLockDeferred, EventLockRefused, EventLockReleased, EventExecutionStarted,
		EventExecutionPaused, EventExecutionResumed, EventExecutionExpired, EventExecutionCompleted, EventExecutionFailed, EventExecutionBroken,
		EventExecutionClassifiedSafe, EventExecutionClassifiedUnsafe, EventRollbackStarted, EventRollbackCompleted, EventRollbackFailed,
		EventCancelRequested, EventExecutionCancelled, EventExecutionSettled, EventExecutionAcknowledged, EventExecutionRetried,
	},
	TerminalEvents: executionTerminalEvents,
	Rows: recordTerminalEvents(slices.Concat(
		// Submission.
		moves(EventExecutionCreated, ExecutionNew, "API, schedule, parent", "a start was asked for", ExecutionState("")),
		moves(EventExecutionValidated, ExecutionValid, byEngine, "definition, blocks and parameters are in order, and pinned", ExecutionNew),
		moves(EventExecutionRejected, ExecutionFailedSafe, byEngine, "a block is unknown, or the parameters do not fit", ExecutionNew),
		moves(EventExecutionBlocked, ExecutionBlockedWaiting, byEngine, "`notBefore` or `startWhen` has to be waited for", ExecutionValid),
		moves(EventExecutionReady, ExecutionReady, byTimer, "nothing has to be waited for (any more)", ExecutionValid, ExecutionBlockedWaiting),

		// Acquisition.
		moves(EventDiscoveryStarted, ExecutionResourceDiscovery, byEngine, "always; ACQUIRE jobs are created where a block acquires", ExecutionReady),
		moves(EventDiscoveryCompleted, ExecutionResourcesDiscovered, byEngine, "the set of entities is fixed", ExecutionResourceDiscovery),
		moves(EventDiscoveryFailed, ExecutionFailedSafe, byEngine, "an entity is unknown, a set must not be empty, or an ACQUIRE job failed", ExecutionResourceDiscovery),
		moves(EventExecutionScheduled, ExecutionScheduled, byEngine, "always", ExecutionResourcesDiscovered),

		// Locking.
		moves(EventLockRequested, ExecutionLocking, byEngine, "nothing known blocks it; the lock epoch grows", ExecutionScheduled),
		moves(EventLockGranted, ExecutionLocked, byEngine, "every lock is held at this epoch", ExecutionLocking),
		moves(EventLockDeferred, ExecutionScheduled, byEngine, "a lock is held or reserved by another: everything is released by this write", ExecutionLocking),
		moves(EventLockRefused, ExecutionFailedSafe, byEngine, "the definition does not want to wait, or waiting would be a deadlock", ExecutionLocking, ExecutionScheduled),
		moves(EventExecutionStarted, ExecutionRunning, byEngine, "always", ExecutionLocked),

		// Running.
		moves(EventExecutionPaused, ExecutionWaiting, byEngine, "a step waits: INPUT, TIMER, SIGNAL, CHILD, CHILD_INPUT", ExecutionRunning),
		moves(EventExecutionPaused, ExecutionWaiting, byEngine, "what it waits for has changed: its child now waits for input, or no longer does", ExecutionWaiting),
		moves(EventExecutionResumed, ExecutionRunning, "operator, child, alarm clock", "what it waited for has come", ExecutionWaiting),
		moves(EventExecutionExpired, ExecutionRunning, byTimer, "the wait's deadline has passed, and the step has a path for that", ExecutionWaiting),
		moves(EventExecutionExpired, ExecutionError, byTimer, "the deadline of the run, or of a wait without a path for that, has passed", ExecutionRunning, ExecutionWaiting),
		moves(EventExecutionCompleted, ExecutionCompleted, byEngine, "the last step has ended well", ExecutionRunning),
		moves(EventExecutionFailed, ExecutionError, byEngine, "a step failed beyond its retries and what the definition tolerates", ExecutionRunning, ExecutionWaiting),
		moves(EventExecutionBroken, ExecutionError, byEngine, "an unexpected error: what was started is closed, then judged", ExecutionRunning, ExecutionWaiting),

		// Before it runs, nothing has happened to any entity.
		moves(EventExecutionExpired, ExecutionFailedSafe, byTimer, "a deadline has passed: of the run, of its start, of its locks", executionBeforeRunning...),
		moves(EventExecutionBroken, ExecutionFailedSafe, byEngine, "an unexpected error before anything was done", executionBeforeRunning...),

		// Failure.
		moves(EventExecutionClassifiedSafe, ExecutionFailedSafe, byEngine, "every job is final, and nothing but pure blocks was executed", ExecutionError),
		moves(EventRollbackStarted, ExecutionRollback, byEngine, "every job is final, and everything executed can be undone", ExecutionError),
		moves(EventExecutionClassifiedUnsafe, ExecutionFailedUnsafe, byEngine, "something executed, or perhaps executed, cannot or must not be undone", ExecutionError),
		moves(EventExecutionBroken, ExecutionFailedUnsafe, byEngine, "an unexpected error while it was ending, or the tables were restored: somebody has to look", slices.Concat(executionBeforeRunning, []ExecutionState{ExecutionError, ExecutionCancelling, ExecutionRollback})...),
		moves(EventRollbackCompleted, ExecutionFailedSafe, byEngine, "everything is undone", ExecutionRollback),
		moves(EventRollbackCompleted, ExecutionCancelled, byEngine, "everything is undone, and the run was cancelled", ExecutionRollback),
		moves(EventRollbackFailed, ExecutionFailedUnsafe, byEngine, "something could not be undone", ExecutionRollback),

		// Cancellation.
		moves(EventCancelRequested, ExecutionCancelling, "operator, parent", "always; nothing more of it starts", slices.Concat(executionBeforeRunning, []ExecutionState{ExecutionRunning, ExecutionWaiting})...),
		moves(EventRollbackStarted, ExecutionRollback, byEngine, "every job is final; undoing was asked for and is possible", ExecutionCancelling),
		moves(EventExecutionCancelled, ExecutionCancelled, byEngine, "every job is final; nothing is to be undone", ExecutionCancelling),

		// After the end.
		moves(EventExecutionSettled, ExecutionCompletedAck, byEngine, "updates are applied; all locks are released by this write", ExecutionCompleted),
		moves(EventExecutionSettled, ExecutionFailedSafeAck, byEngine, "nothing is left behind; all locks are released by this write", ExecutionFailedSafe),
		moves(EventExecutionSettled, ExecutionCancelledAck, byEngine, "nothing irreversible is left behind; all locks are released by this write", ExecutionCancelled),
		moves(EventExecutionAcknowledged, ExecutionFailedUnsafeAck, byOperator, "somebody has looked at the entities; all locks are released by this write", ExecutionFailedUnsafe),
		moves(EventExecutionAcknowledged, ExecutionCancelledAck, byOperator, "somebody has looked at the entities; all locks are released by this write", ExecutionCancelled),
		moves(EventLockReleased, ExecutionFailedUnsafe, byOperator, "somebody wants the entities free before the end is acknowledged", ExecutionFailedUnsafe),
		moves(EventLockReleased, ExecutionCancelled, byOperator, "somebody wants the entities free before the end is acknowledged", ExecutionCancelled),
		moves(EventExecutionRetried, ExecutionReady, byOperator, "a new try; locks are taken anew", ExecutionFailedSafeAck, ExecutionFailedUnsafe, ExecutionFailedUnsafeAck),
		moves(EventExecutionRetried, ExecutionRunning, byOperator, "a new try under the locks that are still held", ExecutionFailedUnsafe),
	), executionTerminalEvents),
	Defaults: []Default{
		{On: []Event{EventExecutionCreated}, Verdict: Ignore, Reason: "it exists: the same request came twice"},
		{On: []Event{EventExecutionExpired}, Verdict: Ignore, Reason: "the alarm rang too late: it is ending or has ended"},
		{On: []Event{EventExecutionBroken}, Verdict: Ignore, Reason: "it has ended: the error is reported, the state stays, the alarm looks again"},
		{On: []Event{EventExecutionFailed}, From: stateNames(ExecutionCancelling, ExecutionError, ExecutionRollback), Verdict: Ignore, Reason: "it is already ending: the first reason stays"},
		{On: []Event{EventLockGranted, EventLockDeferred, EventLockRefused}, From: stateNames(ExecutionNew, ExecutionValid, ExecutionBlockedWaiting), Verdict: Refuse, Reason: "no lock was ever asked for"},
		{On: []Event{EventLockGranted, EventLockDeferred, EventLockRefused}, Verdict: Ignore, Reason: "the answer to a stale handler: locking at that epoch is over"},
		{On: []Event{EventExecutionSettled}, From: stateNames(executionAcknowledged...), Verdict: Ignore, Reason: "it is acknowledged already"},

		// What operators ask for, and must be told about.
		{On: []Event{EventCancelRequested}, From: stateNames(ExecutionCancelling), Verdict: Refuse, Reason: "it is being cancelled already"},
		{On: []Event{EventCancelRequested}, From: stateNames(ExecutionError), Verdict: Refuse, Reason: "it has failed and is being judged: it ends by itself"},
		{On: []Event{EventCancelRequested}, From: stateNames(ExecutionRollback), Verdict: Refuse, Reason: "a rollback is never interrupted: half undone is worse than done or undone"},
		{On: []Event{EventCancelRequested}, Verdict: Refuse, Reason: "it has ended"},
		{On: []Event{EventExecutionResumed}, Verdict: Refuse, Reason: "it does not wait for anybody"},
		{On: []Event{EventLockReleased}, Verdict: Refuse, Reason: "its locks end with it: wait for its end, or cancel it"},
		{On: []Event{EventExecutionAcknowledged}, From: stateNames(ExecutionCompleted, ExecutionFailedSafe), Verdict: Refuse, Reason: "it settles by itself: there is nothing to look at"},
		{On: []Event{EventExecutionAcknowledged}, From: stateNames(executionAcknowledged...), Verdict: Refuse, Reason: "it is acknowledged already"},
		{On: []Event{EventExecutionAcknowledged}, Verdict: Refuse, Reason: "it has not ended"},
		{On: []Event{EventExecutionRetried}, From: stateNames(ExecutionFailedSafe), Verdict: Refuse, Reason: "it is about to settle: retry it then"},
		{On: []Event{EventExecutionRetried}, From: stateNames(ExecutionCompleted, ExecutionCompletedAck), Verdict: Refuse, Reason: "it has succeeded"},
		{On: []Event{EventExecutionRetried}, From: stateNames(ExecutionCancelled, ExecutionCancelledAck), Verdict: Refuse, Reason: "it was cancelled: start a new one"},
		{On: []Event{EventExecutionRetried}, Verdict: Refuse, Reason: "it has not ended"},

		// What the engine decides from the state it has read. In another state it
		// is a stale decision, which the conditional write refuses as well, or a
		// mistake of ours.
		{From: stateNames(executionAcknowledged...), Verdict: Refuse, Reason: "it is closed: nothing but a retry leads out"},
		{From: stateNames(executionEnded...), Verdict: Refuse, Reason: "it has ended: only settling, acknowledging or retrying is left"},
		{From: stateNames(ExecutionRollback), Verdict: Refuse, Reason: "a rollback is completed or fails, nothing else"},
		{From: stateNames(ExecutionError, ExecutionCancelling), Verdict: Refuse, Reason: "it is stopping: it is rolled back or ends, nothing else"},
		{From: stateNames(ExecutionRunning, ExecutionWaiting), Verdict: Refuse, Reason: "it is running: how it began is past, and how it ends is not decided yet"},
		{Verdict: Refuse, Reason: "the life of an execution before it runs has one order, and this is not next"},
	},
})
