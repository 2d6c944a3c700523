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

// minFailuresToBreak is how many wake-ups must fail in a row, however long that takes, before the
// engine ends the execution.
const minFailuresToBreak = 5

// RecordFailure records that Advance failed for a wake-up. The streak tells an operator why an
// execution does not move, and ends it after Options.StallTimeout. This is best effort: if the
// store does not answer, the failure is only logged.
func (e *Engine) RecordFailure(ctx context.Context, l workflow.Wakeup, cause error) {
	w := e.newWorkspace(l.Tenant, l.Execution)
	defer w.keepCost()
	if err := w.recordFailure(ctx, e.now(), cause); err != nil {
		w.recorder.Warn(ctx, "failure not recorded", err)
	}
}

func (w *workspace) recordFailure(ctx context.Context, now time.Time, cause error) error {
	x, err := w.ports.Store.Load(ctx, w.tenant, w.id)
	if err != nil {
		return err
	}
	_, err = w.changeStreak(ctx, x.Version, x.FailureStreak, func(before *workflow.FailureStreak) workflow.FailureStreak {
		streak := failed(before, now, workflow.Is(cause, workflow.CodeUnavailable))
		streak.Reason, streak.Unfinished = workflow.Truncate(port.Reason(cause), workflow.MaxReasonBytes), false
		return streak
	})
	return err
}

// maxStreakChanges bounds how often a wake-up tries to change the streak while others change it.
const maxStreakChanges = 5

// changeStreak replaces the failure streak of the execution by what change makes of it, unless something has been
// committed since the version. Other wake-ups count at the same time: then change is called again with what they have
// written. A write whose reply was lost may so count twice. It returns what it has written: nothing if others were
// faster each time, which is logged.
func (w *workspace) changeStreak(ctx context.Context, version int64, before *workflow.FailureStreak, change func(before *workflow.FailureStreak) workflow.FailureStreak) (workflow.FailureStreak, error) {
	for range maxStreakChanges {
		streak := change(before)
		if streak != (workflow.FailureStreak{}) {
			streak.Revision = before.OrZero().Revision + 1
			if before == nil {
				streak.Revision = w.e.now().UnixMilli()
			}
		}
		if ok, err := w.ports.Store.RecordFailureStreak(ctx, w.tenant, w.id, version, before, streak); ok || err != nil {
			return streak, err
		}
		x, err := w.ports.Store.Load(ctx, w.tenant, w.id)
		if err != nil || x.Version != version {
			return workflow.FailureStreak{}, err
		}
		before = x.FailureStreak
	}
	w.recorder.Warn(ctx, "failure streak not changed", workflow.Errorf(workflow.CodeConflict, "others have changed it %d times meanwhile", maxStreakChanges))
	return workflow.FailureStreak{}, nil
}

// failed returns the streak after one more failure. An outage does not count, and its duration is
// not part of the streak. A failure that recordAttempt has already counted does not count again.
func failed(before *workflow.FailureStreak, now time.Time, outage bool) workflow.FailureStreak {
	streak := workflow.FailureStreak{Since: now}
	if before != nil {
		streak = *before
	}
	switch {
	case outage && streak.UnavailableSince.IsZero():
		streak.UnavailableSince = now
	case !outage:
		// A handler that paused may know of an outage that began after its own time, and goes on.
		if since := streak.UnavailableSince; !since.IsZero() && !now.Before(since) {
			streak.Since, streak.UnavailableSince = streak.Since.Add(now.Sub(since)), time.Time{}
		}
		if !streak.Unfinished {
			streak.Count++
		}
	}
	return streak
}

const reasonUnfinished = "a wake-up has not reported a result: it may have run out of memory or time"

// recordAttempt counts a redelivered wake-up as a failure until it has ended, because a function
// that runs out of memory cannot record that itself. unfinished reports whether the previous
// attempt ended like that; then this one may too.
func (w *workspace) recordAttempt(ctx context.Context) (unfinished bool, err error) {
	now := w.e.now()
	a := attempt{version: w.execution.Version}
	a.counted, err = w.changeStreak(ctx, a.version, w.execution.FailureStreak, func(before *workflow.FailureStreak) workflow.FailureStreak {
		a.before = before.OrZero()
		streak := failed(before, now, false)
		if unfinished = a.before.Unfinished; unfinished {
			streak.Count++ // failed assumes that this attempt is already counted
		}
		streak.Unfinished, streak.Reason = true, reasonUnfinished
		return streak
	})
	w.attempt = a
	return unfinished, err
}

// attempt is what recordAttempt has counted, what was counted before, and the version of the execution at that time.
type attempt struct {
	before, counted workflow.FailureStreak
	version         int64
}

// withdrawAttempt takes back what recordAttempt has counted, for a wake-up that has tried nothing, unless it has
// committed something since. What other wake-ups have counted meanwhile stands. This is best effort, as
// clearFailureStreak is.
func (w *workspace) withdrawAttempt(ctx context.Context) {
	a := w.attempt
	if !w.attemptRecorded || w.execution.Version != a.version || a.counted == (workflow.FailureStreak{}) {
		return
	}
	_, err := w.changeStreak(ctx, a.version, &a.counted, func(before *workflow.FailureStreak) workflow.FailureStreak {
		streak := before.OrZero()
		switch {
		case streak == a.counted:
			return a.before
		case streak.Count > a.before.Count:
			streak.Count--
			streak.Unfinished = streak.Unfinished && streak.Count > a.before.Count
		}
		return streak
	})
	if err != nil {
		w.recorder.Warn(ctx, "attempt not withdrawn", err)
	}
}

// clearFailureStreak removes the streak after a wake-up that succeeded without a commit. This is
// best effort: otherwise the next success removes it.
func (w *workspace) clearFailureStreak(ctx context.Context) {
	if w.execution.FailureStreak == nil && !w.attemptRecorded {
		return
	}
	before := w.execution.FailureStreak
	if w.attemptRecorded && w.execution.Version == w.attempt.version {
		before = &w.attempt.counted
	}
	_, err := w.changeStreak(ctx, w.execution.Version, before, func(*workflow.FailureStreak) workflow.FailureStreak { return workflow.FailureStreak{} })
	if err != nil {
		w.recorder.Warn(ctx, "failure streak not cleared", err)
	}
}

// outOfTime replaces err if the context of the wake-up has ended. A wake-up that takes too long is
// a failure of the execution, not an outage.
func outOfTime(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return &workflow.Error{Code: workflow.CodeInternal, Message: "a wake-up ran out of time", Cause: err}
}

// breakCommand returns the command that ends an execution whose wake-ups have all failed for as
// long as limit, or nil if that is not so. An execution that has ended stays as it is, unless it
// cannot release its locks because its updates of the inventory fail. reason is why the last one failed.
func breakCommand(x *workflow.Execution, now time.Time, limit time.Duration, reason string) *lifecycle.Command {
	streak := x.FailureStreak
	if streak == nil || !streak.UnavailableSince.IsZero() || streak.Count < minFailuresToBreak || now.Sub(streak.Since) < limit || sm.Terminal(x.State) && x.State != sm.ExecutionCompleted {
		return nil
	}
	return &lifecycle.Command{Kind: lifecycle.CommandBreak, Reason: fmt.Sprintf(
		"%d wake-ups have failed since %s: %s", streak.Count, streak.Since.Format(time.RFC3339), reason)}
}
