package statemachines

import "slices"

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

var workflowClosed = []WorkflowState{WorkflowCompleted, WorkflowFailed, WorkflowCancelled}

// Workflow is the law of a workflow inside an execution. Its owner is the
// engine. It may inform the execution and never closes it. A retry begins a new
// one: what is closed stays closed.
var Workflow = newTransitionTable[WorkflowState](Machine{
	Layer:    LayerWorkflow,
	States:   stateNames(WorkflowPending, WorkflowRunning, WorkflowCompleted, WorkflowFailed, WorkflowCancelled),
	Initial:  string(WorkflowPending),
	Terminal: stateNames(workflowClosed...),
	Closed:   stateNames(workflowClosed...),
	Events:   []Event{EventWorkflowInitialized, EventWorkflowCompleted, EventWorkflowFailed, EventWorkflowCancelled},
	Rows: slices.Concat(
		moves(EventWorkflowInitialized, WorkflowRunning, byEngine, "its execution runs, or the step that embeds it was entered", WorkflowPending),
		moves(EventWorkflowCompleted, WorkflowCompleted, byEngine, "all its steps have ended well", WorkflowRunning),
		moves(EventWorkflowFailed, WorkflowFailed, byEngine, "a step failed and nothing handles that", WorkflowRunning),
		moves(EventWorkflowCancelled, WorkflowCancelled, byEngine, "the execution was cancelled", WorkflowRunning),

		ignores(EventWorkflowInitialized, "it has begun already", WorkflowRunning),
		ignores(EventWorkflowCompleted, "it is completed already", WorkflowCompleted),
		ignores(EventWorkflowFailed, "it has failed already", WorkflowFailed),
		ignores(EventWorkflowCancelled, "it is cancelled already", WorkflowCancelled),
	),
	Defaults: []Default{
		{From: stateNames(WorkflowPending), Verdict: Refuse, Reason: "what has not begun has nothing to close"},
		{On: []Event{EventWorkflowInitialized}, Verdict: Refuse, Reason: "a workflow begins once: another try is a workflow of its own"},
		{Verdict: Refuse, Reason: "a workflow is closed once"},
	},
})
