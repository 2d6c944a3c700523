package worker

import (
	"context"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// PollOptions is how a polling worker is fed and what its packs are worked on with.
type PollOptions struct {
	Source   Source
	Decode   func(body string) (*workflow.PackMessage, error)
	NewPorts func() Ports // one for each pack

	// Registry is where the worker says that it lives, every Heartbeat (20s), and
	// that it leaves. Once it could not say so for Unreachable (2m) it takes no more
	// packs until it can. nil tells nobody.
	Registry          WorkerRegistry
	HeartbeatInterval time.Duration
	UnreachableAfter  time.Duration
}

func (f PollOptions) withDefaults() PollOptions {
	if f.HeartbeatInterval == 0 {
		f.HeartbeatInterval = 20 * time.Second
	}
	if f.UnreachableAfter == 0 {
		f.UnreachableAfter = 2 * time.Minute
	}
	return f
}

// maxReceiveBatch is how many messages a queue gives at a time, maxVisibilityDelay how long a
// message is left in its queue, receiveErrorDelay how long a worker waits after its queue
// has failed, and emptyReceiveDelay after it has given nothing: a queue that does not
// wait by itself must not keep the worker busy.
//
// maxReceivesBeforeResend is how often one message may come before it is sent anew: a queue
// gives up on a message that comes too often.
const (
	maxReceivesBeforeResend = 8
	maxReceiveBatch         = 10
	maxVisibilityDelay      = 3 * time.Second
	receiveErrorDelay       = time.Second
	emptyReceiveDelay       = 50 * time.Millisecond
)

// Poll receives packs and works on them, as many at a time as the worker runs
// jobs, until ctx ends. Then it receives no more and lets those under way end, for
// at most the worker's Grace; what is not over by then is aborted and left to its
// lease: it runs again elsewhere, or is told as unknown. Poll returns no error: what
// goes wrong on the way is logged, and tried again.
func Poll(ctx context.Context, w *Worker, f PollOptions) error {
	f = f.withDefaults()
	workCtx, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	var packs, heartbeats sync.WaitGroup
	heartbeat := newHeartbeater(w, f)
	heartbeats.Go(func() { heartbeat.loop(workCtx) })
	slots := make(chan struct{}, w.Concurrency) // taken by this loop alone
	for acquireSlot(ctx, slots) {
		if !heartbeat.mayReceive(ctx) {
			<-slots
			sleep(ctx, receiveErrorDelay)
			continue
		}
		deliveries, err := f.Source.Receive(ctx, min(maxReceiveBatch, w.Concurrency-len(slots)+1))
		<-slots
		switch {
		case ctx.Err() != nil: // what has come all the same is given back
		case err != nil:
			w.Logger.WarnContext(ctx, "cannot receive", "error", err)
			sleep(ctx, receiveErrorDelay)
		case len(deliveries) == 0:
			sleep(ctx, emptyReceiveDelay)
		}
		for _, d := range deliveries {
			if ctx.Err() != nil {
				returnToQueue(workCtx, w, d, f)
				continue
			}
			slots <- struct{}{}
			packs.Go(func() {
				defer func() { <-slots }()
				handleDelivery(workCtx, w, d, f, heartbeat)
			})
		}
	}
	stopTimer := time.AfterFunc(w.StopTimeout, abort)
	defer stopTimer.Stop()
	packs.Wait()
	abort()
	heartbeats.Wait()
	heartbeat.unregister(ctx)
	return nil
}

// acquireSlot waits for room for a pack, unless ctx ends.
func acquireSlot(ctx context.Context, slots chan struct{}) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// returnToQueue returns a message that came when the worker had been told to stop.
func returnToQueue(ctx context.Context, w *Worker, d Delivery, f PollOptions) {
	if err := f.Source.Defer(ctx, d, 0); err != nil {
		w.Logger.WarnContext(ctx, "message not given back; it comes later", "error", err)
	}
}

// handleDelivery works on one message.
func handleDelivery(ctx context.Context, w *Worker, d Delivery, f PollOptions, heartbeat *heartbeater) {
	m, err := handleMessage(ctx, w, d, f, heartbeat)
	logUnfinished(ctx, w.Logger, m, d.ID, d.ReceiveCount, err)
}

func handleMessage(ctx context.Context, w *Worker, d Delivery, f PollOptions, heartbeat *heartbeater) (m *workflow.PackMessage, err error) {
	var final *FinalReceive
	defer func() { final.ReportFailure(ctx, err) }()
	defer recoverPanic(ctx, w, &m, &err)
	if m, err = f.Decode(d.Body); err != nil {
		return m, err
	}
	heartbeat.addPack(m.Key)
	defer heartbeat.removePack(m.Key)
	p := f.NewPorts()
	p.ExtendVisibility = func(ctx context.Context, span time.Duration) error { return f.Source.Defer(ctx, d, span) }
	final = w.finalReceive(d.ID, d.ReceiveCount, m, p)
	p.OnUnclaimedStart = final.ReportUnclaimedStart
	disposition, err := w.Handle(ctx, m, p)
	if err != nil {
		return m, err
	}
	return m, w.Settle(ctx, f.Source, d, m, disposition, p)
}

// Settle does with a delivery as it is to be done. What has to wait for longer is
// sent again and deleted, rather than received over and over.
func (w *Worker) Settle(ctx context.Context, s Source, d Delivery, m *workflow.PackMessage, disposition Disposition, p Ports) error {
	switch {
	case !disposition.Done && disposition.RetryAfter <= maxVisibilityDelay && d.ReceiveCount < maxReceivesBeforeResend:
		return s.Defer(ctx, d, disposition.RetryAfter)
	case !disposition.Done:
		if err := resendLater(ctx, w, m, disposition.RetryAfter, p); err != nil {
			return err
		}
	}
	return s.Delete(ctx, d)
}
