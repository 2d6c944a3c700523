// Package observe makes logs and trace spans. Both use the same names for the same things, and
// leave out the same secrets.
//
//   - fields.go has the names, [Fields], which docs/observability.md lists.
//   - log.go has [NewLog], the only place that makes a logger. It adds to each record what
//     its context knows, such as the invocation and the trace.
//   - redact.go decides what to leave out of a log, by its key, its type or its form.
//   - span.go has [Tracer], through which the engine and the worker start spans without
//     knowing the exporter. [NoopTracer] starts none.
//
// Every package may import it. It imports only the standard library.
package observe

import (
	"context"
	"io"
	"log/slog"
)

// Options configure a log. Every field but Writer may be zero.
type Options struct {
	Writer     io.Writer
	Level      slog.Level
	Component  string
	RedactKeys []string // further keys whose values are left out, in addition to SecretKeys

	// ContextAttrs returns the attributes that a context adds to each record.
	ContextAttrs func(context.Context) []slog.Attr
}

// NewLog makes a log that writes a line of JSON for each record. A line has the component and
// the attributes of the context. Secrets are redacted, as are the values of
// [Options.RedactKeys].
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

// contextHandler adds the attributes of the context to each record.
type contextHandler struct {
	slog.Handler
	contextAttrs func(context.Context) []slog.Attr
}

func (h *contextHandler) Handle(ctx context.Context, r slog.Record) error {
	if attrs := h.contextAttrs(ctx); len(attrs) > 0 {
		r = r.Clone() // other handlers may keep the record
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
