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

// Retention learns, for one look, what the decider wants to know about a run of long
// ago. Up to Flight calls are under way at a time.
type Retention struct {
	Ports  port.Ports
	Now    time.Time
	Flight int
}

// Learn learns one fact about x.
func (r Retention) Learn(ctx context.Context, kind lifecycle.NeedKind, x *workflow.Execution, facts *lifecycle.Facts) (err error) {
	if kind == lifecycle.NeedUnneeded {
		facts.Unneeded, err = r.unneeded(ctx, x)
		return err
	}
	err = r.discard(ctx, x)
	facts.Discarded = err == nil
	return err
}

// unneeded reports whether the run that has started x will not ask for it any more.
// Until it is acknowledged it might, and looking in vain would start x again.
func (r Retention) unneeded(ctx context.Context, x *workflow.Execution) (*bool, error) {
	heads, err := r.Ports.Store.Heads(ctx, x.Tenant, []string{x.Parent.Execution})
	if err != nil {
		return nil, err
	}
	state := heads[x.Parent.Execution].State
	unneeded := state == "" || sm.Acknowledged(state)
	return &unneeded, nil
}

// discard has everything dropped that a run has left, but for its state item, which
// the commit that follows gives up, and for the lock items, whose tokens must go on
// growing.
func (r Retention) discard(ctx context.Context, x *workflow.Execution) error {
	for i := range x.Runs {
		s := &x.Runs[i]
		if !s.HasJobs() {
			continue
		}
		run := workflow.RunKey{Tenant: x.Tenant, Execution: x.ID, Visit: s.Visit, RunSeq: s.RunSeq}
		err := parallel.Each(ctx, r.Flight, s.Shards(), func(ctx context.Context, shard int) error {
			return r.Ports.Packs.Discard(ctx, run, shard, r.Now)
		})
		if err != nil {
			return err
		}
	}
	return r.Ports.Store.Discard(ctx, x.Tenant, x.ID, r.Now)
}
