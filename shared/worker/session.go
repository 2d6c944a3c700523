package worker

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// session is a worker's work on the pack of one message.
type session struct {
	w      *Worker
	m      *workflow.PackMessage
	ports  Ports
	remote bool // another program runs the jobs

	// rollbackInputs holds the inputs whose result to undo was too large for the message, by job
	// index.
	rollbackInputs map[int]*workflow.JobInput

	// withheld holds the jobs that the response to a poll cannot carry, by job index.
	withheld map[int]bool

	// keepsRetriesUntil is the time up to which a next attempt that is due soon is kept, in
	// keptRetry, instead of being sent.
	keepsRetriesUntil time.Time
	keptRetry         *workflow.PackMessage

	// writeSlot is held during a write of the pack, so that there is one at a time.
	// Otherwise a slow heartbeat could overwrite a later STARTED.
	writeSlot chan struct{}

	mu         sync.Mutex // guards the fields below while jobs run
	unclaimed  bool       // pure jobs: the pack is not claimed and has no lease
	pack       *workflow.Pack
	leaseEnd   time.Time    // end of the last lease known to be written; pack.Lease may be later
	firstClaim bool         // no other worker has held the pack
	started    map[int]bool // jobs this session has started, by index
	savedCount int          // ended jobs that are in the item
	readAt     time.Time    // for unclaimed jobs: time before the last read of the pack
	cancelled  bool         // the engine has asked to stop
	claimLost  bool         // the pack no longer belongs to this session
	ended      bool         // no job of the session can save anything any more
	watchLease func()       // for unclaimed jobs that are claimed while they run: aborts them before the lease ends
}

func (w *Worker) newSession(m *workflow.PackMessage, p Ports) *session {
	return &session{w: w, m: m, ports: p, started: map[int]bool{}, writeSlot: make(chan struct{}, 1)}
}

// runJobs runs every job that may run and renews the lease while they run. It returns when all jobs
// have ended, or when no more may start and those started have ended.
func (s *session) runJobs(ctx context.Context) error {
	ctx, abort := context.WithCancel(ctx)
	defer abort()
	stop := s.maintainLease(ctx, abort)
	if s.m.Work.Repeatable() {
		s.runConcurrently(ctx)
	} else {
		s.runSequentially(ctx)
	}
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claimLost {
		return errClaimLost
	}
	return nil
}

// runConcurrently runs the jobs of a repeatable block, as many at a time as the
// worker has free slots.
func (s *session) runConcurrently(ctx context.Context) {
	var all sync.WaitGroup
	start := all.Go
	if s.w.opts.Sequential {
		start = func(job func()) { job() }
	}
	for i := range s.pack.Jobs {
		if s.isRunnable(i) && acquireSlot(ctx, s.w.slots) {
			start(func() {
				defer func() { <-s.w.slots }()
				defer s.recoverJob(ctx, i)
				if s.hasTimeFor(ctx) && s.canStart(ctx) {
					s.runJob(ctx, i)
				}
			})
		}
	}
	all.Wait()
}

// runSequentially runs the jobs of a block that must not run twice, one after the other. Each is
// recorded as STARTED before it starts. If one must not start, those after it must not either.
func (s *session) runSequentially(ctx context.Context) {
	for i := range s.pack.Jobs {
		if !s.isRunnable(i) {
			continue
		}
		if !s.markStarted(ctx, i) || !s.canStart(ctx) {
			return
		}
		s.runJob(ctx, i)
	}
}

// isRunnable reports whether a job still has to run: it has not started, or it may run again, or
// this very claim recorded it as STARTED.
func (s *session) isRunnable(i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.pack.Jobs[i].Code {
	case workflow.JobCodeNone:
		return true
	case workflow.JobCodeStarted:
		return s.m.Work.Repeatable() || s.firstClaim
	}
	return false
}

