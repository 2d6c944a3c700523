package worker

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// jobAttrs is which job of a pack it is.
func jobAttrs(m *workflow.PackMessage, in *workflow.JobInput) []slog.Attr {
	attrs := append(observe.ExecutionAttrs(m.Key.Tenant, m.Key.Execution, m.Work.CorrelationID), slog.String(observe.Step, m.Work.Step),
		slog.Int(observe.Attempt, m.Key.Attempt), slog.String(observe.Block, m.Work.Block),
		slog.String(observe.JobID, workflow.JobID(m.Key.Execution, m.Key.StepRunSeq, in.Index, m.Key.Attempt)))
	if in.Entity != nil {
		attrs = append(attrs, slog.String(observe.Entity, in.Entity.String()))
	}
	return attrs
}

// logUnfinished tells of a message that has to come again, if err says so. What it holds
// is nil if it could not be read.
func logUnfinished(ctx context.Context, log *slog.Logger, m *workflow.PackMessage, id string, receives int, err error) {
	if err != nil {
		log.LogAttrs(ctx, slog.LevelWarn, "pack not finished",
			append(PackAttrs(m), slog.String(observe.MessageID, id), slog.Int(observe.Receives, receives), observe.Err(err))...)
	}
}

// startJobSpan begins the span of a job, as part of its run's trace. end tells how it has ended.
func startJobSpan(ctx context.Context, t observe.Tracer, m *workflow.PackMessage, in *workflow.JobInput) (
	spanCtx context.Context, end func(*slog.Logger, workflow.JobRecord)) {
	spanCtx, endSpan := observe.OrNoop(t).Start(ctx, observe.SpanConfig{
		Name: string(m.Work.Kind) + " " + m.Work.Block, Parent: m.Work.TraceParent, Kind: observe.Consumer, Attrs: jobAttrs(m, in),
	})
	return spanCtx, func(log *slog.Logger, rec workflow.JobRecord) {
		attrs := []slog.Attr{slog.String("outcome", string(rec.Outcome))}
		var err error
		if rec.Failure != nil { // its text is the block's
			err = failureCode(rec.Failure.Code)
			attrs = append(attrs, slog.String(observe.Code, rec.Failure.Code))
		}
		endSpan(err, attrs...)
		if log.Enabled(spanCtx, slog.LevelDebug) { // there may be millions
			log.LogAttrs(spanCtx, slog.LevelDebug, "job ended", append(jobAttrs(m, in), attrs...)...)
		}
	}
}

// traceParent is the traceparent of the job's span, or of its run's where this worker takes none.
func traceParent(ctx context.Context, t observe.Tracer, m *workflow.PackMessage) string {
	return cmp.Or(observe.OrNoop(t).Traceparent(ctx), m.Work.TraceParent)
}

// failureCode is a job's, by its code.
type failureCode string

func (f failureCode) Error() string { return string(f) }

// logPanic tells of a panic of ours, and makes an error of it.
func logPanic(ctx context.Context, log *slog.Logger, m *workflow.PackMessage, cause any) error {
	log.LogAttrs(ctx, slog.LevelError, "panic", append(PackAttrs(m), observe.PanicAttrs(cause, debug.Stack())...)...)
	return &workflow.Error{Code: workflow.CodeInternal, Message: "panic", Cause: fmt.Errorf("%v", cause)}
}

// logBlockPanic tells of a panic of a job's block.
func logBlockPanic(ctx context.Context, log *slog.Logger, job []slog.Attr, cause any) {
	log.LogAttrs(ctx, slog.LevelError, "panic in a block", append(job, observe.BlockPanicAttrs(cause, debug.Stack())...)...)
}

// logAbandonedJob tells of a job that did not end when it was told to.
func logAbandonedJob(ctx context.Context, log *slog.Logger, job []slog.Attr) {
	log.LogAttrs(ctx, slog.LevelWarn, "a job does not end and is left to itself", job...)
}

// PackAttrs is which pack a message is about, nothing if there is no message.
func PackAttrs(m *workflow.PackMessage) []slog.Attr {
	if m == nil {
		return nil
	}
	return append(observe.ExecutionAttrs(m.Key.Tenant, m.Key.Execution, m.Work.CorrelationID),
		slog.String(observe.Step, m.Work.Step), slog.Int(observe.Attempt, m.Key.Attempt), slog.String(observe.Pack, m.Key.String()))
}
