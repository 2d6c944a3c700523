package worker

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// keep renews the lease while jobs run, on a timer of its own, flushes what has
// ended and learns of a cancel. When the lease cannot be kept it aborts the jobs
// a margin before the lease ends. The channel is closed when it has stopped,
// which it does when ctx ends.
func (s *session) keep(ctx context.Context, abort context.CancelFunc) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(s.w.Heartbeat)
		defer tick.Stop()
		for {
			s.mu.Lock()
			left := s.leaseEnd.Add(-s.w.Margin).Sub(s.w.Now())
			s.mu.Unlock()
			end := time.NewTimer(max(left, 0))
			select {
			case <-ctx.Done():
				end.Stop()
				return
			case <-end.C:
				if !s.kept() {
					s.mu.Lock()
					s.lost = true
					s.mu.Unlock()
					abort()
					return
				}
			case <-tick.C:
				end.Stop()
				if err := s.extend(ctx); lost(err) {
					abort()
					return
				}
			}
		}
	}()
	return over
}

// kept reports whether the lease has been renewed since the timer was set.
func (s *session) kept() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Now().Add(s.w.Margin).Before(s.leaseEnd)
}

// extend renews the lease from before the request, with what has ended so far.
// errLost says that the pack is somebody else's, or final; any other error that
// the outcome is not known. A cancel stops further jobs from beginning: those
// that run may end under the lease they have.
func (s *session) extend(ctx context.Context) error {
	s.mu.Lock()
	if s.cancelled {
		s.mu.Unlock()
		return errCancelled
	}
	t0 := s.w.Now()
	p := *s.pack
	p.Lease = t0.Add(s.w.Lease)
	p.Jobs = append([]workflow.JobRecord(nil), s.pack.Jobs...)
	s.mu.Unlock()

	ok, old, err := s.ports.Packs.Extend(ctx, &p)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		return err
	case ok:
		if p.Lease.After(s.leaseEnd) {
			s.leaseEnd, s.pack.Lease = p.Lease, p.Lease
		}
	case old != nil && old.State == workflow.PackClaimed && old.Token == s.pack.Token && old.Cancel:
		s.cancelled = true
		return errCancelled
	default:
		s.lost = true
		return errLost
	}
	if s.ports.Hold != nil {
		if err := s.ports.Hold(ctx, s.w.Lease); err != nil {
			s.w.Log.WarnContext(ctx, "message not held; it may come twice", "pack", s.m.Key.String(), "error", err)
		}
	}
	return nil
}

// errCancelled says that the engine has asked to stop.
var errCancelled = &workflow.Error{Code: workflow.CodeClaimLost, Message: "the pack has been cancelled"}
