package statemachines

import "slices"

// ExecutionState is the state of one execution of a definition. The empty state
// is that of an execution that does not exist.
type ExecutionState string

// The states of an execution, in lifecycle order.
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
	EventFailedEntitiesUndone      Event = "execution.failed_entities_undone"
	EventRollbackStarted           Event = "rollback.started"
	EventRollbackCompleted         Event = "rollback.completed"
	EventRollbackFailed            Event = "rollback.failed"
	EventCancelRequested           Event = "cancel.requested"
	EventExecutionCancelled        Event = "execution.cancelled"
	EventExecutionSettled          Event = "execution.settled"
	EventExecutionAcknowledged     Event = "execution.acknowledged"
	EventExecutionRetried          Event = "execution.retried"
	EventExecutionRewound          Event = "execution.rewound"
)

// These two terminal events are never a trigger. Several triggers lead to their
// states, and the history records each end under one name. The other two terminal
// events, EventExecutionCompleted and EventExecutionCancelled, are also triggers.
const (
	EventExecutionFailedSafe   Event = "execution.failed_safe"
	EventExecutionFailedUnsafe Event = "execution.failed_unsafe"
)

// The actors that may move an execution, as the tables name them.
const (
	byEngine   = "engine"
	byTimer    = "timer, engine"
	byOperator = "operator"
)

var (
	executionBeforeLocking = []ExecutionState{
		ExecutionNew, ExecutionValid, ExecutionBlockedWaiting, ExecutionReady,
		ExecutionResourceDiscovery, ExecutionResourcesDiscovered, ExecutionScheduled,
	}
	executionBeforeRunning = slices.Concat(executionBeforeLocking, []ExecutionState{ExecutionLocking, ExecutionLocked})
	executionTriedAgain    = []ExecutionState{ExecutionReady, ExecutionResourceDiscovery, ExecutionResourcesDiscovered, ExecutionScheduled, ExecutionLocking, ExecutionLocked}
	executionEnded         = []ExecutionState{ExecutionCompleted, ExecutionFailedSafe, ExecutionFailedUnsafe, ExecutionCancelled}
	executionAcknowledged  = []ExecutionState{ExecutionCompletedAck, ExecutionFailedSafeAck, ExecutionFailedUnsafeAck, ExecutionCancelledAck}

	executionTerminalEvents = map[string]Event{
		string(ExecutionCompleted):    EventExecutionCompleted,
		string(ExecutionFailedSafe):   EventExecutionFailedSafe,
		string(ExecutionFailedUnsafe): EventExecutionFailedUnsafe,
		string(ExecutionCancelled):    EventExecutionCancelled,
	}
)

