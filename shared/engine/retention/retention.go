package retention

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Unneeded reports whether the run that has started x will not ask for it any more.
// Until it is acknowledged it might, and looking in vain would start x again.
func Unneeded(ctx context.Context, store port.Store, x *workflow.Execution) (bool, error) {
	heads, err := store.Heads(ctx, x.Tenant, []string{x.Parent.Execution})
	if err != nil {
		return false, err
	}
	state := heads[x.Parent.Execution].State
	return state == "" || sm.Acknowledged(state), nil
}

// Discard has everything dropped that a run has left, but for its state item, which
// the commit that follows gives up, and for the lock items, whose tokens must go on
// growing. Up to flight calls are under way at a time.
func Discard(ctx context.Context, p port.Ports, x *workflow.Execution, now time.Time, flight int) error {
	for i := range x.Runs {
		r := &x.Runs[i]
		if !r.HasJobs() {
			continue
		}
		run := workflow.RunKey{Tenant: x.Tenant, Execution: x.ID, Visit: r.Visit, RunSeq: r.RunSeq}
		err := parallel.Each(ctx, flight, r.Shards(), func(ctx context.Context, shard int) error {
			return p.Packs.Discard(ctx, run, shard, now)
		})
		if err != nil {
			return err
		}
	}
	return p.Store.Discard(ctx, x.Tenant, x.ID, now)
}
