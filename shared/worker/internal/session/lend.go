package session

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Lend claims a message's pack for a worker elsewhere, which gets all of its open
// jobs at once: all of them count as started with the claim. p is nil if there is
// nothing to lend; then d says what to do with the message.
//
// Pure jobs are claimed too: the claim is how the worker's results are known to
// be its own.
func Lend(ctx context.Context, rules *Rules, m *workflow.PackMessage, ports Ports) (p *workflow.Pack, d Disposition, err error) {
	now := rules.Now()
	switch {
	case now.After(m.NotAfter), rules.forgotten(m):
		return nil, done, nil
	case now.Before(m.NotBefore):
		return nil, later(m.NotBefore.Sub(now)), nil
	}
	s := lent(rules, m, ports)
	if d, stop, err := s.claim(ctx); stop || err != nil {
		return nil, d, err
	}
	if !s.pack.Final() && ended(s.pack.Jobs) < len(s.pack.Jobs) {
		return s.pack, d, nil
	}
	return s.conclude(ctx)
}

func lent(rules *Rules, m *workflow.PackMessage, ports Ports) *session {
	return &session{w: rules, m: m, ports: ports, lent: true, started: map[int]bool{}, writing: make(chan struct{}, 1)}
}

// conclude ends a pack whose jobs have ended, or that is cancelled, and sends what
// follows.
func (s *session) conclude(ctx context.Context) (p *workflow.Pack, d Disposition, err error) {
	own := false
	if p = s.pack; !p.Final() {
		if p, own, err = s.finish(ctx); err != nil {
			return nil, d, err
		}
	}
	d, err = s.after(ctx, p, own)
	return nil, d, err
}

// Given is what a worker elsewhere says of a pack that was lent to it. Every
// field may be empty.
type Given struct {
	Answers  map[int]Answer // by the job's index
	NotBegun map[int]bool   // what it will not begin any more, once it is asked to stop
}

// Resume goes on with a pack that was lent before and that is, as seen, still
// held under the claim. What is given is written down; jobs whose deadline is over
// have failed. If jobs are left, their lease is renewed and the pack returned;
// otherwise p is nil, the pack has ended, and d says what to do with its message.
//
// A pack whose holder is asked to stop is kept as it is while the holder only asks
// for more time, and ends with whatever it gives.
//
// Whoever asks may ask twice at once, of two functions: each write is made on the
// pack as it was read, and one that has been overtaken is made again.
func Resume(ctx context.Context, rules *Rules, m *workflow.PackMessage, ports Ports, seen *workflow.Pack, given *Given) (p *workflow.Pack, d Disposition, err error) {
	for range resumeTries {
		p, d, err = resume(ctx, rules, m, ports, seen, given)
		var by *overtake
		if !errors.As(err, &by) {
			return p, d, err
		}
		seen = by.pack
	}
	return nil, d, workflow.Errorf(workflow.CodeUnavailable, "pack %s keeps changing: try again", m.Key)
}

// resumeTries bounds how often one call goes over a pack that changes under it.
const resumeTries = 6

// overtake is the error of a write that found the pack written by another call
// under the same claim.
type overtake struct{ pack *workflow.Pack }

func (o *overtake) Error() string { return "the pack has been written meanwhile" }

func overtaken(p, old *workflow.Pack) bool {
	return !p.Seen.IsZero() && old != nil && old.State == workflow.PackClaimed && old.Token == p.Token && !old.Lease.Equal(p.Seen)
}

func resume(ctx context.Context, rules *Rules, m *workflow.PackMessage, ports Ports, seen *workflow.Pack, given *Given) (p *workflow.Pack, d Disposition, err error) {
	s := lent(rules, m, ports)
	pack := *seen
	pack.Seen = seen.Lease
	pack.Jobs = append([]workflow.JobRecord(nil), seen.Jobs...)
	s.take(&pack)
	s.cancelled = seen.Cancel
	now := rules.Now()
	for i := range pack.Jobs {
		rec := &pack.Jobs[i]
		if rec.Code != workflow.CodeStarted {
			continue
		}
		s.started[rec.Index] = given == nil || !given.NotBegun[rec.Index]
		a, told := Answer{}, false
		if given != nil {
			a, told = given.Answers[rec.Index]
		}
		switch {
		case told:
			*rec = record(*rec, a, rec.StartedAt, now)
		case now.After(Deadline(m, &pack, i).Add(rules.Margin)):
			a = failed("TIMEOUT", "no answer within %s", m.Work.Timeout.Std())
			a.Failure.Retryable = m.Work.Repeatable()
			*rec = record(*rec, a, rec.StartedAt, now)
		}
	}
	switch {
	case ended(pack.Jobs) == len(pack.Jobs), s.cancelled && given != nil:
		return s.conclude(ctx)
	case s.cancelled:
		return s.pack, d, nil
	}
	if err := s.renew(ctx, none); err != nil && !errors.Is(err, error(errCancelled)) {
		return nil, d, err
	}
	s.pack.Cancel = s.cancelled
	return s.pack, d, nil
}

// Deadline is when a lent job is given up. A worker may run a pack's jobs one
// after the other, in their order: each has the time of those before it too.
func Deadline(m *workflow.PackMessage, p *workflow.Pack, i int) time.Time {
	return p.ClaimedAt.Add(time.Duration(i+1) * m.Work.Timeout.Std())
}
