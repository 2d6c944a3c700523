package worker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// failing makes every call of a block fail, and notes when it was called.
func (r *fixture) failing(calls *[]time.Duration) {
	began := time.Now()
	r.blockFunc = func(context.Context, *worker.Job) (map[string]int, error) {
		*calls = append(*calls, time.Since(began))
		return nil, worker.Retryable("BUSY", errors.New("busy"))
	}
}

// R16: attempts that are due soon follow one another in the worker, at the times of the policy,
// without a message between them. An attempt that is due later is sent.
func TestHandle_WaitsForARetryThatIsDueSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		var calls []time.Duration
		r.failing(&calls)
		m := r.newMessage(idempotent, 0, 1, 1)
		m.NotAfter = time.Now().Add(time.Hour)
		m.Work.Retry = &workflow.Retry{MaxRetries: 4, Delay: workflow.Duration(100 * time.Millisecond), Backoff: 2, On: []string{"BUSY"}}
		r.mustHandle(r.worker(concurrent), m)
		want := []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond, 1500 * time.Millisecond}
		if !slices.Equal(calls, want) {
			t.Errorf("called at %v, want %v", calls, want)
		}
		if sent := r.sentPacks(); len(sent) > 0 || len(r.wakeups()) != 1 {
			t.Errorf("%d messages, %d wake-ups", len(sent), len(r.wakeups()))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		var calls []time.Duration
		r.failing(&calls)
		m := r.newMessage(idempotent, 0, 1, 1)
		m.NotAfter = time.Now().Add(time.Hour)
		m.Work.Retry = &workflow.Retry{MaxRetries: 4, Delay: workflow.Duration(3 * time.Second)}
		r.mustHandle(r.worker(concurrent), m)
		if sent := r.sentPacks(); len(calls) != 1 || len(sent) != 1 || sent[0].Key.Attempt != 2 {
			t.Errorf("%d calls, sent %+v", len(calls), sent)
		}
	})
}

// A worker that stops while it waits for a retry leaves its message in the queue. Whoever gets
// that next finds the pack final, and sends the retry.
func TestHandle_StopsWhileItWaitsForARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		var calls []time.Duration
		r.failing(&calls)
		m := r.newMessage(nonIdempotent, 0, 1, 1)
		m.NotAfter = time.Now().Add(time.Hour)
		m.Work.Retry = &workflow.Retry{MaxRetries: 1, Delay: workflow.Duration(time.Second)}
		w := r.worker(concurrent)
		ctx, stop := context.WithCancel(context.Background())
		time.AfterFunc(500*time.Millisecond, stop)
		if d, err := w.Handle(ctx, m, r.ports()); err == nil || d.Done {
			t.Fatalf("%+v, %v", d, err)
		}
		if sent := r.sentPacks(); len(sent) > 0 {
			t.Fatalf("sent %+v", sent)
		}
		r.mustHandle(w, m)
		if sent := r.sentPacks(); len(calls) != 1 || len(sent) != 1 || sent[0].Key.Attempt != 2 {
			t.Errorf("%d calls, sent %+v", len(calls), sent)
		}
	})
}

// A worker keeps retries only for so long, and none for which its process has no time: the message
// would be visible in its queue again, or the process would end in between.
func TestHandle_KeepsRetriesOnlySoLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		var calls []time.Duration
		r.failing(&calls)
		m := r.newMessage(idempotent, 0, 1, 1)
		m.NotAfter = time.Now().Add(time.Hour)
		m.Work.Retry = &workflow.Retry{MaxRetries: 98, Delay: workflow.Duration(time.Second)}
		r.mustHandle(r.worker(concurrent), m)
		if sent := r.sentPacks(); len(calls) != 11 || len(sent) != 1 || sent[0].Key.Attempt != 12 {
			t.Errorf("%d calls, sent %+v", len(calls), sent)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		var calls []time.Duration
		r.failing(&calls)
		m := r.newMessage(idempotent, 0, 1, 1)
		m.NotAfter = time.Now().Add(time.Hour)
		m.Work.Timeout = workflow.Duration(10 * time.Second)
		m.Work.Retry = &workflow.Retry{MaxRetries: 2, Delay: workflow.Duration(2 * time.Second)}
		w := r.worker(concurrent, func(o *worker.Options) { o.LeaseMargin = time.Second })
		ctx, stop := context.WithTimeout(context.Background(), 13*time.Second) // enough for a job with its margins, and not for a pause before it
		defer stop()
		if d, err := w.Handle(ctx, m, r.ports()); err != nil || !d.Done {
			t.Fatalf("%+v, %v", d, err)
		}
		if sent := r.sentPacks(); len(calls) != 1 || len(sent) != 1 {
			t.Errorf("%d calls, sent %+v", len(calls), sent)
		}
	})
}

