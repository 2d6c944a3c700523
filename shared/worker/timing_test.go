package worker_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// These tests run the worker with all its goroutines and timers in a synctest bubble,
// where time passes only while all goroutines wait.

// slowPacks lets a test delay heartbeats or make them fail. It reports two concurrent
// writes of a pack.
type slowPacks struct {
	worker.Packs
	t      *testing.T
	extend func(ctx context.Context, n int) error // runs before the n-th Extend, from 1; its error replaces the call

	mu     sync.Mutex
	n      int
	inside bool
	leases []time.Time
	codes  [][]workflow.JobCode
}

func (s *slowPacks) Extend(ctx context.Context, p *workflow.Pack) (bool, *workflow.Pack, error) {
	s.mu.Lock()
	if s.n++; s.inside {
		s.t.Error("concurrent writes of a pack: the older may arrive last")
	}
	n := s.n
	s.inside = true
	s.leases, s.codes = append(s.leases, p.Lease), append(s.codes, jobCodes(p))
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inside = false
	}()
	if s.extend != nil {
		if err := s.extend(ctx, n); err != nil {
			return false, nil, err
		}
	}
	return s.Packs.Extend(ctx, p)
}

// inBubble runs test in a bubble, with a worker that has all its goroutines. handle
// hands the message to the worker and returns an error if it is not done.
func inBubble(t *testing.T, kind string, jobs int, test func(r *fixture, m *workflow.PackMessage, p *slowPacks, handle func(context.Context) error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 2, jobs)
		m.NotAfter = time.Now().Add(24 * time.Hour)
		ports := r.ports()
		p := &slowPacks{Packs: ports.Packs, t: t}
		ports.Packs = p
		w := r.worker(concurrent)
		test(r, m, p, func(ctx context.Context) error {
			d, err := w.Handle(ctx, m, ports)
			if err == nil && !d.Done {
				err = errors.New("the message has to be delivered again")
			}
			return err
		})
		time.Sleep(2 * time.Hour) // until abandoned blocks have ended, too
	})
}

