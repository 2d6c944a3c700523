package told

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Job is which job of a pack it is.
func Job(m *workflow.PackMessage, in *workflow.JobInput) []slog.Attr {
	attrs := append(observe.Run(m.Key.Tenant, m.Key.Execution, m.Work.Correlation), slog.String(observe.Step, m.Work.Step),
		slog.Int(observe.Attempt, m.Key.Attempt), slog.String(observe.Block, m.Work.Block),
		slog.String(observe.Job, workflow.JobID(m.Key.Execution, m.Key.RunSeq, in.Index, m.Key.Attempt)))
	if in.Entity != nil {
		attrs = append(attrs, slog.String(observe.Entity, in.Entity.String()))
	}
	return attrs
}

// Unfinished tells of a message that has to come again, if err says so. What it holds
// is nil if it could not be read.
func Unfinished(ctx context.Context, log *slog.Logger, m *workflow.PackMessage, id string, receives int, err error) {
	if err != nil {
		log.LogAttrs(ctx, slog.LevelWarn, "pack not finished",
			append(Pack(m), slog.String(observe.MessageID, id), slog.Int(observe.Receives, receives), observe.Err(err))...)
	}
}

// Begin begins the span of a job, as part of its run's trace. end tells how it has ended.
func Begin(ctx context.Context, t observe.Tracer, m *workflow.PackMessage, in *workflow.JobInput) (
	of context.Context, end func(*slog.Logger, workflow.JobRecord)) {
	of, over := observe.Or(t).Begin(ctx, observe.Span{
		Name: string(m.Work.Kind) + " " + m.Work.Block, Parent: m.Work.Trace, Kind: observe.Consumer, About: Job(m, in),
	})
	return of, func(log *slog.Logger, rec workflow.JobRecord) {
		how := []slog.Attr{slog.String("outcome", string(rec.Outcome))}
		var err error
		if rec.Failure != nil { // its text is the block's
			err = failure(rec.Failure.Code)
			how = append(how, slog.String(observe.Code, rec.Failure.Code))
		}
		over(err, how...)
		if log.Enabled(of, slog.LevelDebug) { // there may be millions
			log.LogAttrs(of, slog.LevelDebug, "job ended", append(Job(m, in), how...)...)
		}
	}
}

// Here is the traceparent of the job's span, or of its run's where this worker takes none.
func Here(ctx context.Context, t observe.Tracer, m *workflow.PackMessage) string {
	return cmp.Or(observe.Or(t).Here(ctx), m.Work.Trace)
}

// failure is a job's, by its code.
type failure string

func (f failure) Error() string { return string(f) }

// Panic tells of a panic of ours, and makes an error of it.
func Panic(ctx context.Context, log *slog.Logger, m *workflow.PackMessage, cause any) error {
	log.LogAttrs(ctx, slog.LevelError, "panic", append(Pack(m), observe.Panicked(cause, debug.Stack())...)...)
	return &workflow.Error{Code: workflow.CodeInternal, Message: "panic", Cause: fmt.Errorf("%v", cause)}
}

// Crash tells of a panic of a job's block.
func Crash(ctx context.Context, log *slog.Logger, job []slog.Attr, cause any) {
	log.LogAttrs(ctx, slog.LevelError, "panic in a block", append(job, observe.Crashed(cause, debug.Stack())...)...)
}

// Left tells of a job that did not end when it was told to.
func Left(ctx context.Context, log *slog.Logger, job []slog.Attr) {
	log.LogAttrs(ctx, slog.LevelWarn, "a job does not end and is left to itself", job...)
}

// Pack is which pack a message is about, nothing if there is no message.
func Pack(m *workflow.PackMessage) []slog.Attr {
	if m == nil {
		return nil
	}
	return append(observe.Run(m.Key.Tenant, m.Key.Execution, m.Work.Correlation),
		slog.String(observe.Step, m.Work.Step), slog.Int(observe.Attempt, m.Key.Attempt), slog.String(observe.Pack, m.Key.String()))
}
