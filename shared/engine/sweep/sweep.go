package sweep

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/calendar"
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
	Fired   int // runs started by schedules
}

// Run sends a look for every execution whose alarm has rung, judges the polling
// workers that are due, and fires the schedules whose moment has come. None of
// the three waits for another, or fails with it. Its work is proportional to what
// is due; sweeps may overlap, since a look at an execution that needs none changes
// nothing, and a worker is judged as it was read or not at all.
func Run(ctx context.Context, e *engine.Engine, silence roster.Silence, shards int) (Swept, error) {
	looks, workers, fired := make([]int, shards), make([]int, shards), make([]int, shards)
	ports := e.Open()
	people := &roster.Roster{Workers: ports.Workers, Silence: silence, Now: e.Now}
	clock := &calendar.Calendar{
		Schedules: ports.Schedules, Store: ports.Store, Starter: e, Now: e.Now, Log: e.Log, Parallel: e.Parallel,
	}
	failed := make([]error, 3*shards)
	stopped := parallel.Each(ctx, e.Parallel, 3*shards, func(ctx context.Context, i int) error {
		// What fails keeps nothing else from being swept, so its error is set aside.
		switch shard := i % shards; i / shards {
		case 0:
			looks[shard], failed[i] = alarms(ctx, ports, e.Now(), shard)
		case 1:
			workers[shard], failed[i] = people.Sweep(ctx, ports.Board, shard)
		default:
			fired[shard], failed[i] = clock.Sweep(ctx, shard)
		}
		return nil
	})
	s := Swept{}
	for i := range shards {
		s.Due += looks[i]
		s.Workers += workers[i]
		s.Fired += fired[i]
	}
	return s, errors.Join(append(failed, stopped)...)
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
