package statemachines

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
