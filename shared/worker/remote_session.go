package worker

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// leaseRemote claims a message's pack for a worker elsewhere, which gets all of its open
// jobs at once: all of them count as started with the claim. p is nil if there is
// nothing to lend; then d says what to do with the message.
//
// Pure jobs are claimed too: the claim is how the worker's results are known to
// be its own.
func leaseRemote(ctx context.Context, rules *sessionConfig, m *workflow.PackMessage, ports sessionPorts) (p *workflow.Pack, d sessionDisposition, err error) {
	now := rules.Now()
	switch {
	case now.After(m.NotAfter), rules.predatesRestore(m):
		return nil, doneDisposition, nil
	case now.Before(m.NotBefore):
		return nil, retryDisposition(m.NotBefore.Sub(now)), nil
	}
	s := newRemoteSession(rules, m, ports)
	if d, stop, err := s.claim(ctx); stop || err != nil {
		return nil, d, err
	}
	if !s.pack.Final() && countEnded(s.pack.Jobs) < len(s.pack.Jobs) {
		return s.pack, d, nil
	}
	return s.finishAndFollowUp(ctx)
}

func newRemoteSession(rules *sessionConfig, m *workflow.PackMessage, ports sessionPorts) *session {
	return &session{config: rules, m: m, ports: ports, remote: true, started: map[int]bool{}, writeSlot: make(chan struct{}, 1)}
}

// finishAndFollowUp ends a pack whose jobs have ended, or that is cancelled, and sends what
// follows.
func (s *session) finishAndFollowUp(ctx context.Context) (p *workflow.Pack, d sessionDisposition, err error) {
	ownWrite := false
	if p = s.pack; !p.Final() {
		if p, ownWrite, err = s.finish(ctx); err != nil {
			return nil, d, err
		}
	}
	d, err = s.sendFollowUps(ctx, p, ownWrite)
	return nil, d, err
}

// remoteRecords is what a worker elsewhere says of a pack that was lent to it. Every
// field may be empty.
type remoteRecords struct {
	Records  map[int]jobRecord // by the job's index
	NotBegun map[int]bool      // what it will not begin any more, once it is asked to stop
}

// resumeRemote goes on with a pack that was lent before and that is, as seen, still
// held under the claim. What is given is written down; jobs whose deadline is over
// have failed. If jobs are left, their lease is renewed and the pack returned;
// otherwise p is nil, the pack has ended, and d says what to do with its message.
//
// A pack whose holder is asked to stop is kept as it is while the holder only asks
// for more time, and ends with whatever it gives.
//
// Whoever asks may ask twice at once, of two functions: each write is made on the
// pack as it was read, and one that has been overtaken is made again.
func resumeRemote(ctx context.Context, rules *sessionConfig, m *workflow.PackMessage, ports sessionPorts, seen *workflow.Pack, results *remoteRecords) (p *workflow.Pack, d sessionDisposition, err error) {
	for range maxResumeAttempts {
		p, d, err = tryResumeRemote(ctx, rules, m, ports, seen, results)
		var conflict *concurrentWriteError
		if !errors.As(err, &conflict) {
			return p, d, err
		}
		seen = conflict.pack
	}
	return nil, d, workflow.Errorf(workflow.CodeUnavailable, "pack %s keeps changing: try again", m.Key)
}

// maxResumeAttempts bounds how often one call goes over a pack that changes under it.
const maxResumeAttempts = 6

// concurrentWriteError is the error of a write that found the pack written by another call
// under the same claim.
type concurrentWriteError struct{ pack *workflow.Pack }

func (o *concurrentWriteError) Error() string { return "the pack has been written meanwhile" }

func isConcurrentWrite(p, old *workflow.Pack) bool {
	return !p.ExpectedLease.IsZero() && old != nil && old.State == workflow.PackClaimed && old.Token == p.Token && !old.Lease.Equal(p.ExpectedLease)
}

func tryResumeRemote(ctx context.Context, rules *sessionConfig, m *workflow.PackMessage, ports sessionPorts, seen *workflow.Pack, results *remoteRecords) (p *workflow.Pack, d sessionDisposition, err error) {
	s := newRemoteSession(rules, m, ports)
	pack := *seen
	pack.ExpectedLease = seen.Lease
	pack.Jobs = append([]workflow.JobRecord(nil), seen.Jobs...)
	s.adoptPack(&pack)
	s.cancelled = seen.CancelRequested
	now := rules.Now()
	for i := range pack.Jobs {
		rec := &pack.Jobs[i]
		if rec.Code != workflow.JobCodeStarted {
			continue
		}
		s.started[rec.Index] = results == nil || !results.NotBegun[rec.Index]
		a, reported := jobRecord{}, false
		if results != nil {
			a, reported = results.Records[rec.Index]
		}
		switch {
		case reported:
			*rec = completedRecord(*rec, a, rec.StartedAt, now)
		case now.After(remoteJobDeadline(m, &pack, i).Add(rules.LeaseMargin)):
			a = failedRecord("TIMEOUT", "no answer within %s", m.Work.Timeout.Std())
			a.Failure.Retryable = m.Work.Repeatable()
			*rec = completedRecord(*rec, a, rec.StartedAt, now)
		}
	}
	switch {
	case countEnded(pack.Jobs) == len(pack.Jobs), s.cancelled && results != nil:
		return s.finishAndFollowUp(ctx)
	case s.cancelled:
		return s.pack, d, nil
	}
	if err := s.renewLease(ctx, noJob); err != nil && !errors.Is(err, error(errPackCancelled)) {
		return nil, d, err
	}
	s.pack.CancelRequested = s.cancelled
	return s.pack, d, nil
}

// remoteJobDeadline is when a lent job is given up. A worker may run a pack's jobs one
// after the other, in their order: each has the time of those before it too.
func remoteJobDeadline(m *workflow.PackMessage, p *workflow.Pack, i int) time.Time {
	return p.ClaimedAt.Add(time.Duration(i+1) * m.Work.Timeout.Std())
}
