package telling

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Teller speaks of one run during one look. Measure takes values of metrics; nil:
// nobody does.
type Teller struct {
	Log     *slog.Logger
	Trace   observe.Tracer
	Measure func(ctx context.Context, metric string, n int)

	Tenant    string
	Execution string
	x         *workflow.Execution // as last seen, nil before

	moves int
	from  sm.ExecutionState // before the first of them
}

// Saw makes the run known as it stands.
func (t *Teller) Saw(x *workflow.Execution) { t.x = x }

// Say writes a line about the run.
func (t *Teller) Say(ctx context.Context, level slog.Level, message string, attrs ...slog.Attr) {
	t.Log.LogAttrs(ctx, level, message, append(t.about(), attrs...)...)
}

// Warn writes that something has gone wrong which heals by itself.
func (t *Teller) Warn(ctx context.Context, message string, err error, attrs ...slog.Attr) {
	t.Say(ctx, slog.LevelWarn, message, append(attrs, observe.Err(err))...)
}

func (t *Teller) about() []slog.Attr {
	correlation := ""
	if t.x != nil {
		correlation = t.x.Correlation
	}
	return observe.Run(t.Tenant, t.Execution, correlation)
}

// Moved keeps a commit in mind. stopped says that with it a bound has stopped a run
// that would go on and on.
//
// The changes of state of one look are one line together: its history has each, and
// lines are paid for.
func (t *Teller) Moved(ctx context.Context, from, to *workflow.Execution, stopped bool) {
	t.x = to
	if stopped {
		t.measure(ctx, topology.MetricGuardStops, 1)
	}
	if from.State == to.State {
		return
	}
	if t.moves == 0 {
		t.from = from.State
	}
	t.moves++
}

// Rest tells what the look has come to, when it is over.
func (t *Teller) Rest(ctx context.Context, now time.Time) {
	if t.moves > 0 {
		t.Say(ctx, slog.LevelInfo, "execution moved", t.way()...)
		t.moves = 0
	}
	if age := waited(t.x, now); age >= measuredFrom {
		t.measure(ctx, topology.MetricLockAge, int(age.Seconds()))
	}
}

// way is from where to where the run has moved, and why if it was not meant to.
func (t *Teller) way() []slog.Attr {
	attrs := []slog.Attr{
		slog.String(observe.Workflow, t.x.Workflow.String()), slog.String(observe.From, string(t.from)), slog.String(observe.To, string(t.x.State)),
		slog.Int(observe.Commits, t.moves), slog.Int64(observe.Version, t.x.Version),
	}
	given := func(name, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(name, value))
		}
	}
	given(observe.Cause, string(t.x.Cause))
	if why := t.x.Error; why != nil { // what it says may be a block's own words; where it was is not
		given(observe.Code, why.Code)
		given(observe.Step, why.Step)
		given(observe.Entity, why.Entity)
	}
	return attrs
}

// measuredFrom is how long a run has to have waited for its locks before that counts:
// most wait for moments, and each value is a line of the log.
const measuredFrom = time.Minute

// waited is for how long a run has waited for locks that others hold.
func waited(x *workflow.Execution, now time.Time) time.Duration {
	if x == nil || x.BlockedBy == nil || x.LockSince.IsZero() || x.State != sm.ExecutionScheduled {
		return 0
	}
	return now.Sub(x.LockSince)
}

func (t *Teller) measure(ctx context.Context, metric string, n int) {
	if t.Measure != nil {
		t.Measure(ctx, metric, n)
	}
}
