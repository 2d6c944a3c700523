package engine

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// retention learns, for one look, what the decider wants to know about a run of long
// ago. Up to Flight calls are under way at a time.
type retention struct {
	ports       port.Ports
	now         time.Time
	parallelism int
}

// fetch learns one fact about x.
func (r retention) fetch(ctx context.Context, kind lifecycle.NeedKind, x *workflow.Execution, facts *lifecycle.Facts) (err error) {
	if kind == lifecycle.NeedUnreferenced {
		facts.Unreferenced, err = r.fetchUnneeded(ctx, x)
		return err
	}
	err = r.discardPayloads(ctx, x)
	facts.Discarded = err == nil
	return err
}

// fetchUnneeded reports whether the run that has started x will not ask for it any more.
// Until it is acknowledged it might, and looking in vain would start x again.
func (r retention) fetchUnneeded(ctx context.Context, x *workflow.Execution) (*bool, error) {
	heads, err := r.ports.Store.Heads(ctx, x.Tenant, []string{x.Parent.Execution})
	if err != nil {
		return nil, err
	}
	state := heads[x.Parent.Execution].State
	unneeded := state == "" || sm.Acknowledged(state)
	return &unneeded, nil
}

// discardPayloads has everything dropped that a run has left, but for its state item, which
// the commit that follows gives up, and for the lock items, whose tokens must go on
// growing.
func (r retention) discardPayloads(ctx context.Context, x *workflow.Execution) error {
	for i := range x.StepRuns {
		s := &x.StepRuns[i]
		if !s.HasJobs() {
			continue
		}
		stepRun := workflow.StepRunKey{Tenant: x.Tenant, Execution: x.ID, Ordinal: s.Ordinal, Seq: s.Seq}
		err := parallel.Each(ctx, r.parallelism, s.Shards(), func(ctx context.Context, shard int) error {
			return r.ports.Packs.Discard(ctx, stepRun, shard, r.now)
		})
		if err != nil {
			return err
		}
	}
	return r.ports.Store.Discard(ctx, x.Tenant, x.ID, r.now)
}
