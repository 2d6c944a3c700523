package harness

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/scheduler"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// visibilityTimeout is how long a received message stays hidden.
const visibilityTimeout = 30 * time.Second

// maxReceives is how often a pack's message is received before it becomes a dead letter.
const maxReceives = 20

// sweepInterval is how often the sweeper runs.
const sweepInterval = time.Minute

var errCrashed = errors.New("harness: the handler crashed")

// runHandler runs a handler that may crash.
func (s *Harness) runHandler(do func() error) (err error) {
	if faults.CatchCrash(func() { err = do() }) {
		return errCrashed
	}
	return err
}

// Deliver delivers a visible message to the handler of its queue, and reports whether there was
// one. A message whose handler fails or crashes is delivered again.
func (s *Harness) Deliver() bool {
	wakeups := s.deliverWakeup
	packs := s.deliverPack
	if s.QueueFaults.Shuffle && s.IntN(2) == 0 {
		return packs() || wakeups() || s.deliverObserved()
	}
	return wakeups() || packs() || s.deliverObserved()
}

func (s *Harness) deliverWakeup() bool {
	m, ok := s.LifecycleQueue().Receive(visibilityTimeout)
	if !ok {
		return false
	}
	ctx, wakeup := context.Background(), m.Wakeup()
	switch err := s.runHandler(func() error { return s.Engine.Advance(ctx, wakeup) }); {
	case err == nil:
		s.LifecycleQueue().Delete(m)
	case !errors.Is(err, errCrashed):
		_ = s.runHandler(func() error { s.Engine.RecordFailure(ctx, wakeup, err); return nil })
	}
	return true
}

// DrainPacks delivers all visible packs, and no wake-ups.
func (s *Harness) DrainPacks() {
	for s.deliverPack() {
	}
}

// workerQueue returns the queue of the workers.
func (s *Harness) workerQueue() *sim.Queue {
	return s.PoolQueue(topology.PoolInRegion(topology.PoolDefault, s.Region))
}

func (s *Harness) deliverPack() bool {
	q := s.workerQueue()
	m, ok := q.Receive(visibilityTimeout)
	if ok {
		s.processDelivery(q, m)
	}
	return ok
}

// processDelivery lets a worker handle a delivery.
func (s *Harness) processDelivery(q *sim.Queue, m sim.Message) {
	var retryAfter time.Duration
	err := s.runHandler(func() (err error) {
		retryAfter, err = s.HandlePack(0, m.Pack())
		return err
	})
	switch {
	case err != nil && m.Receives >= maxReceives:
		q.Delete(m) // becomes a dead letter
	case err != nil:
	case retryAfter > 0:
		q.ChangeVisibility(m, retryAfter)
	default:
		q.Delete(m)
	}
}

// DrainWakeups delivers all visible wake-ups, and no packs.
func (s *Harness) DrainWakeups() {
	s.Helper()
	for range 10_000 {
		if !s.deliverWakeup() {
			return
		}
	}
	s.Fatal("10,000 messages delivered, and there are more")
}

// Drain delivers all messages that are visible now. The clock does not move.
func (s *Harness) Drain() {
	s.Helper()
	for range 10_000 {
		if !s.Deliver() {
			return
		}
	}
	s.Fatal("10,000 messages delivered, and there are more")
}

// Sweep runs the sweeper once.
func (s *Harness) Sweep() {
	_ = s.runHandler(func() error {
		_, err := scheduler.Sweep(context.Background(), s.Engine, LivenessTimeouts, s.Shards)
		return err
	})
}

// RunFor moves the clock by d, and delivers and sweeps on the way.
func (s *Harness) RunFor(d time.Duration) {
	s.Helper()
	until := s.Now().Add(d)
	for s.Drain(); s.advanceToNext(until); {
		s.Drain()
	}
	s.Advance(until.Sub(s.Now()))
	s.Drain()
}

// RunUntilIdle delivers and sweeps until no message and no timer is left, for at most d of
// simulated time. It reports whether none is left.
func (s *Harness) RunUntilIdle(d time.Duration) bool {
	s.Helper()
	until := s.Now().Add(d)
	for {
		s.Drain()
		left := 0
		for _, q := range s.queues() {
			left += q.Len()
		}
		if _, set := s.NextTimer(); !set && left == 0 {
			return true
		}
		if !s.advanceToNext(until) {
			return false
		}
	}
}

// advanceToNext moves the clock to the next time at which a message becomes visible or a sweep has
// something to do, and sweeps then. It returns false if that time is after until.
func (s *Harness) advanceToNext(until time.Time) bool {
	now := s.Now()
	next := until.Add(time.Nanosecond)
	for _, q := range s.queues() {
		if at, ok := q.NextVisible(); ok && at.Before(next) {
			next = at
		}
	}
	sweepDue := false
	if due, ok := s.NextTimer(); ok {
		at := now.Truncate(sweepInterval).Add(sweepInterval)
		if due.After(at) {
			at = due.Add(sweepInterval - 1).Truncate(sweepInterval)
		}
		if !at.After(next) {
			next, sweepDue = at, true
		}
	}
	if next.After(until) {
		return false
	}
	s.Advance(next.Sub(now))
	if sweepDue {
		s.Sweep()
	}
	return true
}