// blockFor returns a block that takes d unless its context ends first.
func blockFor(d time.Duration) func(context.Context, *worker.Job) (map[string]int, error) {
	return func(ctx context.Context, _ *worker.Job) (map[string]int, error) {
		select {
		case <-time.After(d):
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Mistake: the lease does not cover the job. Heartbeats renew it while the job runs, and
// save the jobs that have ended.
func TestWorker_HeartbeatsRenewLease(t *testing.T) {
	for _, kind := range []string{idempotent, nonIdempotent} {
		inBubble(t, kind, 2, func(r *fixture, m *workflow.PackMessage, p *slowPacks, handle func(context.Context) error) {
			startedAt := time.Now()
			r.blockFunc = func(ctx context.Context, job *worker.Job) (map[string]int, error) {
				if job.Entity.ID == "d0" {
					return nil, nil
				}
				return blockFor(5*time.Minute+time.Second)(ctx, job) // not until the moment of a heartbeat
			}
			if err := handle(context.Background()); err != nil {
				r.Error(err)
			}
			r.wantPack(m.Key, workflow.PackFinished, 1, codeOK, codeOK)
			if len(p.leases) < 14 {
				r.Errorf("%s: only %d heartbeats in 5 minutes", kind, len(p.leases))
			}
			for i := 1; i < len(p.leases); i++ {
				if gap := p.leases[i].Sub(p.leases[i-1]); gap < 0 || gap > lease/2 {
					r.Errorf("%s: heartbeat %d comes %s after the one before", kind, i, gap)
				}
			}
			if end := p.leases[len(p.leases)-1]; end.Before(startedAt.Add(5 * time.Minute)) {
				r.Errorf("%s: the last lease ends at %s", kind, end)
			}
			if last := p.codes[len(p.codes)-1]; !slices.Equal(last, []workflow.JobCode{codeOK, codeStarted}) {
				r.Errorf("%s: heartbeats write %v", kind, last)
			}
		})
	}
}

// If the lease cannot be renewed, the jobs are aborted a margin before it ends. Nothing is
// written, no follow-up is sent, and the message stays in its queue. A store that does
// not answer at all does not delay the abort.
func TestWorker_AbortsJobsBeforeLeaseExpires(t *testing.T) {
	for name, extend := range map[string]func(ctx context.Context, n int) error{
		"fails": func(context.Context, int) error { return workflow.Errorf(workflow.CodeUnavailable, "no store") },
		"hangs": func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() },
	} {
		for _, kind := range []string{idempotent, nonIdempotent} {
			inBubble(t, kind, 1, func(r *fixture, m *workflow.PackMessage, p *slowPacks, handle func(context.Context) error) {
				startedAt := time.Now()
				r.blockFunc, p.extend = blockFor(10*time.Minute), extend
				err := handle(context.Background())
				if workflow.CodeOf(err) != workflow.CodeClaimLost {
					r.Errorf("%s: %v", name, err)
				}
				if took := time.Since(startedAt); took > lease-2*time.Second || took < lease/2 {
					r.Errorf("%s: aborted after %s", name, took)
				}
				r.wantPack(m.Key, workflow.PackClaimed, 1, codeStarted)
				if len(r.wakeups()) > 0 || len(r.doneSet().Done) > 0 {
					r.Errorf("%s: follow-ups were sent", name)
				}
			})
		}
	}
}

// The worker does not wait for a block that ignores the abort.
func TestWorker_AbandonsBlockThatIgnoresContext(t *testing.T) {
	inBubble(t, nonIdempotent, 1, func(r *fixture, m *workflow.PackMessage, p *slowPacks, handle func(context.Context) error) {
		startedAt := time.Now()
		r.blockFunc = func(context.Context, *worker.Job) (map[string]int, error) { time.Sleep(time.Hour); return nil, nil }
		p.extend = func(context.Context, int) error { return errors.New("no store") }
		if err := handle(context.Background()); workflow.CodeOf(err) != workflow.CodeClaimLost || time.Since(startedAt) > lease {
			r.Errorf("%v after %s", err, time.Since(startedAt))
		}
		r.wantPack(m.Key, workflow.PackClaimed, 1, codeStarted)
	})
}

// A job that times out fails and the pack continues, whether the block watches its context or not.
// The failure is retryable if the block may run again.
func TestWorker_JobTimeoutFailsJob(t *testing.T) {
	for _, kind := range kinds {
		for _, watchesContext := range []bool{true, false} {
			inBubble(t, kind, 2, func(r *fixture, m *workflow.PackMessage, _ *slowPacks, handle func(context.Context) error) {
				m.Work.Timeout = workflow.Duration(30 * time.Second)
				r.blockFunc = func(ctx context.Context, job *worker.Job) (map[string]int, error) {
					if want := time.Now().Add(30 * time.Second); !job.Deadline.Equal(want) {
						r.Errorf("deadline %s", job.Deadline)
					}
					switch {
					case job.Entity.ID == "d1":
						return nil, nil
					case watchesContext:
						return blockFor(time.Hour)(ctx, job)
					}
					time.Sleep(time.Hour)
					return nil, nil
				}
				if err := handle(context.Background()); err != nil {
					r.Error(err)
				}
				r.wantPack(m.Key, workflow.PackFinished, 1, codeFailed, codeOK)
				f := r.pack(m.Key).Jobs[0].Failure
				if f.Code != "TIMEOUT" || f.Retryable != (kind != nonIdempotent) {
					r.Errorf("%s: %+v", kind, f)
				}
			})
		}
	}
}

// A heartbeat notices a cancel request. No further job starts; a running job may end
// under the present lease.
func TestWorker_CancelStopsFurtherJobs(t *testing.T) {
	for _, c := range []struct {
		kind  string
		takes time.Duration
		want  []workflow.JobCode
	}{
		{nonIdempotent, 40 * time.Second, []workflow.JobCode{codeOK, codeNotExecuted}},
		{nonIdempotent, 10 * time.Minute, []workflow.JobCode{codeUnknown, codeNotExecuted}}, // aborted at the lease's end
		{idempotent, 10 * time.Minute, []workflow.JobCode{codeUnknown, codeUnknown}},
	} {
		inBubble(t, c.kind, 2, func(r *fixture, m *workflow.PackMessage, _ *slowPacks, handle func(context.Context) error) {
			startedAt := time.Now()
			r.blockFunc = blockFor(c.takes)
			time.AfterFunc(5*time.Second, func() { r.cancel(m.Key) })
			if err := handle(context.Background()); err != nil {
				r.Error(err)
			}
			r.wantPack(m.Key, workflow.PackCancelled, 1, c.want...)
			if took := time.Since(startedAt); took > lease {
				r.Errorf("%s: released after %s, want within the lease", c.kind, took)
			}
			if !r.doneSet().Unsuccessful[0] || len(r.wakeups()) != 1 {
				r.Error("want the lane unsuccessful and one wake-up")
			}
		})
	}
}

// A slow heartbeat does not overwrite what was written after it started, and delays
// neither a running job nor the next one.
func TestWorker_SlowHeartbeatDoesNotOverwriteLaterWrite(t *testing.T) {
	inBubble(t, nonIdempotent, 3, func(r *fixture, m *workflow.PackMessage, p *slowPacks, handle func(context.Context) error) {
		r.blockFunc = blockFor(22 * time.Second)
		p.extend = func(_ context.Context, n int) error {
			if n%2 == 1 {
				time.Sleep(5 * time.Second)
			}
			return nil
		}
		if err := handle(context.Background()); err != nil {
			r.Error(err)
		}
		r.wantPack(m.Key, workflow.PackFinished, 1, codeOK, codeOK, codeOK)
	})
}

// Concurrency limits the jobs that run at a time, over all packs of the worker.
func TestWorker_LimitsConcurrentJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		r.blockFunc = blockFor(time.Second)
		w := r.worker(concurrent, func(o *worker.Options) { o.Concurrency = 3 })
		var all sync.WaitGroup
		for lane := range 4 {
			all.Go(func() {
				m := r.newMessage(kinds[lane%3], lane, 9, 5)
				m.NotAfter = time.Now().Add(time.Hour)
				if d, err := w.Handle(context.Background(), m, r.ports()); err != nil || !d.Done {
					t.Errorf("%+v %v", d, err)
				}
			})
		}
		all.Wait()
		if r.maxRunning != 3 || len(r.started) != 20 {
			t.Errorf("%d jobs ran, %d at a time, want 20 and 3", len(r.started), r.maxRunning)
		}
	})
}

