package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maintainLease looks after the lease while jobs run, on timers of its own. Should the
// lease not be kept, for whatever reason, the jobs are aborted a margin before it
// ends. stop ends both.
func (s *session) maintainLease(ctx context.Context, abort context.CancelFunc) (stop func()) {
	if s.config.Sequential {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var loops sync.WaitGroup
	loops.Go(func() { s.heartbeatLoop(ctx, abort) })
	if !s.unclaimed {
		loops.Go(func() { s.abortBeforeExpiry(ctx, abort) })
	}
	return func() { cancel(); loops.Wait() }
}

// heartbeatLoop keeps the message away from others, renews the lease where no other
// write has just done so, writes down what has ended, and learns of a cancel.
func (s *session) heartbeatLoop(ctx context.Context, abort context.CancelFunc) {
	for wait := s.config.HeartbeatInterval; waitTimer(ctx, wait); {
		wait = s.config.HeartbeatInterval
		s.extendVisibility(ctx)
		if s.leaseRemaining() > s.config.LeaseDuration-s.config.HeartbeatInterval/2 {
			continue
		}
		switch err := s.renewLease(ctx, noJob); {
		case errors.Is(err, error(errClaimLost)):
			abort()
			return
		case errors.Is(err, error(errPackCancelled)): // what runs may end under the lease that it has
		case err != nil && ctx.Err() == nil:
			wait = s.config.HeartbeatInterval / 4
			s.config.logWarning(ctx, "lease not renewed", s.m, err)
		}
	}
}

// abortBeforeExpiry aborts the jobs when the lease is about to end.
func (s *session) abortBeforeExpiry(ctx context.Context, abort context.CancelFunc) {
	left := s.leaseRemaining() - s.config.LeaseMargin
	for left > 0 && waitTimer(ctx, left) {
		left = s.leaseRemaining() - s.config.LeaseMargin
	}
	if left <= 0 {
		abort()
	}
}

func (s *session) extendVisibility(ctx context.Context) {
	if s.ports.ExtendVisibility == nil {
		return
	}
	if err := s.ports.ExtendVisibility(ctx, s.config.LeaseDuration); err != nil && ctx.Err() == nil {
		s.config.logWarning(ctx, "message not held; it may come twice", s.m, err)
	}
}

// noJob is no job's place in its pack.
const noJob = -1

// renewLease writes a lease that counts from before the request, with what has ended
// so far, and with the STARTED of a job unless start is none. errClaimLost says that
// the pack is somebody else's, or final; any other error that the outcome is not
// known. A cancel stops further jobs from beginning.
func (s *session) renewLease(ctx context.Context, start int) error {
	select {
	case s.writeSlot <- struct{}{}:
		defer func() { <-s.writeSlot }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	lost, cancelled := s.claimLost, s.cancelled
	p := s.snapshot()
	s.mu.Unlock()
	switch {
	case lost:
		return errClaimLost
	case cancelled:
		return errPackCancelled
	}
	t0 := s.config.Now()
	previousEnd := p.Lease
	if p.Lease = t0.Add(s.config.LeaseDuration); p.Lease.UnixMilli() <= previousEnd.UnixMilli() {
		// A lease tells one write from the next, to the millisecond: whoever has read
		// the pack before this write must not take it away after it.
		p.Lease = previousEnd.Add(time.Millisecond)
	}
	if start != noJob {
		p.Jobs[start].Code, p.Jobs[start].StartedAt = workflow.JobCodeStarted, t0
	}
	ok, old, err := s.writePack(ctx, p, s.ports.Packs.Extend)
	s.mu.Lock()
	defer s.mu.Unlock()
	cancelRequested := !ok && err == nil && old != nil && old.State == workflow.PackClaimed && old.Token == p.Token && old.CancelRequested
	if start != noJob && (ok || err != nil || (cancelRequested && isStarted(old, start))) {
		s.pack.Jobs[start] = p.Jobs[start] // it stands there, or may
	}
	switch {
	case err != nil:
		s.pack.Lease = p.Lease // it may stand there
		return err
	case ok:
		s.leaseEnd, s.pack.Lease, s.savedCount = p.Lease, p.Lease, countEnded(p.Jobs)
		return nil
	case cancelRequested:
		s.cancelled = true
		return errPackCancelled
	case isConcurrentWrite(p, old):
		return &concurrentWriteError{old}
	}
	s.claimLost = true
	return errClaimLost
}

func isStarted(p *workflow.Pack, i int) bool {
	return i < len(p.Jobs) && p.Jobs[i].Code == workflow.JobCodeStarted
}

// countEnded is how many jobs have ended.
func countEnded(jobs []workflow.JobRecord) (n int) {
	for _, j := range jobs {
		if j.Code != workflow.JobCodeNone && j.Code != workflow.JobCodeStarted {
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

// writePack makes one write of the pack, once what its jobs have left fits the item.
func (s *session) writePack(ctx context.Context, p *workflow.Pack, put func(context.Context, *workflow.Pack) (bool, *workflow.Pack, error)) (bool, *workflow.Pack, error) {
	if err := s.offloadResults(ctx, p); err != nil {
		return false, nil, err
	}
	return put(ctx, p)
}

// waitTimer waits, unless ctx ends before.
func waitTimer(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
