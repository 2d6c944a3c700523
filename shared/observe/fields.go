package observe

import (
	"fmt"
	"log/slog"
	"runtime"
)

// Names of log and span attributes. These things have no other names anywhere.
const (
	Timestamp = "timestamp" // Lambda reads the level of a line only if its time has this name
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

// Field is the name of an attribute and its meaning.
type Field struct{ Name, Meaning string }

// Fields are the names that readers of logs may rely on, in the order of docs/observability.md.
var Fields = []Field{
	{Timestamp, "Time of the line, RFC 3339"},
	{Level, "DEBUG, INFO, WARN or ERROR"},
	{Message, "What happened: a fixed text without variable parts"},
	{Component, "Function or worker that wrote the line"},
	{RequestID, "Lambda's id of the invocation, the same as in the platform's own lines"},
	{HTTPRequestID, "Id of the HTTP request: `X-Request-Id` of the response, `requestId` of a problem and of the access log"},
	{CorrelationID, "`X-Correlation-Id` of the request that started the execution, or of the request itself"},
	{TraceID, "Id of the trace, if traces are on"},
	{SpanID, "Id of the span in the trace"},
	{Tenant, "The tenant"},
	{ExecutionID, "Id of the execution"},
	{Workflow, "Definition of the execution, with the version"},
	{Step, "Label of the step"},
	{Entity, "`type/id` of the entity"},
	{Attempt, "Number of the attempt, from 1"},
	{Block, "The function block, with its version"},
	{JobID, "Id of the job, which is also its Idempotency-Key"},
	{Pack, "The pack: execution/ordinal.step run/lane.pipeline position.attempt"},
	{Worker, "Name of the worker"},
	{MessageID, "Id of the SQS message"},
	{Queue, "The queue"},
	{Receives, "How often the message has been received, including this time"},
	{From, "State of the execution before"},
	{To, "State of the execution after"},
	{Commits, "Number of commits between the two states; the history has every transition"},
	{Version, "Version of the execution's item"},
	{Cause, "Why the execution failed, in one word"},
	{Code, "Kind of the error, in one word"},
	{Error, "Text of the error; only the code if the text may quote user input"},
	{Panic, "Value of a panic; only its type if a block panicked"},
	{Stack, "Stack trace of the panic"},
}

// ExecutionAttrs returns the attributes of an execution.
func ExecutionAttrs(tenant, execution, correlation string) []slog.Attr {
	attrs := make([]slog.Attr, 2, 6)
	attrs[0], attrs[1] = slog.String(Tenant, tenant), slog.String(ExecutionID, execution)
	if correlation != "" {
		attrs = append(attrs, slog.String(CorrelationID, correlation))
	}
	return attrs
}

// Err returns the attribute of an error.
func Err(err error) slog.Attr { return slog.Any(Error, err) }

// PanicAttrs returns the attributes of a panic in our own code.
func PanicAttrs(cause any, stack []byte) []slog.Attr {
	return []slog.Attr{slog.String(Panic, fmt.Sprint(cause)), slog.String(Stack, string(stack))}
}

// BlockPanicAttrs returns the attributes of a panic in a block's code. Its value may contain
// anything, so only its type is logged, except for a runtime error of Go.
func BlockPanicAttrs(cause any, stack []byte) []slog.Attr {
	what := fmt.Sprintf("%T", cause)
	if err, is := cause.(runtime.Error); is {
		what = err.Error()
	}
	return []slog.Attr{slog.String(Panic, what), slog.String(Stack, string(stack))}
}
