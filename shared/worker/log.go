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

// PackAttrs returns the log attributes that identify a pack, none if m is nil.
func PackAttrs(m *workflow.PackMessage) []slog.Attr {
	if m == nil {
		return nil
	}
	return append(observe.ExecutionAttrs(m.Key.Tenant, m.Key.Execution, m.Work.CorrelationID),
		slog.String(observe.Step, m.Work.Step), slog.Int(observe.Attempt, m.Key.Attempt), slog.String(observe.Pack, m.Key.String()))
}

// jobAttrs returns the log attributes that identify a job of a pack.
func jobAttrs(m *workflow.PackMessage, in *workflow.JobInput) []slog.Attr {
	attrs := append(observe.ExecutionAttrs(m.Key.Tenant, m.Key.Execution, m.Work.CorrelationID), slog.String(observe.Step, m.Work.Step),
		slog.Int(observe.Attempt, m.Key.Attempt), slog.String(observe.Block, m.Work.Block),
		slog.String(observe.JobID, workflow.JobID(m.Key.Execution, m.Key.StepRunSeq, in.Index, m.Key.Attempt)))
	if in.Entity != nil {
		attrs = append(attrs, slog.String(observe.Entity, in.Entity.String()))
	}
	return attrs
}

// logWarning logs a problem with a pack from which the protocol recovers.
func (w *Worker) logWarning(ctx context.Context, msg string, m *workflow.PackMessage, err error) {
	w.opts.Logger.LogAttrs(ctx, slog.LevelWarn, msg, append(PackAttrs(m), observe.Err(err))...)
}

// isFailure reports whether the worker failed to do its part. A claim lost to another worker, a
// pack that the engine has closed, and jobs that did not fit into the invocation are normal: the
// next delivery finds out what is left.
func isFailure(err error) bool { return err != nil && !workflow.Is(err, workflow.CodeClaimLost) }

// logUnfinished logs a message that will be delivered again, as a warning if the worker has
// failed. It logs nothing if err is nil. m is nil if the message could not be decoded.
func logUnfinished(ctx context.Context, log *slog.Logger, m *workflow.PackMessage, id string, receives int, err error) {
	if err != nil {
		level := slog.LevelInfo
		if isFailure(err) {
			level = slog.LevelWarn
		}
		log.LogAttrs(ctx, level, "pack not finished",
			append(PackAttrs(m), slog.String(observe.MessageID, id), slog.Int(observe.Receives, receives), observe.Err(err))...)
	}
}

// startJobSpan starts the span of a job in its execution's trace. end ends the span
// and logs the job at level debug. Both contain the code of a failure but never its
// message, which is the block's own text.
func startJobSpan(ctx context.Context, t observe.Tracer, m *workflow.PackMessage, in *workflow.JobInput) (
	spanCtx context.Context, end func(*slog.Logger, JobResult)) {
	spanCtx, endSpan := observe.OrNoop(t).Start(ctx, observe.SpanConfig{
		Name: string(m.Work.Kind) + " " + m.Work.Block, Parent: m.Work.TraceParent, Kind: observe.Consumer, Attrs: jobAttrs(m, in),
	})
	return spanCtx, func(log *slog.Logger, result JobResult) {
		attrs := []slog.Attr{slog.String("outcome", string(result.Outcome))}
		var err error
		if result.Failure != nil {
			err = failureCode(result.Failure.Code)
			attrs = append(attrs, slog.String(observe.Code, result.Failure.Code))
		}
		endSpan(err, attrs...)
		if log.Enabled(spanCtx, slog.LevelDebug) { // there may be millions of jobs
			log.LogAttrs(spanCtx, slog.LevelDebug, "job ended", append(jobAttrs(m, in), attrs...)...)
		}
	}
}

// traceParent returns the traceparent of the job's span, or its execution's if the
// worker has no tracer.
func traceParent(ctx context.Context, t observe.Tracer, m *workflow.PackMessage) string {
	return cmp.Or(observe.OrNoop(t).Traceparent(ctx), m.Work.TraceParent)
}

// failureCode is the code of a job's failure as an error.
type failureCode string

func (f failureCode) Error() string { return string(f) }

// logPanic logs a panic of the worker itself and returns it as an error.
func logPanic(ctx context.Context, log *slog.Logger, m *workflow.PackMessage, cause any) error {
	log.LogAttrs(ctx, slog.LevelError, "panic", append(PackAttrs(m), observe.PanicAttrs(cause, debug.Stack())...)...)
	return &workflow.Error{Code: workflow.CodeInternal, Message: "panic", Cause: fmt.Errorf("%v", cause)}
}

// logWorkerPanic logs a panic of the worker's own code while it had the data of a job in hand,
// possibly including secrets.
func logWorkerPanic(ctx context.Context, log *slog.Logger, m *workflow.PackMessage, cause any) {
	log.LogAttrs(ctx, slog.LevelError, "panic", append(PackAttrs(m), observe.BlockPanicAttrs(cause, debug.Stack())...)...)
}

// logBlockPanic logs a panic of a block. job identifies the job.
func logBlockPanic(ctx context.Context, log *slog.Logger, job []slog.Attr, cause any) {
	log.LogAttrs(ctx, slog.LevelError, "panic in a block", append(job, observe.BlockPanicAttrs(cause, debug.Stack())...)...)
}

// logAbandonedJob logs a job that ignores the end of its context.
func logAbandonedJob(ctx context.Context, log *slog.Logger, job []slog.Attr) {
	log.LogAttrs(ctx, slog.LevelWarn, "job ignored its context and was abandoned", job...)
}
