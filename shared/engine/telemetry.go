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

// recorder speaks of one run during one look. Measure takes values of metrics; nil:
// nobody does.
type recorder struct {
	logger       *slog.Logger
	tracer       observe.Tracer
	recordMetric func(ctx context.Context, metric string, n int)

	tenant      string
	executionID string
	execution   *workflow.Execution // as last seen, nil before

	transitions int
	fromState   sm.ExecutionState // before the first of them
}

// SetExecution makes the run known as it stands.
func (t *recorder) SetExecution(x *workflow.Execution) { t.execution = x }

// Log writes a line about the run.
func (t *recorder) Log(ctx context.Context, level slog.Level, message string, attrs ...slog.Attr) {
	t.logger.LogAttrs(ctx, level, message, append(t.attrs(), attrs...)...)
}

// Warn writes that something has gone wrong which heals by itself.
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

// RecordTransition keeps a commit in mind. stopped says that with it a bound has stopped a run
// that would go on and on.
//
// The changes of state of one look are one line together: its history has each, and
// lines are paid for.
func (t *recorder) RecordTransition(ctx context.Context, from, to *workflow.Execution, guardStopped bool) {
	t.execution = to
	if guardStopped {
		t.measure(ctx, topology.MetricGuardStops, 1)
	}
	if from.State == to.State {
		return
	}
	if t.transitions == 0 {
		t.fromState = from.State
	}
	t.transitions++
}

// Flush tells what the look has come to, when it is over.
func (t *recorder) Flush(ctx context.Context, now time.Time) {
	if t.transitions > 0 {
		t.Log(ctx, slog.LevelInfo, "execution moved", t.transitionAttrs()...)
		t.transitions = 0
	}
	if age := lockAge(t.execution, now); age >= minReportedLockAge {
		t.measure(ctx, topology.MetricLockAge, int(age.Seconds()))
	}
}

// transitionAttrs is from where to where the run has moved, and why if it was not meant to.
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
	if why := t.execution.Error; why != nil { // what it says may be a block's own words; where it was is not
		addIfSet(observe.Code, why.Code)
		addIfSet(observe.Step, why.Step)
		addIfSet(observe.Entity, why.Entity)
	}
	return attrs
}

// minReportedLockAge is how long a run has to have waited for its locks before that counts:
// most wait for moments, and each value is a line of the log.
const minReportedLockAge = time.Minute

// lockAge is for how long a run has waited for locks that others hold.
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
