package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// minFailuresToBreak is how many wake-ups have to fail in a row, however long that
// takes, before the engine ends the execution.
const minFailuresToBreak = 5

// RecordFailure records that Advance failed for a wake-up. The streak tells an
// operator why an execution does not move, and ends it after Options.StallTimeout. It
// is best effort: if the store does not answer, the failure is only logged.
func (e *Engine) RecordFailure(ctx context.Context, l workflow.Wakeup, cause error) {
	w := e.newWorkspace(l.Tenant, l.Execution)
	if err := w.recordFailure(ctx, e.now(), cause); err != nil {
		w.recorder.Warn(ctx, "failure not recorded", err)
	}
}

func (w *workspace) recordFailure(ctx context.Context, now time.Time, cause error) error {
	x, err := w.ports.Store.Load(ctx, w.tenant, w.id)
	if err != nil {
		return err
	}
	streak := workflow.FailureStreak{Since: now, Reason: workflow.Truncate(port.Reason(cause), workflow.MaxReasonBytes), Unavailable: workflow.Is(cause, workflow.CodeUnavailable)}
	before := x.FailureStreak
	if !streak.Unavailable && (before == nil || !before.Unfinished) {
		streak.Count = 1 // recordAttempt has counted an unfinished one
	}
	if before != nil && before.Unavailable == streak.Unavailable {
		streak.Since = before.Since
		streak.Count += before.Count
	}
	return w.ports.Store.RecordFailureStreak(ctx, w.tenant, w.id, x.Version, streak)
}

// recordAttempt counts a wake-up that the queue has delivered before as a failure until
// it has ended: a function that runs out of memory or time cannot record that itself. It
// reports whether the attempt before it ended like that, and so may this one.
func (w *workspace) recordAttempt(ctx context.Context) (unfinished bool, err error) {
	streak := workflow.FailureStreak{Since: w.e.now(), Count: 1, Unfinished: true, Reason: "a wake-up ended without a result: it ran out of memory or time"}
	if before := w.execution.FailureStreak; before != nil && !before.Unavailable {
		unfinished = before.Unfinished
		streak.Since, streak.Count = before.Since, before.Count+1
	}
	return unfinished, w.ports.Store.RecordFailureStreak(ctx, w.tenant, w.id, w.execution.Version, streak)
}

// clearFailureStreak removes the streak after a wake-up that succeeded without a commit.
// It is best effort: the next success removes it otherwise.
func (w *workspace) clearFailureStreak(ctx context.Context) {
	if w.execution.FailureStreak == nil && !w.attemptRecorded {
		return
	}
	if err := w.ports.Store.RecordFailureStreak(ctx, w.tenant, w.id, w.execution.Version, workflow.FailureStreak{}); err != nil {
		w.recorder.Warn(ctx, "failure streak not cleared", err)
	}
}

// outOfTime is the error of a wake-up whose context has ended, and err otherwise. A
// wake-up that takes too long is a failure of the execution, not an outage.
func outOfTime(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return workflow.Errorf(workflow.CodeInternal, "a wake-up ran out of time: %w", err)
}

// breakCommand is the command to end an execution whose wake-ups have all failed for
// as long as limit, or nil if there is no reason to. An execution that has ended stays
// as it is, unless it cannot release its locks because its updates of the inventory
// fail.
func breakCommand(x *workflow.Execution, now time.Time, limit time.Duration) *lifecycle.Command {
	streak := x.FailureStreak
	if streak == nil || streak.Count < minFailuresToBreak || now.Sub(streak.Since) < limit || sm.Terminal(x.State) && x.State != sm.ExecutionCompleted {
		return nil
	}
	return &lifecycle.Command{Kind: lifecycle.CommandBreak, Reason: fmt.Sprintf(
		"%d wake-ups have failed since %s: %s", streak.Count, streak.Since.Format(time.RFC3339), streak.Reason)}
}