// The process has a deadline of its own, as a Lambda function has. A job that would be
// cut off does not start. Only a job whose time-out is longer than the whole budget
// starts anyway, and times out early enough to record that.
func TestWorker_RespectsProcessDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		timeout, takes time.Duration
		want           []workflow.JobCode
	}{
		"time for one":         {4 * time.Minute, 4*time.Minute - time.Second, []workflow.JobCode{codeOK, codeNone}},
		"never time enough":    {10 * time.Minute, 8 * time.Minute, []workflow.JobCode{codeFailed, codeNone}},
		"time enough for both": {4 * time.Minute, 30 * time.Second, []workflow.JobCode{codeOK, codeOK}},
	} {
		inBubble(t, nonIdempotent, 2, func(r *fixture, m *workflow.PackMessage, _ *slowPacks, _ func(context.Context) error) {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			m.Work.Timeout, r.blockFunc = workflow.Duration(c.timeout), blockFor(c.takes)
			unfinished, failed := worker.HandleBatch(ctx, r.worker(concurrent), []worker.Delivery{{ID: "a", Body: body(t, m)}}, decode, r.ports)
			p := r.pack(m.Key)
			if !slices.Equal(jobCodes(p), c.want) || p.Final() != (c.want[1] == codeOK) || p.Final() == slices.Contains(unfinished, "a") || failed != 0 {
				r.Errorf("%s: %v, unfinished %v, %d failed", name, jobCodes(p), unfinished, failed)
			}
		})
	}
}

