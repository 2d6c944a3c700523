package statemachines

import (
	"fmt"
	"slices"
)

// Status is the normalised lifecycle status of an execution, one of exactly five.
// An execution that waits has no status of its own: its state says that it waits.
type Status string

// The statuses.
const (
	StatusPending   Status = "PENDING"
	StatusRunning   Status = "RUNNING"
	StatusCompleted Status = "COMPLETED"
	StatusFailed    Status = "FAILED"
	StatusCancelled Status = "CANCELLED"
)

// stateFacts is what holds for an execution in a state, however it got there.
type stateFacts struct {
	state        ExecutionState
	status       Status
	holdsNoLocks bool
	passing      bool  // it continues at once, unless its handler crashes
	stopping     bool  // it continues to its end, whatever is sent to it
	terminal     Event // the event that ended it, if it has ended
	acknowledged bool
}

// executionFacts has one line per state, in lifecycle order.
var executionFacts = []stateFacts{
	{state: ExecutionNew, status: StatusPending, holdsNoLocks: true, passing: true},
	{state: ExecutionValid, status: StatusPending, holdsNoLocks: true, passing: true},
	{state: ExecutionBlockedWaiting, status: StatusPending, holdsNoLocks: true},
	{state: ExecutionReady, status: StatusPending, holdsNoLocks: true, passing: true},
	{state: ExecutionResourceDiscovery, status: StatusPending, holdsNoLocks: true},
	{state: ExecutionResourcesDiscovered, status: StatusPending, holdsNoLocks: true, passing: true},
	{state: ExecutionScheduled, status: StatusPending, holdsNoLocks: true},
	{state: ExecutionLocking, status: StatusPending, passing: true},
	{state: ExecutionLocked, status: StatusPending, passing: true},
	{state: ExecutionRunning, status: StatusRunning},
	{state: ExecutionWaiting, status: StatusRunning},
	{state: ExecutionCancelling, status: StatusRunning, stopping: true},
	{state: ExecutionError, status: StatusRunning, stopping: true},
	{state: ExecutionRollback, status: StatusRunning, stopping: true},
	{state: ExecutionCompleted, status: StatusCompleted, terminal: EventExecutionCompleted},
	{state: ExecutionFailedSafe, status: StatusFailed, terminal: EventExecutionFailedSafe},
	{state: ExecutionFailedUnsafe, status: StatusFailed, terminal: EventExecutionFailedUnsafe},
	{state: ExecutionCancelled, status: StatusCancelled, terminal: EventExecutionCancelled},
	{state: ExecutionCompletedAck, status: StatusCompleted, holdsNoLocks: true, terminal: EventExecutionCompleted, acknowledged: true},
	{state: ExecutionFailedSafeAck, status: StatusFailed, holdsNoLocks: true, terminal: EventExecutionFailedSafe, acknowledged: true},
	{state: ExecutionFailedUnsafeAck, status: StatusFailed, holdsNoLocks: true, terminal: EventExecutionFailedUnsafe, acknowledged: true},
	{state: ExecutionCancelledAck, status: StatusCancelled, holdsNoLocks: true, terminal: EventExecutionCancelled, acknowledged: true},
}

var factsByState = func() map[ExecutionState]stateFacts {
	m := make(map[ExecutionState]stateFacts, len(executionFacts))
	for _, f := range executionFacts {
		m[f.state] = f
	}
	return m
}()

// StatusOf returns the normalised status of an execution in a state. It is defined for every text:
// an execution that does not exist is PENDING, and one in a state that this binary does not know is
// RUNNING, so that nobody treats it as ended.
func StatusOf(state ExecutionState) Status {
	if state == "" {
		return StatusPending
	}
	if f, ok := factsByState[state]; ok {
		return f.status
	}
	return StatusRunning
}

