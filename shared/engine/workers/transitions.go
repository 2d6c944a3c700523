package workers

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Transition is what silence makes of a worker as it was read.
type Transition struct {
	Seen, Next *workflow.Worker
}

// ChangesState reports whether the worker's state changes: one that was heard of since it
// became due only gets another moment.
func (j Transition) ChangesState() bool { return j.Next.State != j.Seen.State }

// Due judges a page of the workers of one shard that are due, and changes nothing.
func (r *Registry) Due(ctx context.Context, shard int, page workflow.Page) (workflow.List[Transition], error) {
	due, err := r.Workers.DueWorkers(ctx, shard, r.now(), page)
	list := workflow.List[Transition]{NextToken: due.NextToken}
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
		next, err := r.Timeouts.evaluate(*seen, r.now())
		if err != nil {
			return list, err
		}
		if next.State == seen.State && next.DueAt.Equal(seen.DueAt) {
			continue // the index lags behind
		}
		list.Items = append(list.Items, Transition{seen, &next})
	}
	return list, nil
}

// Apply writes a judgement, if the worker was not heard of since it was read, so that
// a heartbeat that comes meanwhile wins, and sweeps may overlap. It reports whether
// the worker's state has changed.
//
// Where a worker has gone OFFLINE, the runs whose packs it held are looked at. That
// hands back or fails nothing by itself: leases do, and the runs' own alarms ring
// when they are over, as a rule long before. The looks find what is due by then.
func (r *Registry) Apply(ctx context.Context, sender port.Sender, j Transition) (changed bool, err error) {
	ok, err := r.Workers.PutWorker(ctx, j.Seen, j.Next)
	if !ok || err != nil || !j.ChangesState() {
		return false, err
	}
	if j.Next.State != sm.WorkerOffline {
		return true, nil
	}
	return true, sender.SendWakeups(ctx, 0, wakeups(j.Seen)...)
}

// wakeups asks for each run of which the worker held a pack, once.
func wakeups(w *workflow.Worker) (all []workflow.Wakeup) {
	seen := map[string]bool{}
	for _, h := range w.ClaimedPacks {
		l := h.Wakeup()
		if key := l.Tenant + " " + l.Execution; l.Execution != "" && !seen[key] {
			seen[key] = true
			l.Reason = "worker " + w.ID + " is OFFLINE"
			all = append(all, l)
		}
	}
	return all
}
