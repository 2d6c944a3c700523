package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockstep-run/lockstep/shared/worker/internal/session"
	"github.com/lockstep-run/lockstep/shared/worker/told"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// patience is how long a job that has been told to stop may take to do so before
// it is given up.
const patience = 500 * time.Millisecond

// record runs one job for a session.
func (w *Worker) record(ctx context.Context, m *workflow.PackMessage, in *workflow.JobInput, packToken int) (session.Answer, bool) {
	ctx, end := told.Begin(ctx, w.Trace, m, in)
	a, aborted := w.call(ctx, m, in, packToken)
	end(w.Log, a.record())
	return a.record(), aborted
}

// call runs one job with its time-out, and recovers its panics. aborted says that
// the answer is not the block's own, because the context ended before it gave one.
func (w *Worker) call(ctx context.Context, m *workflow.PackMessage, in *workflow.JobInput, packToken int) (a Answer, aborted bool) {
	run := w.executor(m)
	if run == nil {
		return notHere(m), false
	}
	timeout := w.timeout(ctx, m)
	job := jobOf(m, in, packToken, w.Now().Add(timeout))
	job.Trace = told.Here(ctx, w.Trace, m)
	var late bool
	if w.Sequential {
		a = run(ctx, job)
		late = w.Now().After(job.Deadline)
	} else {
		timed, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		a = w.await(timed, run, job, told.Job(m, in))
		late = timed.Err() != nil
	}
	switch {
	case a.Failure == nil:
		return judged(&m.Work, a), false // what succeeds just after its time has succeeded
	case ctx.Err() != nil:
		return a, true
	case late && m.Work.HTTP == nil:
		return timedOut(m, timeout), false
	}
	return a, false
}

// timeout is how long a job may take: less than its time-out where the whole
// process has to end before that, so that there is time to write down what came
// of it.
func (w *Worker) timeout(ctx context.Context, m *workflow.PackMessage) time.Duration {
	t := m.Work.Timeout.Std()
	if end, ok := ctx.Deadline(); ok {
		t = min(t, max(time.Until(end)-w.Margin, 0))
	}
	return t
}

// await runs a job and waits for its answer, or for the end of its context and a
// moment more. A job that does not listen then is left to itself: its device
// knows it by its fence and key.
func (w *Worker) await(ctx context.Context, run Executor, job *Job, about []slog.Attr) Answer {
	answers := make(chan Answer, 1)
	go func() {
		a := fail(Terminal("PANIC", errors.New("the block ended its goroutine")))
		defer func() {
			if cause := recover(); cause != nil {
				told.Crash(ctx, w.Log, about, cause)
				a = fail(Terminal("PANIC", fmt.Errorf("the block panicked: %v", cause)))
			}
			answers <- a
		}()
		a = run(ctx, job)
	}()
	select {
	case a := <-answers:
		return a
	case <-ctx.Done():
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case a := <-answers:
		return a
	case <-limit.C:
		told.Left(ctx, w.Log, about)
		return fail(Retryable("HTTP_TIMEOUT", context.Cause(ctx)))
	}
}

// notHere is the answer of a worker that was sent a block it does not have: it has
// certainly not begun the job.
func notHere(m *workflow.PackMessage) Answer {
	a := fail(Terminal("HANDLER_NOT_FOUND", fmt.Errorf(
		"a worker of pool %q has no block %s: register the block with the pool of the workers that have it, or with an http endpoint", m.Work.Pool, m.Work.Block)))
	a.Failure.Unsent = true
	return a
}

func timedOut(m *workflow.PackMessage, after time.Duration) Answer {
	a := fail(fmt.Errorf("no answer within %s", after.Round(time.Millisecond)))
	a.Failure.Code, a.Failure.Retryable = "TIMEOUT", m.Work.Repeatable()
	return a
}