// StatesOf lists the states of a status, in lifecycle order; none for a text that
// is not a status.
func StatesOf(status Status) []ExecutionState {
	var states []ExecutionState
	for _, f := range executionFacts {
		if f.status == status {
			states = append(states, f.state)
		}
	}
	return states
}

// Statuses lists the five statuses.
func Statuses() []Status {
	return []Status{StatusPending, StatusRunning, StatusCompleted, StatusFailed, StatusCancelled}
}

// ListedAs returns the state under which the index lists executions in a state. Moving an entry
// costs two writes. So an execution in a transient state is listed among those in RUNNING, which
// most of them reach next. Whoever lists a state leaves the others out after reading them.
func ListedAs(state ExecutionState) ExecutionState {
	if factsByState[state].passing {
		return ExecutionRunning
	}
	return state
}

// HoldsLocks reports whether an execution in this state holds the locks it took at
// its current lock epoch. The states that hold nothing are a closed list: every
// state before LOCKING and every _ACK. A state that this binary does not know
// counts as holding, so that an older binary never gives away the locks of an
// execution that a newer one drives. An execution that does not exist holds nothing.
func HoldsLocks(state ExecutionState) bool {
	return state != "" && !factsByState[state].holdsNoLocks
}

// AcceptsSignals reports whether a signal may be sent to an execution in this state. The
// states that refuse are a closed list: ERROR, CANCELLING, ROLLBACK, and every one that has
// ended, acknowledged or not. An execution that does not exist accepts nothing.
func AcceptsSignals(state ExecutionState) bool {
	f := factsByState[state]
	return state != "" && !f.stopping && f.terminal == ""
}

// ChecksIn reports whether an execution in this state may still have to check in, which it does
// when it is new, and when it is tried again.
func ChecksIn(state ExecutionState) bool {
	return state == ExecutionNew || state == ExecutionValid || state == ExecutionReady
}

// Terminal reports whether an execution in this state has ended, acknowledged or
// not.
func Terminal(state ExecutionState) bool { return factsByState[state].terminal != "" }

// Acknowledged reports whether an execution in this state needs nothing more from
// the engine and holds no lock.
func Acknowledged(state ExecutionState) bool { return factsByState[state].acknowledged }

// TerminalEvent returns the event that ended an execution in this state, empty if it has not ended.
func TerminalEvent(state ExecutionState) Event { return factsByState[state].terminal }

// ExecutionStates lists all states of an execution in lifecycle order.
func ExecutionStates() []ExecutionState {
	states := make([]ExecutionState, len(executionFacts))
	for i, f := range executionFacts {
		states[i] = f.state
	}
	return states
}

// UnknownNameError is the error of the Parse functions: a text that is not in a
// closed set of names. Names are case-sensitive: "running" is not RUNNING.
type UnknownNameError struct {
	Kind string // execution state, status, job state, outcome
	Text string
}

func (e *UnknownNameError) Error() string { return fmt.Sprintf("unknown %s %q", e.Kind, e.Text) }

// ParseExecutionState reads the name of a state.
func ParseExecutionState(text string) (ExecutionState, error) {
	return parse("execution state", text, ExecutionStates())
}

// ParseStatus reads the name of a normalised status.
func ParseStatus(text string) (Status, error) { return parse("status", text, Statuses()) }

// ParseJobState reads the name of a job's state.
func ParseJobState(text string) (JobState, error) {
	return parse("job state", text, slices.Concat([]JobState{JobPending, JobIssued, JobClaimed, JobRunning}, jobClosed))
}

// ParseOutcome reads an outcome as a block returns it.
func ParseOutcome(text string) (Outcome, error) {
	return parse("outcome", text, []Outcome{OutcomeOK, OutcomeError, OutcomeBreak, OutcomeNoop})
}

func parse[S ~string](kind, text string, known []S) (S, error) {
	if slices.Contains(known, S(text)) {
		return S(text), nil
	}
	return "", &UnknownNameError{Kind: kind, Text: text}
}
