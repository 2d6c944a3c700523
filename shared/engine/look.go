package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/burial"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/engine/trouble"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxCommits bounds the commits of one look: a run of very many steps without
// jobs goes on in another invocation.
const maxCommits = 64

// Look answers one lifecycle message: it moves the execution as far as it goes
// now. An error means that the message should come again; an execution that does
// not exist is no error, because a message can outlive it or, where a start was
// interrupted, precede it.
func (e *Engine) Look(ctx context.Context, l workflow.Look) (err error) {
	if l.Dead != nil {
		b := burial.Burial{Ports: e.Open(), Now: e.now, Nonce: e.Nonce, Pause: e.Pause, Tries: e.Tries, Version: e.version, Log: e.Log}
		return b.Bury(ctx, l)
	}
	w := e.work(l.Tenant, l.Execution)
	if l.Lane == nil {
		w.pending.Add(l.Cost)
	}
	if err := w.load(ctx); err != nil {
		if workflow.Is(err, workflow.CodeNotFound) {
			w.telling.Say(ctx, slog.LevelWarn, "look at an execution that does not exist")
			return nil
		}
		return err
	}
	ctx, end := w.telling.Look(ctx, l.Why)
	defer func() { end(err) }()
	if l.Lane != nil {
		if err := w.sendLane(ctx, l); err != nil {
			return err
		}
	}
	return w.drive(ctx, trouble.Order(w.x, e.now(), e.Stalled))
}

// Failed is told of a look that has failed, so that whoever asks why nothing moves
// is told, and the run is not tried for ever.
func (e *Engine) Failed(ctx context.Context, l workflow.Look, cause error) {
	w := e.work(l.Tenant, l.Execution)
	if err := trouble.Note(ctx, w.ports.Store, l, e.now(), cause); err != nil {
		w.telling.Warn(ctx, "trouble not written down", err)
	}
}

// drive decides and commits until there is nothing to do but wait. A command is
// part of the first decision that is committed; once it has been, it is done.
func (w *work) drive(ctx context.Context, c *lifecycle.Command) error {
	defer func() { w.telling.Rest(ctx, w.e.now()) }()
	w.command, w.facts.Command = c, c
	lost := 0
	w.now = w.e.now()
	for commits := 0; ; {
		d, err := lifecycle.Decide(w.x, w.facts, w.e.Policy, w.now)
		if err != nil {
			return err
		}
		if d.Need != nil {
			if err := w.fetch(ctx, *d.Need, d.Draft); err != nil {
				if !port.Permanent(err) || w.facts.Command != nil {
					return err
				}
				// Nothing will make this work by being repeated: the run fails.
				w.telling.Say(ctx, slog.LevelError, "cannot go on", observe.Err(err))
				w.facts.Command = &lifecycle.Command{Kind: lifecycle.CommandBreak, Reason: port.Reason(err)}
			}
			if w.stale {
				if err := w.reload(ctx, &lost); err != nil {
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
			if err := w.reload(ctx, &lost); err != nil {
				return err
			}
			continue
		}
		if err := w.perform(ctx, d); err != nil {
			// The commit stands; its alarm repeats what was not performed.
			w.telling.Warn(ctx, "committed, but not all effects performed", err)
			return nil
		}
		if d.Rest {
			return nil
		}
		if commits++; commits >= maxCommits || w.handOver() {
			return w.ports.Board.Notify(ctx, 0, look(w.x, "continue"))
		}
	}
}

// handOver reports whether the rest is too much for whoever started the run.
func (w *work) handOver() bool {
	return w.inline && w.x.Scope.Total() > w.e.Inline
}

// commit writes the decision's state under a fresh commit id, with all that has
// been consumed so far, and wakes whoever waited for the locks it releases.
func (w *work) commit(ctx context.Context, d lifecycle.Decision) (ok bool, err error) {
	next := d.Next
	next.Trouble = nil // this look has succeeded
	ctx, end := w.telling.Commit(ctx, w.x, next)
	defer func() { end(err) }()
	next.Schema, next.Commit, next.Engine = workflow.SchemaVersion, w.e.Nonce(), w.e.version
	if err := w.KeepHistory(ctx, w.x, next); err != nil {
		return false, err
	}
	w.pending.Add(w.ports.Meter.Take())
	next.Cost.Add(w.pending)

	var waiters []string
	if next.Version == 1 {
		ok, err = w.ports.Store.Create(ctx, next)
	} else {
		waiters, ok, err = w.ports.Store.Commit(ctx, w.x.Version, next, d.Release)
	}
	if err != nil || !ok {
		return ok, err
	}
	w.pending = workflow.Cost{}
	from := w.x
	w.now = w.e.now()
	w.telling.Moved(ctx, from, next, d.Stopped || w.stopped)
	w.x, w.stopped = next, false
	w.settled()
	w.done = w.done || w.command != nil
	w.command, w.facts.Command = nil, nil
	looks := w.tellParent(from, next)
	for _, id := range waiters {
		looks = append(looks, workflow.Look{Tenant: w.tenant, Execution: id, Why: "released by " + w.id})
	}
	w.tell(ctx, "waiters", looks)
	w.ring(ctx, from.Wait, next.Wait)
	return true, nil
}

// tell sends looks. Whoever is not told has an alarm.
func (w *work) tell(ctx context.Context, whom string, looks []workflow.Look) {
	if len(looks) == 0 {
		return
	}
	if err := w.ports.Board.Notify(ctx, 0, looks...); err != nil {
		w.telling.Warn(ctx, "not told; their alarms will", err, slog.String("whom", whom))
	}
}

// ring lets a wait of up to a quarter of an hour, the longest delay of a message,
// end on time, even if that has come meanwhile: the alarm's sweep is not as fine.
func (w *work) ring(ctx context.Context, was, now *workflow.Wait) {
	if now == nil || now.Kind != workflow.WaitTimer || (was != nil && was.Until.Equal(now.Until)) {
		return
	}
	if delay := now.Until.Sub(w.now); delay <= 15*time.Minute {
		if err := w.ports.Board.Notify(ctx, max(delay, 0), look(w.x, "timer")); err != nil {
			w.telling.Warn(ctx, "timer not set; the alarm is", err)
		}
	}
}
