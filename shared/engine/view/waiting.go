package view

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// waiting says for what a run waits, since when and until when. It is nil while
// the run is moving.
func (v *View) waiting(ctx context.Context, i *engine.Inspection) *views.Waiting {
	x := i.Execution()
	if w := v.resting(x); w != nil || x.State == sm.ExecutionCancelling || x.State == sm.ExecutionError {
		return w
	}
	return v.forWorkers(ctx, i)
}

// resting is as much of waiting as the state item says.
func (v *View) resting(x *workflow.Execution) *views.Waiting {
	switch {
	case x.Trouble != nil && x.Trouble.Looks > 1 && !sm.Acknowledged(x.State):
		w := &views.Waiting{Kind: views.WaitEngine, Since: x.Trouble.Since, Reason: &x.Trouble.Reason, For: []views.WaitingFor{}}
		if !sm.Terminal(x.State) {
			w.Until = pointer(x.Trouble.Since.Add(v.engine.Stalled))
		}
		return w
	case x.Wait != nil && (x.State == sm.ExecutionWaiting || x.State == sm.ExecutionBlockedWaiting):
		w := x.Wait
		return &views.Waiting{
			Kind: views.WaitKind(w.Kind), Since: w.Since, Until: timePointer(w.Until), Step: textPointer(w.Step),
			Condition: textPointer(w.Condition), Child: textPointer(w.Child), For: []views.WaitingFor{},
		}
	case x.State == sm.ExecutionScheduled && x.BlockedBy != nil:
		return v.forLock(x)
	case x.State == sm.ExecutionFailedUnsafe, x.State == sm.ExecutionCancelled:
		w := &views.Waiting{Kind: views.WaitAcknowledge, Since: x.EndedAt, For: []views.WaitingFor{}}
		if x.Unlocked {
			w.Reason = pointer("its locks have been released")
		}
		return w
	}
	return nil
}

func (v *View) forLock(x *workflow.Execution) *views.Waiting {
	return &views.Waiting{
		Kind: views.WaitLock, Since: x.LockSince,
		Until: pointer(v.engine.LockDeadline(x)), For: []views.WaitingFor{inTheWay(x.BlockedBy)},
	}
}

// inTheWay is who holds or has reserved an entity.
func inTheWay(b *workflow.BlockedBy) views.WaitingFor {
	f := views.WaitingFor{Entity: pointer(b.Entity.String()), Since: &b.Since}
	if b.Reservation {
		f.ReservedBy = &b.Execution
	} else {
		f.HeldBy = &b.Execution
	}
	return f
}

func dropped(x *workflow.Execution) views.Dropped {
	d := views.Dropped{Count: x.DroppedCount, For: []views.WaitingFor{}}
	for i := range x.Dropped {
		d.For = append(d.For, inTheWay(&x.Dropped[i]))
	}
	return d
}

// forWorkers reports a run none of whose jobs is being worked on: nobody has
// claimed any, or the failed ones rest before their next attempt.
func (v *View) forWorkers(ctx context.Context, i *engine.Inspection) *views.Waiting {
	x := i.Execution()
	var first, rests *workflow.StepRun // that nobody has claimed; the first that rests
	var since time.Time
	for n := range x.Runs {
		r := &x.Runs[n]
		if !r.Open() || !r.HasJobs() {
			continue
		}
		if r.Closing {
			return nil
		}
		packs, err := i.Packs(ctx, r)
		if err != nil {
			return nil // the view of everything else is worth more than this hint
		}
		switch at, live := restsSince(r, packs); {
		case live:
			return nil
		case !at.IsZero() && (since.IsZero() || at.Before(since)):
			rests, since = r, at
		case first == nil && len(packs) == 0:
			first = r
		case len(packs) > 0 && r.Stretch == 0:
			return nil // between two packs
		}
	}
	if rests != nil {
		return &views.Waiting{Kind: views.WaitRetry, Since: since, Step: textPointer(rests.Label), For: []views.WaitingFor{}}
	}
	if first == nil || first.Stretch > 0 && first.Stretch != first.RunSeq {
		return nil // the later parts of pipelines are claimed after the first
	}
	return &views.Waiting{
		Kind: views.WaitWorker, Since: first.EnteredAt, Until: pointer(first.EnteredAt.Add(v.engine.Delivery.Unclaimed)),
		Step: textPointer(first.Label), Pool: textPointer(first.Pool), For: []views.WaitingFor{},
	}
}

// restsSince is since when the first of the run's failed jobs waits for its next
// attempt, zero if none does; live says that somebody works on one of its packs.
func restsSince(r *workflow.StepRun, packs []*workflow.Pack) (since time.Time, live bool) {
	latest := map[int]*workflow.Pack{} // by lane
	for _, p := range packs {
		if !p.Final() {
			return since, true
		}
		if l := latest[p.Key.Lane]; l == nil || p.Key.Attempt > l.Key.Attempt {
			latest[p.Key.Lane] = p
		}
	}
	for _, p := range latest {
		if len(workflow.Retries(p, r.MaxAttempts)) > 0 && (since.IsZero() || p.FinishedAt.Before(since)) {
			since = p.FinishedAt
		}
	}
	return since, false
}
