package worker

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// session is the work on one claimed pack.
type session struct {
	config    *sessionConfig
	m         *workflow.PackMessage
	ports     sessionPorts
	remote    bool // the jobs are run elsewhere
	unclaimed bool // pure jobs: nobody claims the pack, and it has no lease

	// rollbackInputs are inputs with a result to undo that was too large for the message.
	rollbackInputs map[int]*workflow.JobInput

	// writeSlot lets one write of the pack be under way at a time. Otherwise a
	// heartbeat could overwrite a later STARTED with what it saw before it.
	writeSlot chan struct{}

	mu         sync.Mutex // guards all below while jobs run
	pack       *workflow.Pack
	leaseEnd   time.Time    // by the clock that also says now
	firstClaim bool         // nobody had the pack before
	started    map[int]bool // jobs that this session has begun, by index
	savedCount int          // jobs whose end is in the item
	cancelled  bool         // the engine has asked to stop
	claimLost  bool         // the pack is somebody else's
}

// runJobs runs every job that may run, under a lease that is renewed meanwhile. It
// returns when all have ended, or no more may begin and those begun have ended.
func (s *session) runJobs(ctx context.Context) error {
	ctx, abort := context.WithCancel(ctx)
	defer abort()
	stop := s.maintainLease(ctx, abort)
	if s.m.Work.Repeatable() {
		s.runConcurrently(ctx)
	} else {
		s.runSequentially(ctx)
	}
	stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claimLost {
		return errClaimLost
	}
	return nil
}

// runConcurrently runs the jobs of a repeatable block, as many at a time as the
// worker has room for.
func (s *session) runConcurrently(ctx context.Context) {
	var all sync.WaitGroup
	start := all.Go
	if s.config.Sequential {
		start = func(job func()) { job() }
	}
	for i := range s.pack.Jobs {
		if s.isRunnable(i) && s.acquireSlot(ctx) {
			start(func() {
				defer s.releaseSlot()
				if s.hasTimeFor(ctx) && s.canStart(ctx) {
					s.runJob(ctx, i)
				}
			})
		}
	}
	all.Wait()
}

// runSequentially runs the jobs of a block that must not run twice, one after the
// other: each is written down as started before it begins. Where one may not
// begin, none after it may.
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

// acquireSlot waits for room for one more job; rise makes it free again.
func (s *session) acquireSlot(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case s.config.Slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *session) releaseSlot() { <-s.config.Slots }

// isRunnable reports whether a job has still to be run: it has no code yet, or it was
// started and may run again, or this claim itself has marked it.
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

// markStarted writes a job of a block that must not run twice down as started, and
// renews the lease by the same write. The first job of a first claim was written
// with the claim. A write that fails may have landed all the same: then the job
// is UNKNOWN for whoever closes the pack, and is not begun here.
func (s *session) markStarted(ctx context.Context, i int) bool {
	s.mu.Lock()
	code := s.pack.Jobs[i].Code
	s.mu.Unlock()
	return code == workflow.JobCodeStarted || (ctx.Err() == nil && s.hasTimeFor(ctx) && s.renewLease(ctx, i) == nil)
}

// canStart is asked immediately before a job begins: the pack must be this
// session's, not cancelled, and its lease not about to end.
func (s *session) canStart(ctx context.Context) bool {
	minRemaining := 2 * s.config.LeaseMargin
	if s.config.Sequential {
		minRemaining = s.config.LeaseDuration - s.config.HeartbeatInterval // nobody else keeps the lease: renew it when that is due
	}
	if s.leaseRemaining() <= minRemaining && s.renewLease(ctx, noJob) != nil {
		return false
	}
	left := s.leaseRemaining()
	s.mu.Lock()
	defer s.mu.Unlock()
	return ctx.Err() == nil && !s.cancelled && !s.claimLost && left > s.config.LeaseMargin
}

// hasTimeFor reports whether the process still has time for a job, all that it may
// take. One that would be cut off is better begun by whoever comes next; but a
// process that has hardly used any of its time must not put its work off for ever,
// for none that comes next will have more.
func (s *session) hasTimeFor(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	if !ok {
		return true
	}
	needed := s.m.Work.Timeout.Std() + 2*s.config.LeaseMargin
	if b := s.ports.TimeBudget; b > 0 {
		needed = min(needed, b-b/10)
	}
	return time.Until(end) >= needed
}

// leaseRemaining is how long the lease still runs, by the worse of two clocks: the
// monotonic one does not jump, the other goes on while the machine sleeps.
func (s *session) leaseRemaining() time.Duration {
	if s.unclaimed {
		return math.MaxInt64
	}
	now := s.config.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(s.leaseEnd.Sub(now), s.leaseEnd.Round(0).Sub(now.Round(0)))
}

// runJob runs one job and keeps what came of it.
func (s *session) runJob(ctx context.Context, i int) {
	s.mu.Lock()
	index, token := s.pack.Jobs[i].Index, s.pack.Token
	s.started[index] = true
	s.mu.Unlock()
	began := s.config.Now()
	var a jobRecord
	if in := s.jobInput(index); in == nil {
		a = failedRecord("INTERNAL", "the pack's message does not hold job %d", index)
	} else {
		var aborted bool
		if a, aborted = s.config.RunJob(ctx, s.m, in, token); aborted {
			return // what became of the job is not this session's to say
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Failure != nil && a.Failure.Unsent && !s.firstClaim && !s.unclaimed {
		failure := *a.Failure
		failure.Unsent, a.Failure = false, &failure // an earlier holder of the pack may have made the call
	}
	s.pack.Jobs[i] = completedRecord(s.pack.Jobs[i], a, began, s.config.Now())
}

// jobInput is a job's input by its index in the step run, nil if there is none.
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

// completedRecord is a job's record after an answer.
func completedRecord(r workflow.JobRecord, a jobRecord, began, ended time.Time) workflow.JobRecord {
	r.Code, r.StartedAt, r.EndedAt = workflow.JobCodeOK, began, ended
	r.Outcome, r.Result, r.Updates, r.Failure = a.Outcome, a.Result, a.Updates, a.Failure.Truncated()
	r.Entities, r.ResultRef = a.Entities, a.ResultRef
	if a.Failure != nil {
		r.Code = workflow.JobCodeFail
	}
	return r
}

// failedRecord is the answer for a job that this room itself lets fail, for good.
func failedRecord(code, format string, args ...any) jobRecord {
	return jobRecord{Outcome: sm.OutcomeError, Failure: &workflow.Failure{Code: code, Message: fmt.Sprintf(format, args...)}}
}
