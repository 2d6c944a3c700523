package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// SweepResult is what one sweep did.
type SweepResult struct {
	WakeupsSent       int // looks sent
	Stuck             int // of these, whose alarm rang longer ago than [topology.StuckAfter]
	WorkersChanged    int // polling workers whose state has changed
	ExecutionsStarted int // runs started by schedules
}

// sweeper finds what is due, and does it.
type sweeper struct {
	ports     port.Ports
	workers   *workers.Registry
	schedules *cronScheduler
	now       func() time.Time
}

func newSweeper(e *engine.Engine, timeouts workers.LivenessTimeouts) *sweeper {
	ports := e.OpenPorts()
	return &sweeper{
		ports:   ports,
		workers: &workers.Registry{Workers: ports.Workers, Timeouts: timeouts, Now: e.Now},
		schedules: &cronScheduler{
			Schedules: ports.Schedules, Store: ports.Store, Starter: e, Now: e.Now, Log: e.Log, Parallel: e.Parallelism, MinFencingToken: e.Policy.MinFencingToken,
		},
		now: e.Now,
	}
}

// Sweep sends a look for every execution whose alarm has rung, judges the polling
// workers that are due, and fires the schedules whose moment has come. None of
// the three waits for another, or fails with it. Its work is proportional to what
// is due; sweeps may overlap, since a look at an execution that needs none changes
// nothing, and a worker or a schedule is changed as it was read or not at all.
func Sweep(ctx context.Context, e *engine.Engine, timeouts workers.LivenessTimeouts, shards int) (SweepResult, error) {
	s := newSweeper(e, timeouts)
	done, stuck := make([]int, 3*shards), make([]int, shards)
	err := forEachShard(ctx, e.Parallelism, shards, func(ctx context.Context, kind, shard int) (err error) {
		n := &done[kind*shards+shard]
		switch kind {
		case 0:
			_, err = s.dueExecutions(ctx, shard, s.sendWakeups(ctx, n, &stuck[shard]))
		case 1:
			_, err = s.dueWorkers(ctx, shard, s.applyTransitions(ctx, n))
		default:
			_, err = s.dueSchedules(ctx, shard, s.fireSchedules(ctx, n))
		}
		return err
	})
	swept := SweepResult{}
	for i := range shards {
		swept.WakeupsSent += done[i]
		swept.Stuck += stuck[i]
		swept.WorkersChanged += done[shards+i]
		swept.ExecutionsStarted += done[2*shards+i]
	}
	return swept, err
}

// forEachShard does each of the three kinds of work on each shard, some at a time.
// What fails keeps nothing else from being done.
func forEachShard(ctx context.Context, limit, shards int, do func(ctx context.Context, kind, shard int) error) error {
	failed := make([]error, 3*shards)
	stopped := parallel.Each(ctx, limit, 3*shards, func(ctx context.Context, i int) error {
		failed[i] = do(ctx, i/shards, i%shards)
		return nil
	})
	return errors.Join(append(failed, stopped)...)
}

// sendWakeups sends looks. What is stuck is counted first: nobody may be able to send.
func (s *sweeper) sendWakeups(ctx context.Context, n, stuck *int) func([]workflow.Wakeup) error {
	return func(due []workflow.Wakeup) error {
		for i := range due {
			due[i].Reason = "alarm"
			if s.now().Sub(due[i].DueAt) > topology.StuckAfterSeconds*time.Second {
				*stuck++
			}
		}
		if err := s.ports.Sender.SendWakeups(ctx, 0, due...); err != nil {
			return err
		}
		*n += len(due)
		return nil
	}
}

// applyTransitions writes what silence makes of workers.
func (s *sweeper) applyTransitions(ctx context.Context, n *int) func([]workers.Transition) error {
	return func(due []workers.Transition) error {
		for _, j := range due {
			changed, err := s.workers.Apply(ctx, s.ports.Sender, j)
			if err != nil {
				return err
			}
			if changed {
				*n++
			}
		}
		return nil
	}
}

// fireSchedules starts what schedules want.
func (s *sweeper) fireSchedules(ctx context.Context, n *int) func([]firing) error {
	return func(due []firing) error {
		fired, err := s.schedules.fireAll(ctx, due)
		*n += fired
		return err
	}
}
