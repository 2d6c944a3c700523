package roster

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Judgement is what silence makes of a worker as it was read.
type Judgement struct {
	Seen, Next *workflow.Worker
}

// Moves reports whether the worker's state changes: one that was heard of since it
// became due only gets another moment.
func (j Judgement) Moves() bool { return j.Next.State != j.Seen.State }

// Due judges a page of the workers of one shard that are due, and changes nothing.
func (r *Roster) Due(ctx context.Context, shard int, page workflow.Page) (workflow.List[Judgement], error) {
	due, err := r.Workers.DueWorkers(ctx, shard, r.now(), page)
	list := workflow.List[Judgement]{Next: due.Next}
	if err != nil {
		return list, err
	}
	for _, w := range due.Items {
		seen, err := r.Workers.Worker(ctx, w.Tenant, w.ID)
		if err != nil {
			return list, err
		}
		if seen == nil {
			continue
		}
		next, err := r.Silence.judge(*seen, r.now())
		if err != nil {
			return list, err
		}
		if next.State == seen.State && next.DueAt.Equal(seen.DueAt) {
			continue // the index lags behind
		}
		list.Items = append(list.Items, Judgement{seen, &next})
	}
	return list, nil
}

// Pass writes a judgement, if the worker was not heard of since it was read, so that
// a heartbeat that comes meanwhile wins, and sweeps may overlap. It reports whether
// the worker's state has changed.
//
// Where a worker has gone OFFLINE, the runs whose packs it held are looked at. That
// hands back or fails nothing by itself: leases do, and the runs' own alarms ring
// when they are over, as a rule long before. The looks find what is due by then.
func (r *Roster) Pass(ctx context.Context, board port.Board, j Judgement) (moved bool, err error) {
	ok, err := r.Workers.PutWorker(ctx, j.Seen, j.Next)
	if !ok || err != nil || !j.Moves() {
		return false, err
	}
	if j.Next.State != sm.WorkerOffline {
		return true, nil
	}
	return true, board.Notify(ctx, 0, looks(j.Seen)...)
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
