package session

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
	w     *Rules
	m     *workflow.PackMessage
	ports Ports
	lent  bool // the jobs are run elsewhere
	free  bool // pure jobs: nobody claims the pack, and it has no lease

	// undone are inputs with a result to undo that was too large for the message.
	undone map[int]*workflow.JobInput

	// writing lets one write of the pack be under way at a time. Otherwise a
	// heartbeat could overwrite a later STARTED with what it saw before it.
	writing chan struct{}

	mu         sync.Mutex // guards all below while jobs run
	pack       *workflow.Pack
	leaseEnd   time.Time    // by the clock that also says now
	firstOwner bool         // nobody had the pack before
	started    map[int]bool // jobs that this session has begun, by index
	saved      int          // jobs whose end is in the item
	cancelled  bool         // the engine has asked to stop
	lost       bool         // the pack is somebody else's
}

// run runs every job that may run, under a lease that is renewed meanwhile. It
// returns when all have ended, or no more may begin and those begun have ended.
func (s *session) run(ctx context.Context) error {
	ctx, abort := context.WithCancel(ctx)
	defer abort()
	stop := s.keep(ctx, abort)
	if s.m.Work.Repeatable() {
		s.runTogether(ctx)
	} else {
		s.runInTurn(ctx)
	}
	stop()
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
	start := all.Go
	if s.w.Sequential {
		start = func(job func()) { job() }
	}
	for i := range s.pack.Jobs {
		if s.open(i) && s.seat(ctx) {
			start(func() {
				defer s.rise()
				if s.timeFor(ctx) && s.mayBegin(ctx) {
					s.one(ctx, i)
				}
			})
		}
	}
	all.Wait()
}

// runInTurn runs the jobs of a block that must not run twice, one after the
// other: each is written down as started before it begins. Where one may not
// begin, none after it may.
func (s *session) runInTurn(ctx context.Context) {
	for i := range s.pack.Jobs {
		if !s.open(i) {
			continue
		}
		if !s.marked(ctx, i) || !s.mayBegin(ctx) {
			return
		}
		s.one(ctx, i)
	}
}

// seat waits for room for one more job; rise makes it free again.
func (s *session) seat(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case s.w.Slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *session) rise() { <-s.w.Slots }

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

// marked writes a job of a block that must not run twice down as started, and
// renews the lease by the same write. The first job of a first claim was written
// with the claim. A write that fails may have landed all the same: then the job
// is UNKNOWN for whoever closes the pack, and is not begun here.
func (s *session) marked(ctx context.Context, i int) bool {
	s.mu.Lock()
	code := s.pack.Jobs[i].Code
	s.mu.Unlock()
	return code == workflow.CodeStarted || (ctx.Err() == nil && s.timeFor(ctx) && s.renew(ctx, i) == nil)
}

// mayBegin is asked immediately before a job begins: the pack must be this
// session's, not cancelled, and its lease not about to end.
func (s *session) mayBegin(ctx context.Context) bool {
	room := 2 * s.w.Margin
	if s.w.Sequential {
		room = s.w.Lease - s.w.Heartbeat // nobody else keeps the lease: renew it when that is due
	}
	if s.left() <= room && s.renew(ctx, none) != nil {
		return false
	}
	left := s.left()
	s.mu.Lock()
	defer s.mu.Unlock()
	return ctx.Err() == nil && !s.cancelled && !s.lost && left > s.w.Margin
}

// timeFor reports whether the process still has time for a job, all that it may
// take. One that would be cut off is better begun by whoever comes next; but a
// process that has hardly used any of its time must not put its work off for ever,
// for none that comes next will have more.
func (s *session) timeFor(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	if !ok {
		return true
	}
	want := s.m.Work.Timeout.Std() + 2*s.w.Margin
	if b := s.ports.Budget; b > 0 {
		want = min(want, b-b/10)
	}
	return time.Until(end) >= want
}

// left is how long the lease still runs, by the worse of two clocks: the
// monotonic one does not jump, the other goes on while the machine sleeps.
func (s *session) left() time.Duration {
	if s.free {
		return math.MaxInt64
	}
	now := s.w.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(s.leaseEnd.Sub(now), s.leaseEnd.Round(0).Sub(now.Round(0)))
}

// one runs one job and keeps what came of it.
func (s *session) one(ctx context.Context, i int) {
	s.mu.Lock()
	index, token := s.pack.Jobs[i].Index, s.pack.Token
	s.started[index] = true
	s.mu.Unlock()
	began := s.w.Now()
	var a Answer
	if in := s.input(index); in == nil {
		a = failed("INTERNAL", "the pack's message does not hold job %d", index)
	} else {
		var aborted bool
		if a, aborted = s.w.Call(ctx, s.m, in, token); aborted {
			return // what became of the job is not this session's to say
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Failure != nil && a.Failure.Unsent && !s.firstOwner && !s.free {
		why := *a.Failure
		why.Unsent, a.Failure = false, &why // an earlier holder of the pack may have made the call
	}
	s.pack.Jobs[i] = record(s.pack.Jobs[i], a, began, s.w.Now())
}

// input is a job's input by its index in the step run, nil if there is none.
func (s *session) input(index int) *workflow.JobInput {
	if in := s.undone[index]; in != nil {
		return in
	}
	for i := range s.m.Jobs {
		if s.m.Jobs[i].Index == index {
			return &s.m.Jobs[i]
		}
	}
	return nil
}

// record is a job's record after an answer.
func record(r workflow.JobRecord, a Answer, began, ended time.Time) workflow.JobRecord {
	r.Code, r.StartedAt, r.EndedAt = workflow.CodeOK, began, ended
	r.Outcome, r.Result, r.Updates, r.Failure = a.Outcome, a.Result, a.Updates, a.Failure.Bounded()
	r.Entities, r.Stored = a.Entities, a.Stored
	if a.Failure != nil {
		r.Code = workflow.CodeFail
	}
	return r
}

// failed is the answer for a job that this room itself lets fail, for good.
func failed(code, format string, args ...any) Answer {
	return Answer{Outcome: sm.OutcomeError, Failure: &workflow.Failure{Code: code, Message: fmt.Sprintf(format, args...)}}
}
