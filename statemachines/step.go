package statemachines

// StepState is the state of one visit of one step.
type StepState string

// The states of a step.
const (
	StepPending     StepState = "PENDING"
	StepRunning     StepState = "RUNNING"
	StepCompleted   StepState = "COMPLETED"
	StepFailed      StepState = "FAILED"
	StepSkipped     StepState = "SKIPPED"
	StepCaseHandled StepState = "CASE_HANDLED"
	StepCancelled   StepState = "CANCELLED"
)

// The events of a step. The state it exits with is said by the event's
// destination.
const (
	EventStepEntered Event = "step.entered"
	EventStepExited  Event = "step.exited"
)
