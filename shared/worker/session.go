package worker

import (
	"context"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// session is the work on one claimed pack.
type session struct {
	w     *Worker
	m     *workflow.PackMessage
	ports Ports

	mu         sync.Mutex // guards all below while jobs run
	pack       *workflow.Pack
	leaseEnd   time.Time    // by the clock that also says now
	firstOwner bool         // nobody had the pack before
	started    map[int]bool // jobs that this session has begun, by index
	cancelled  bool         // the engine has asked to stop
	lost       bool         // the pack is somebody else's
}

// run runs every job that may run, under a lease that is renewed meanwhile. It
// returns when all have ended, or no more may begin and those begun have ended.
func (s *session) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keeping := s.keep(ctx, cancel)
	if s.m.Work.Repeatable() {
		s.runTogether(ctx)
	} else {
		s.runInTurn(ctx)
	}
	cancel()
	<-keeping
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost {
		return errLost
	}
	return nil
}

// runTogether runs the jobs of a repeatable block, as many at a time as the
// worker has room for.
func (s *session) runTogether(ctx context.Context) {
	var all sync.WaitGroup
	for i := range s.pack.Jobs {
		if !s.open(i) || !s.seat(ctx) {
			continue
		}
		all.Go(func() {
			defer func() { <-s.w.slots }()
			if s.mayBegin(ctx) {
				s.one(ctx, i)
			}
		})
	}
	all.Wait()
}

// runInTurn runs the jobs of a block that must not run twice, one after the
// other: each is written down as started before it begins.
func (s *session) runInTurn(ctx context.Context) {
	for i := range s.pack.Jobs {
		if !s.open(i) || !s.seat(ctx) {
			continue
		}
		if s.markStarted(ctx, i) && s.mayBegin(ctx) {
			s.one(ctx, i)
		}
		<-s.w.slots
	}
}

// seat waits for room for one more job.
func (s *session) seat(ctx context.Context) bool {
	select {
	case s.w.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// open reports whether a job has still to be run: it has no code yet, or it was
// started and may run again, or this claim itself has marked it.
func (s *session) open(i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.pack.Jobs[i].Code {
	case workflow.CodeNone:
		return true
	case workflow.CodeStarted:
		return s.m.Work.Repeatable() || s.firstOwner
	}
	return false
}

// markStarted writes a job of a block that must not run twice down as started,
// and renews the lease by the same write. The first job of a first claim was
// written with the claim.
func (s *session) markStarted(ctx context.Context, i int) bool {
	s.mu.Lock()
	if s.pack.Jobs[i].Code == workflow.CodeStarted {
		s.mu.Unlock()
		return true
	}
	s.pack.Jobs[i].Code, s.pack.Jobs[i].StartedAt = workflow.CodeStarted, s.w.Now()
	s.mu.Unlock()
	if s.extend(ctx) == nil {
		return true
	}
	// It may have been written all the same: then it stays STARTED and becomes
	// UNKNOWN for whoever closes the pack. This session does not begin it.
	return false
}

// mayBegin is asked immediately before a job begins: the pack must be this
// session's, not cancelled, and its lease must not be about to end.
func (s *session) mayBegin(ctx context.Context) bool {
	s.mu.Lock()
	stop := s.cancelled || s.lost
	short := !s.w.Now().Add(2 * s.w.Margin).Before(s.leaseEnd)
	s.mu.Unlock()
	if stop || ctx.Err() != nil {
		return false
	}
	if short && s.extend(ctx) != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.cancelled && !s.lost && s.w.Now().Add(s.w.Margin).Before(s.leaseEnd)
}

// one runs one job and keeps what came of it.
func (s *session) one(ctx context.Context, i int) {
	s.mu.Lock()
	in := s.input(s.pack.Jobs[i].Index)
	token := s.pack.Token
	s.started[s.pack.Jobs[i].Index] = true
	s.mu.Unlock()
	began := s.w.Now()
	a, aborted := s.w.call(ctx, s.m, in, token)
	s.mu.Lock()
	defer s.mu.Unlock()
	if aborted && (s.lost || ctx.Err() != nil) {
		return // the lease was not to be kept: what became of the job is not this session's to say
	}
	s.pack.Jobs[i] = record(s.pack.Jobs[i], a, began, s.w.Now())
}

// input is a job's input by its index in the step run.
func (s *session) input(index int) *workflow.JobInput {
	for i := range s.m.Jobs {
		if s.m.Jobs[i].Index == index {
			return &s.m.Jobs[i]
		}
	}
	return &workflow.JobInput{Index: index}
}

// record is a job's record after an answer.
func record(r workflow.JobRecord, a Answer, began, ended time.Time) workflow.JobRecord {
	r.Code, r.StartedAt, r.EndedAt = workflow.CodeOK, began, ended
	r.Outcome, r.Result, r.Updates, r.Failure = a.Outcome, a.Result, a.Updates, a.Failure
	if a.Failure != nil {
		r.Code = workflow.CodeFail
	}
	return r
}
