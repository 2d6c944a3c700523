package statemachines

import "slices"

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

var stepClosed = []StepState{StepCompleted, StepFailed, StepSkipped, StepCaseHandled, StepCancelled}

// Step is the law of one visit of one step. Its owner is the engine. It is
// local: the exit of a loop's iteration closes nothing above it.
var Step = newTransitionTable[StepState](Machine{
	Layer:    LayerStep,
	States:   stateNames(StepPending, StepRunning, StepCompleted, StepFailed, StepSkipped, StepCaseHandled, StepCancelled),
	Initial:  string(StepPending),
	Terminal: stateNames(stepClosed...),
	Closed:   stateNames(stepClosed...),
	Events:   []Event{EventStepEntered, EventStepExited},
	Rows: slices.Concat(
		moves(EventStepEntered, StepRunning, byEngine, "it is next", StepPending),
		moves(EventStepExited, StepCompleted, byEngine, "its jobs have ended well, or as well as the definition asks", StepRunning),
		moves(EventStepExited, StepFailed, byEngine, "an assertion is false, or its jobs failed beyond their retries", StepRunning),
		moves(EventStepExited, StepSkipped, byEngine, "its condition is false or cannot be evaluated: no job", StepRunning),
		moves(EventStepExited, StepCaseHandled, byEngine, "its jobs failed, and `onFailure` or `continueOnError` handles that", StepRunning),
		moves(EventStepExited, StepCancelled, byEngine, "the execution was cancelled; every job is final", StepRunning),

		ignores(EventStepEntered, "it has been entered already", StepRunning),
		refuses(EventStepEntered, "another visit of the step is a step run of its own", stepClosed...),
		ignores(EventStepExited, "it has exited already: the first status stays", stepClosed...),
		refuses(EventStepExited, "it was never entered", StepPending),
	),
})
