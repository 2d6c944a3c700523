package worker

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Ports is one view of the world for one message. Hold, if it is set, keeps the
// message itself away from others for d; it is called with every heartbeat.
type Ports struct {
	Packs Packs
	Queue Queue
	Meter Meter
	Hold  func(ctx context.Context, d time.Duration) error
}

// Disposition says what to do with a message that has been handled without an
// error: delete it, or let it come back after a time.
type Disposition struct {
	Done  bool
	After time.Duration
}

func later(d time.Duration) Disposition { return Disposition{After: max(d, time.Millisecond)} }

var done = Disposition{Done: true}

// errLost ends the work on a pack that is somebody else's by now. The message is
// left: it comes back and finds out what became of the pack.
var errLost = &workflow.Error{Code: workflow.CodeClaimLost, Message: "the pack has been taken over"}

// Handle answers one pack's message. An error leaves the message to redelivery:
// whatever was not done is done then, or by the engine's alarm.
func (w *Worker) Handle(ctx context.Context, m *workflow.PackMessage, p Ports) (Disposition, error) {
	now := w.Now()
	switch {
	case now.After(m.NotAfter):
		return done, nil
	case now.Before(m.NotBefore):
		return later(m.NotBefore.Sub(now)), nil
	}
	s := &session{w: w, m: m, ports: p, started: map[int]bool{}}
	if w.unclaimed(m) {
		return s.withoutClaim(ctx)
	}
	if d, stop, err := s.claim(ctx); stop || err != nil {
		return d, err
	}
	if s.pack.Final() {
		return s.after(ctx, s.pack)
	}
	if err := s.run(ctx); err != nil {
		return Disposition{}, err
	}
	final, err := s.finish(ctx)
	if err != nil {
		return Disposition{}, err
	}
	return s.after(ctx, final)
}

// unclaimed reports whether the jobs need no claim: they are pure, so it does no
// harm if two workers run them. Those that may take long are claimed all the
// same, so that nobody takes them for jobs without a worker.
func (w *Worker) unclaimed(m *workflow.PackMessage) bool {
	return m.Work.Pure && m.Work.Kind == workflow.JobExecute && m.Work.Timeout.Std() <= w.Unclaimed/2
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

// lost reports whether an error says that the pack is somebody else's.
func lost(err error) bool { return errors.Is(err, error(errLost)) }
