package worker

import (
	"context"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// HandleBatch handles the messages of one Lambda event in parallel. It returns, in order, the ids
// of the messages that must be delivered again; the list is never nil. The event source mapping
// deletes all other messages. failed counts those of them in which the worker failed. Jobs that did
// not fit into the invocation and lost claims are normal and not counted. Each message gets its own
// ports.
//
// A message that must wait is sent again with a delay, and never reported as failed: a failed
// message stays hidden for the visibility timeout of the queue, which is much longer than a lease.
func HandleBatch(ctx context.Context, w *Worker, batch []Delivery, decode func(body string) (*workflow.PackMessage, error), newPorts func() Ports) (unfinished []string, failed int) {
	budget := time.Duration(0)
	if end, ok := ctx.Deadline(); ok {
		budget = time.Until(end)
	}
	h := deliveryHandler{
		w: w, decode: decode,
		newPorts: func(Delivery) Ports {
			p := newPorts()
			p.TimeBudget = budget
			return p
		},
		settle: func(ctx context.Context, _ Delivery, m *workflow.PackMessage, disposition Disposition, p Ports) error {
			if disposition.Done {
				return nil // the event source mapping deletes it
			}
			return w.resendLater(ctx, m, disposition.RetryAfter, p)
		},
	}
	errs := make([]error, len(batch))
	var all sync.WaitGroup
	for i, d := range batch {
		all.Go(func() { errs[i] = h.handle(ctx, d) })
	}
	all.Wait()
	unfinished = []string{}
	for i, err := range errs {
		if err != nil {
			unfinished = append(unfinished, batch[i].ID)
		}
		if isFailure(err) {
			failed++
		}
	}
	return unfinished, failed
}

// deliveryHandler takes messages from decoding to settling, for HandleBatch and for
// Poll.
type deliveryHandler struct {
	w         *Worker
	decode    func(body string) (*workflow.PackMessage, error)
	newPorts  func(d Delivery) Ports
	settle    func(ctx context.Context, d Delivery, m *workflow.PackMessage, disposition Disposition, p Ports) error
	heartbeat *heartbeater // nil in a batch
}

// handle handles one message. A panic is an error of this message alone. If the
// message fails at its last permitted receive, the engine is informed.
func (h *deliveryHandler) handle(ctx context.Context, d Delivery) (err error) {
	var m *workflow.PackMessage
	var final *FinalReceive
	defer func() {
		logUnfinished(ctx, h.w.opts.Logger, m, d.ID, d.ReceiveCount, err)
		final.ReportFailure(ctx, err)
	}()
	defer func() {
		if recovered := recover(); recovered != nil {
			err = logPanic(ctx, h.w.opts.Logger, m, recovered)
		}
	}()
	if m, err = h.decode(d.Body); err != nil {
		return err
	}
	if h.heartbeat != nil {
		h.heartbeat.addPack(m.Key)
		defer h.heartbeat.removePack(m.Key)
	}
	p := h.newPorts(d)
	final = NewFinalReceive(FinalReceiveOptions{
		MaxReceives: h.w.opts.MaxReceives, LeaseDuration: h.w.opts.LeaseDuration, WakeupSender: p.Sender, Logger: h.w.opts.Logger,
	}, d.ID, d.ReceiveCount, m)
	p.OnUnclaimedStart = final.ReportUnclaimedStart
	disposition, err := h.w.Handle(ctx, m, p)
	if err != nil {
		return err
	}
	return h.settle(ctx, d, m, disposition, p)
}

const (
	// maxVisibilityDelay is the longest time by which a message is deferred in its queue. A message
	// that must wait longer is sent again.
	maxVisibilityDelay = 3 * time.Second

	// maxReceivesBeforeResend is how often a message may be deferred. After that it is sent again,
	// because a queue gives up on a message that is received too often.
	maxReceivesBeforeResend = 8
)

// Settle deletes or defers a delivered message, as its disposition says. A message that must wait
// for long is sent again and deleted instead.
func (w *Worker) Settle(ctx context.Context, s Source, d Delivery, m *workflow.PackMessage, disposition Disposition, p Ports) error {
	switch {
	case !disposition.Done && disposition.RetryAfter <= maxVisibilityDelay && d.ReceiveCount < maxReceivesBeforeResend:
		return s.Defer(ctx, d, disposition.RetryAfter)
	case !disposition.Done:
		if err := w.resendLater(ctx, m, disposition.RetryAfter, p); err != nil {
			return err
		}
	}
	return s.Delete(ctx, d)
}

// resendLater sends a message again with a delay. A delay longer than the queue
// supports takes several rounds. The new message carries the cost so far.
func (w *Worker) resendLater(ctx context.Context, m *workflow.PackMessage, after time.Duration, p Ports) error {
	resent, now := *m, w.opts.Now()
	if at := now.Add(after); at.After(resent.NotBefore) {
		resent.NotBefore = at
	}
	resent.Cost = m.Cost.Clone()
	resent.Cost.Add(p.Meter.Take())
	failed, err := p.Sender.SendPacks(ctx, now, []*workflow.PackMessage{&resent})
	if err == nil && len(failed) > 0 {
		err = workflow.Errorf(workflow.CodeUnavailable, "pack %s could not be sent again", m.Key)
	}
	return err
}
