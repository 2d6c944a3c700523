package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// abandonDelay is how long a job that has been told to stop may take to do so before
// it is given up.
const abandonDelay = 500 * time.Millisecond

// runJob runs one job for a session.
func (w *Worker) runJob(ctx context.Context, m *workflow.PackMessage, in *workflow.JobInput, packToken int) (jobRecord, bool) {
	ctx, endSpan := startJobSpan(ctx, w.Tracer, m, in)
	a, aborted := w.runWithTimeout(ctx, m, in, packToken)
	endSpan(w.Logger, a.toRecord())
	return a.toRecord(), aborted
}

// runWithTimeout runs one job with its time-out, and recovers its panics. aborted says that
// the answer is not the block's own, because the context ended before it gave one.
func (w *Worker) runWithTimeout(ctx context.Context, m *workflow.PackMessage, in *workflow.JobInput, packToken int) (a JobResult, aborted bool) {
	handler := w.handlerFor(m)
	if handler == nil {
		return blockNotFound(m), false
	}
	timeout := w.jobTimeout(ctx, m)
	job := newJob(m, in, packToken, w.Now().Add(timeout))
	job.TraceParent = traceParent(ctx, w.Tracer, m)
	var expired bool
	if w.Sequential {
		a = handler(ctx, job)
		expired = w.Now().After(job.Deadline)
	} else {
		timeoutCtx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		a = w.awaitResult(timeoutCtx, handler, job, jobAttrs(m, in))
		expired = timeoutCtx.Err() != nil
	}
	switch {
	case a.Failure == nil:
		return validated(&m.Work, a), false // what succeeds just after its time has succeeded
	case ctx.Err() != nil:
		return a, true
	case expired && m.Work.HTTP == nil:
		return timeoutResult(m, timeout), false
	}
	return a, false
}

// jobTimeout is how long a job may take: less than its time-out where the whole
// process has to end before that, so that there is time to write down what came
// of it.
func (w *Worker) jobTimeout(ctx context.Context, m *workflow.PackMessage) time.Duration {
	t := m.Work.Timeout.Std()
	if end, ok := ctx.Deadline(); ok {
		t = min(t, max(time.Until(end)-w.LeaseMargin, 0))
	}
	return t
}

// awaitResult runs a job and waits for its answer, or for the end of its context and a
// moment more. A job that does not listen then is left to itself: its device
// knows it by its fence and key.
func (w *Worker) awaitResult(ctx context.Context, handler jobHandler, job *Job, attrs []slog.Attr) JobResult {
	results := make(chan JobResult, 1)
	go func() {
		a := failureResult(Terminal("PANIC", errors.New("the block ended its goroutine")))
		defer func() {
			if cause := recover(); cause != nil {
				logBlockPanic(ctx, w.Logger, attrs, cause)
				a = failureResult(Terminal("PANIC", fmt.Errorf("the block panicked: %v", cause)))
			}
			results <- a
		}()
		a = handler(ctx, job)
	}()
	select {
	case a := <-results:
		return a
	case <-ctx.Done():
	}
	abandon := time.NewTimer(abandonDelay)
	defer abandon.Stop()
	select {
	case a := <-results:
		return a
	case <-abandon.C:
		logAbandonedJob(ctx, w.Logger, attrs)
		return failureResult(Retryable("HTTP_TIMEOUT", context.Cause(ctx)))
	}
}

// blockNotFound is the answer of a worker that was sent a block it does not have: it has
// certainly not begun the job.
func blockNotFound(m *workflow.PackMessage) JobResult {
	a := failureResult(Terminal("HANDLER_NOT_FOUND", fmt.Errorf(
		"a worker of pool %q has no block %s: register the block with the pool of the workers that have it, or with an http endpoint", m.Work.Pool, m.Work.Block)))
	a.Failure.Unsent = true
	return a
}

func timeoutResult(m *workflow.PackMessage, timeout time.Duration) JobResult {
	a := failureResult(fmt.Errorf("no answer within %s", timeout.Round(time.Millisecond)))
	a.Failure.Code, a.Failure.Retryable = "TIMEOUT", m.Work.Repeatable()
	return a
}
