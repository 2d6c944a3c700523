package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// abandonDelay is how long a job may continue after its context has ended before the worker stops
// waiting for it.
const abandonDelay = 500 * time.Millisecond

// runJob runs one job and records its result in the session's pack.
func (s *session) runJob(ctx context.Context, i int) {
	defer s.recoverJob(ctx, i)
	s.mu.Lock()
	index, token := s.pack.Jobs[i].Index, s.pack.Token
	s.started[index] = true
	saved := s.beginSaving(i)
	s.mu.Unlock()
	startedAt := s.w.opts.Now()
	var result JobResult
	if in := s.jobInput(index); in == nil {
		result = failureResult(Terminal("INTERNAL", fmt.Errorf("the pack's message has no job %d", index)))
	} else {
		var aborted bool
		if result, aborted = s.w.runJob(ctx, s.m, in, token, saved); aborted {
			return // this session does not know what became of the job
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if result.Failure != nil && result.Failure.Unsent && !s.firstClaim && !s.unclaimed {
		failure := *result.Failure
		failure.Unsent, result.Failure = false, &failure // an earlier holder of the pack may have made the call
	}
	result = keptCheckpoints(s.pack, i, result)
	s.pack.Jobs[i] = completedRecord(s.pack.Jobs[i], result.retriedAs(&s.m.Work), startedAt, s.w.opts.Now())
}

// recoverJob turns a panic of the worker's own code into the failure of the job that it was working
// on, so that the process, which works for others too, goes on. Panics of blocks are recovered
// where blocks are called. A simulation ends its processes by panics.
func (s *session) recoverJob(ctx context.Context, i int) {
	if s.w.opts.Sequential {
		return
	}
	cause := recover()
	if cause == nil {
		return
	}
	logWorkerPanic(ctx, s.w.opts.Logger, s.m, cause)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.w.opts.Now()
	why := failureResult(Terminal("INTERNAL", errors.New("the worker has failed by a fault of its own: its log has the place")))
	s.pack.Jobs[i] = completedRecord(s.pack.Jobs[i], why, now, now)
}

// retriedAs marks a failure as retryable if the retry policy says so, whatever the block says; but
// never if the call must not be made twice and may still be running. This is the only place that
// decides about retries; the code that makes a failure only says what it is.
func (a JobResult) retriedAs(work *workflow.Work) JobResult {
	if a.Failure == nil {
		return a
	}
	marked := *a.Failure
	marked.Retryable = work.Retry.Retries(a.Failure) && a.Failure.AllowsAnotherCall(work.Repeatable())
	a.Failure = &marked
	return a
}

// completedRecord returns a job's record after the job has ended.
func completedRecord(r workflow.JobRecord, a JobResult, startedAt, endedAt time.Time) workflow.JobRecord {
	r.Code, r.StartedAt, r.EndedAt = workflow.JobCodeOK, startedAt, endedAt
	r.Outcome, r.Result, r.Updates, r.Failure = a.Outcome, a.Result, a.Updates, a.Failure.Truncated()
	r.Entities, r.ResultRef, r.Next, r.Wait = a.Entities, nil, a.Next, a.Wait
	if a.Failure != nil {
		r.Code, r.Next, r.Wait = workflow.JobCodeFail, "", nil
		return r
	}
	r.Checkpoints, r.Progress = nil, nil
	return r
}

// runJob runs one job in a span. aborted reports that ctx ended before the block
// returned a result of its own.
func (w *Worker) runJob(ctx context.Context, m *workflow.PackMessage, in *workflow.JobInput, packToken int, saved *savedState) (a JobResult, aborted bool) {
	ctx, endSpan := startJobSpan(ctx, w.opts.Tracer, m, in)
	a, aborted = w.runWithTimeout(ctx, m, in, packToken, saved)
	endSpan(w.opts.Logger, a)
	return a, aborted
}

// runWithTimeout runs one job with its time-out and validates its result.
func (w *Worker) runWithTimeout(ctx context.Context, m *workflow.PackMessage, in *workflow.JobInput, packToken int, saved *savedState) (a JobResult, aborted bool) {
	if !w.serves(m) {
		return blockNotFound(m), false
	}
	timeout := w.jobTimeout(ctx, m)
	job := newJob(m, in, packToken, w.opts.Now().Add(timeout))
	job.TraceParent = traceParent(ctx, w.opts.Tracer, m)
	secrets, failure := w.loadSecrets(ctx, m)
	if failure == nil {
		failure = secrets.fill(job, m.Work.Secrets)
	}
	if failure != nil {
		return JobResult{Outcome: sm.OutcomeError, Failure: failure}, ctx.Err() != nil
	}
	job.saved = saved.without(secrets)
	handler := w.handlerFor(m, secrets)
	var expired bool
	if w.opts.Sequential {
		a = handler(ctx, job)
		expired = w.opts.Now().After(job.Deadline)
	} else {
		timeoutCtx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		a = w.awaitResult(timeoutCtx, handler, job, jobAttrs(m, in))
		expired = timeoutCtx.Err() != nil
	}
	job.saved.logAll(a.Logs)
	succeeded := a.Failure == nil
	a = validated(&m.Work, in.Entity != nil, secrets.removed(a))
	switch {
	case succeeded:
		return a, false // a success just after the time-out is a success
	case ctx.Err() != nil:
		return a, true
	case expired && m.Work.HTTP == nil && !workflow.IsHTTPStep(m.Work.Block):
		return timeoutResult(timeout), false
	}
	return a, false
}

// jobTimeout returns how long a job may take. It is less than the block's time-out
// if the whole process ends before that: there must be time to write the result.
func (w *Worker) jobTimeout(ctx context.Context, m *workflow.PackMessage) time.Duration {
	t := m.Work.Timeout.Std()
	if end, ok := ctx.Deadline(); ok {
		t = min(t, max(time.Until(end)-w.opts.LeaseMargin, 0))
	}
	return t
}

// awaitResult runs a job and recovers its panic. It waits until the job returns, or until
// abandonDelay after the end of its context. A job that runs longer is abandoned: its device
// recognises it by its fence and idempotency key.
func (w *Worker) awaitResult(ctx context.Context, handler jobHandler, job *Job, attrs []slog.Attr) JobResult {
	results := make(chan JobResult, 1)
	go func() {
		a := failureResult(Terminal("PANIC", errors.New("the block ended its goroutine")))
		defer func() {
			if cause := recover(); cause != nil {
				logBlockPanic(ctx, w.opts.Logger, attrs, cause)
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
		logAbandonedJob(ctx, w.opts.Logger, attrs)
		return failureResult(Retryable(workflow.FailureHTTPTimeout, context.Cause(ctx)))
	}
}

// blockNotFound returns the result of a job whose block this worker does not have.
// It is certain that the job did not start.
func blockNotFound(m *workflow.PackMessage) JobResult {
	a := failureResult(Terminal("HANDLER_NOT_FOUND", fmt.Errorf(
		"the worker of pool %q does not have block %s: register the block with the pool of the workers that have it, or with an http endpoint", m.Work.Pool, m.Work.Block)))
	a.Failure.Unsent = true
	return a
}

// timeoutResult returns the result of a job that did not end in time.
func timeoutResult(timeout time.Duration) JobResult {
	a := failureResult(fmt.Errorf("no result within %s", timeout.Round(time.Millisecond)))
	a.Failure.Code, a.Failure.Retryable = workflow.FailureTimeout, true
	return a
}
