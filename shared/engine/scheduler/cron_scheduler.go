package scheduler

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	"github.com/lockstep-run/lockstep/statemachines"
)

// executionStarter creates runs.
type executionStarter interface {
	// StartScheduled creates the run of a schedule under an id, unless it exists, and has it
	// driven by whoever looks at it. A run that can never be created is an error
	// with CodeInvalid, CodeNotFound or CodeTooLarge.
	StartScheduled(ctx context.Context, s spec.Schedule, id string) error
}

// cronScheduler fires what is due.
type cronScheduler struct {
	Schedules       port.Schedules
	Store           port.Store
	Starter         executionStarter
	Now             func() time.Time
	Log             *slog.Logger
	Parallel        int   // schedules fired at a time
	MinFencingToken int64 // of the tokens of locks
}

// firing is what comes of a schedule that is due, as it was read.
type firing struct {
	schedule spec.Schedule
	fireTime time.Time // the moment that has come
	recorded bool      // somebody has named it, and may have died before it had its run
	skipped  bool      // it gets no run: the last one has not ended

	minFencingToken int64
}

// executionID is the id of the run of the moment.
func (m firing) executionID() string {
	return ExecutionID(m.schedule.Tenant, m.schedule.Name, m.fireTime, m.minFencingToken)
}

// due reads a page of the schedules of one shard that are due, and changes nothing.
// One that cannot be read keeps no other from being; the next sweep tries it again.
func (c *cronScheduler) due(ctx context.Context, shard int, p workflow.Page) (workflow.List[firing], error) {
	due, err := c.Schedules.DueSchedules(ctx, shard, c.Now(), p)
	list := workflow.List[firing]{NextToken: due.NextToken}
	if err != nil {
		return list, err
	}
	evaluated := make([]*firing, len(due.Items))
	err = parallel.Each(ctx, c.Parallel, len(due.Items), func(ctx context.Context, i int) error {
		one := due.Items[i]
		var err error
		if evaluated[i], err = c.evaluate(ctx, one.Tenant, one.Name); err != nil {
			c.logFailure(ctx, one, err)
		}
		return nil
	})
	for _, m := range evaluated {
		if m != nil {
			list.Items = append(list.Items, *m)
		}
	}
	return list, err
}

func (c *cronScheduler) logFailure(ctx context.Context, s spec.Schedule, err error) {
	c.Log.LogAttrs(ctx, slog.LevelWarn, "cannot fire a schedule; the next sweep tries again",
		slog.String(observe.Tenant, s.Tenant), slog.String("schedule", s.Name), observe.Err(err))
}

// evaluate says what comes of a schedule now, nil if it is not due.
func (c *cronScheduler) evaluate(ctx context.Context, tenant, name string) (*firing, error) {
	s, err := c.Schedules.Schedule(ctx, tenant, name)
	now := c.Now()
	if err != nil || s.Cron == nil || s.NextAt.IsZero() || s.NextAt.After(now) {
		return nil, err
	}
	if !s.FiringAt.IsZero() {
		m := &firing{schedule: s, fireTime: s.FiringAt, minFencingToken: c.MinFencingToken}
		m.recorded, err = c.isRecorded(ctx, m)
		return m, err
	}
	at, err := latestFireTime(s.Cron, s.NextAt, now)
	if err != nil {
		return nil, err
	}
	busy, err := c.lastIsActive(ctx, s)
	if err != nil {
		return nil, err
	}
	return &firing{schedule: s, fireTime: at, skipped: busy, minFencingToken: c.MinFencingToken}, nil
}

// isRecorded reports whether a moment that has been named is to have the run that was
// named with it: it is, unless the tables were restored since and there is no such run.
func (c *cronScheduler) isRecorded(ctx context.Context, m *firing) (bool, error) {
	if m.schedule.LastExecution == m.executionID() {
		return true, nil
	}
	heads, err := c.Store.Heads(ctx, m.schedule.Tenant, []string{m.schedule.LastExecution})
	return heads[m.schedule.LastExecution].State != "", err
}

// fireAll fires moments, some at a time, and counts the runs that were started. One
// that cannot be fired now keeps no other from it; the next sweep tries it again.
func (c *cronScheduler) fireAll(ctx context.Context, all []firing) (fired int, err error) {
	started := make([]bool, len(all))
	err = parallel.Each(ctx, c.Parallel, len(all), func(ctx context.Context, i int) error {
		var err error
		if started[i], err = c.fire(ctx, all[i]); err != nil {
			c.logFailure(ctx, all[i].schedule, err)
		}
		return nil
	})
	for _, is := range started {
		if is {
			fired++
		}
	}
	return fired, err
}

// fire gives a moment its run, or records why there is none. It reports whether it
// has started one; whoever loses a race leaves the rest to the winner, and to the
// next sweep.
func (c *cronScheduler) fire(ctx context.Context, m firing) (started bool, err error) {
	s := m.schedule
	switch {
	case m.skipped:
		s.SkippedAt, s.SkippedCount = m.fireTime, s.SkippedCount+1
		_, err := c.setNextFireTime(ctx, s, m.fireTime)
		return false, err
	case !m.recorded:
		s.FiringAt, s.LastExecution, s.LastAt, s.Problem = m.fireTime, m.executionID(), m.fireTime, ""
		if ok, err := c.Schedules.PutSchedule(ctx, s); err != nil || !ok {
			return false, err
		}
		s.Version++
	}
	switch err := c.Starter.StartScheduled(ctx, s, s.LastExecution); workflow.CodeOf(err) {
	case workflow.CodeInvalid, workflow.CodeNotFound, workflow.CodeTooLarge:
		s.Problem = err.Error()
	default:
		if err != nil {
			return false, err
		}
		started = true
	}
	s.FiringAt = time.Time{}
	_, err = c.setNextFireTime(ctx, s, m.fireTime)
	return started, err
}

// lastIsActive reports whether the schedule's last run keeps it from starting another.
func (c *cronScheduler) lastIsActive(ctx context.Context, s spec.Schedule) (bool, error) {
	if s.Cron.Concurrency || s.LastExecution == "" {
		return false, nil
	}
	heads, err := c.Store.Heads(ctx, s.Tenant, []string{s.LastExecution})
	state := heads[s.LastExecution].State
	return state != "" && !statemachines.Terminal(state), err
}

// setNextFireTime writes the schedule with the moment that follows. One that never comes
// again is not due any more.
func (c *cronScheduler) setNextFireTime(ctx context.Context, s spec.Schedule, at time.Time) (bool, error) {
	next, err := definition.NextFireTime(s.Cron, at)
	if err != nil {
		next = time.Time{}
	}
	s.NextAt = next
	return c.Schedules.PutSchedule(ctx, s)
}
