package sweep

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// sweepPage is how many due executions one read of the index returns.
const sweepPage = 100

// sweepPages bounds one shard's share of a sweep; the next sweep goes on.
const sweepPages = 20

// Swept is what one sweep did.
type Swept struct {
	Due int // looks sent
}

// Run sends a look for every execution whose alarm has rung. Its work is
// proportional to what is due; sweeps may overlap, since a look at an execution
// that needs none changes nothing.
func Run(ctx context.Context, e *engine.Engine, shards int) (Swept, error) {
	ports := e.Open()
	now := e.Now()
	counts := make([]int, shards)
	err := parallel.Each(ctx, e.Parallel, shards, func(ctx context.Context, shard int) error {
		page := workflow.Page{Limit: sweepPage}
		for range sweepPages {
			due, err := ports.Store.Due(ctx, shard, now, page)
			if err != nil {
				return err
			}
			for i := range due.Items {
				due.Items[i].Why = "alarm"
			}
			if len(due.Items) > 0 {
				if err := ports.Board.Notify(ctx, 0, due.Items...); err != nil {
					return err
				}
			}
			counts[shard] += len(due.Items)
			if due.Next == "" {
				return nil
			}
			page.Token = due.Next
		}
		return nil
	})
	s := Swept{}
	for _, n := range counts {
		s.Due += n
	}
	return s, err
}
