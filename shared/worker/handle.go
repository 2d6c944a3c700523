package worker

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/worker/internal/session"
	"github.com/lockstep-run/lockstep/shared/worker/lasttry"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Ports is one view of the world for one message. Hold, if it is set, keeps the
// message itself away from others for d; it is called with every heartbeat.
//
// Budget is how much time the process had for all that it was given at once; zero
// stands for one that does not say. A job whose time-out is longer begins only
// while the budget is hardly used. Begun, if it is set, is called when jobs begin that
// no claim stands for.
type Ports struct {
	Packs  Packs
	Queue  Queue
	Meter  Meter
	Hold   func(ctx context.Context, d time.Duration) error
	Budget time.Duration
	Begun  func(ctx context.Context)
}

// Disposition says what to do with a message that has been handled without an
// error: delete it, or let it come back after a time.
type Disposition struct {
	Done  bool
	After time.Duration
}

// Handle answers one pack's message. An error leaves the message to redelivery:
// whatever was not done is done then, or by the engine's alarm.
func (w *Worker) Handle(ctx context.Context, m *workflow.PackMessage, p Ports) (Disposition, error) {
	whole, err := session.Whole(ctx, m, w.view(p))
	if err != nil {
		return Disposition{}, err
	}
	d, err := session.Handle(ctx, &w.rules, whole, w.view(p))
	return Disposition(d), err
}

// lastTry is the last receive that a message's queue permits, nil if this is none.
func (w *Worker) lastTry(id string, receives int, m *workflow.PackMessage, p Ports) *lasttry.Try {
	return lasttry.Of(lasttry.Rules{MaxReceives: w.MaxReceives, Lease: w.Lease, Queue: p.Queue, Log: w.Log}, id, receives, m)
}

// executor is what runs the message's jobs, or nil if this worker does not.
func (w *Worker) executor(m *workflow.PackMessage) Executor {
	if e := m.Work.HTTP; e != nil {
		if w.HTTP == nil {
			return nil
		}
		return func(ctx context.Context, job *Job) Answer { return w.HTTP.Call(ctx, e, job) }
	}
	return w.blocks[m.Work.Block].run
}
