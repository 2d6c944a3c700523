package view

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// waiting says for what a run waits: a lock, an operator, workers, or the next
// attempt of a retry. It is nil while the run is moving.
func (v *View) waiting(ctx context.Context, i *engine.Inspection) *views.Waiting {
	x := i.Execution()
	switch {
	case x.State == sm.ExecutionScheduled && x.BlockedBy != nil:
		return v.forLock(x)
	case x.State == sm.ExecutionFailedUnsafe, x.State == sm.ExecutionCancelled:
		return &views.Waiting{Kind: views.WaitAcknowledge, Since: x.EndedAt, For: []views.WaitingFor{}}
	}
	r := x.Run()
	if !r.Open() || r.Closing {
		return nil
	}
	packs, err := i.Packs(ctx, r)
	if err != nil {
		return nil // the view of everything else is worth more than this hint
	}
	return forWorkers(r, packs, v.engine)
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
func forWorkers(r *workflow.StepRun, packs []*workflow.Pack, e *engine.Engine) *views.Waiting {
	latest := map[int]*workflow.Pack{} // by lane
	for _, p := range packs {
		if !p.Final() {
			return nil
		}
		if l := latest[p.Key.Lane]; l == nil || p.Key.Attempt > l.Key.Attempt {
			latest[p.Key.Lane] = p
		}
	}
	if len(packs) == 0 {
		until := r.EnteredAt.Add(e.Delivery.Unclaimed)
		return &views.Waiting{Kind: views.WaitWorker, Since: r.EnteredAt, Until: &until, For: []views.WaitingFor{}}
	}
	var since time.Time // the first of those that rest
	for _, p := range latest {
		if len(workflow.Retries(p, r.MaxAttempts)) > 0 && (since.IsZero() || p.FinishedAt.Before(since)) {
			since = p.FinishedAt
		}
	}
	if !since.IsZero() {
		return &views.Waiting{Kind: views.WaitRetry, Since: since, For: []views.WaitingFor{}}
	}
	return nil
}
