package worker

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxResult is the largest result of one job, in bytes.
const maxResult = 1 << 20

// patience is how long a job that has been told to stop may take to do so before
// it is given up.
const patience = 500 * time.Millisecond

// call runs one job with its time-out, and recovers its panics. aborted says that
// the answer is not the block's own: the context ended, or the time-out, before
// it gave one.
func (w *Worker) call(ctx context.Context, m *workflow.PackMessage, in *workflow.JobInput, packToken int) (a Answer, aborted bool) {
	run := w.executor(m)
	if run == nil {
		return fail(Terminal("HANDLER_NOT_FOUND", fmt.Errorf("this worker has no block %s", m.Work.Block))), false
	}
	deadline := w.Now().Add(m.Work.Timeout.Std())
	job := &Job{
		ID:     workflow.JobID(m.Key.Execution, m.Key.RunSeq, in.Index, m.Key.Attempt),
		Tenant: m.Key.Tenant, Execution: m.Key.Execution, Step: m.Work.Step, Block: m.Work.Block,
		Operation: m.Work.Kind, Attempt: m.Key.Attempt,
		Entity: in.Entity, Attributes: in.Attributes, Parameters: in.Parameters, Result: in.Result,
		Token: in.Token, Fence: workflow.Fence(in.Token, m.Key.RunSeq, m.Key.Attempt, packToken), Deadline: deadline,
	}
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, m.Work.Timeout.Std())
	defer cancel()
	answers := make(chan Answer, 1)
	go func() {
		defer func() {
			if cause := recover(); cause != nil {
				w.Log.Error("panic in a block", "block", m.Work.Block, "job", job.ID, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
				answers <- fail(Terminal("PANIC", fmt.Errorf("the block panicked: %v", cause)))
			}
		}()
		answers <- run(ctx, job)
	}()
	select {
	case a = <-answers:
	case <-ctx.Done():
		select {
		case a = <-answers:
		case <-time.After(patience):
			// The block does not listen. It is left to itself: its device knows it by
			// its fence and key.
			return timedOut(m), true
		}
	}
	if ctx.Err() != nil && a.Failure != nil {
		if parent.Err() != nil {
			return a, true
		}
		return timedOut(m), false
	}
	if len(a.Result) > maxResult {
		return fail(Terminal("LIMIT", fmt.Errorf("the result has %d bytes, the limit is %d", len(a.Result), maxResult))), false
	}
	return a, false
}

func timedOut(m *workflow.PackMessage) Answer {
	a := fail(fmt.Errorf("no answer within %s", m.Work.Timeout.Std()))
	a.Failure.Code, a.Failure.Retryable = "TIMEOUT", m.Work.Repeatable()
	return a
}
