package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// keep looks after the lease while jobs run, on timers of its own. Should the
// lease not be kept, for whatever reason, the jobs are aborted a margin before it
// ends. stop ends both.
func (s *session) keep(ctx context.Context, abort context.CancelFunc) (stop func()) {
	if s.w.Sequential {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var both sync.WaitGroup
	both.Go(func() { s.heartbeat(ctx, abort) })
	if !s.free {
		both.Go(func() { s.watch(ctx, abort) })
	}
	return func() { cancel(); both.Wait() }
}

// heartbeat keeps the message away from others, renews the lease where no other
// write has just done so, writes down what has ended, and learns of a cancel.
func (s *session) heartbeat(ctx context.Context, abort context.CancelFunc) {
	for wait := s.w.Heartbeat; pause(ctx, wait); {
		wait = s.w.Heartbeat
		s.hold(ctx)
		if s.left() > s.w.Lease-s.w.Heartbeat/2 {
			continue
		}
		switch err := s.renew(ctx, none); {
		case errors.Is(err, error(errLost)):
			abort()
			return
		case errors.Is(err, error(errCancelled)): // what runs may end under the lease that it has
		case err != nil && ctx.Err() == nil:
			wait = s.w.Heartbeat / 4
			s.w.warn(ctx, "lease not renewed", s.m, err)
		}
	}
}

// watch aborts the jobs when the lease is about to end.
func (s *session) watch(ctx context.Context, abort context.CancelFunc) {
	left := s.left() - s.w.Margin
	for left > 0 && pause(ctx, left) {
		left = s.left() - s.w.Margin
	}
	if left <= 0 {
		abort()
	}
}

func (s *session) hold(ctx context.Context) {
	if s.ports.Hold == nil {
		return
	}
	if err := s.ports.Hold(ctx, s.w.Lease); err != nil && ctx.Err() == nil {
		s.w.warn(ctx, "message not held; it may come twice", s.m, err)
	}
}

// none is no job's place in its pack.
const none = -1

// renew writes a lease that counts from before the request, with what has ended
// so far, and with the STARTED of a job unless start is none. errLost says that
// the pack is somebody else's, or final; any other error that the outcome is not
// known. A cancel stops further jobs from beginning.
func (s *session) renew(ctx context.Context, start int) error {
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
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
	t0 := s.w.Now()
	last := p.Lease
	if p.Lease = t0.Add(s.w.Lease); p.Lease.UnixMilli() <= last.UnixMilli() {
		// A lease tells one write from the next, to the millisecond: whoever has read
		// the pack before this write must not take it away after it.
		p.Lease = last.Add(time.Millisecond)
	}
	if start != none {
		p.Jobs[start].Code, p.Jobs[start].StartedAt = workflow.CodeStarted, t0
	}
	ok, old, err := s.write(ctx, p, s.ports.Packs.Extend)
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := !ok && err == nil && old != nil && old.State == workflow.PackClaimed && old.Token == p.Token && old.Cancel
	if start != none && (ok || err != nil || (asked && startedIn(old, start))) {
		s.pack.Jobs[start] = p.Jobs[start] // it stands there, or may
	}
	switch {
	case err != nil:
		s.pack.Lease = p.Lease // it may stand there
		return err
	case ok:
		s.leaseEnd, s.pack.Lease, s.saved = p.Lease, p.Lease, ended(p.Jobs)
		return nil
	case asked:
		s.cancelled = true
		return errCancelled
	case overtaken(p, old):
		return &overtake{old}
	}
	s.lost = true
	return errLost
}

func startedIn(p *workflow.Pack, i int) bool {
	return i < len(p.Jobs) && p.Jobs[i].Code == workflow.CodeStarted
}

// ended is how many jobs have ended.
func ended(jobs []workflow.JobRecord) (n int) {
	for _, j := range jobs {
		if j.Code != workflow.CodeNone && j.Code != workflow.CodeStarted {
			n++
		}
	}
	return n
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

// write makes one write of the pack, once what its jobs have left fits the item.
func (s *session) write(ctx context.Context, p *workflow.Pack, put func(context.Context, *workflow.Pack) (bool, *workflow.Pack, error)) (bool, *workflow.Pack, error) {
	if err := s.makeRoom(ctx, p); err != nil {
		return false, nil, err
	}
	return put(ctx, p)
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
