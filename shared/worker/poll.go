package worker

import (
	"context"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Feed is how a polling worker is fed and what its packs are worked on with.
type Feed struct {
	Source Source
	Decode func(body string) (*workflow.PackMessage, error)
	Open   func() Ports // one for each pack
}

// Grace is how long a worker that is asked to stop lets running packs end.
const Grace = 10 * time.Second

// errorPause is how long a worker waits after its queue has failed.
const errorPause = time.Second

// Poll receives packs and works on them until ctx ends. Then it receives no more
// and lets those under way end, for at most [Grace]; what is not over by then is
// left to its lease, and runs again elsewhere or is found out about.
func Poll(ctx context.Context, w *Worker, f Feed) error {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var packs sync.WaitGroup
	room := make(chan struct{}, w.Concurrency)
	for ctx.Err() == nil {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		deliveries, err := f.Source.Receive(ctx, max(1, min(10, w.Concurrency-len(room)+1)))
		<-room
		if err != nil {
			if ctx.Err() == nil {
				w.Log.WarnContext(ctx, "cannot receive", "error", err)
				rest(ctx, errorPause)
			}
			continue
		}
		for _, d := range deliveries {
			room <- struct{}{}
			packs.Go(func() {
				defer func() { <-room }()
				w.delivery(working, d, f)
			})
		}
	}
	over := make(chan struct{})
	go func() { packs.Wait(); close(over) }()
	select {
	case <-over:
	case <-time.After(Grace):
		stop()
		<-over
	}
	return nil
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// delivery works on one message. What fails is left to its visibility time-out.
func (w *Worker) delivery(ctx context.Context, d Delivery, f Feed) {
	p := f.Open()
	p.Hold = func(ctx context.Context, span time.Duration) error { return f.Source.Defer(ctx, d, span) }
	err := func() error {
		m, err := f.Decode(d.Body)
		if err != nil {
			return err
		}
		disposition, err := w.Handle(ctx, m, p)
		switch {
		case err != nil:
			return err
		case disposition.Done:
			return f.Source.Delete(ctx, d)
		case disposition.After <= shortWait:
			return f.Source.Defer(ctx, d, disposition.After)
		}
		if err := w.postpone(ctx, m, disposition.After, p); err != nil {
			return err
		}
		return f.Source.Delete(ctx, d)
	}()
	if err != nil && ctx.Err() == nil {
		w.Log.WarnContext(ctx, "pack not finished", "receives", d.Receives, "error", err)
	}
}
