package calendar

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

// Starter creates runs.
type Starter interface {
	// Fire creates the run of a schedule under an id, unless it exists, and has it
	// driven by whoever looks at it. A run that can never be created is an error
	// with CodeInvalid, CodeNotFound or CodeTooLarge.
	Fire(ctx context.Context, s spec.Schedule, id string) error
}

// Calendar fires what is due.
type Calendar struct {
	Schedules port.Schedules
	Store     port.Store
	Starter   Starter
	Now       func() time.Time
	Log       *slog.Logger
	Parallel  int   // schedules fired at a time
	Floor     int64 // of the tokens of locks
}

// Moment is what comes of a schedule that is due, as it was read.
type Moment struct {
	Schedule spec.Schedule
	At       time.Time // the moment that has come
	Begun    bool      // somebody has named it, and may have died before it had its run
	Skipped  bool      // it gets no run: the last one has not ended

	floor int64
}

// Run is the id of the run of the moment.
func (m Moment) Run() string { return ID(m.Schedule.Tenant, m.Schedule.Name, m.At, m.floor) }

// Due reads a page of the schedules of one shard that are due, and changes nothing.
// One that cannot be read keeps no other from being; the next sweep tries it again.
func (c *Calendar) Due(ctx context.Context, shard int, p workflow.Page) (workflow.List[Moment], error) {
	due, err := c.Schedules.DueSchedules(ctx, shard, c.Now(), p)
	list := workflow.List[Moment]{Next: due.Next}
	if err != nil {
		return list, err
	}
	found := make([]*Moment, len(due.Items))
	err = parallel.Each(ctx, c.Parallel, len(due.Items), func(ctx context.Context, i int) error {
		one := due.Items[i]
		var err error
		if found[i], err = c.moment(ctx, one.Tenant, one.Name); err != nil {
			c.complain(ctx, one, err)
		}
		return nil
	})
	for _, m := range found {
		if m != nil {
			list.Items = append(list.Items, *m)
		}
	}
	return list, err
}

func (c *Calendar) complain(ctx context.Context, s spec.Schedule, err error) {
	c.Log.LogAttrs(ctx, slog.LevelWarn, "cannot fire a schedule; the next sweep tries again",
		slog.String(observe.Tenant, s.Tenant), slog.String("schedule", s.Name), observe.Err(err))
}

// moment says what comes of a schedule now, nil if it is not due.
func (c *Calendar) moment(ctx context.Context, tenant, name string) (*Moment, error) {
	s, err := c.Schedules.Schedule(ctx, tenant, name)
	now := c.Now()
	if err != nil || s.Cron == nil || s.NextAt.IsZero() || s.NextAt.After(now) {
		return nil, err
	}
	if !s.Firing.IsZero() {
		m := &Moment{Schedule: s, At: s.Firing, floor: c.Floor}
		m.Begun, err = c.begun(ctx, m)
		return m, err
	}
	at, err := latest(s.Cron, s.NextAt, now)
	if err != nil {
		return nil, err
	}
	busy, err := c.busy(ctx, s)
	if err != nil {
		return nil, err
	}
	return &Moment{Schedule: s, At: at, Skipped: busy, floor: c.Floor}, nil
}

// begun reports whether a moment that has been named is to have the run that was
// named with it: it is, unless the tables were restored since and there is no such run.
func (c *Calendar) begun(ctx context.Context, m *Moment) (bool, error) {
	if m.Schedule.Last == m.Run() {
		return true, nil
	}
	heads, err := c.Store.Heads(ctx, m.Schedule.Tenant, []string{m.Schedule.Last})
	return heads[m.Schedule.Last].State != "", err
}

// FireAll fires moments, some at a time, and counts the runs that were started. One
// that cannot be fired now keeps no other from it; the next sweep tries it again.
func (c *Calendar) FireAll(ctx context.Context, all []Moment) (fired int, err error) {
	started := make([]bool, len(all))
	err = parallel.Each(ctx, c.Parallel, len(all), func(ctx context.Context, i int) error {
		var err error
		if started[i], err = c.Fire(ctx, all[i]); err != nil {
			c.complain(ctx, all[i].Schedule, err)
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

// Fire gives a moment its run, or records why there is none. It reports whether it
// has started one; whoever loses a race leaves the rest to the winner, and to the
// next sweep.
func (c *Calendar) Fire(ctx context.Context, m Moment) (started bool, err error) {
	s := m.Schedule
	switch {
	case m.Skipped:
		s.SkippedAt, s.Skipped = m.At, s.Skipped+1
		_, err := c.advance(ctx, s, m.At)
		return false, err
	case !m.Begun:
		s.Firing, s.Last, s.LastAt, s.Why = m.At, m.Run(), m.At, ""
		if ok, err := c.Schedules.PutSchedule(ctx, s); err != nil || !ok {
			return false, err
		}
		s.Version++
	}
	switch err := c.Starter.Fire(ctx, s, s.Last); workflow.CodeOf(err) {
	case workflow.CodeInvalid, workflow.CodeNotFound, workflow.CodeTooLarge:
		s.Why = err.Error()
	default:
		if err != nil {
			return false, err
		}
		started = true
	}
	s.Firing = time.Time{}
	_, err = c.advance(ctx, s, m.At)
	return started, err
}

// busy reports whether the schedule's last run keeps it from starting another.
func (c *Calendar) busy(ctx context.Context, s spec.Schedule) (bool, error) {
	if s.Cron.Concurrency || s.Last == "" {
		return false, nil
	}
	heads, err := c.Store.Heads(ctx, s.Tenant, []string{s.Last})
	state := heads[s.Last].State
	return state != "" && !statemachines.Terminal(state), err
}

// advance writes the schedule with the moment that follows. One that never comes
// again is not due any more.
func (c *Calendar) advance(ctx context.Context, s spec.Schedule, at time.Time) (bool, error) {
	next, err := definition.NextRun(s.Cron, at)
	if err != nil {
		next = time.Time{}
	}
	s.NextAt = next
	return c.Schedules.PutSchedule(ctx, s)
}