// markStarted records a job of a block that must not run twice as STARTED. The same write renews
// the lease. The first job of a first claim was recorded by the claim. A failed write may have
// reached the item: then the job does not start here, and becomes UNKNOWN when the pack is taken
// over or closed.
func (s *session) markStarted(ctx context.Context, i int) bool {
	s.mu.Lock()
	code := s.pack.Jobs[i].Code
	s.mu.Unlock()
	return code == workflow.JobCodeStarted || (ctx.Err() == nil && s.hasTimeFor(ctx) && s.renewLease(ctx, i) == nil)
}

// canStart is called immediately before a job starts. It reports whether the pack still belongs to
// this session, is not cancelled, and has a lease that does not end soon.
func (s *session) canStart(ctx context.Context) bool {
	minRemaining := 2 * s.w.opts.LeaseMargin
	if s.w.opts.Sequential {
		minRemaining = s.w.opts.LeaseDuration - s.w.opts.HeartbeatInterval // there is no heartbeat loop: renew the lease here when it is due
	}
	if s.leaseRemaining() <= minRemaining && s.renewLease(ctx, noJob) != nil {
		return false
	}
	if s.isUnclaimed() && !s.stillOpen(ctx) {
		return false
	}
	left := s.leaseRemaining()
	s.mu.Lock()
	defer s.mu.Unlock()
	return ctx.Err() == nil && !s.cancelled && !s.claimLost && left > s.w.opts.LeaseMargin
}

// maxReadAge is the largest age that the last read of an unclaimed job's pack may have when the job
// begins.
const maxReadAge = 500 * time.Millisecond

// readUnclaimed reads the pack of unclaimed jobs. If it is final, none may begin.
func (s *session) readUnclaimed(ctx context.Context) (*workflow.Pack, error) {
	t0 := s.w.opts.Now()
	p, err := s.ports.Packs.Pack(ctx, s.m.Key)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.readAt, s.cancelled = t0, p.Final()
	}
	return p, err
}

// stillOpen reports whether unclaimed jobs may still begin: when the engine closes a step run, it
// makes the packs final. One read serves all jobs that begin at about the same time.
func (s *session) stillOpen(ctx context.Context) bool {
	select {
	case s.writeSlot <- struct{}{}:
		defer func() { <-s.writeSlot }()
	case <-ctx.Done():
		return false
	}
	s.mu.Lock()
	known := s.cancelled || s.w.opts.Now().Sub(s.readAt) <= maxReadAge
	s.mu.Unlock()
	if known {
		return true // canStart checks cancelled
	}
	if _, err := s.readUnclaimed(ctx); err != nil {
		if ctx.Err() == nil {
			s.w.logWarning(ctx, "pack not read; its jobs begin with the next delivery", s.m, err)
		}
		return false
	}
	return true
}

// hasTimeFor reports whether the process has time left for a whole job. A job that would be cut off
// is better left to the next delivery. But a process that has used less than a tenth of its time
// starts it anyway, because no later process will have more.
func (s *session) hasTimeFor(ctx context.Context) bool { return s.hasTimeIn(ctx, 0) }

// hasTimeIn works like hasTimeFor, after a pause.
func (s *session) hasTimeIn(ctx context.Context, pause time.Duration) bool {
	end, ok := ctx.Deadline()
	if !ok {
		return true
	}
	needed := s.m.Work.Timeout.Std() + 2*s.w.opts.LeaseMargin
	if b := s.ports.TimeBudget; b > 0 {
		needed = min(needed, b-b/10)
	}
	return time.Until(end)-pause >= needed
}

// leaseRemaining returns how long the lease is still valid, by the more cautious of two clocks: the
// monotonic clock does not jump, and the wall clock continues while the machine is asleep.
func (s *session) leaseRemaining() time.Duration {
	now := s.w.opts.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unclaimed {
		return math.MaxInt64
	}
	return min(s.leaseEnd.Sub(now), s.leaseEnd.Round(0).Sub(now.Round(0)))
}

// jobInput returns the input of a job by its index in the step run; nil if the message has no such
// job.
func (s *session) jobInput(index int) *workflow.JobInput {
	if in := s.rollbackInputs[index]; in != nil {
		return in
	}
	for i := range s.m.Jobs {
		if s.m.Jobs[i].Index == index {
			return &s.m.Jobs[i]
		}
	}
	return nil
}
