package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// recorder writes logs, metrics and spans about one execution during one wake-up. recordMetric may
// be nil.
type recorder struct {
	logger       *slog.Logger
	tracer       observe.Tracer
	recordMetric func(ctx context.Context, metric string, n int)

	tenant      string
	executionID string
	execution   *workflow.Execution // as last loaded or committed; nil before that

	transitions int               // changes of state since the last Flush
	fromState   sm.ExecutionState // state before the first of them
}

// SetExecution sets the state that the recorder describes.
func (t *recorder) SetExecution(x *workflow.Execution) { t.execution = x }

// Log writes a log line about the execution.
func (t *recorder) Log(ctx context.Context, level slog.Level, message string, attrs ...slog.Attr) {
	t.logger.LogAttrs(ctx, level, message, append(t.attrs(), attrs...)...)
}

// Warn logs a failure from which the engine recovers by itself.
func (t *recorder) Warn(ctx context.Context, message string, err error, attrs ...slog.Attr) {
	t.Log(ctx, slog.LevelWarn, message, append(attrs, observe.Err(err))...)
}

func (t *recorder) attrs() []slog.Attr {
	correlation := ""
	if t.execution != nil {
		correlation = t.execution.CorrelationID
	}
	return observe.ExecutionAttrs(t.tenant, t.executionID, correlation)
}

// RecordTransition notes a commit. limitReached means that it stopped an execution at a limit. The
// changes of state are only collected here: Flush writes all of a wake-up's changes as one log
// line, because the history has each of them and log lines cost money.
func (t *recorder) RecordTransition(ctx context.Context, from, to *workflow.Execution, limitReached bool) {
	t.execution = to
	if limitReached {
		t.measure(ctx, topology.MetricGuardStops, 1)
	}
	if from.State == to.State {
		return
	}
	t.measureFailure(ctx, from.State, to)
	if t.transitions == 0 {
		t.fromState = from.State
	}
	t.transitions++
}

// measureFailure counts an execution that has failed. An execution that failed safely is
// acknowledged in the same commit.
func (t *recorder) measureFailure(ctx context.Context, from sm.ExecutionState, x *workflow.Execution) {
	switch {
	case x.State == sm.ExecutionFailedUnsafe:
		t.measure(ctx, topology.MetricFailedUnsafe, 1)
	case x.State == sm.ExecutionFailedSafe, x.State == sm.ExecutionFailedSafeAck && from != sm.ExecutionFailedSafe:
		t.measure(ctx, topology.MetricFailedSafe, 1)
	default:
		return
	}
	if x.Cause == workflow.CauseUnclaimed {
		t.measure(ctx, topology.MetricUnclaimed, 1)
	}
}

// Flush logs the changes of state of a wake-up, and measures how long the execution has waited for
// locks.
func (t *recorder) Flush(ctx context.Context, now time.Time) {
	if t.transitions > 0 {
		t.Log(ctx, slog.LevelInfo, "execution changed state", t.transitionAttrs()...)
		t.transitions = 0
	}
	if age := lockAge(t.execution, now); age >= minReportedLockAge {
		t.measure(ctx, topology.MetricLockAge, int(age.Seconds()))
	}
}

// transitionAttrs returns the first and the last state and, if the execution failed, the cause.
func (t *recorder) transitionAttrs() []slog.Attr {
	attrs := []slog.Attr{
		slog.String(observe.Workflow, t.execution.Workflow.String()), slog.String(observe.From, string(t.fromState)), slog.String(observe.To, string(t.execution.State)),
		slog.Int(observe.Commits, t.transitions), slog.Int64(observe.Version, t.execution.Version),
	}
	addIfSet := func(name, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(name, value))
		}
	}
	addIfSet(observe.Cause, string(t.execution.Cause))
	if failure := t.execution.Error; failure != nil { // without its message, which may contain text from a block
		addIfSet(observe.Code, failure.Code)
		addIfSet(observe.Step, failure.Step)
		addIfSet(observe.Entity, failure.Entity)
	}
	return attrs
}

// minReportedLockAge is the shortest wait for locks that is measured. Most waits are much shorter,
// and each value is a log line.
const minReportedLockAge = time.Minute

// lockAge returns how long an execution has waited for locks that others hold.
func lockAge(x *workflow.Execution, now time.Time) time.Duration {
	if x == nil || x.BlockedBy == nil || x.LockSince.IsZero() || x.State != sm.ExecutionScheduled {
		return 0
	}
	return now.Sub(x.LockSince)
}

func (t *recorder) measure(ctx context.Context, metric string, n int) {
	if t.recordMetric != nil {
		t.recordMetric(ctx, metric, n)
	}
}

// StartAdvanceSpan starts the span of a wake-up. The span belongs to the trace in which the
// execution was started, whatever sent the wake-up.
func (t *recorder) StartAdvanceSpan(ctx context.Context, reason string) (in context.Context, end observe.EndFunc) {
	return observe.OrNoop(t.tracer).Start(ctx, observe.SpanConfig{
		Name: "advance", Parent: t.execution.TraceParent, Kind: observe.Consumer, Attrs: append(t.attrs(), slog.String("reason", reason)),
	})
}

// RecordRootSpan records a span for a start that no request caused, and returns its traceparent.
// The execution and everything after it belong to this trace.
func (t *recorder) RecordRootSpan(ctx context.Context, name string) (traceparent string) {
	in, end := observe.OrNoop(t.tracer).Start(ctx, observe.SpanConfig{Name: name, Attrs: t.attrs()})
	end(nil)
	return t.TraceParent(in)
}

// TraceParent returns the traceparent of the context's span.
func (t *recorder) TraceParent(ctx context.Context) string {
	return observe.OrNoop(t.tracer).Traceparent(ctx)
}

// StartCommitSpan starts the span of a commit.
func (t *recorder) StartCommitSpan(ctx context.Context, from, to *workflow.Execution) (in context.Context, end observe.EndFunc) {
	attrs := append(t.attrs(), slog.String(observe.From, string(from.State)), slog.String(observe.To, string(to.State)),
		slog.Int64(observe.Version, to.Version))
	if r := to.StepRunBySeq(to.StepRunSeq); r != nil {
		attrs = append(attrs, slog.String(observe.Step, r.Label))
	}
	return observe.OrNoop(t.tracer).Start(ctx, observe.SpanConfig{Name: "commit", Attrs: attrs})
}
