package lasttry

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Queue is where the engine is told.
type Queue interface {
	Notify(ctx context.Context, delay time.Duration, looks ...workflow.Look) error
}

// Rules are how often a message may be received, and what telling is done with.
type Rules struct {
	MaxReceives int
	Lease       time.Duration
	Queue       Queue
	Log         *slog.Logger
}

// Try is the work on a message that its queue gives up on if it fails once more.
// nil is work on any other.
//
// A worker may not write down what becomes of a run, so it tells the engine.
type Try struct {
	Rules
	look workflow.Look
	most time.Duration // that the jobs may take
}

// Of is the last permitted receive of a message, nil if this is not the last.
func Of(r Rules, id string, receives int, m *workflow.PackMessage) *Try {
	if receives < r.MaxReceives {
		return nil
	}
	return &Try{r, workflow.Look{
		Tenant: m.Key.Tenant, Execution: m.Key.Execution, Why: "dead letter",
		Dead: &workflow.Dead{Message: id, Queue: topology.JobsQueue(m.Work.Pool), Pack: &m.Key, Step: m.Work.Step, Receives: receives},
	}, time.Duration(max(1, len(m.Jobs))) * m.Work.Timeout.Std()}
}

// OfLook is the same of a message to the engine.
func OfLook(r Rules, id string, receives int, l workflow.Look) *Try {
	if receives < r.MaxReceives {
		return nil
	}
	return &Try{Rules: r, look: workflow.Look{
		Tenant: l.Tenant, Execution: l.Execution, Why: "dead letter",
		Dead: &workflow.Dead{Message: id, Queue: topology.QueueLifecycle, Receives: receives},
	}}
}

// longestDelay is how long a queue can keep a message back.
const longestDelay = 15 * time.Minute

// Begun is told when jobs begin that no claim stands for: should the process die of
// them, nobody would be left to say so. The engine hears of it after the time that
// they may take, and finds the pack's item then, unless that is what has happened.
func (t *Try) Begun(ctx context.Context) {
	if t == nil {
		return
	}
	l, dead := t.look, *t.look.Dead
	dead.Feared, dead.Reason = true, "worker_lost: whoever received it last has neither finished it nor said why"
	l.Dead = &dead
	t.tell(ctx, min(t.most+t.Lease, longestDelay), l)
}

// Failed is told how the try has ended; nil is well.
func (t *Try) Failed(ctx context.Context, err error) {
	if t == nil || err == nil {
		return
	}
	t.look.Dead.Reason = Reason(err)
	t.tell(ctx, 0, t.look)
}

// tellWithin bounds the telling, which has to work although the time for the
// message may be up.
const tellWithin = 5 * time.Second

func (t *Try) tell(ctx context.Context, after time.Duration, l workflow.Look) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellWithin)
	defer cancel()
	if err := t.Queue.Notify(ctx, after, l); err != nil {
		t.Log.LogAttrs(ctx, slog.LevelError, "a message is given up on, and its run does not learn why",
			append(observe.Run(l.Tenant, l.Execution, ""), slog.String(observe.MessageID, l.Dead.Message), observe.Err(err))...)
	}
}
