package harness

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/scheduler"
	"github.com/lockstep-run/lockstep/tests/sim"
	"github.com/lockstep-run/lockstep/tests/sim/faults"
)

// visibilityTimeout is how long a message that was received stays hidden.
const visibilityTimeout = 30 * time.Second

// maxReceives is how often a pack's message is received before it is dropped.
const maxReceives = 20

// sweepInterval is the schedule of the alarm clock.
const sweepInterval = time.Minute

var errCrashed = errors.New("stage: the handler has died")

// runHandler runs a handler that may die.
func (s *Harness) runHandler(do func() error) (err error) {
	if faults.CatchCrash(func() { err = do() }) {
		return errCrashed
	}
	return err
}

// Deliver hands a message that is visible to whoever serves its queue, and
// reports whether there was one. A message whose handler fails or dies comes
// again.
func (s *Harness) Deliver() bool {
	wakeups := s.deliverWakeup
	packs := s.deliverPack
	if s.QueueFaults.Shuffle && s.IntN(2) == 0 {
		return packs() || wakeups()
	}
	return wakeups() || packs()
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

// DrainPacks delivers the packs that are visible, and no messages to the engine.
func (s *Harness) DrainPacks() {
	for s.deliverPack() {
	}
}

func (s *Harness) deliverPack() bool {
	q := s.PoolQueue("default")
	m, ok := q.Receive(visibilityTimeout)
	if ok {
		s.processDelivery(q, m)
	}
	return ok
}

// processDelivery lets a worker work on a delivery.
func (s *Harness) processDelivery(q *sim.Queue, m sim.Message) {
	var retryAfter time.Duration
	err := s.runHandler(func() (err error) {
		retryAfter, err = s.HandlePack(0, m.Pack())
		return err
	})
	switch {
	case err != nil && m.Receives >= maxReceives:
		q.Delete(m) // to where dead letters go
	case err != nil:
	case retryAfter > 0:
		q.ChangeVisibility(m, retryAfter)
	default:
		q.Delete(m)
	}
}

// DrainWakeups delivers the engine's messages that are visible, and no packs.
func (s *Harness) DrainWakeups() {
	s.Helper()
	for range 10_000 {
		if !s.deliverWakeup() {
			return
		}
	}
	s.Fatal("messages never end")
}

// Drain delivers whatever is visible, at this moment of the clock.
func (s *Harness) Drain() {
	s.Helper()
	for range 10_000 {
		if !s.Deliver() {
			return
		}
	}
	s.Fatal("messages never end")
}

// Sweep rings the alarms that are due.
func (s *Harness) Sweep() {
	_ = s.runHandler(func() error {
		_, err := scheduler.Sweep(context.Background(), s.Engine, LivenessTimeouts, s.Shards)
		return err
	})
}

// RunFor lets time pass, with all that happens in it.
func (s *Harness) RunFor(d time.Duration) {
	s.Helper()
	until := s.Now().Add(d)
	for s.Drain(); s.advanceToNext(until); {
		s.Drain()
	}
	s.Advance(until.Sub(s.Now()))
	s.Drain()
}

// RunUntilIdle goes on until no message and no alarm is left, at most for d, and
// reports whether that came to be.
func (s *Harness) RunUntilIdle(d time.Duration) bool {
	s.Helper()
	until := s.Now().Add(d)
	for {
		s.Drain()
		if _, set := s.NextTimer(); !set && s.LifecycleQueue().Len() == 0 && s.PoolQueue("default").Len() == 0 {
			return true
		}
		if !s.advanceToNext(until) {
			return false
		}
	}
}

// advanceToNext moves the clock to the next moment at which anything can happen, and
// sweeps if it is one of the schedule's.
func (s *Harness) advanceToNext(until time.Time) bool {
	now := s.Now()
	next := until.Add(time.Nanosecond)
	for _, q := range []*sim.Queue{s.LifecycleQueue(), s.PoolQueue("default")} {
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
