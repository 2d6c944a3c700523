// Package scheduler is the engine's periodic side. A sweep sends a wake-up to each
// execution whose timer is due, applies the liveness timeouts of the polling workers,
// and starts the executions of due schedules. It takes no decisions about an execution.
//
//   - sweep.go reads what is due, in bounded pages, and handles it.
//   - cron_scheduler.go fires schedules.
//   - plan.go reports what a sweep would do, from the same reads.
package scheduler

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// SweepResult counts what one sweep did.
type SweepResult struct {
	WakeupsSent       int // wake-ups sent to executions whose timer is due
	Queued            int // approximate number of wake-ups in the lifecycle queue before, if any timer was due
	Stuck             int // executions whose timer was due more than [topology.StuckAfterSeconds] ago
	WorkersChanged    int // polling workers whose state has changed
	ExecutionsStarted int // executions started by schedules
}

// sweeper reads what is due, and handles it.
type sweeper struct {
	sent      *sentWakeups
	depth     queueDepth
	ports     port.Ports
	workers   *workers.Registry
	schedules *cronScheduler
	now       func() time.Time
}

func newSweeper(e *engine.Engine, timeouts workers.LivenessTimeouts) *sweeper {
	ports := e.OpenPorts()
	return &sweeper{
		sent:    &sentWakeups{},
		ports:   ports,
		workers: &workers.Registry{Workers: ports.Workers, Timeouts: timeouts, Now: e.Now},
		schedules: &cronScheduler{
			Schedules: ports.Schedules, Store: ports.Store, Starter: e, Now: e.Now, Log: e.Log, Parallel: e.Parallelism, MinFencingToken: e.Policy.MinFencingToken,
		},
		now: e.Now,
	}
}

// Sweep sends a wake-up to every execution whose timer is due, applies the liveness timeouts of the
// polling workers, and fires the schedules that are due. An error in one of the three does not stop
// the others. The work is proportional to what is due. Sweeps may overlap: a wake-up that an
// execution does not need changes nothing, and a worker or schedule is written only if it has not
// changed since it was read.
//
// It sends a wake-up even if another sweep has just sent it. Processes that sweep repeatedly use a
// [Sweeper], which avoids that.
func Sweep(ctx context.Context, e *engine.Engine, timeouts workers.LivenessTimeouts, shards int) (SweepResult, error) {
	return NewSweeper(e, timeouts, shards).Sweep(ctx)
}

// Sweeper sweeps repeatedly. It sends a wake-up that is still due again only after [wakeupLease].
// While the lifecycle queue holds more than [maxQueuedWakeups], it sends wake-ups only to a few
// stuck executions. So the queue stays short, however often it sweeps and however slowly executions
// are advanced.
type Sweeper struct {
	engine   *engine.Engine
	timeouts workers.LivenessTimeouts
	shards   int
	sent     sentWakeups
}

// NewSweeper makes a Sweeper that has not sent anything yet.
func NewSweeper(e *engine.Engine, timeouts workers.LivenessTimeouts, shards int) *Sweeper {
	return &Sweeper{engine: e, timeouts: timeouts, shards: shards}
}

// Sweep works like the function Sweep. Calls must not overlap.
func (r *Sweeper) Sweep(ctx context.Context) (SweepResult, error) {
	e, shards := r.engine, r.shards
	s := newSweeper(e, r.timeouts)
	s.sent = &r.sent
	s.sent.forget(s.now().Add(-wakeupLease))
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
	swept := SweepResult{Queued: s.depth.queued}
	for i := range shards {
		swept.WakeupsSent += done[i]
		swept.Stuck += stuck[i]
		swept.WorkersChanged += done[shards+i]
		swept.ExecutionsStarted += done[2*shards+i]
	}
	return swept, errors.Join(s.depth.err, err)
}

// forEachShard calls do for each of the three kinds of work and each shard, at most limit at a
// time, and joins the errors.
func forEachShard(ctx context.Context, limit, shards int, do func(ctx context.Context, kind, shard int) error) error {
	failed := make([]error, 3*shards)
	stopped := parallel.Each(ctx, limit, 3*shards, func(ctx context.Context, i int) error {
		failed[i] = do(ctx, i/shards, i%shards)
		return nil
	})
	return errors.Join(append(failed, stopped)...)
}

// One sweep reads up to maxPages pages of each kind and shard; the next sweep handles the
// rest. Schedules take more work each, so their pages are smaller. For executions, the
// first maxOldestPages pages are the ones that have been due longest.
const (
	pageSize         = 100
	schedulePageSize = 50
	maxPages         = 20
	maxOldestPages   = maxPages / 2
)

// dueExecutions calls each for every page of a shard's executions whose timer is due.
// complete means that these were all.
//
// A wake-up that fails leaves the timer as it is. So if more is due than one sweep reads,
// the oldest may be the same ones every time, such as executions of a newer release, and
// the others would starve. Therefore only half of the pages start at the oldest. The other
// half start at a time that differs in each sweep; if these reach the end, the remaining
// pages continue after the oldest.
func (s *sweeper) dueExecutions(ctx context.Context, shard int, each func([]workflow.Wakeup) error) (complete bool, err error) {
	now, last := s.now(), time.Time{}
	between := func(since, until time.Time) func(workflow.Page) (workflow.List[workflow.Wakeup], error) {
		return func(p workflow.Page) (workflow.List[workflow.Wakeup], error) {
			return s.ports.Store.DueExecutions(ctx, shard, since, until, p)
		}
	}
	rest, _, err := readPages(workflow.Page{Limit: pageSize}, maxOldestPages, between(time.Time{}, now), func(due []workflow.Wakeup) error {
		last = due[len(due)-1].DueAt
		return each(due)
	})
	if rest == "" || err != nil {
		return err == nil, err
	}
	offset := pseudoRandomTime(last, now, shard)
	_, left, err := readPages(workflow.Page{Limit: pageSize}, maxPages-maxOldestPages, between(offset, now), each)
	if left == 0 || err != nil {
		return false, err
	}
	rest, _, err = readPages(workflow.Page{Limit: pageSize, Token: rest}, left, between(time.Time{}, offset.Add(-time.Millisecond)), each)
	return rest == "" && err == nil, err
}