// A block that must not be called twice is not tried again after a time-out, whatever the step
// lists: the call may still be going on. One that may be repeated is.
func TestHandle_RetriesNoCallThatMayStillRun(t *testing.T) {
	for kind, want := range map[string]bool{nonIdempotent: false, idempotent: true} {
		synctest.Test(t, func(t *testing.T) {
			r := newFixture(t)
			r.blockFunc = func(ctx context.Context, _ *worker.Job) (map[string]int, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			m := r.newMessage(kind, 0, 1, 1)
			m.NotAfter = time.Now().Add(time.Hour)
			m.Work.Timeout = workflow.Duration(time.Second)
			m.Work.Retry = &workflow.Retry{MaxRetries: 1, Delay: workflow.Duration(time.Minute), On: []string{workflow.FailureTimeout}}
			r.mustHandle(r.worker(concurrent), m)
			why := r.pack(m.Key).Jobs[0].Failure
			if why == nil || why.Code != workflow.FailureTimeout || why.Retryable != want || (len(r.sentPacks()) == 1) != want {
				t.Errorf("%s: %+v", kind, why)
			}
		})
	}
}

// Whoever makes a call, and whatever it reports: a call that may still be running is repeated only
// if the block may be called twice.
func TestHandle_RetriesNoDoubtfulCallOverHTTP(t *testing.T) {
	for _, c := range []struct {
		kind      string
		failure   workflow.Failure
		retryable bool
	}{
		{nonIdempotent, workflow.Failure{Code: workflow.FailureHTTPTimeout}, false}, {idempotent, workflow.Failure{Code: workflow.FailureHTTPTimeout}, true},
		{nonIdempotent, workflow.Failure{Code: workflow.FailureHTTPUnreachable}, false}, {idempotent, workflow.Failure{Code: workflow.FailureHTTPUnreachable}, true},
		{nonIdempotent, workflow.Failure{Code: workflow.FailureHTTPUnreachable, Unsent: true}, true}, {nonIdempotent, workflow.Failure{Code: "HTTP_503"}, true},
		{nonIdempotent, workflow.Failure{Code: workflow.FailureBadGateway}, false}, {idempotent, workflow.Failure{Code: workflow.FailureGatewayTimeout}, true},
	} {
		r := newFixture(t)
		c.failure.Retryable = true
		w := r.worker(func(o *worker.Options) {
			o.HTTPBlocks = &endpoint{answer: worker.JobResult{Outcome: sm.OutcomeError, Failure: &c.failure}}
		})
		m := r.newMessage(c.kind, 0, 1, 1)
		m.Work.HTTP = &workflow.Endpoint{URL: "http://x"}
		m.Work.Retry = &workflow.Retry{MaxRetries: 1, Delay: workflow.Duration(time.Minute)}
		r.mustHandle(w, m)
		if why := r.pack(m.Key).Jobs[0].Failure; why == nil || why.Retryable != c.retryable || (len(r.sentPacks()) == 1) != c.retryable {
			t.Errorf("%s %+v: %+v", c.kind, c.failure, why)
		}
	}
	synctest.Test(t, func(t *testing.T) { // one that does not end in time, and is given up
		r := newFixture(t)
		m := r.newMessage(nonIdempotent, 0, 1, 1)
		m.NotAfter, m.Work.Timeout = time.Now().Add(time.Hour), workflow.Duration(time.Second)
		m.Work.HTTP, m.Work.Retry = &workflow.Endpoint{URL: "http://x"}, &workflow.Retry{MaxRetries: 1}
		r.mustHandle(r.worker(concurrent, func(o *worker.Options) { o.HTTPBlocks = deafEndpoint{} }), m)
		if why := r.pack(m.Key).Jobs[0].Failure; why == nil || why.Code != workflow.FailureHTTPTimeout || why.Retryable {
			t.Errorf("given up: %+v", why)
		}
		time.Sleep(time.Minute)
	})
}

// deafEndpoint ignores the end of its context.
type deafEndpoint struct{}

func (deafEndpoint) Call(context.Context, *workflow.Endpoint, *worker.Job) worker.JobResult {
	time.Sleep(30 * time.Second)
	return worker.JobResult{Outcome: sm.OutcomeOK}
}

// The failure of a job whose worker was lost names that worker, and not the one that took its pack
// over.
func TestHandle_NamesTheWorkerThatWasLost(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(nonIdempotent, 0, 1, 1)
	r.crashOnStart(1)
	if _, crashed, _ := r.handle(r.worker(func(o *worker.Options) { o.Name = "first" }), m); !crashed {
		t.Fatal("the worker did not crash")
	}
	r.Advance(pastLease)
	r.mustHandle(r.worker(func(o *worker.Options) { o.Name = "second" }), m)
	p := r.pack(m.Key)
	if why := p.Jobs[0].Failure; p.Jobs[0].Code != workflow.JobCodeUnknown || why == nil || why.Code != workflow.FailureWorkerCrash || !strings.Contains(string(why.Details), `"worker":"first"`) {
		t.Errorf("%s, %+v", p.Jobs[0].Code, why)
	}
}
