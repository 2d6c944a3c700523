package statemachines

import "slices"

// ToolState is the state of one call of a block's own code.
type ToolState string

// The states of a tool call. The last four are its possible outcomes.
const (
	ToolPending ToolState = "PENDING"
	ToolRunning ToolState = "RUNNING"
	ToolOK      ToolState = "OK"
	ToolError   ToolState = "ERROR"
	ToolBreak   ToolState = "BREAK"
	ToolNoop    ToolState = "NOOP"
)

// Outcome is what a block's code says of its own call. It is carried in the
// job's result and routes the next step; it is never a status of anything else.
type Outcome string

// The outcomes, in the one spelling that is accepted.
const (
	OutcomeOK    Outcome = "OK"
	OutcomeError Outcome = "ERROR"
	OutcomeBreak Outcome = "BREAK"
	OutcomeNoop  Outcome = "NOOP"
)

// The events of a tool call.
const (
	EventToolInvoked  Event = "tool.invoked"
	EventToolReturned Event = "tool.returned"
	EventToolFailed   Event = "tool.failed"
)

var toolClosed = []ToolState{ToolOK, ToolError, ToolBreak, ToolNoop}

// Tool is the law of one call of a block's code. Its owner is the worker.
var Tool = newTransitionTable[ToolState](Machine{
	Layer:    LayerTool,
	States:   stateNames(ToolPending, ToolRunning, ToolOK, ToolError, ToolBreak, ToolNoop),
	Initial:  string(ToolPending),
	Terminal: stateNames(toolClosed...),
	Closed:   stateNames(toolClosed...),
	Events:   []Event{EventToolInvoked, EventToolReturned, EventToolFailed},
	Rows: slices.Concat(
		moves(EventToolInvoked, ToolRunning, "worker", "the job was started", ToolPending),
		moves(EventToolReturned, ToolOK, "worker", "the block says OK", ToolRunning),
		moves(EventToolReturned, ToolBreak, "worker", "the block says BREAK: enough of this loop or sequence", ToolRunning),
		moves(EventToolReturned, ToolNoop, "worker", "the block says NOOP: there was nothing to do", ToolRunning),
		moves(EventToolFailed, ToolError, "worker", "the block says ERROR, says nothing intelligible, panics or takes too long", ToolRunning),

		refuses(EventToolInvoked, "a call is made once: a repetition is a call of its own", slices.Concat([]ToolState{ToolRunning}, toolClosed)...),
		refuses(EventToolReturned, "it was not called", ToolPending),
		refuses(EventToolFailed, "it was not called", ToolPending),
		ignores(EventToolReturned, "it has answered, or was given up: the first outcome stays", toolClosed...),
		ignores(EventToolFailed, "it has answered, or was given up: the first outcome stays", toolClosed...),
	),
})
