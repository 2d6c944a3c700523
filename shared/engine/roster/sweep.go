package roster

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A sweep reads pages of so many due workers, and so many pages of one shard; the
// next sweep goes on.
const (
	sweepPage  = 100
	sweepPages = 20
)

// Sweep judges the workers of one shard that are due. Each is written only if it
// was not heard of since it was read, so that a heartbeat that comes meanwhile
// wins, and sweeps may overlap. Where a worker has gone OFFLINE, the runs whose
// packs it held are looked at.
func (r *Roster) Sweep(ctx context.Context, board port.Board, shard int) (moved int, err error) {
	now := r.now()
	page := workflow.Page{Limit: sweepPage}
	for range sweepPages {
		due, err := r.Workers.DueWorkers(ctx, shard, now, page)
		if err != nil {
			return moved, err
		}
		for _, w := range due.Items {
			ok, err := r.sweep(ctx, board, w.Tenant, w.ID)
			if err != nil {
				return moved, err
			}
			if ok {
				moved++
			}
		}
		if page.Token = due.Next; page.Token == "" {
			break
		}
	}
	return moved, nil
}

// sweep judges one worker and reports whether its state has changed.
func (r *Roster) sweep(ctx context.Context, board port.Board, tenant, id string) (bool, error) {
	seen, err := r.Workers.Worker(ctx, tenant, id)
	if err != nil || seen == nil {
		return false, err
	}
	next, err := r.Silence.judge(*seen, r.now())
	if err != nil || (next.State == seen.State && next.DueAt.Equal(seen.DueAt)) {
		return false, err // the index lags behind
	}
	ok, err := r.Workers.PutWorker(ctx, seen, &next)
	if !ok || err != nil || next.State == seen.State {
		return false, err
	}
	if next.State != sm.WorkerOffline {
		return true, nil
	}
	return true, board.Notify(ctx, 0, looks(seen)...)
}

// looks asks for each run of which the worker held a pack, once.
func looks(w *workflow.Worker) (all []workflow.Look) {
	asked := map[string]bool{}
	for _, h := range w.Held {
		l := h.Look()
		if key := l.Tenant + " " + l.Execution; l.Execution != "" && !asked[key] {
			asked[key] = true
			l.Why = "worker " + w.ID + " is OFFLINE"
			all = append(all, l)
		}
	}
	return all
}
