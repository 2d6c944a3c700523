package observe

import (
	"context"
	"io"
	"log/slog"
)

// Options are what a log is made by. The zero value of each but W means none.
type Options struct {
	Writer     io.Writer
	Level      slog.Level
	Component  string
	RedactKeys []string // keys beside those that are never told

	// ContextAttrs gives what a context knows of the work that is being done.
	ContextAttrs func(context.Context) []slog.Attr
}

// NewLog makes a log: a line of JSON for each record, which begins with what the
// component and the context are, and in which nothing stands that [Options.Redact]
// or this package keep out.
func NewLog(o Options) *slog.Logger {
	redactor := newRedactor(o.RedactKeys)
	var h slog.Handler = slog.NewJSONHandler(o.Writer, &slog.HandlerOptions{Level: o.Level, ReplaceAttr: redactor.replace})
	if o.Component != "" {
		h = h.WithAttrs([]slog.Attr{slog.String(Component, o.Component)})
	}
	if o.ContextAttrs != nil {
		h = &contextHandler{h, o.ContextAttrs}
	}
	return slog.New(h)
}

// contextHandler adds what the context knows to each record.
type contextHandler struct {
	slog.Handler
	contextAttrs func(context.Context) []slog.Attr
}

func (h *contextHandler) Handle(ctx context.Context, r slog.Record) error {
	if attrs := h.contextAttrs(ctx); len(attrs) > 0 {
		r = r.Clone() // other handlers may hold it
		r.AddAttrs(attrs...)
	}
	return h.Handler.Handle(ctx, r)
}

func (h *contextHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &contextHandler{h.Handler.WithAttrs(attrs), h.contextAttrs}
}

func (h *contextHandler) WithGroup(name string) slog.Handler {
	return &contextHandler{h.Handler.WithGroup(name), h.contextAttrs}
}
