package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// FinalReceiveOptions configure FinalReceive.
type FinalReceiveOptions struct {
	MaxReceives   int           // how often the queue delivers a message
	LeaseDuration time.Duration // the worker's; not needed for wake-ups
	WakeupSender  WakeupSender
	Logger        *slog.Logger
}

// FinalReceive reports to the engine why a message became a dead letter. It stands
// for the last receive that the queue permits: if the message fails once more, the
// queue moves it to its dead-letter queue. The engine writes the reason to the
// execution's history; a worker may not write there.
//
// A nil FinalReceive, for a message that will be delivered again, reports nothing.
type FinalReceive struct {
	opts       FinalReceiveOptions
	wakeup     workflow.Wakeup
	maxJobTime time.Duration // for all jobs of the pack together
}

// NewFinalReceive returns the final receive of a pack's message, or nil if the queue
// would deliver the message again.
func NewFinalReceive(o FinalReceiveOptions, id string, receives int, m *workflow.PackMessage) *FinalReceive {
	if receives < o.MaxReceives {
		return nil
	}
	return &FinalReceive{o, workflow.Wakeup{
		Tenant: m.Key.Tenant, Execution: m.Key.Execution, Reason: "dead letter",
		DeadLetter: &workflow.DeadLetter{MessageID: id, Queue: topology.JobsQueue(m.Work.Pool), Pack: &m.Key, Step: m.Work.Step, ReceiveCount: receives},
	}, time.Duration(max(1, len(m.Jobs))) * m.Work.Timeout.Std()}
}

// NewFinalWakeupReceive returns the final receive of a message to the engine, or nil
// if the queue would deliver the message again.
func NewFinalWakeupReceive(o FinalReceiveOptions, id string, receives int, l workflow.Wakeup) *FinalReceive {
	if receives < o.MaxReceives {
		return nil
	}
	return &FinalReceive{opts: o, wakeup: workflow.Wakeup{
		Tenant: l.Tenant, Execution: l.Execution, Reason: "dead letter",
		DeadLetter: &workflow.DeadLetter{MessageID: id, Queue: topology.QueueLifecycle, ReceiveCount: receives},
	}}
}

// maxQueueDelay is the longest delay a queue supports.
const maxQueueDelay = 15 * time.Minute

// ReportUnclaimedStart is called when jobs start whose pack nobody has claimed. If they crash the
// process, nothing else reports it. So it sends a provisional report that arrives after the longest
// time that the jobs may take. The engine ignores the report if the pack item exists by then.
func (r *FinalReceive) ReportUnclaimedStart(ctx context.Context) {
	if r == nil {
		return
	}
	wakeup, dead := r.wakeup, *r.wakeup.DeadLetter
	dead.Provisional, dead.Reason = true, "worker_lost: the last worker that received the message neither finished it nor reported an error"
	wakeup.DeadLetter = &dead
	r.sendWakeup(ctx, min(r.maxJobTime+r.opts.LeaseDuration, maxQueueDelay), wakeup)
}

// ReportFailure reports the error that the message failed with. It does nothing if
// err is nil.
func (r *FinalReceive) ReportFailure(ctx context.Context, err error) {
	if r == nil || err == nil {
		return
	}
	r.wakeup.DeadLetter.Reason = failureReason(err)
	r.sendWakeup(ctx, 0, r.wakeup)
}

// sendTimeout bounds the sending of a report. The message's own context may have
// ended by then.
const sendTimeout = 5 * time.Second

func (r *FinalReceive) sendWakeup(ctx context.Context, delay time.Duration, wakeup workflow.Wakeup) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
	defer cancel()
	if err := r.opts.WakeupSender.SendWakeups(ctx, delay, wakeup); err != nil {
		r.opts.Logger.LogAttrs(ctx, slog.LevelError, "dead letter not reported; its execution's history will lack the reason",
			append(observe.ExecutionAttrs(wakeup.Tenant, wakeup.Execution, ""), slog.String(observe.MessageID, wakeup.DeadLetter.MessageID), observe.Err(err))...)
	}
}

// maxFailureReason is the longest reason in a history, in bytes.
const maxFailureReason = 240

// failureReason returns the text of an error for a history: the code and message of
// the outermost workflow.Error, without its cause. A cause may quote a message's
// content; it is only logged.
func failureReason(err error) string {
	var e *workflow.Error
	var timeout interface{ Timeout() bool }
	text := "unclassified error; see the log"
	switch {
	case errors.As(err, &e):
		text = string(e.Code) + ": " + e.Message
		if e.Cause != nil {
			text = strings.TrimSuffix(strings.TrimSuffix(text, e.Cause.Error()), ": ")
		}
	case errors.As(err, &timeout) && timeout.Timeout():
		text = "timed out"
	}
	if len(text) > maxFailureReason {
		text = strings.ToValidUTF8(text[:maxFailureReason], "") + "..."
	}
	return text
}
