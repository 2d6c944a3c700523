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
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Swept is what one sweep did.
type Swept struct {
	Due     int // looks sent
	Stuck   int // of these, whose alarm rang longer ago than [topology.StuckAfter]
	Workers int // polling workers whose state has changed
	Fired   int // runs started by schedules
}

// sweeper finds what is due, and does it.
type sweeper struct {
	ports  port.Ports
	people *roster.Roster
	clock  *calendar.Calendar
	now    func() time.Time
}

func newSweeper(e *engine.Engine, silence roster.Silence) *sweeper {
	ports := e.Open()
	return &sweeper{
		ports:  ports,
		people: &roster.Roster{Workers: ports.Workers, Silence: silence, Now: e.Now},
		clock: &calendar.Calendar{
			Schedules: ports.Schedules, Store: ports.Store, Starter: e, Now: e.Now, Log: e.Log, Parallel: e.Parallel, Floor: e.Policy.Floor,
		},
		now: e.Now,
	}
}

// Run sends a look for every execution whose alarm has rung, judges the polling
// workers that are due, and fires the schedules whose moment has come. None of
// the three waits for another, or fails with it. Its work is proportional to what
// is due; sweeps may overlap, since a look at an execution that needs none changes
// nothing, and a worker or a schedule is changed as it was read or not at all.
func Run(ctx context.Context, e *engine.Engine, silence roster.Silence, shards int) (Swept, error) {
	s := newSweeper(e, silence)
	done, stuck := make([]int, 3*shards), make([]int, shards)
	err := everywhere(ctx, e.Parallel, shards, func(ctx context.Context, kind, shard int) (err error) {
		n := &done[kind*shards+shard]
		switch kind {
		case 0:
			_, err = s.alarms(ctx, shard, s.notify(ctx, n, &stuck[shard]))
		case 1:
			_, err = s.silent(ctx, shard, s.pass(ctx, n))
		default:
			_, err = s.moments(ctx, shard, s.fire(ctx, n))
		}
		return err
	})
	swept := Swept{}
	for i := range shards {
		swept.Due += done[i]
		swept.Stuck += stuck[i]
		swept.Workers += done[shards+i]
		swept.Fired += done[2*shards+i]
	}
	return swept, err
}

// everywhere does each of the three kinds of work on each shard, some at a time.
// What fails keeps nothing else from being done.
func everywhere(ctx context.Context, limit, shards int, do func(ctx context.Context, kind, shard int) error) error {
	failed := make([]error, 3*shards)
	stopped := parallel.Each(ctx, limit, 3*shards, func(ctx context.Context, i int) error {
		failed[i] = do(ctx, i/shards, i%shards)
		return nil
	})
	return errors.Join(append(failed, stopped)...)
}

// notify sends looks. What is stuck is counted first: nobody may be able to send.
func (s *sweeper) notify(ctx context.Context, n, stuck *int) func([]workflow.Look) error {
	return func(due []workflow.Look) error {
		for i := range due {
			due[i].Why = "alarm"
			if s.now().Sub(due[i].DueAt) > topology.StuckAfter*time.Second {
				*stuck++
			}
		}
		if err := s.ports.Board.Notify(ctx, 0, due...); err != nil {
			return err
		}
		*n += len(due)
		return nil
	}
}

// pass writes what silence makes of workers.
func (s *sweeper) pass(ctx context.Context, n *int) func([]roster.Judgement) error {
	return func(due []roster.Judgement) error {
		for _, j := range due {
			moved, err := s.people.Pass(ctx, s.ports.Board, j)
			if err != nil {
				return err
			}
			if moved {
				*n++
			}
		}
		return nil
	}
}

// fire starts what schedules want.
func (s *sweeper) fire(ctx context.Context, n *int) func([]calendar.Moment) error {
	return func(due []calendar.Moment) error {
		fired, err := s.clock.FireAll(ctx, due)
		*n += fired
		return err
	}
}
