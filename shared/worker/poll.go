package worker

import (
	"context"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/worker/lasttry"
	"github.com/lockstep-run/lockstep/shared/worker/told"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Feed is how a polling worker is fed and what its packs are worked on with.
type Feed struct {
	Source Source
	Decode func(body string) (*workflow.PackMessage, error)
	Open   func() Ports // one for each pack

	// Presence is where the worker says that it lives, every Heartbeat (20s), and
	// that it leaves. Once it could not say so for Unreachable (2m) it takes no more
	// packs until it can. nil tells nobody.
	Presence    Presence
	Heartbeat   time.Duration
	Unreachable time.Duration
}

func (f Feed) withDefaults() Feed {
	if f.Heartbeat == 0 {
		f.Heartbeat = 20 * time.Second
	}
	if f.Unreachable == 0 {
		f.Unreachable = 2 * time.Minute
	}
	return f
}

// receiveMost is how many messages a queue gives at a time, shortWait how long a
// message is left in its queue, errorPause how long a worker waits after its queue
// has failed, and emptyPause after it has given nothing: a queue that does not
// wait by itself must not keep the worker busy.
//
// receivesMost is how often one message may come before it is sent anew: a queue
// gives up on a message that comes too often.
const (
	receivesMost = 8
	receiveMost  = 10
	shortWait    = 3 * time.Second
	errorPause   = time.Second
	emptyPause   = 50 * time.Millisecond
)

// Poll receives packs and works on them, as many at a time as the worker runs
// jobs, until ctx ends. Then it receives no more and lets those under way end, for
// at most the worker's Grace; what is not over by then is aborted and left to its
// lease: it runs again elsewhere, or is told as unknown. Poll returns no error: what
// goes wrong on the way is logged, and tried again.
func Poll(ctx context.Context, w *Worker, f Feed) error {
	f = f.withDefaults()
	working, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	var packs, company sync.WaitGroup
	here := attend(w, f)
	company.Go(func() { here.keep(working) })
	room := make(chan struct{}, w.Concurrency) // taken by this loop alone
	for seat(ctx, room) {
		if !here.admitted(ctx) {
			<-room
			rest(ctx, errorPause)
			continue
		}
		deliveries, err := f.Source.Receive(ctx, min(receiveMost, w.Concurrency-len(room)+1))
		<-room
		switch {
		case ctx.Err() != nil: // what has come all the same is given back
		case err != nil:
			w.Log.WarnContext(ctx, "cannot receive", "error", err)
			rest(ctx, errorPause)
		case len(deliveries) == 0:
			rest(ctx, emptyPause)
		}
		for _, d := range deliveries {
			if ctx.Err() != nil {
				giveBack(working, w, d, f)
				continue
			}
			room <- struct{}{}
			packs.Go(func() {
				defer func() { <-room }()
				deliver(working, w, d, f, here)
			})
		}
	}
	limit := time.AfterFunc(w.Grace, abort)
	defer limit.Stop()
	packs.Wait()
	abort()
	company.Wait()
	here.leave(ctx)
	return nil
}

// seat waits for room for a pack, unless ctx ends.
func seat(ctx context.Context, room chan struct{}) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case room <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// giveBack returns a message that came when the worker had been told to stop.
func giveBack(ctx context.Context, w *Worker, d Delivery, f Feed) {
	if err := f.Source.Defer(ctx, d, 0); err != nil {
		w.Log.WarnContext(ctx, "message not given back; it comes later", "error", err)
	}
}

// deliver works on one message.
func deliver(ctx context.Context, w *Worker, d Delivery, f Feed, here *attendance) {
	m, err := work(ctx, w, d, f, here)
	told.Unfinished(ctx, w.Log, m, d.ID, d.Receives, err)
}

func work(ctx context.Context, w *Worker, d Delivery, f Feed, here *attendance) (m *workflow.PackMessage, err error) {
	var last *lasttry.Try
	defer func() { last.Failed(ctx, err) }()
	defer survive(ctx, w, &m, &err)
	if m, err = f.Decode(d.Body); err != nil {
		return m, err
	}
	here.hold(m.Key)
	defer here.drop(m.Key)
	p := f.Open()
	p.Hold = func(ctx context.Context, span time.Duration) error { return f.Source.Defer(ctx, d, span) }
	last = w.lastTry(d.ID, d.Receives, m, p)
	p.Begun = last.Begun
	disposition, err := w.Handle(ctx, m, p)
	if err != nil {
		return m, err
	}
	return m, w.Dispose(ctx, f.Source, d, m, disposition, p)
}

// Dispose does with a delivery as it is to be done. What has to wait for longer is
// sent again and deleted, rather than received over and over.
func (w *Worker) Dispose(ctx context.Context, s Source, d Delivery, m *workflow.PackMessage, what Disposition, p Ports) error {
	switch {
	case !what.Done && what.After <= shortWait && d.Receives < receivesMost:
		return s.Defer(ctx, d, what.After)
	case !what.Done:
		if err := postpone(ctx, w, m, what.After, p); err != nil {
			return err
		}
	}
	return s.Delete(ctx, d)
}
