package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maintainLease renews the lease while jobs run. If it cannot be renewed, for whatever reason, the
// jobs are aborted shortly before it ends. stop ends both loops.
func (s *session) maintainLease(ctx context.Context, abort context.CancelFunc) (stop func()) {
	if s.w.opts.Sequential {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var loops sync.WaitGroup
	loops.Go(func() { s.heartbeatLoop(ctx, abort) })
	if !s.unclaimed {
		loops.Go(func() { s.abortBeforeExpiry(ctx, abort) })
	} else {
		s.watchLease = func() { loops.Go(func() { s.abortBeforeExpiry(ctx, abort) }) }
	}
	return func() { cancel(); loops.Wait() }
}

// heartbeatLoop extends the visibility of the message and renews the lease, unless another write
// has just renewed it. The renewal saves the jobs that have ended and shows whether the engine has
// asked to cancel.
func (s *session) heartbeatLoop(ctx context.Context, abort context.CancelFunc) {
	for wait := s.w.opts.HeartbeatInterval; sleep(ctx, wait); {
		wait = s.w.opts.HeartbeatInterval
		s.extendVisibility(ctx)
		s.markPoolWhileHeld(ctx)
		if s.hasUnsavedProgress() {
			if err := s.claimForSaving(ctx); err != nil && ctx.Err() == nil {
				s.w.logWarning(ctx, "progress of unclaimed jobs not saved", s.m, err)
			}
			continue
		}
		if s.leaseRemaining() > s.w.opts.LeaseDuration-s.w.opts.HeartbeatInterval/2 {
			continue
		}
		switch err := s.renewLease(ctx, noJob); {
		case errors.Is(err, error(errClaimLost)):
			abort()
			return
		case errors.Is(err, error(errPackCancelled)): // running jobs may finish under the current lease
		case err != nil && ctx.Err() == nil:
			wait = s.w.opts.HeartbeatInterval / 4
			s.w.logWarning(ctx, "lease not renewed", s.m, err)
		}
	}
}

// abortBeforeExpiry aborts the jobs when the lease is about to end.
func (s *session) abortBeforeExpiry(ctx context.Context, abort context.CancelFunc) {
	left := s.leaseRemaining() - s.w.opts.LeaseMargin
	for left > 0 && sleep(ctx, left) {
		left = s.leaseRemaining() - s.w.opts.LeaseMargin
	}
	if left <= 0 {
		abort()
	}
}

func (s *session) extendVisibility(ctx context.Context) {
	if s.ports.ExtendVisibility == nil {
		return
	}
	if err := s.ports.ExtendVisibility(ctx, s.w.opts.LeaseDuration); err != nil && ctx.Err() == nil {
		s.w.logWarning(ctx, "message visibility not extended; it may be delivered twice", s.m, err)
	}
}

// noJob tells renewLease that no job starts.
const noJob = -1

// renewLease writes a new lease, which counts from before the request, together with the jobs that
// have ended. Unless start is noJob, it also records that job as STARTED. errClaimLost means that
// the pack no longer belongs to this session or is final; errPackCancelled means that no further
// job may start. After any other error it is unknown whether the write succeeded.
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
	t0 := s.w.opts.Now()
	previousEnd := p.Lease
	if p.Lease = t0.Add(s.w.opts.LeaseDuration); p.Lease.UnixMilli() <= previousEnd.UnixMilli() {
		// Each write needs a unique lease, to the millisecond. Otherwise another process that read
		// the pack before this write could take it over after it.
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
		s.pack.Jobs[start] = p.Jobs[start] // it is in the item, or may be
	}
	switch {
	case err != nil:
		s.pack.Lease = p.Lease // it may be in the item
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

// hasEnded reports whether a job with this code has ended.
func hasEnded(code workflow.JobCode) bool {
	return code != workflow.JobCodeNone && code != workflow.JobCodeStarted
}

// countEnded returns how many jobs have ended.
func countEnded(jobs []workflow.JobRecord) (n int) {
	for _, j := range jobs {
		if hasEnded(j.Code) {
			n++
		}
	}
	return n
}

// snapshot returns a copy of the pack to be written, with the cost so far. The
// caller holds s.mu.
func (s *session) snapshot() *workflow.Pack {
	p := *s.pack
	p.Cost.Add(s.ports.Meter.Take())
	s.pack.Cost = p.Cost.Clone()
	p.Jobs = append([]workflow.JobRecord(nil), s.pack.Jobs...)
	return &p
}

// writePack writes the pack after storing the results that are too large for its
// item.
func (s *session) writePack(ctx context.Context, p *workflow.Pack, put func(context.Context, *workflow.Pack) (bool, *workflow.Pack, error)) (bool, *workflow.Pack, error) {
	if err := s.offloadResults(ctx, p); err != nil {
		return false, nil, err
	}
	return put(ctx, p)
}