// The message stays hidden as long as its pack is worked on, claimed or not.
func TestWorker_ExtendsMessageVisibility(t *testing.T) {
	for _, kind := range kinds {
		synctest.Test(t, func(t *testing.T) {
			r := newFixture(t)
			r.blockFunc = blockFor(3 * time.Minute)
			m := r.newMessage(kind, 0, 1, 1)
			m.NotAfter = time.Now().Add(time.Hour)
			ports, end := r.ports(), time.Now().Add(lease)
			ports.ExtendVisibility = func(_ context.Context, d time.Duration) error {
				if time.Now().After(end) {
					t.Errorf("%s: the message became visible", kind)
				}
				end = time.Now().Add(d)
				return errors.New("an error here has no effect")
			}
			if d, err := r.worker(concurrent).Handle(context.Background(), m, ports); err != nil || !d.Done {
				t.Errorf("%+v %v", d, err)
			}
			if end.Before(time.Now()) {
				t.Errorf("%s: hidden only until %s", kind, end)
			}
		})
	}
}

// Port calls fail while all goroutines run. Run this test with the race detector, too.
func TestWorker_SurvivesPortFaultsWithTimers(t *testing.T) {
	for _, kind := range kinds {
		synctest.Test(t, func(t *testing.T) {
			r := newFixture(t)
			n := 0
			var mu sync.Mutex
			r.Faults = func(faults.Call) faults.Fault {
				mu.Lock()
				defer mu.Unlock()
				if n++; n%7 == 0 {
					return faults.LostReply
				}
				return faults.None
			}
			r.blockFunc = blockFor(47 * time.Second)
			m := r.newMessage(kind, 0, 2, 6)
			m.NotAfter = time.Now().Add(24 * time.Hour)
			for range 30 {
				d, err := r.worker(concurrent).Handle(context.Background(), m, r.ports())
				if err == nil && d.Done {
					break
				}
				time.Sleep(max(d.RetryAfter, 2*time.Second))
			}
			if p := r.pack(m.Key); !p.Final() || !r.doneSet().Done[0] {
				t.Errorf("%s: %+v", kind, p)
			}
			for _, job := range r.started {
				if n := r.startCount(job.ID); kind == nonIdempotent && n != 1 {
					t.Errorf("%s started %d times", job.ID, n)
				}
			}
		})
	}
}

// slowEndpoint is a block served over HTTP that does not answer in time.
type slowEndpoint struct{}

func (slowEndpoint) Call(ctx context.Context, e *workflow.Endpoint, job *worker.Job) worker.JobResult {
	<-ctx.Done()
	return worker.JobResult{Outcome: sm.OutcomeError, Failure: &workflow.Failure{Code: "HTTP_TIMEOUT", Message: e.URL + " " + job.ID, Retryable: true}}
}

// A block with an endpoint is run by the EndpointCaller, which also chooses the code of
// a time-out.
func TestWorker_CallsHTTPEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		m := r.newMessage(nonIdempotent, 0, 1, 1)
		m.NotAfter, m.Work.Timeout = time.Now().Add(time.Hour), workflow.Duration(time.Second)
		m.Work.HTTP = &workflow.Endpoint{URL: "http://localhost"}
		w := r.worker(concurrent, func(o *worker.Options) { o.HTTPBlocks = slowEndpoint{} })
		if d, err := w.Handle(context.Background(), m, r.ports()); err != nil || !d.Done {
			t.Errorf("%+v %v", d, err)
		}
		if f := r.pack(m.Key).Jobs[0].Failure; f == nil || f.Code != "HTTP_TIMEOUT" || f.Message != "http://localhost x.2.0.1" {
			t.Errorf("%+v", f)
		}
	})
}
