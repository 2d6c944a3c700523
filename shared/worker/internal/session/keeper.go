package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// keep renews the lease while jobs run, on a timer of its own, flushes what has
// ended and learns of a cancel. Should the lease not be kept, for whatever
// reason, a second timer aborts the jobs a margin before it ends. stop ends both.
func (s *session) keep(ctx context.Context, abort context.CancelFunc) (stop func()) {
	if s.w.Sequential {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var both sync.WaitGroup
	both.Go(func() {
		for pause(ctx, s.w.Heartbeat) {
			err := s.extend(ctx)
			switch {
			case errors.Is(err, error(errLost)):
				abort()
				return
			case err != nil && ctx.Err() == nil:
				s.w.Log.WarnContext(ctx, "lease not renewed", "pack", s.m.Key.String(), "error", err)
			}
		}
	})
	both.Go(func() {
		for left := s.left() - s.w.Margin; pause(ctx, left); left = s.left() - s.w.Margin {
			if left <= 0 {
				s.expire()
				abort()
				return
			}
		}
	})
	return func() { cancel(); both.Wait() }
}

// expire gives the pack up to whoever takes it over. One that is cancelled is
// nobody else's yet: what was begun in it is not known, and the rest can be told.
func (s *session) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = !s.cancelled
}

// extend renews the lease from before the request, with what has ended so far.
// errLost says that the pack is somebody else's, or final; any other error that
// the outcome is not known. A cancel stops further jobs from beginning: those
// that run may end under the lease they have.
func (s *session) extend(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if !s.free {
		if err := s.renew(ctx); err != nil {
			return err
		}
	}
	if s.ports.Hold != nil {
		if err := s.ports.Hold(ctx, s.w.Lease); err != nil {
			s.w.Log.WarnContext(ctx, "message not held; it may come twice", "pack", s.m.Key.String(), "error", err)
		}
	}
	return nil
}

func (s *session) renew(ctx context.Context) error {
	s.mu.Lock()
	lost, cancelled := s.lost, s.cancelled
	p := s.snapshot()
	s.mu.Unlock()
	switch {
	case lost:
		return errLost
	case cancelled:
		return errCancelled
	}
	p.Lease = s.w.Now().Add(s.w.Lease)
	ok, old, err := s.write(ctx, p, s.ports.Packs.Extend)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ok:
		s.leaseEnd, s.pack.Lease = p.Lease, p.Lease
		return nil
	case old != nil && old.State == workflow.PackClaimed && old.Token == s.pack.Token && old.Cancel:
		s.cancelled = true
		s.unmark(old)
		return errCancelled
	}
	s.lost = true
	return errLost
}

// unmark takes back the STARTED of a job that was refused with it: the job is not
// begun, and nobody will think that it was.
func (s *session) unmark(old *workflow.Pack) {
	for i := range min(len(old.Jobs), len(s.pack.Jobs)) {
		rec := &s.pack.Jobs[i]
		if rec.Code == workflow.CodeStarted && old.Jobs[i].Code == workflow.CodeNone && old.Jobs[i].Index == rec.Index {
			*rec = old.Jobs[i]
		}
	}
}

// snapshot is the pack as it is to be written now, with what has been consumed
// so far.
func (s *session) snapshot() *workflow.Pack {
	p := *s.pack
	p.Cost.Add(s.ports.Meter.Take())
	s.pack.Cost = p.Cost.Clone()
	p.Jobs = append([]workflow.JobRecord(nil), s.pack.Jobs...)
	return &p
}

// write makes one write of the pack, and once more with less of what its jobs
// have left if the item cannot hold all of it.
func (s *session) write(ctx context.Context, p *workflow.Pack, put func(context.Context, *workflow.Pack) (bool, *workflow.Pack, error)) (bool, *workflow.Pack, error) {
	ok, old, err := put(ctx, p)
	if !workflow.Is(err, workflow.CodeTooLarge) {
		return ok, old, err
	}
	s.mu.Lock()
	makeRoom(s.pack.Jobs)
	s.mu.Unlock()
	makeRoom(p.Jobs)
	return put(ctx, p)
}

// packRoom is about how many bytes one pack's item has for what its jobs leave.
const packRoom = 256 << 10

// makeRoom leaves each job its share of the item. A job that has left more fails
// with that.
func makeRoom(jobs []workflow.JobRecord) {
	share := packRoom / max(1, len(jobs))
	for i := range jobs {
		rec := &jobs[i]
		size := len(rec.Result) + len(rec.Updates)
		if rec.Failure != nil {
			size += len(rec.Failure.Message) + len(rec.Failure.Details)
		}
		if size > share {
			a := failed("LIMIT", "what the job leaves has %d bytes, its pack has room for %d", size, share)
			*rec = record(*rec, a, rec.StartedAt, rec.EndedAt)
		}
	}
}

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
