package engine

import (
	"context"
	"log/slog"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// StartAdvanceSpan begins the span of a look at a run that has been loaded: it is part of the trace
// in which the run was started, whoever wakes it.
func (t *recorder) StartAdvanceSpan(ctx context.Context, why string) (in context.Context, end observe.EndFunc) {
	return observe.OrNoop(t.tracer).Start(ctx, observe.SpanConfig{
		Name: "look", Parent: t.execution.TraceParent, Kind: observe.Consumer, Attrs: append(t.attrs(), slog.String("why", why)),
	})
}

// RecordRootSpan is a span that stands for a start that nobody asked for: what comes of it is one
// trace.
func (t *recorder) RecordRootSpan(ctx context.Context, name string) (traceparent string) {
	in, end := observe.OrNoop(t.tracer).Start(ctx, observe.SpanConfig{Name: name, Attrs: t.attrs()})
	end(nil)
	return t.TraceParent(in)
}

// TraceParent is the traceparent of the context's span.
func (t *recorder) TraceParent(ctx context.Context) string {
	return observe.OrNoop(t.tracer).Traceparent(ctx)
}

// StartCommitSpan begins the span of a commit.
func (t *recorder) StartCommitSpan(ctx context.Context, from, to *workflow.Execution) (in context.Context, end observe.EndFunc) {
	attrs := append(t.attrs(), slog.String(observe.From, string(from.State)), slog.String(observe.To, string(to.State)),
		slog.Int64(observe.Version, to.Version))
	if r := to.StepRunBySeq(to.StepRunSeq); r != nil {
		attrs = append(attrs, slog.String(observe.Step, r.Label))
	}
	return observe.OrNoop(t.tracer).Start(ctx, observe.SpanConfig{Name: "commit", Attrs: attrs})
}
