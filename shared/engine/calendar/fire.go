package calendar

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/engine/port"
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
	Parallel  int // schedules fired at a time
}

// page is how many due schedules one read of the index returns, pages how many
// reads one sweep makes of a shard: the next sweep goes on.
const page, pages = 50, 20

// Sweep fires the schedules of one shard that are due. One that cannot be fired
// now keeps no other from it; the next sweep tries it again.
func (c *Calendar) Sweep(ctx context.Context, shard int) (fired int, err error) {
	p := workflow.Page{Limit: page}
	for range pages {
		due, err := c.Schedules.DueSchedules(ctx, shard, c.Now(), p)
		if err != nil {
			return fired, err
		}
		started := make([]bool, len(due.Items))
		err = parallel.Each(ctx, c.Parallel, len(due.Items), func(ctx context.Context, i int) error {
			one := due.Items[i]
			var err error
			if started[i], err = c.Fire(ctx, one.Tenant, one.Name); err != nil {
				c.Log.LogAttrs(ctx, slog.LevelWarn, "cannot fire a schedule; the next sweep tries again",
					slog.String("tenant", one.Tenant), slog.String("schedule", one.Name), slog.Any("error", err))
			}
			return nil
		})
		if err != nil {
			return fired, err
		}
		for _, is := range started {
			if is {
				fired++
			}
		}
		if p.Token = due.Next; p.Token == "" {
			break
		}
	}
	return fired, nil
}

// Fire gives a schedule that is due its run, or records why there is none. It
// reports whether it has started one; whoever loses a race leaves the rest to the
// winner, and to the next sweep.
func (c *Calendar) Fire(ctx context.Context, tenant, name string) (started bool, err error) {
	s, err := c.Schedules.Schedule(ctx, tenant, name)
	now := c.Now()
	if err != nil || s.Cron == nil || s.NextAt.IsZero() || s.NextAt.After(now) {
		return false, err
	}
	if s.Firing.IsZero() {
		at, err := latest(s.Cron, s.NextAt, now)
		if err != nil {
			return false, err
		}
		busy, err := c.busy(ctx, s)
		if err != nil {
			return false, err
		}
		if busy {
			s.SkippedAt, s.Skipped = at, s.Skipped+1
			_, err := c.advance(ctx, s, at)
			return false, err
		}
		s.Firing, s.Last, s.LastAt, s.Why = at, ID(tenant, name, at), at, ""
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
	at := s.Firing
	s.Firing = time.Time{}
	_, err = c.advance(ctx, s, at)
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
