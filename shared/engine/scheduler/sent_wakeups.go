package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// wakeupLease is how long a sent wake-up may take before it is sent again, unless the timer has
// moved. It is shorter than the minute between two sweeps on AWS, so each of those sends whatever
// is due.
const wakeupLease = 45 * time.Second

// maxQueuedWakeups is the depth of the lifecycle queue beyond which a sweep sends no
// wake-ups: more of them would only delay the messages that advance executions.
const maxQueuedWakeups = 1000

// queueDepth is the depth of the lifecycle queue in one sweep. It is read when the first execution
// is due, so a sweep that finds nothing does not read it.
type queueDepth struct {
	once   sync.Once
	queued int
	err    error // if set, the depth is unknown and counts as 0
}

func (d *queueDepth) read(ctx context.Context, sender port.Sender) int {
	d.once.Do(func() { d.queued, d.err = sender.QueuedWakeups(ctx) })
	return d.queued
}

// sentWakeups remembers which wake-ups a process has sent. Nothing depends on it: without it a
// wake-up is sent once more. It is kept in memory, because moving the timer would cost an index
// write for each execution. A timer that has moved counts as a different one.
type sentWakeups struct {
	mu sync.Mutex
	at map[sentWakeup]time.Time
}

type sentWakeup struct {
	tenant, execution string
	dueAt             int64 // Unix milliseconds
}

func newSentWakeup(w workflow.Wakeup) sentWakeup {
	return sentWakeup{w.Tenant, w.Execution, w.DueAt.UnixMilli()}
}

// unsent returns the wake-ups that are not remembered.
func (s *sentWakeups) unsent(due []workflow.Wakeup) (unsent []workflow.Wakeup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range due {
		if _, sent := s.at[newSentWakeup(w)]; !sent {
			unsent = append(unsent, w)
		}
	}
	return unsent
}

func (s *sentWakeups) add(sent []workflow.Wakeup, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = map[sentWakeup]time.Time{}
	}
	for _, w := range sent {
		s.at[newSentWakeup(w)] = at
	}
}

// forget drops what was sent at or before a time.
func (s *sentWakeups) forget(before time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w, at := range s.at {
		if !at.After(before) {
			delete(s.at, w)
		}
	}
}
