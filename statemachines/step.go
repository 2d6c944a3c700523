package statemachines

import "slices"

// StepState is the state of one step run.
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

// The events of a step. The destination of EventStepExited is the state the step
// exits with.
const (
	EventStepEntered Event = "step.entered"
	EventStepExited  Event = "step.exited"
	EventStepPassed  Event = "step.passed"
)

var stepClosed = []StepState{StepCompleted, StepFailed, StepSkipped, StepCaseHandled, StepCancelled}

// Step is the transition table of one step run. The engine owns it. It is local:
// the exit of one iteration of a loop closes nothing above it.
var Step = newTransitionTable[StepState](Machine{
	Layer:    LayerStep,
	States:   stateNames(StepPending, StepRunning, StepCompleted, StepFailed, StepSkipped, StepCaseHandled, StepCancelled),
	Initial:  string(StepPending),
	Terminal: stateNames(stepClosed...),
	Closed:   stateNames(stepClosed...),
	Events:   []Event{EventStepEntered, EventStepExited, EventStepPassed},
	Rows: slices.Concat(
		moves(EventStepEntered, StepRunning, byEngine, "it is next", StepPending),
		moves(EventStepExited, StepCompleted, byEngine, "its jobs have succeeded, or failures are within the tolerance", StepRunning),
		moves(EventStepExited, StepFailed, byEngine, "an assertion is false, or its jobs failed after their retries", StepRunning),
		moves(EventStepExited, StepSkipped, byEngine, "its condition is false or cannot be evaluated: it has no job", StepRunning),
		moves(EventStepExited, StepCaseHandled, byEngine, "its jobs failed, and `onFailure` or `continueOnError` handles the failure", StepRunning),
		moves(EventStepExited, StepCancelled, byEngine, "the execution was cancelled; every job is final", StepRunning),
		moves(EventStepPassed, StepSkipped, byEngine, "a jump leads past it: there is no step run", StepPending),

		ignores(EventStepEntered, "it has been entered already", StepRunning),
		refuses(EventStepEntered, "entering the step again makes a new step run", stepClosed...),
		ignores(EventStepExited, "it has exited already: the first status is kept", stepClosed...),
		refuses(EventStepExited, "it was never entered", StepPending),
		refuses(EventStepPassed, "it was entered", StepRunning),
		ignores(EventStepPassed, "it is over", stepClosed...),
	),
})
