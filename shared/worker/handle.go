package worker

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Disposition says what to do with a message that was handled without an error.
type Disposition struct {
	Done       bool          // delete the message
	RetryAfter time.Duration // otherwise: deliver it again after this time
}

var doneDisposition = Disposition{Done: true}

func retryDisposition(d time.Duration) Disposition {
	return Disposition{RetryAfter: max(d, time.Millisecond)}
}

// These errors end a session before its pack is final. The message stays in the queue; its next
// delivery finds out the state of the pack.
var (
	errClaimLost     = &workflow.Error{Code: workflow.CodeClaimLost, Message: "another worker has taken over the pack, or the engine has closed it"}
	errWorkerStopped = &workflow.Error{Code: workflow.CodeClaimLost, Message: "the worker stopped before all jobs of the pack ran"}
	errPackCancelled = &workflow.Error{Code: workflow.CodeClaimLost, Message: "the pack has been cancelled"}
)

// Handle works on the pack of one message: it claims the pack, runs its jobs, writes their results
// and sends what follows. A next attempt that is due soon is not sent but follows at once. On an
// error the message must stay in its queue: the next delivery, or the engine's timer, does what is
// left.
func (w *Worker) Handle(ctx context.Context, m *workflow.PackMessage, p Ports) (Disposition, error) {
	keepUntil := w.opts.Now().Add(maxRetriesKept)
	for {
		d, next, err := w.handlePack(ctx, m, p, keepUntil)
		if next == nil {
			return d, err
		}
		if !sleep(ctx, next.NotBefore.Sub(w.opts.Now())) {
			return Disposition{}, errWorkerStopped // the next delivery finds the pack final, and sends the attempt
		}
		m = next
	}
}

// A worker waits for the next attempt of a pack itself if that is due within maxRetryPause, but
// only until maxRetriesKept after it received the message. The message is invisible in its queue
// for longer than that.
const (
	maxRetryPause  = 2 * time.Second
	maxRetriesKept = 10 * time.Second
)

// handlePack works like Handle, for one attempt of a pack. next is the attempt that follows, if it
// is due soon.
func (w *Worker) handlePack(ctx context.Context, m *workflow.PackMessage, p Ports, keepUntil time.Time) (d Disposition, next *workflow.PackMessage, err error) {
	s := w.newSession(m, p)
	if !w.opts.Sequential {
		s.keepsRetriesUntil = keepUntil
	}
	d, err = s.handle(ctx)
	return d, s.keptRetry, err
}

func (s *session) handle(ctx context.Context) (Disposition, error) {
	w, p := s.w, s.ports
	m, err := loadMessagePayload(ctx, s.m, p)
	if err != nil {
		return Disposition{}, err
	}
	s.m = m
	if d, proceed := w.checkTime(m); !proceed {
		return d, nil
	}
	s.unclaimed = w.needsNoClaim(m)
	if !m.Work.Repeatable() {
		// The claim records the first job as started, so that job must start at once.
		if !acquireSlot(ctx, w.slots) {
			return Disposition{}, errWorkerStopped
		}
		defer func() { <-w.slots }()
	}
	if !s.hasTimeFor(ctx) {
		return retryDisposition(time.Second), nil
	}
	if err := s.loadRollbackInputs(ctx); err != nil {
		return Disposition{}, err
	}
	if d, stop, err := s.claim(ctx); stop || err != nil {
		return d, err
	}
	if s.pack.Final() {
		return s.sendFollowUps(ctx, s.pack, false)
	}
	if s.unclaimed && p.OnUnclaimedStart != nil {
		p.OnUnclaimedStart(ctx)
	}
	if err := s.runJobs(ctx); err != nil {
		return Disposition{}, err
	}
	finalPack, ownWrite, err := s.finish(ctx)
	var claimed *claimedElsewhereError
	if errors.As(err, &claimed) {
		return claimed.disposition, nil
	}
	if err != nil {
		return Disposition{}, err
	}
	return s.sendFollowUps(ctx, finalPack, ownWrite)
}

// checkTime reports whether a message may be worked on now. If not, d says what to
// do with it.
func (w *Worker) checkTime(m *workflow.PackMessage) (d Disposition, proceed bool) {
	now := w.opts.Now()
	switch {
	case now.After(m.NotAfter), w.predatesRestore(m):
		return doneDisposition, false
	case now.Before(m.NotBefore):
		return retryDisposition(m.NotBefore.Sub(now)), false
	}
	return Disposition{}, true
}

// predatesRestore reports whether a message was sent before the tables were
// restored. The engine no longer knows the step run of such a message.
func (w *Worker) predatesRestore(m *workflow.PackMessage) bool {
	return w.opts.MinFencingToken != nil && m.Work.MinFencingToken < w.opts.MinFencingToken()
}

// needsNoClaim reports whether the jobs run without a claim. They are pure, so two workers may run
// them at once. Long jobs are claimed anyway: otherwise the engine would take them for jobs that no
// worker serves.
func (w *Worker) needsNoClaim(m *workflow.PackMessage) bool {
	return m.Work.Pure && m.Work.Kind != workflow.JobRollback && m.Work.Timeout.Std() <= w.opts.UnclaimedTimeout/2
}

// acquireSlot waits for a free slot and takes it. It reports false if ctx ends
// first.
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

// sleep waits for d. It reports false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
