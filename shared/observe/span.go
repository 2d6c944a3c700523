package observe

import (
	"context"
	"log/slog"
)

// Tracer starts spans. The parent of a span may be in another process: it is named by its
// traceparent, in the form of W3C Trace Context.
type Tracer interface {
	// Start starts a span. Its parent is s.Parent, or else the span in ctx. The returned
	// context has the new span. Call end exactly once.
	Start(ctx context.Context, s SpanConfig) (in context.Context, end EndFunc)

	// Traceparent returns the traceparent of the span in ctx, "" if tracing is off.
	Traceparent(ctx context.Context) string
}

// SpanConfig is what is known about a span when it starts.
type SpanConfig struct {
	Name   string
	Parent string // traceparent; "" means the span in the context
	Kind   SpanKind
	Attrs  []slog.Attr
}

// SpanKind is the side of a call or message that a span is on.
type SpanKind int

// The kinds; the zero value is work within a process.
const (
	Internal SpanKind = iota
	Server
	Consumer
	Client
)

// EndFunc ends a span and adds attributes. An error marks the span as failed; its text is
// redacted as in a log.
type EndFunc func(err error, attrs ...slog.Attr)

// NoopTracer starts no spans.
type NoopTracer struct{}

// Start returns the context unchanged.
func (NoopTracer) Start(ctx context.Context, _ SpanConfig) (in context.Context, end EndFunc) {
	return ctx, noopEnd
}

// Traceparent is always empty.
func (NoopTracer) Traceparent(context.Context) string { return "" }

func noopEnd(error, ...slog.Attr) {}

// OrNoop returns t, or a NoopTracer if t is nil.
func OrNoop(t Tracer) Tracer {
	if t == nil {
		return NoopTracer{}
	}
	return t
}