// pseudoRandomTime returns a time later than after and, if possible, not later than now, in
// milliseconds and evenly distributed. It depends only on its arguments, so nothing has to be
// stored between sweeps, and it differs for each sweep and shard.
func pseudoRandomTime(after, now time.Time, shard int) time.Time {
	// Mix the bits so that each depends on all others (SplitMix64).
	x := uint64(now.UnixMilli()) + uint64(shard)*0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	x ^= x >> 31
	span := uint64(max(1, now.UnixMilli()-after.UnixMilli()))
	return after.Add(time.Millisecond * time.Duration(1+x%span))
}

// dueWorkers calls each for every page of a shard's workers whose timeouts have passed. A worker
// that fails does not stop the others; the next sweep handles it.
func (s *sweeper) dueWorkers(ctx context.Context, shard int, each func([]workers.Transition) error) (complete bool, err error) {
	var failed error
	next, _, err := readPages(workflow.Page{Limit: pageSize}, maxPages, func(p workflow.Page) (workflow.List[workers.Transition], error) {
		due, unread, err := s.workers.Due(ctx, shard, p)
		failed = errors.Join(failed, unread)
		return due, err
	}, func(due []workers.Transition) error {
		failed = errors.Join(failed, each(due))
		return ctx.Err()
	})
	err = errors.Join(failed, err)
	return next == "" && err == nil, err
}

// dueSchedules calls each for every page of a shard's due schedules.
func (s *sweeper) dueSchedules(ctx context.Context, shard int, each func([]firing) error) (complete bool, err error) {
	next, _, err := readPages(workflow.Page{Limit: schedulePageSize}, maxPages, func(p workflow.Page) (workflow.List[firing], error) {
		return s.schedules.due(ctx, shard, p)
	}, each)
	return next == "" && err == nil, err
}

// readPages reads up to limit pages and calls each for those that are not empty. next is the token
// of the page after them, "" at the end; left is how many more pages it could have read.
func readPages[T any](page workflow.Page, limit int, read func(workflow.Page) (workflow.List[T], error), each func([]T) error) (next string, left int, err error) {
	for left = limit; left > 0; {
		due, err := read(page)
		if err != nil {
			return page.Token, left, err
		}
		left--
		if len(due.Items) > 0 {
			if err := each(due.Items); err != nil {
				return page.Token, left, err
			}
		}
		if page.Token = due.NextToken; page.Token == "" {
			break
		}
	}
	return page.Token, left, nil
}

// sendWakeups sends wake-ups to due executions, except those sent a short time ago. If the queue is
// behind, it sends only a few to stuck executions. It counts stuck executions first, so that they
// are counted even if nothing is sent.
func (s *sweeper) sendWakeups(ctx context.Context, n, stuck *int) func([]workflow.Wakeup) error {
	return func(due []workflow.Wakeup) error {
		for i := range due {
			due[i].Reason, due[i].OfTimer = "timer", true
			if isStuck(due[i], s.now()) {
				*stuck++
			}
		}
		due = s.sent.unsent(due)
		if s.depth.read(ctx, s.ports.Sender) > maxQueuedWakeups {
			// A queue that stays behind must not keep timers from firing for ever.
			due = slices.DeleteFunc(due, func(w workflow.Wakeup) bool { return !isStuck(w, s.now()) })
			due = due[:min(len(due), max(0, maxStuckPerSweep-*n))]
		}
		if len(due) == 0 {
			return nil
		}
		if err := s.ports.Sender.SendWakeups(ctx, 0, due...); err != nil {
			return err
		}
		s.sent.add(due, s.now())
		*n += len(due)
		return nil
	}
}

// maxStuckPerSweep bounds how many stuck executions of a shard a sweep wakes while the queue is
// behind.
const maxStuckPerSweep = 10

// isStuck reports whether an execution has been due for too long.
func isStuck(w workflow.Wakeup, now time.Time) bool {
	return now.Sub(w.DueAt) > topology.StuckAfterSeconds*time.Second
}

// applyTransitions writes the state changes of workers. A failure of one does not stop the others.
func (s *sweeper) applyTransitions(ctx context.Context, n *int) func([]workers.Transition) error {
	return func(due []workers.Transition) (failed error) {
		for _, t := range due {
			changed, err := s.workers.Apply(ctx, s.ports.Sender, t)
			if err != nil {
				failed = errors.Join(failed, err)
			}
			if changed {
				*n++
			}
		}
		return failed
	}
}

// fireSchedules starts the executions of due schedules.
func (s *sweeper) fireSchedules(ctx context.Context, n *int) func([]firing) error {
	return func(due []firing) error {
		fired, err := s.schedules.fireAll(ctx, due)
		*n += fired
		return err
	}
}
