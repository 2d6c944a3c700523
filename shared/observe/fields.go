package observe

import (
	"fmt"
	"log/slog"
	"runtime"
)

// The names of what a line of the log or a span is about. No other names are used
// for these things anywhere.
const (
	Timestamp = "timestamp" // Lambda takes a line's level for what it is only if the line has its time under this name
	Level     = "level"
	Message   = "message"

	Component     = "component"
	RequestID     = "requestId"
	HTTPRequestID = "httpRequestId"
	CorrelationID = "correlationId"
	TraceID       = "traceId"
	SpanID        = "spanId"

	Tenant      = "tenant"
	ExecutionID = "executionId"
	Workflow    = "workflow"
	Step        = "step"
	Entity      = "entity"
	Attempt     = "attempt"
	Block       = "block"
	JobID       = "jobId"
	Pack        = "pack"
	Worker      = "worker"

	MessageID = "messageId"
	Queue     = "queue"
	Receives  = "receives"

	From    = "from"
	To      = "to"
	Commits = "commits"
	Version = "version"
	Cause   = "cause"
	Code    = "code"
	Error   = "error"
	Panic   = "panic"
	Stack   = "stack"
)

// Field is one name with what it says.
type Field struct{ Name, Meaning string }

// Fields are the names that a reader of logs may rely on, in the order in which
// docs/observability.md lists them.
var Fields = []Field{
	{Timestamp, "When, RFC 3339"},
	{Level, "DEBUG, INFO, WARN or ERROR"},
	{Message, "What happened: one of a fixed set of sentences, without anything put into them"},
	{Component, "Which function or worker says it"},
	{RequestID, "Lambda's id of the invocation, the same as in the platform's own lines"},
	{HTTPRequestID, "Id of the HTTP request: `X-Request-Id` of the answer, `requestId` of a problem and of the access log"},
	{CorrelationID, "`X-Correlation-Id` of the request that started the run, or of the request itself"},
	{TraceID, "The trace, where traces are sent"},
	{SpanID, "The span in it"},
	{Tenant, "Whose"},
	{ExecutionID, "The run"},
	{Workflow, "Its definition, with the version"},
	{Step, "Label of the step"},
	{Entity, "`type/id` of the entity"},
	{Attempt, "Number of the attempt, from 1"},
	{Block, "The function block, with its version"},
	{JobID, "The job, which is its Idempotency-Key too"},
	{Pack, "The pack: execution/visit.run/lane.position.attempt"},
	{Worker, "The worker's name"},
	{MessageID, "SQS's id of a message"},
	{Queue, "The queue"},
	{Receives, "How often the message has been received, this time included"},
	{From, "State of the run before"},
	{To, "State of the run after"},
	{Commits, "How many commits lie between the two; the history has every move"},
	{Version, "Version of the run's item"},
	{Cause, "Why a run has failed, in one word"},
	{Code, "What kind of error, in one word"},
	{Error, "An error's text. One that speaks of what somebody has written or sent is told by its code alone"},
	{Panic, "What a defect of ours says of itself; of a block's panic its type alone"},
	{Stack, "Where it was"},
}

// ExecutionAttrs is which run a line or a span is about.
func ExecutionAttrs(tenant, execution, correlation string) []slog.Attr {
	attrs := make([]slog.Attr, 2, 6)
	attrs[0], attrs[1] = slog.String(Tenant, tenant), slog.String(ExecutionID, execution)
	if correlation != "" {
		attrs = append(attrs, slog.String(CorrelationID, correlation))
	}
	return attrs
}

// Err is an error of a line.
func Err(err error) slog.Attr { return slog.Any(Error, err) }

// PanicAttrs is a panic of ours, and where it was.
func PanicAttrs(cause any, stack []byte) []slog.Attr {
	return []slog.Attr{slog.String(Panic, fmt.Sprint(cause)), slog.String(Stack, string(stack))}
}

// BlockPanicAttrs is a panic of code that is not ours, such as a block's: what it says may be
// anything, so that only its type is told, unless the language itself says it.
func BlockPanicAttrs(cause any, stack []byte) []slog.Attr {
	what := fmt.Sprintf("%T", cause)
	if err, is := cause.(runtime.Error); is {
		what = err.Error()
	}
	return []slog.Attr{slog.String(Panic, what), slog.String(Stack, string(stack))}
}
