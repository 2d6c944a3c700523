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

// Workflow is the transition table of a workflow inside an execution. The engine
// owns it. Its events inform the execution and never close it. A retry begins a
// new workflow; a closed one stays closed.
var Workflow = newTransitionTable[WorkflowState](Machine{
	Layer:    LayerWorkflow,
	States:   stateNames(WorkflowPending, WorkflowRunning, WorkflowCompleted, WorkflowFailed, WorkflowCancelled),
	Initial:  string(WorkflowPending),
	Terminal: stateNames(workflowClosed...),
	Closed:   stateNames(workflowClosed...),
	Events:   []Event{EventWorkflowInitialized, EventWorkflowCompleted, EventWorkflowFailed, EventWorkflowCancelled},
	Rows: slices.Concat(
		moves(EventWorkflowInitialized, WorkflowRunning, byEngine, "its execution is running, or the step that embeds it was entered", WorkflowPending),
		moves(EventWorkflowCompleted, WorkflowCompleted, byEngine, "all its steps have succeeded", WorkflowRunning),
		moves(EventWorkflowFailed, WorkflowFailed, byEngine, "a step failed and no step handles the failure", WorkflowRunning),
		moves(EventWorkflowCancelled, WorkflowCancelled, byEngine, "the execution was cancelled", WorkflowRunning),

		ignores(EventWorkflowInitialized, "it has begun already", WorkflowRunning),
		ignores(EventWorkflowCompleted, "it is completed already", WorkflowCompleted),
		ignores(EventWorkflowFailed, "it has failed already", WorkflowFailed),
		ignores(EventWorkflowCancelled, "it is cancelled already", WorkflowCancelled),
	),
	Defaults: []Default{
		{From: stateNames(WorkflowPending), Verdict: Refuse, Reason: "it has not begun: there is nothing to close"},
		{On: []Event{EventWorkflowInitialized}, Verdict: Refuse, Reason: "a workflow begins once: another try is a new workflow"},
		{Verdict: Refuse, Reason: "a workflow is closed once"},
	},
})
