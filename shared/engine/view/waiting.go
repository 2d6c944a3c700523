package view

import (
	"context"

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
	var last workflow.Pack
	for _, p := range packs {
		if !p.Final() {
			return nil
		}
		if p.FinishedAt.After(last.FinishedAt) {
			last = *p
		}
	}
	if len(packs) == 0 {
		until := r.EnteredAt.Add(e.Delivery.Unclaimed)
		return &workflow.Waiting{Kind: workflow.WaitWorker, Since: r.EnteredAt, Until: &until, For: []workflow.WaitingFor{}}
	}
	if len(workflow.Retries(&last, r.MaxAttempts)) > 0 {
		return &workflow.Waiting{Kind: workflow.WaitRetry, Since: last.FinishedAt, For: []workflow.WaitingFor{}}
	}
	return nil
}
