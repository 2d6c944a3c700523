package view

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// waiting says for what a run waits: a lock, an operator, workers, or the next
// attempt of a retry. It is nil while the run is moving.
func (v *View) waiting(ctx context.Context, i *engine.Inspection) *workflow.Waiting {
	x := i.Execution()
	switch {
	case x.State == sm.ExecutionScheduled && x.BlockedBy != nil:
		return v.forLock(x)
	case x.State == sm.ExecutionFailedUnsafe, x.State == sm.ExecutionCancelled:
		return &workflow.Waiting{Kind: workflow.WaitAcknowledge, Since: x.EndedAt, For: []workflow.WaitingFor{}}
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

func (v *View) forLock(x *workflow.Execution) *workflow.Waiting {
	b := x.BlockedBy
	f := workflow.WaitingFor{Entity: pointer(b.Entity.String()), Since: &b.Since}
	if b.Reservation {
		f.ReservedBy = &b.Execution
	} else {
		f.HeldBy = &b.Execution
	}
	return &workflow.Waiting{
		Kind: workflow.WaitLock, Since: x.LockSince,
		Until: pointer(v.engine.LockDeadline(x)), For: []workflow.WaitingFor{f},
	}
}

// forWorkers reports a run none of whose jobs is being worked on: nobody has
// claimed any, or the failed ones rest before their next attempt.
func forWorkers(r *workflow.StepRun, packs []*workflow.Pack, e *engine.Engine) *workflow.Waiting {
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
		return &workflow.Waiting{Kind: workflow.WaitWorker, Since: r.EnteredAt, Until: &until, For: []workflow.WaitingFor{}}
	}
	var since time.Time // the first of those that rest
	for _, p := range latest {
		if len(workflow.Retries(p, r.MaxAttempts)) > 0 && (since.IsZero() || p.FinishedAt.Before(since)) {
			since = p.FinishedAt
		}
	}
	if !since.IsZero() {
		return &workflow.Waiting{Kind: workflow.WaitRetry, Since: since, For: []workflow.WaitingFor{}}
	}
	return nil
}
