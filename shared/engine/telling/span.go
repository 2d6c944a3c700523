package telling

import (
	"context"
	"log/slog"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Look begins the span of a look at a run that has been loaded: it is part of the trace
// in which the run was started, whoever wakes it.
func (t *Teller) Look(ctx context.Context, why string) (in context.Context, end observe.End) {
	return observe.Or(t.Trace).Begin(ctx, observe.Span{
		Name: "look", Parent: t.x.Trace, Kind: observe.Consumer, About: append(t.about(), slog.String("why", why)),
	})
}

// Root is a span that stands for a start that nobody asked for: what comes of it is one
// trace.
func (t *Teller) Root(ctx context.Context, name string) (traceparent string) {
	in, end := observe.Or(t.Trace).Begin(ctx, observe.Span{Name: name, About: t.about()})
	end(nil)
	return t.Here(in)
}

// Here is the traceparent of the context's span.
func (t *Teller) Here(ctx context.Context) string { return observe.Or(t.Trace).Here(ctx) }

// Commit begins the span of a commit.
func (t *Teller) Commit(ctx context.Context, from, to *workflow.Execution) (in context.Context, end observe.End) {
	about := append(t.about(), slog.String(observe.From, string(from.State)), slog.String(observe.To, string(to.State)),
		slog.Int64(observe.Version, to.Version))
	if r := to.RunOf(to.RunSeq); r != nil {
		about = append(about, slog.String(observe.Step, r.Label))
	}
	return observe.Or(t.Trace).Begin(ctx, observe.Span{Name: "commit", About: about})
}
