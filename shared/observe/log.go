package observe

import (
	"context"
	"io"
	"log/slog"
)

// Options are what a log is made by. The zero value of each but W means none.
type Options struct {
	W         io.Writer
	Level     slog.Level
	Component string
	Redact    []string // keys beside those that are never told

	// Knows gives what a context knows of the work that is being done.
	Knows func(context.Context) []slog.Attr
}

// NewLog makes a log: a line of JSON for each record, which begins with what the
// component and the context are, and in which nothing stands that [Options.Redact]
// or this package keep out.
func NewLog(o Options) *slog.Logger {
	keep := newRedaction(o.Redact)
	var h slog.Handler = slog.NewJSONHandler(o.W, &slog.HandlerOptions{Level: o.Level, ReplaceAttr: keep.replace})
	if o.Component != "" {
		h = h.WithAttrs([]slog.Attr{slog.String(Component, o.Component)})
	}
	if o.Knows != nil {
		h = &knowing{h, o.Knows}
	}
	return slog.New(h)
}

// knowing adds what the context knows to each record.
type knowing struct {
	slog.Handler
	knows func(context.Context) []slog.Attr
}

func (h *knowing) Handle(ctx context.Context, r slog.Record) error {
	if attrs := h.knows(ctx); len(attrs) > 0 {
		r = r.Clone() // other handlers may hold it
		r.AddAttrs(attrs...)
	}
	return h.Handler.Handle(ctx, r)
}

func (h *knowing) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &knowing{h.Handler.WithAttrs(attrs), h.knows}
}

func (h *knowing) WithGroup(name string) slog.Handler {
	return &knowing{h.Handler.WithGroup(name), h.knows}
}
