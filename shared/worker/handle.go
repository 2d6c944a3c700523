package worker

import (
	"context"
	"time"

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
	Packs            Packs
	Sender           Sender
	Meter            Meter
	ExtendVisibility func(ctx context.Context, d time.Duration) error
	TimeBudget       time.Duration
	OnUnclaimedStart func(ctx context.Context)
}

// Disposition says what to do with a message that has been handled without an
// error: delete it, or let it come back after a time.
type Disposition struct {
	Done       bool
	RetryAfter time.Duration
}

// Handle answers one pack's message. An error leaves the message to redelivery:
// whatever was not done is done then, or by the engine's alarm.
func (w *Worker) Handle(ctx context.Context, m *workflow.PackMessage, p Ports) (Disposition, error) {
	loaded, err := loadMessagePayload(ctx, m, w.sessionPorts(p))
	if err != nil {
		return Disposition{}, err
	}
	disposition, err := handlePack(ctx, &w.sessionConfig, loaded, w.sessionPorts(p))
	return Disposition(disposition), err
}

// finalReceive is the last receive that a message's queue permits, nil if this is none.
func (w *Worker) finalReceive(id string, receives int, m *workflow.PackMessage, p Ports) *FinalReceive {
	return NewFinalReceive(FinalReceiveOptions{MaxReceives: w.MaxReceives, LeaseDuration: w.LeaseDuration, WakeupSender: p.Sender, Logger: w.Logger}, id, receives, m)
}

// handlerFor is what runs the message's jobs, or nil if this worker does not.
func (w *Worker) handlerFor(m *workflow.PackMessage) jobHandler {
	if endpoint := m.Work.HTTP; endpoint != nil {
		if w.HTTPBlocks == nil {
			return nil
		}
		return func(ctx context.Context, job *Job) JobResult { return w.HTTPBlocks.Call(ctx, endpoint, job) }
	}
	return w.blocks[m.Work.Block].handler
}
