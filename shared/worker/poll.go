package worker

import (
	"context"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// PollOptions configure a polling worker. Source, Decode and NewPorts are required.
type PollOptions struct {
	Source   Source
	Decode   func(body string) (*workflow.PackMessage, error)
	NewPorts func() Ports // called once for each message

	// Registry records that the worker is alive. Nil: the worker is not registered.
	Registry WorkerRegistry

	// HeartbeatInterval is how often the worker sends a heartbeat to Registry.
	// Default: 20s.
	HeartbeatInterval time.Duration

	// UnreachableAfter is how long the worker continues to receive packs while its heartbeats fail.
	// Then it receives none until a heartbeat succeeds. Default: 2m.
	UnreachableAfter time.Duration
}

func (o PollOptions) withDefaults() PollOptions {
	if o.HeartbeatInterval == 0 {
		o.HeartbeatInterval = 20 * time.Second
	}
	if o.UnreachableAfter == 0 {
		o.UnreachableAfter = 2 * time.Minute
	}
	return o
}

const (
	maxReceiveBatch   = 10                    // messages per receive, SQS's limit
	receiveErrorDelay = time.Second           // pause after a failed receive
	emptyReceiveDelay = 50 * time.Millisecond // pause after an empty receive, in case the queue does not wait by itself
)

// Poll receives packs and works on them until ctx ends, on as many at a time as the worker's
// Concurrency. Then it stops receiving and waits for the packs it works on, but no longer than the
// worker's StopTimeout. After that it aborts their jobs and leaves the packs to their leases:
// another worker takes them over, repeats the jobs that may run again and marks the others UNKNOWN.
//
// Poll always returns nil. It logs errors and continues.
func Poll(ctx context.Context, w *Worker, o PollOptions) error {
	o = o.withDefaults()
	workCtx, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	var packs, heartbeats sync.WaitGroup
	heartbeat := newHeartbeater(w, o)
	heartbeats.Go(func() { heartbeat.loop(workCtx) })
	h := deliveryHandler{
		w: w, decode: o.Decode, heartbeat: heartbeat,
		newPorts: func(d Delivery) Ports {
			p := o.NewPorts()
			p.ExtendVisibility = func(ctx context.Context, after time.Duration) error { return o.Source.Defer(ctx, d, after) }
			return p
		},
		settle: func(ctx context.Context, d Delivery, m *workflow.PackMessage, disposition Disposition, p Ports) error {
			return w.Settle(ctx, o.Source, d, m, disposition, p)
		},
	}
	slots := make(chan struct{}, w.opts.Concurrency) // one per pack; only this loop takes them
	for acquireSlot(ctx, slots) {
		if heartbeat.isDraining() || !heartbeat.mayReceive(ctx) {
			<-slots
			sleep(ctx, receiveErrorDelay)
			continue
		}
		deliveries, err := o.Source.Receive(ctx, min(maxReceiveBatch, w.opts.Concurrency-len(slots)+1))
		<-slots
		switch {
		case ctx.Err() != nil: // received messages are returned below
		case err != nil:
			w.opts.Logger.WarnContext(ctx, "receive failed", observe.Err(err))
			sleep(ctx, receiveErrorDelay)
		case len(deliveries) == 0:
			sleep(ctx, emptyReceiveDelay)
		}
		for _, d := range deliveries {
			if ctx.Err() != nil || heartbeat.isDraining() {
				if err := o.Source.Defer(workCtx, d, 0); err != nil {
					w.opts.Logger.WarnContext(workCtx, "message not returned to the queue; it stays hidden until its visibility time-out ends", observe.Err(err))
				}
				continue
			}
			slots <- struct{}{}
			packs.Go(func() {
				defer func() { <-slots }()
				_ = h.handle(workCtx, d) // logged; the queue delivers the message again
			})
		}
	}
	stopTimer := time.AfterFunc(w.opts.StopTimeout, abort)
	defer stopTimer.Stop()
	packs.Wait()
	abort()
	heartbeats.Wait()
	heartbeat.unregister(ctx)
	return nil
}
