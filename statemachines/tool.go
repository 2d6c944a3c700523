package statemachines

import "slices"

// ToolState is the state of one call of a block's code.
type ToolState string

// The states of a tool call. The last four are the possible outcomes.
const (
	ToolPending ToolState = "PENDING"
	ToolRunning ToolState = "RUNNING"
	ToolOK      ToolState = "OK"
	ToolError   ToolState = "ERROR"
	ToolBreak   ToolState = "BREAK"
	ToolNoop    ToolState = "NOOP"
)

// Outcome is what a block's code returns about its own call. The job's result
// carries it, and it routes the next step; it is never the status of anything else.
type Outcome string

// The outcomes. No other spelling is accepted.
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

// Tool is the transition table of one call of a block's code. The worker owns it.
var Tool = newTransitionTable[ToolState](Machine{
	Layer:    LayerTool,
	States:   stateNames(ToolPending, ToolRunning, ToolOK, ToolError, ToolBreak, ToolNoop),
	Initial:  string(ToolPending),
	Terminal: stateNames(toolClosed...),
	Closed:   stateNames(toolClosed...),
	Events:   []Event{EventToolInvoked, EventToolReturned, EventToolFailed},
	Rows: slices.Concat(
		moves(EventToolInvoked, ToolRunning, "worker", "the job was started", ToolPending),
		moves(EventToolReturned, ToolOK, "worker", "the block returns OK", ToolRunning),
		moves(EventToolReturned, ToolBreak, "worker", "the block returns BREAK: leave this loop or sequence", ToolRunning),
		moves(EventToolReturned, ToolNoop, "worker", "the block returns NOOP: there was nothing to do", ToolRunning),
		moves(EventToolFailed, ToolError, "worker", "the block returns ERROR or an invalid answer, panics or takes too long", ToolRunning),

		refuses(EventToolInvoked, "a call is made once: a repetition is a new call", slices.Concat([]ToolState{ToolRunning}, toolClosed)...),
		refuses(EventToolReturned, "it was not called", ToolPending),
		refuses(EventToolFailed, "it was not called", ToolPending),
		ignores(EventToolReturned, "it has returned, or was given up: the first outcome is kept", toolClosed...),
		ignores(EventToolFailed, "it has returned, or was given up: the first outcome is kept", toolClosed...),
	),
})
