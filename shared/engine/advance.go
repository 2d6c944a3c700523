package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxCommits bounds the commits of one look: a run of very many steps without
// jobs goes on in another invocation.
const maxCommits = 64

// Advance answers one lifecycle message: it moves the execution as far as it goes
// now. An error means that the message should come again; an execution that does
// not exist is no error, because a message can outlive it or, where a start was
// interrupted, precede it.
func (e *Engine) Advance(ctx context.Context, l workflow.Wakeup) (err error) {
	if l.DeadLetter != nil {
		b := deadLetters{ports: e.OpenPorts(), now: e.now, nonce: e.Nonce, backoff: e.Backoff, maxConflictRetries: e.MaxConflictRetries, engineVersion: e.version, log: e.Log}
		return b.RecordDeadLetter(ctx, l)
	}
	w := e.newWorkspace(l.Tenant, l.Execution)
	if l.Lane == nil {
		w.pendingCost.Add(l.Cost)
	}
	if err := w.load(ctx); err != nil {
		if workflow.Is(err, workflow.CodeNotFound) {
			w.recorder.Log(ctx, slog.LevelWarn, "look at an execution that does not exist")
			return nil
		}
		return err
	}
	ctx, end := w.recorder.StartAdvanceSpan(ctx, l.Reason)
	defer func() { end(err) }()
	if l.Lane != nil {
		if err := w.sendLane(ctx, l); err != nil {
			return err
		}
	}
	return w.advance(ctx, breakCommand(w.execution, e.now(), e.StallTimeout))
}

// RecordFailure is told of a look that has failed, so that whoever asks why nothing moves
// is told, and the run is not tried for ever.
func (e *Engine) RecordFailure(ctx context.Context, l workflow.Wakeup, cause error) {
	w := e.newWorkspace(l.Tenant, l.Execution)
	if err := recordFailure(ctx, w.ports.Store, l, e.now(), cause); err != nil {
		w.recorder.Warn(ctx, "trouble not written down", err)
	}
}

// advance decides and commits until there is nothing to do but wait. A command is
// part of the first decision that is committed; once it has been, it is done.
func (w *workspace) advance(ctx context.Context, c *lifecycle.Command) error {
	defer func() { w.recorder.Flush(ctx, w.e.now()) }()
	w.command, w.facts.Command = c, c
	conflicts := 0
	w.now = w.e.now()
	for commits := 0; ; {
		d, err := lifecycle.Decide(w.execution, w.facts, w.e.Policy, w.now)
		if err != nil {
			return err
		}
		if d.Need != nil {
			if err := w.fetch(ctx, *d.Need, d.Uncommitted); err != nil {
				if !port.Permanent(err) || w.facts.Command != nil {
					return err
				}
				// Nothing will make this work by being repeated: the run fails.
				w.recorder.Log(ctx, slog.LevelError, "cannot go on", observe.Err(err))
				w.facts.Command = &lifecycle.Command{Kind: lifecycle.CommandBreak, Reason: port.Reason(err)}
			}
			if w.stale {
				if err := w.reload(ctx, &conflicts); err != nil {
					return err
				}
			}
			continue
		}
		if d.Next == nil {
			return nil
		}
		ok, err := w.commit(ctx, d)
		if err != nil {
			return err
		}
		if !ok {
			if err := w.reload(ctx, &conflicts); err != nil {
				return err
			}
			continue
		}
		if err := w.dispatchStepRun(ctx, d); err != nil {
			// The commit stands; its alarm repeats what was not performed.
			w.recorder.Warn(ctx, "committed, but not all effects performed", err)
			return nil
		}
		if d.Idle {
			return nil
		}
		if commits++; commits >= maxCommits || w.exceedsInlineLimit() {
			return w.ports.Sender.SendWakeups(ctx, 0, wakeup(w.execution, "continue"))
		}
	}
}

// exceedsInlineLimit reports whether the rest is too much for whoever started the run.
func (w *workspace) exceedsInlineLimit() bool {
	return w.inline && w.execution.Scope.Total() > w.e.InlineMaxEntities
}

// commit writes the decision's state under a fresh commit id, with all that has
// been consumed so far, and wakes whoever waited for the locks it releases.
func (w *workspace) commit(ctx context.Context, d lifecycle.Decision) (ok bool, err error) {
	next := d.Next
	next.FailureStreak = nil // this look has succeeded
	ctx, end := w.recorder.StartCommitSpan(ctx, w.execution, next)
	defer func() { end(err) }()
	next.Schema, next.Commit, next.EngineVersion = workflow.SchemaVersion, w.e.Nonce(), w.e.version
	if err := w.offloadHistory(ctx, w.execution, next); err != nil {
		return false, err
	}
	w.pendingCost.Add(w.ports.Meter.Take())
	next.Cost.Add(w.pendingCost)

	var waiters []string
	if next.Version == 1 {
		ok, err = w.ports.Store.Create(ctx, next)
	} else {
		waiters, ok, err = w.ports.Store.Commit(ctx, w.execution.Version, next, d.WakeWaiters)
	}
	if err != nil || !ok {
		return ok, err
	}
	w.pendingCost = workflow.Cost{}
	from := w.execution
	w.now = w.e.now()
	w.recorder.RecordTransition(ctx, from, next, d.LimitReached || w.limitReached)
	w.execution, w.limitReached = next, false
	w.clearStaleFacts()
	w.commandCommitted = w.commandCommitted || w.command != nil
	w.command, w.facts.Command = nil, nil
	wakeups := w.parentWakeups(from, next)
	for _, id := range waiters {
		wakeups = append(wakeups, workflow.Wakeup{Tenant: w.tenant, Execution: id, Reason: "released by " + w.id})
	}
	w.sendWakeups(ctx, "waiters", wakeups)
	w.sendTimerWakeup(ctx, from.Wait, next.Wait)
	return true, nil
}

// sendWakeups sends looks. Whoever is not told has an alarm.
func (w *workspace) sendWakeups(ctx context.Context, recipients string, wakeups []workflow.Wakeup) {
	if len(wakeups) == 0 {
		return
	}
	if err := w.ports.Sender.SendWakeups(ctx, 0, wakeups...); err != nil {
		w.recorder.Warn(ctx, "not told; their alarms will", err, slog.String("whom", recipients))
	}
}

// sendTimerWakeup lets a wait of up to a quarter of an hour, the longest delay of a message,
// end on time, even if that has come meanwhile: the alarm's sweep is not as fine.
func (w *workspace) sendTimerWakeup(ctx context.Context, was, now *workflow.Wait) {
	if now == nil || now.Kind != workflow.WaitTimer || (was != nil && was.Until.Equal(now.Until)) {
		return
	}
	if delay := now.Until.Sub(w.now); delay <= 15*time.Minute {
		if err := w.ports.Sender.SendWakeups(ctx, max(delay, 0), wakeup(w.execution, "timer")); err != nil {
			w.recorder.Warn(ctx, "timer not set; the alarm is", err)
		}
	}
}
