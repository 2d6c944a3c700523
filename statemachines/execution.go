package statemachines

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
