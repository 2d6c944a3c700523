package stage

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/sweep"
	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/sim/queue"
)

// hidden is how long a message that was received stays hidden.
const hidden = 30 * time.Second

// maxReceives is how often a pack's message is received before it is dropped.
const maxReceives = 20

// sweepEvery is the schedule of the alarm clock.
const sweepEvery = time.Minute

var errCrashed = errors.New("stage: the handler has died")

// attempt runs a handler that may die.
func (s *Stage) attempt(do func() error) (err error) {
	if fate.Survive(func() { err = do() }) {
		return errCrashed
	}
	return err
}

// Deliver hands a message that is visible to whoever serves its queue, and
// reports whether there was one. A message whose handler fails or dies comes
// again.
func (s *Stage) Deliver() bool {
	looks := s.deliverLook
	packs := s.deliverPack
	if s.Deliveries.Shuffle && s.Draw(2) == 0 {
		return packs() || looks()
	}
	return looks() || packs()
}

func (s *Stage) deliverLook() bool {
	m, ok := s.Lifecycle().Receive(hidden)
	if !ok {
		return false
	}
	ctx, l := context.Background(), m.Look()
	switch err := s.attempt(func() error { return s.Engine.Look(ctx, l) }); {
	case err == nil:
		s.Lifecycle().Delete(m)
	case !errors.Is(err, errCrashed):
		_ = s.attempt(func() error { s.Engine.Failed(ctx, l, err); return nil })
	}
	return true
}

func (s *Stage) deliverPack() bool {
	q := s.MakePool("default")
	m, ok := q.Receive(hidden)
	if ok {
		s.serve(q, m)
	}
	return ok
}

// serve lets a worker work on a delivery.
func (s *Stage) serve(q *queue.Queue, m queue.Message) {
	var again time.Duration
	err := s.attempt(func() (err error) {
		again, err = s.Work(0, m.Pack())
		return err
	})
	switch {
	case err != nil && m.Receives >= maxReceives:
		q.Delete(m) // to where dead letters go
	case err != nil:
	case again > 0:
		q.Defer(m, again)
	default:
		q.Delete(m)
	}
}

// Drain delivers whatever is visible, at this moment of the clock.
func (s *Stage) Drain() {
	s.Helper()
	for range 10_000 {
		if !s.Deliver() {
			return
		}
	}
	s.Fatal("messages never end")
}

// Sweep rings the alarms that are due.
func (s *Stage) Sweep() {
	_ = s.attempt(func() error {
		_, err := sweep.Run(context.Background(), s.Engine, Silence, s.Shards)
		return err
	})
}

// Tick lets time pass, with all that happens in it.
func (s *Stage) Tick(d time.Duration) {
	s.Helper()
	until := s.Now().Add(d)
	for s.Drain(); s.forward(until); {
		s.Drain()
	}
	s.Advance(until.Sub(s.Now()))
	s.Drain()
}

// Settle goes on until no message and no alarm is left, at most for d, and
// reports whether that came to be.
func (s *Stage) Settle(d time.Duration) bool {
	s.Helper()
	until := s.Now().Add(d)
	for {
		s.Drain()
		if _, set := s.NextAlarm(); !set && s.Lifecycle().Len() == 0 && s.MakePool("default").Len() == 0 {
			return true
		}
		if !s.forward(until) {
			return false
		}
	}
}

// forward moves the clock to the next moment at which anything can happen, and
// sweeps if it is one of the schedule's.
func (s *Stage) forward(until time.Time) bool {
	now := s.Now()
	next := until.Add(time.Nanosecond)
	for _, q := range []*queue.Queue{s.Lifecycle(), s.MakePool("default")} {
		if at, ok := q.Next(); ok && at.Before(next) {
			next = at
		}
	}
	sweeps := false
	if alarm, ok := s.NextAlarm(); ok {
		at := now.Truncate(sweepEvery).Add(sweepEvery)
		if alarm.After(at) {
			at = alarm.Add(sweepEvery - 1).Truncate(sweepEvery)
		}
		if !at.After(next) {
			next, sweeps = at, true
		}
	}
	if next.After(until) {
		return false
	}
	s.Advance(next.Sub(now))
	if sweeps {
		s.Sweep()
	}
	return true
}
