package worker_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// failing makes every call of a block fail, and notes when it was called.
func (r *fixture) failing(calls *[]time.Duration) {
	began := time.Now()
	r.blockFunc = func(context.Context, *worker.Job) (map[string]int, error) {
		*calls = append(*calls, time.Since(began))
		return nil, worker.Retryable("BUSY", errors.New("busy"))
	}
}

// R16: attempts that are due soon follow one another in the worker, at the times that the policy
// says, without a message between them. One that is due later is sent.
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
