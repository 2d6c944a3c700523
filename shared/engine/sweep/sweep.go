package sweep

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/engine/roster"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// sweepPage is how many due executions one read of the index returns.
const sweepPage = 100

// sweepPages bounds one shard's share of a sweep; the next sweep goes on.
const sweepPages = 20

// Swept is what one sweep did.
type Swept struct {
	Due     int // looks sent
	Workers int // polling workers whose state has changed
}

// Run sends a look for every execution whose alarm has rung, and judges the
// polling workers that are due. Its work is proportional to what is due; sweeps
// may overlap, since a look at an execution that needs none changes nothing, and
// a worker is judged as it was read or not at all.
func Run(ctx context.Context, e *engine.Engine, silence roster.Silence, shards int) (Swept, error) {
	looks, workers := make([]int, shards), make([]int, shards)
	ports := e.Open()
	people := &roster.Roster{Workers: ports.Workers, Silence: silence, Now: e.Now}
	err := parallel.Each(ctx, e.Parallel, 2*shards, func(ctx context.Context, i int) (err error) {
		if i < shards {
			looks[i], err = alarms(ctx, ports, e.Now(), i)
		} else {
			workers[i-shards], err = people.Sweep(ctx, ports.Board, i-shards)
		}
		return err
	})
	s := Swept{}
	for i := range shards {
		s.Due += looks[i]
		s.Workers += workers[i]
	}
	return s, err
}

// alarms sends a look for every execution of a shard whose alarm has rung.
func alarms(ctx context.Context, ports port.Ports, now time.Time, shard int) (sent int, err error) {
	page := workflow.Page{Limit: sweepPage}
	for range sweepPages {
		due, err := ports.Store.Due(ctx, shard, now, page)
		if err != nil {
			return sent, err
		}
		for i := range due.Items {
			due.Items[i].Why = "alarm"
		}
		if len(due.Items) > 0 {
			if err := ports.Board.Notify(ctx, 0, due.Items...); err != nil {
				return sent, err
			}
		}
		sent += len(due.Items)
		if due.Next == "" {
			break
		}
		page.Token = due.Next
	}
	return sent, nil
}
