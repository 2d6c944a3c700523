package observe

import (
	"context"
	"log/slog"
)

// Tracer begins spans. Both ends of a span may be in different processes from those
// of the spans around it: a parent is named by its traceparent, as W3C Trace Context
// writes it.
type Tracer interface {
	// Begin begins a span, with what it is about. It is part of the parent named, or of
	// the span that the context holds if none is. The context that it returns holds the
	// new one. end has to be called once.
	Begin(ctx context.Context, s Span) (in context.Context, end End)

	// Here is the traceparent of the span that the context holds, "" where no spans are
	// taken.
	Here(ctx context.Context) string
}

// Span is what is known of a span when it begins.
type Span struct {
	Name   string
	Parent string // traceparent; "" for what the context holds
	Kind   Kind
	About  []slog.Attr
}

// Kind is which side of a call or a message a span is on.
type Kind int

// The kinds; the zero value is work within a process.
const (
	Internal Kind = iota
	Server
	Consumer
	Client
)

// End ends a span, with what has become known of it. An error makes it a failed one;
// its text is treated as it is in a log.
type End func(err error, about ...slog.Attr)

// Off takes no spans.
type Off struct{}

// Begin begins nothing.
func (Off) Begin(ctx context.Context, _ Span) (in context.Context, end End) { return ctx, ignore }

// Here is nowhere.
func (Off) Here(context.Context) string { return "" }

func ignore(error, ...slog.Attr) {}

// Or is a tracer, or Off if there is none.
func Or(t Tracer) Tracer {
	if t == nil {
		return Off{}
	}
	return t
}

// Told is the text of an error as it may be told.
func Told(err error) string { return said(err) }
