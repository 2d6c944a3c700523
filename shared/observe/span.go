package observe

import (
	"context"
	"log/slog"
)

// Tracer begins spans. Both ends of a span may be in different processes from those
// of the spans around it: a parent is named by its traceparent, as W3C Trace Context
// writes it.
type Tracer interface {
	// Start begins a span, with what it is about. It is part of the parent named, or of
	// the span that the context holds if none is. The context that it returns holds the
	// new one. end has to be called once.
	Start(ctx context.Context, s SpanConfig) (in context.Context, end EndFunc)

	// Traceparent is the traceparent of the span that the context holds, "" where no spans are
	// taken.
	Traceparent(ctx context.Context) string
}

// SpanConfig is what is known of a span when it begins.
type SpanConfig struct {
	Name   string
	Parent string // traceparent; "" for what the context holds
	Kind   SpanKind
	Attrs  []slog.Attr
}

// SpanKind is which side of a call or a message a span is on.
type SpanKind int

// The kinds; the zero value is work within a process.
const (
	Internal SpanKind = iota
	Server
	Consumer
	Client
)

// EndFunc ends a span, with what has become known of it. An error makes it a failed one;
// its text is treated as it is in a log.
type EndFunc func(err error, about ...slog.Attr)

// NoopTracer takes no spans.
type NoopTracer struct{}

// Start begins nothing.
func (NoopTracer) Start(ctx context.Context, _ SpanConfig) (in context.Context, end EndFunc) {
	return ctx, noopEnd
}

// Traceparent is nowhere.
func (NoopTracer) Traceparent(context.Context) string { return "" }

func noopEnd(error, ...slog.Attr) {}

// OrNoop is a tracer, or Off if there is none.
func OrNoop(t Tracer) Tracer {
	if t == nil {
		return NoopTracer{}
	}
	return t
}

// ErrorText is the text of an error as it may be told.
func ErrorText(err error) string { return errorText(err) }