// Execution is the transition table of the outermost layer. The engine owns it.
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
		EventExecutionClassifiedSafe, EventExecutionClassifiedUnsafe, EventFailedEntitiesUndone, EventRollbackStarted, EventRollbackCompleted, EventRollbackFailed,
		EventCancelRequested, EventExecutionCancelled, EventExecutionSettled, EventExecutionAcknowledged, EventExecutionRetried, EventExecutionRewound,
	},
	TerminalEvents: executionTerminalEvents,
	Rows: recordTerminalEvents(slices.Concat(
		// Submission.
		moves(EventExecutionCreated, ExecutionNew, "API, schedule, parent", "a start was requested", ExecutionState("")),
		moves(EventExecutionValidated, ExecutionValid, byEngine, "definition, blocks and parameters are valid; versions are pinned", ExecutionNew),
		moves(EventExecutionRejected, ExecutionFailedSafe, byEngine, "a block is unknown, or the parameters are invalid", ExecutionNew),
		moves(EventExecutionBlocked, ExecutionBlockedWaiting, byEngine, "it has to wait for `notBefore` or `startWhen`, or its starter holds it", ExecutionValid),
		moves(EventExecutionResumed, ExecutionBlockedWaiting, byOperator, "its starter no longer holds it", ExecutionBlockedWaiting),
		moves(EventExecutionReady, ExecutionReady, byTimer, "it does not have to wait (any more)", ExecutionValid, ExecutionBlockedWaiting),

		// Acquisition.
		moves(EventDiscoveryStarted, ExecutionResourceDiscovery, byEngine, "always; ACQUIRE jobs are created for blocks that acquire entities", ExecutionReady),
		moves(EventDiscoveryCompleted, ExecutionResourcesDiscovered, byEngine, "the set of entities is fixed", ExecutionResourceDiscovery),
		moves(EventDiscoveryFailed, ExecutionFailedSafe, byEngine, "an entity is unknown, a set is empty that must not be, or an ACQUIRE job failed", ExecutionResourceDiscovery),
		moves(EventExecutionScheduled, ExecutionScheduled, byEngine, "always", ExecutionResourcesDiscovered),

		// Locking.
		moves(EventLockRequested, ExecutionLocking, byEngine, "it has no known blocker; the lock epoch increases", ExecutionScheduled),
		moves(EventLockGranted, ExecutionLocked, byEngine, "every lock is held at this epoch", ExecutionLocking),
		moves(EventLockDeferred, ExecutionScheduled, byEngine, "another execution holds or has reserved a lock; this write releases every lock", ExecutionLocking),
		moves(EventLockRefused, ExecutionFailedSafe, byEngine, "the definition says not to wait, or waiting would be a deadlock", ExecutionLocking, ExecutionScheduled),
		moves(EventExecutionStarted, ExecutionRunning, byEngine, "always", ExecutionLocked),

		// Running.
		moves(EventExecutionPaused, ExecutionWaiting, byEngine, "a step waits: INPUT, TIMER, CONDITION, SIGNAL, CHILD, CHILD_INPUT, or STEP for an operator", ExecutionRunning),
		moves(EventExecutionPaused, ExecutionWaiting, byEngine, "what it waits for has changed: its child now waits for input, or no longer does", ExecutionWaiting),
		moves(EventExecutionResumed, ExecutionRunning, "operator, child, timer", "what it waited for has happened", ExecutionWaiting),
		moves(EventExecutionRewound, ExecutionRunning, byOperator, "nothing of it is at work, and it goes back to an earlier step", ExecutionWaiting),
		moves(EventExecutionExpired, ExecutionRunning, byTimer, "the deadline of the wait has passed, and the step handles that", ExecutionWaiting),
		moves(EventExecutionExpired, ExecutionError, byTimer, "the deadline of the execution has passed, or that of a wait whose step does not handle it", ExecutionRunning, ExecutionWaiting),
		moves(EventExecutionCompleted, ExecutionCompleted, byEngine, "the last step has succeeded", ExecutionRunning),
		moves(EventFailedEntitiesUndone, ExecutionRollback, byEngine, "the last step is over, and what was executed on entities that failed can be undone", ExecutionRunning),
		moves(EventExecutionClassifiedUnsafe, ExecutionFailedUnsafe, byEngine, "the last step is over, and what was executed on an entity that failed cannot be undone", ExecutionRunning),
		moves(EventExecutionFailed, ExecutionError, byEngine, "a step failed after its retries, beyond the failure tolerance", ExecutionRunning, ExecutionWaiting),
		moves(EventExecutionBroken, ExecutionError, byEngine, "an unexpected error: open jobs are closed, then the failure is classified", ExecutionRunning, ExecutionWaiting),

		// Before it runs, no entity has been changed.
		moves(EventExecutionExpired, ExecutionFailedSafe, byTimer, "a deadline has passed: of the execution, of its start or of its locks", executionBeforeRunning...),
		moves(EventExecutionBroken, ExecutionFailedSafe, byEngine, "an unexpected error before any job was executed", executionBeforeRunning...),

		// A new try that ends before it runs leaves what the tries before have left.
		moves(EventDiscoveryFailed, ExecutionFailedUnsafe, byEngine, "a new try ended before it had its locks, and changes of an earlier one remain", ExecutionResourceDiscovery),
		moves(EventLockRefused, ExecutionFailedUnsafe, byEngine, "a new try ended before it had its locks, and changes of an earlier one remain", ExecutionLocking, ExecutionScheduled),
		moves(EventExecutionExpired, ExecutionFailedUnsafe, byTimer, "a new try ended before it had its locks, and changes of an earlier one remain", executionTriedAgain...),

		// Failure.
		moves(EventExecutionClassifiedSafe, ExecutionFailedSafe, byEngine, "every job is final, and only pure blocks were executed", ExecutionError),
		moves(EventRollbackStarted, ExecutionRollback, byEngine, "every job is final, and everything executed can be undone", ExecutionError),
		moves(EventExecutionClassifiedUnsafe, ExecutionFailedUnsafe, byEngine, "something executed, or perhaps executed, cannot or must not be undone", ExecutionError),
		moves(EventExecutionBroken, ExecutionFailedUnsafe, byEngine, "an unexpected error while it was ending, or before a new try had its locks and changes of an earlier one remain, or the tables were restored: an operator has to check", slices.Concat(executionBeforeRunning, []ExecutionState{ExecutionError, ExecutionCancelling, ExecutionRollback})...),
		moves(EventRollbackCompleted, ExecutionFailedSafe, byEngine, "everything is undone", ExecutionRollback),
		moves(EventRollbackCompleted, ExecutionCompleted, byEngine, "the entities that failed are undone, and the others have succeeded", ExecutionRollback),
		moves(EventRollbackCompleted, ExecutionCancelled, byEngine, "everything is undone, and the execution was cancelled", ExecutionRollback),
		moves(EventRollbackFailed, ExecutionFailedUnsafe, byEngine, "something could not be undone", ExecutionRollback),

		// Cancellation.
		moves(EventCancelRequested, ExecutionCancelling, "operator, parent, check-in", "always; no further job starts", slices.Concat(executionBeforeRunning, []ExecutionState{ExecutionRunning, ExecutionWaiting})...),
		moves(EventRollbackStarted, ExecutionRollback, byEngine, "every job is final; a rollback was requested and is possible", ExecutionCancelling),
		moves(EventExecutionCancelled, ExecutionCancelled, byEngine, "every job is final; a rollback is not possible or was not requested", ExecutionCancelling),

		// After the end.
		moves(EventExecutionSettled, ExecutionCompletedAck, byEngine, "updates are applied; this write releases all locks", ExecutionCompleted),
		moves(EventExecutionSettled, ExecutionFailedSafeAck, byEngine, "no changes remain; this write releases all locks", ExecutionFailedSafe),
		moves(EventExecutionSettled, ExecutionCancelledAck, byEngine, "no irreversible changes remain; this write releases all locks", ExecutionCancelled),
		moves(EventExecutionAcknowledged, ExecutionFailedUnsafeAck, byOperator, "an operator has checked the entities; this write releases all locks", ExecutionFailedUnsafe),
		moves(EventExecutionAcknowledged, ExecutionCancelledAck, byOperator, "an operator has checked the entities; this write releases all locks", ExecutionCancelled),
		moves(EventExecutionAcknowledged, ExecutionFailedUnsafe, byOperator, "an operator has checked some of the entities; this write releases their locks", ExecutionFailedUnsafe),
		moves(EventExecutionAcknowledged, ExecutionCancelled, byOperator, "an operator has checked some of the entities; this write releases their locks", ExecutionCancelled),
		moves(EventLockReleased, ExecutionFailedUnsafe, byOperator, "some or all entities are needed before the end is acknowledged", ExecutionFailedUnsafe),
		moves(EventLockReleased, ExecutionCancelled, byOperator, "some or all entities are needed before the end is acknowledged", ExecutionCancelled),
		moves(EventExecutionRetried, ExecutionReady, byOperator, "a new try; locks are acquired again", ExecutionFailedSafeAck, ExecutionFailedUnsafe, ExecutionFailedUnsafeAck),
		moves(EventExecutionRetried, ExecutionValid, byOperator, "a new try of one that has never asked for locks: what its start waits for holds again", ExecutionFailedSafeAck),
		moves(EventExecutionRetried, ExecutionRunning, byOperator, "a new try under the locks it still holds", ExecutionFailedUnsafe),
		moves(EventExecutionRetried, ExecutionRollback, byOperator, "its rollback has failed, and undoes the rest under the locks it still holds", ExecutionFailedUnsafe),
	), executionTerminalEvents),
	Defaults: []Default{
		{On: []Event{EventExecutionCreated}, Verdict: Ignore, Reason: "it exists: the same request was sent twice"},
		{On: []Event{EventExecutionExpired}, Verdict: Ignore, Reason: "the timer fired too late: it is ending or has ended"},
		{On: []Event{EventExecutionBroken}, Verdict: Ignore, Reason: "it has ended: the error is reported, the state stays, the timer retries"},
		{On: []Event{EventExecutionFailed}, From: stateNames(ExecutionCancelling, ExecutionError, ExecutionRollback), Verdict: Ignore, Reason: "it is already ending: the first reason is kept"},
		{On: []Event{EventLockGranted, EventLockDeferred, EventLockRefused}, From: stateNames(ExecutionNew, ExecutionValid, ExecutionBlockedWaiting), Verdict: Refuse, Reason: "no lock was ever requested"},
		{On: []Event{EventLockGranted, EventLockDeferred, EventLockRefused}, Verdict: Ignore, Reason: "the result of a stale handler: locking at that epoch is over"},
		{On: []Event{EventExecutionSettled}, From: stateNames(executionAcknowledged...), Verdict: Ignore, Reason: "it is acknowledged already"},

		// Requests of operators, which get an answer.
		{On: []Event{EventCancelRequested}, From: stateNames(ExecutionCancelling), Verdict: Refuse, Reason: "it is being cancelled already"},
		{On: []Event{EventCancelRequested}, From: stateNames(ExecutionError), Verdict: Refuse, Reason: "it has failed and is being classified: it ends by itself"},
		{On: []Event{EventCancelRequested}, From: stateNames(ExecutionRollback), Verdict: Refuse, Reason: "a rollback is never interrupted: half undone is worse than done or undone"},
		{On: []Event{EventCancelRequested}, Verdict: Refuse, Reason: "it has ended"},
		{On: []Event{EventExecutionResumed}, Verdict: Refuse, Reason: "it is not waiting"},
		{On: []Event{EventExecutionRewound}, Verdict: Refuse, Reason: "only one that waits goes back: retry one that failed"},
		{On: []Event{EventLockReleased}, Verdict: Refuse, Reason: "it releases its locks when it ends: wait for that, or cancel it"},
		{On: []Event{EventExecutionAcknowledged}, From: stateNames(ExecutionCompleted, ExecutionFailedSafe), Verdict: Refuse, Reason: "it settles by itself: there is nothing to check"},
		{On: []Event{EventExecutionAcknowledged}, From: stateNames(executionAcknowledged...), Verdict: Refuse, Reason: "it is acknowledged already"},
		{On: []Event{EventExecutionAcknowledged}, Verdict: Refuse, Reason: "it has not ended"},
		{On: []Event{EventExecutionRetried}, From: stateNames(ExecutionFailedSafe), Verdict: Refuse, Reason: "it is about to settle: retry it after that"},
		{On: []Event{EventExecutionRetried}, From: stateNames(ExecutionCompleted, ExecutionCompletedAck), Verdict: Refuse, Reason: "it has completed: rerun what failed of it"},
		{On: []Event{EventExecutionRetried}, From: stateNames(ExecutionCancelled, ExecutionCancelledAck), Verdict: Refuse, Reason: "it was cancelled: start a new one"},
		{On: []Event{EventExecutionRetried}, Verdict: Refuse, Reason: "it has not ended"},

		// Decisions that the engine makes from the state it has read. In another
		// state they are stale, and the conditional write refuses them too, or they
		// are a bug.
		{From: stateNames(executionAcknowledged...), Verdict: Refuse, Reason: "it is closed: only a retry leaves this state"},
		{From: stateNames(executionEnded...), Verdict: Refuse, Reason: "it has ended: only settling, acknowledging or retrying is possible"},
		{From: stateNames(ExecutionRollback), Verdict: Refuse, Reason: "a rollback completes or fails, nothing else"},
		{From: stateNames(ExecutionError, ExecutionCancelling), Verdict: Refuse, Reason: "it is stopping: it rolls back or ends, nothing else"},
		{From: stateNames(ExecutionRunning, ExecutionWaiting), Verdict: Refuse, Reason: "it is running: the steps before that are over, and its end is not decided yet"},
		{Verdict: Refuse, Reason: "the states before RUNNING have one order, and this event is not next"},
	},
})
