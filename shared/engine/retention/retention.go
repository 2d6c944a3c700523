package retention

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Discard has everything dropped that a run has left, but for its state item, which
// the commit that follows gives up, and for the lock items, whose tokens must go on
// growing. A run that another has started stays as long as that one has not been
// acknowledged: looking for it in vain, its parent would start it again. Up to
// flight calls are under way at a time.
func Discard(ctx context.Context, p port.Ports, x *workflow.Execution, now time.Time, flight int) (*lifecycle.Discarded, error) {
	if x.Parent != nil {
		heads, err := p.Store.Heads(ctx, x.Tenant, []string{x.Parent.Execution})
		if err != nil {
			return nil, err
		}
		if state := heads[x.Parent.Execution].State; state != "" && !sm.Acknowledged(state) {
			return &lifecycle.Discarded{}, nil
		}
	}
	at := lifecycle.DiscardBeside(now)
	for i := range x.Runs {
		r := &x.Runs[i]
		if !r.HasJobs() {
			continue
		}
		run := workflow.RunKey{Tenant: x.Tenant, Execution: x.ID, Visit: r.Visit, RunSeq: r.RunSeq}
		err := parallel.Each(ctx, flight, r.Shards(), func(ctx context.Context, shard int) error {
			return p.Packs.Discard(ctx, run, shard, at)
		})
		if err != nil {
			return nil, err
		}
	}
	return &lifecycle.Discarded{Done: true}, p.Store.Discard(ctx, x.Tenant, x.ID, at)
}
