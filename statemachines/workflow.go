package statemachines

// WorkflowState is the state of one workflow: the root of an execution, or one
// that is embedded in a step.
type WorkflowState string

// The states of a workflow.
const (
	WorkflowPending   WorkflowState = "PENDING"
	WorkflowRunning   WorkflowState = "RUNNING"
	WorkflowCompleted WorkflowState = "COMPLETED"
	WorkflowFailed    WorkflowState = "FAILED"
	WorkflowCancelled WorkflowState = "CANCELLED"
)

// The events of a workflow.
const (
	EventWorkflowInitialized Event = "workflow.initialized"
	EventWorkflowCompleted   Event = "workflow.completed"
	EventWorkflowFailed      Event = "workflow.failed"
	EventWorkflowCancelled   Event = "workflow.cancelled"
)
