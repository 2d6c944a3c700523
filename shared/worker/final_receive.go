package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// WakeupSender is where the engine is told.
type WakeupSender interface {
	SendWakeups(ctx context.Context, delay time.Duration, looks ...workflow.Wakeup) error
}

// FinalReceiveOptions are how often a message may be received, and what telling is done with.
type FinalReceiveOptions struct {
	MaxReceives   int
	LeaseDuration time.Duration
	WakeupSender  WakeupSender
	Logger        *slog.Logger
}

// FinalReceive is the work on a message that its queue gives up on if it fails once more.
// nil is work on any other.
//
// A worker may not write down what becomes of a run, so it tells the engine.
type FinalReceive struct {
	FinalReceiveOptions
	wakeup     workflow.Wakeup
	maxJobTime time.Duration // that the jobs may take
}

// NewFinalReceive is the last permitted receive of a message, nil if this is not the last.
func NewFinalReceive(r FinalReceiveOptions, id string, receives int, m *workflow.PackMessage) *FinalReceive {
	if receives < r.MaxReceives {
		return nil
	}
	return &FinalReceive{r, workflow.Wakeup{
		Tenant: m.Key.Tenant, Execution: m.Key.Execution, Reason: "dead letter",
		DeadLetter: &workflow.DeadLetter{MessageID: id, Queue: topology.JobsQueue(m.Work.Pool), Pack: &m.Key, Step: m.Work.Step, ReceiveCount: receives},
	}, time.Duration(max(1, len(m.Jobs))) * m.Work.Timeout.Std()}
}

// NewFinalWakeupReceive is the same of a message to the engine.
func NewFinalWakeupReceive(r FinalReceiveOptions, id string, receives int, l workflow.Wakeup) *FinalReceive {
	if receives < r.MaxReceives {
		return nil
	}
	return &FinalReceive{FinalReceiveOptions: r, wakeup: workflow.Wakeup{
		Tenant: l.Tenant, Execution: l.Execution, Reason: "dead letter",
		DeadLetter: &workflow.DeadLetter{MessageID: id, Queue: topology.QueueLifecycle, ReceiveCount: receives},
	}}
}

// maxQueueDelay is how long a queue can keep a message back.
const maxQueueDelay = 15 * time.Minute

// ReportUnclaimedStart is told when jobs begin that no claim stands for: should the process die of
// them, nobody would be left to say so. The engine hears of it after the time that
// they may take, and finds the pack's item then, unless that is what has happened.
func (t *FinalReceive) ReportUnclaimedStart(ctx context.Context) {
	if t == nil {
		return
	}
	l, dead := t.wakeup, *t.wakeup.DeadLetter
	dead.Provisional, dead.Reason = true, "worker_lost: whoever received it last has neither finished it nor said why"
	l.DeadLetter = &dead
	t.sendWakeup(ctx, min(t.maxJobTime+t.LeaseDuration, maxQueueDelay), l)
}

// ReportFailure is told how the try has ended; nil is well.
func (t *FinalReceive) ReportFailure(ctx context.Context, err error) {
	if t == nil || err == nil {
		return
	}
	t.wakeup.DeadLetter.Reason = failureReason(err)
	t.sendWakeup(ctx, 0, t.wakeup)
}

// sendTimeout bounds the telling, which has to work although the time for the
// message may be up.
const sendTimeout = 5 * time.Second

func (t *FinalReceive) sendWakeup(ctx context.Context, after time.Duration, l workflow.Wakeup) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
	defer cancel()
	if err := t.WakeupSender.SendWakeups(ctx, after, l); err != nil {
		t.Logger.LogAttrs(ctx, slog.LevelError, "a message is given up on, and its run does not learn why",
			append(observe.ExecutionAttrs(l.Tenant, l.Execution, ""), slog.String(observe.MessageID, l.DeadLetter.MessageID), observe.Err(err))...)
	}
}
