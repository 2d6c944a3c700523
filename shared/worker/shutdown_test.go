package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A worker that is stopped saves the jobs that have ended. The worker that takes over the
// pack does not repeat them.
func TestWorker_SavesFinishedJobsWhenStopped(t *testing.T) {
	for kind, want := range map[string][]workflow.JobCode{idempotent: {codeOK, codeStarted}, nonIdempotent: {codeOK, codeStarted}} {
		inBubble(t, kind, 2, func(r *fixture, m *workflow.PackMessage, _ *slowPacks, handle func(context.Context) error) {
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			r.blockFunc = func(ctx context.Context, job *worker.Job) (map[string]int, error) {
				if job.Entity.ID == "d0" {
					return blockFor(5*time.Second)(ctx, job)
				}
				return blockFor(time.Hour)(ctx, job)
			}
			time.AfterFunc(10*time.Second, stop)
			if err := handle(ctx); workflow.CodeOf(err) != workflow.CodeClaimLost {
				r.Errorf("%s: %v", kind, err)
			}
			r.wantPack(m.Key, workflow.PackClaimed, 1, want...)
			if len(r.wakeups()) > 0 || len(r.doneSet().Done) > 0 {
				r.Errorf("%s: follow-ups were sent", kind)
			}
			r.blockFunc = nil
			time.Sleep(pastLease)
			if err := handle(context.Background()); err != nil {
				r.Errorf("%s: %v", kind, err)
			}
			last := map[string]workflow.JobCode{idempotent: codeOK, nonIdempotent: codeUnknown}[kind]
			r.wantPack(m.Key, workflow.PackFinished, 2, codeOK, last)
			if n := r.startCount(workflow.JobID(stepRun.Execution, stepRun.Seq, 0, 1)); n != 1 {
				r.Errorf("%s: the ended job started %d times", kind, n)
			}
		})
	}
}

// A process that is about to end claims nothing. A claim without a job that starts would
// keep other workers away until the lease ends, and would mark a job that must not run
// twice as STARTED.
func TestWorker_ClaimsNothingWithoutTime(t *testing.T) {
	for _, kind := range kinds {
		inBubble(t, kind, 1, func(r *fixture, m *workflow.PackMessage, p *slowPacks, _ func(context.Context) error) {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			d, err := r.worker(concurrent).Handle(ctx, m, r.ports())
			if err != nil || d.Done || d.RetryAfter <= 0 || r.pack(m.Key) != nil || len(r.started) > 0 {
				r.Errorf("%s: %+v %v, %v", kind, d, err, r.pack(m.Key))
			}
		})
	}
}

// A job that must not run twice is recorded as STARTED only when it has a slot. Until
// then another worker may claim it.
func TestWorker_ClaimsNothingWithoutFreeSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		r.blockFunc = blockFor(time.Minute)
		w := r.worker(concurrent, func(o *worker.Options) { o.Concurrency = 1 })
		ended := make(chan error, 2)
		for lane := range 2 {
			m := r.newMessage(nonIdempotent, lane, 9, 1)
			m.NotAfter = time.Now().Add(30 * time.Second) // has passed when the second gets a slot
			go func() {
				_, err := w.Handle(context.Background(), m, r.ports())
				ended <- err
			}()
		}
		synctest.Wait()
		if r.pack(stepRun.Pack(0, 1)) != nil && r.pack(stepRun.Pack(1, 1)) != nil {
			t.Error("both packs are claimed")
		}
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if len(r.started) != 1 {
			t.Errorf("%d jobs started: NotAfter of the second is not checked again before its claim", len(r.started))
		}
	})
}

// A job that ends just when its lease does is finished: as long as no other worker has
// taken over the pack, it still belongs to this worker.
func TestWorker_FinishesPackAtLeaseEnd(t *testing.T) {
	for _, kind := range []string{idempotent, nonIdempotent} {
		inBubble(t, kind, 1, func(r *fixture, m *workflow.PackMessage, p *slowPacks, handle func(context.Context) error) {
			p.extend = func(context.Context, int) error { return workflow.Errorf(workflow.CodeUnavailable, "no store") }
			r.blockFunc = func(ctx context.Context, _ *worker.Job) (map[string]int, error) {
				<-ctx.Done() // succeeds just after the abort
				return nil, nil
			}
			if err := handle(context.Background()); err != nil {
				r.Errorf("%s: %v", kind, err)
			}
			r.wantPack(m.Key, workflow.PackFinished, 1, codeOK)
		})
	}
}

// The defaults shrink with the lease. With a lease of 3 s, heartbeats still come in time
// and a job is aborted before its lease ends.
func TestOptions_DefaultsScaleWithShortLease(t *testing.T) {
	for _, renewed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newFixture(t)
			m := r.newMessage(nonIdempotent, 0, 2, 1)
			m.NotAfter = time.Now().Add(time.Hour)
			ports := r.ports()
			p := &slowPacks{Packs: ports.Packs, t: t, extend: func(context.Context, int) error {
				if !renewed {
					return workflow.Errorf(workflow.CodeUnavailable, "no store")
				}
				return nil
			}}
			ports.Packs = p
			r.blockFunc = blockFor(20 * time.Second)
			startedAt := time.Now()
			short := r.worker(concurrent, func(o *worker.Options) { o.LeaseDuration, o.HeartbeatInterval = 3*time.Second, time.Hour })
			_, err := short.Handle(context.Background(), m, ports)
			switch took := time.Since(startedAt); {
			case renewed && (err != nil || took != 20*time.Second || len(p.leases) < 10):
				t.Errorf("%v after %s and %d heartbeats", err, took, len(p.leases))
			case !renewed && (err == nil || took >= 3*time.Second || took < 2*time.Second):
				t.Errorf("aborted after %s: %v", took, err)
			}
		})
	}
}

// A repeatable job that still waits for a slot when the cancel request is noticed does
// not start, and counts as not executed.
func TestWorker_CancelWhileWaitingForSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		r.blockFunc = blockFor(30 * time.Second)
		m := r.newMessage(idempotent, 0, 2, 3)
		m.NotAfter = time.Now().Add(time.Hour)
		time.AfterFunc(5*time.Second, func() { r.cancel(m.Key) })
		w := r.worker(concurrent, func(o *worker.Options) { o.Concurrency = 1 })
		if d, err := w.Handle(context.Background(), m, r.ports()); err != nil || !d.Done {
			t.Errorf("%+v %v", d, err)
		}
		r.wantPack(m.Key, workflow.PackCancelled, 1, codeOK, codeNotExecuted, codeNotExecuted)
		if len(r.started) != 1 {
			t.Errorf("%d jobs started, want 1", len(r.started))
		}
	})
}

// Mistake: a takeover ignores NotAfter, although time has passed since the claim was
// refused.
func TestWorker_ChecksNotAfterBeforeTakeover(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(idempotent, 0, 1, 1)
	m.NotAfter = r.Now().Add(pastLease)
	r.crashOnStart(1)
	_, _, _ = r.handle(r.worker(), m)
	r.Advance(pastLease)
	calls := 0
	slow := r.worker(func(o *worker.Options) {
		o.Now = func() time.Time {
			if calls++; calls == 3 { // after the claim was refused
				r.Advance(time.Second)
			}
			return r.Now()
		}
	})
	r.mustHandle(slow, m)
	r.wantPack(m.Key, workflow.PackClaimed, 1, codeStarted)
}
