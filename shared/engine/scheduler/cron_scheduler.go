package scheduler

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	"github.com/lockstep-run/lockstep/statemachines"
)

// executionStarter creates executions.
type executionStarter interface {
	// StartScheduled creates the execution of a schedule with the given id, unless it
	// exists, and sends its first wake-up. The error has CodeInvalid, CodeNotFound or
	// CodeTooLarge if the execution can never be created.
	StartScheduled(ctx context.Context, s spec.Schedule, id string) error
}

// cronScheduler fires due schedules.
type cronScheduler struct {
	Schedules       port.Schedules
	Store           port.Store
	Starter         executionStarter
	Now             func() time.Time
	Log             *slog.Logger
	Parallel        int   // schedules evaluated or fired at a time
	MinFencingToken int64 // every token is greater; part of the execution ids
}

// firing is a due schedule as read, with what to do about it.
type firing struct {
	schedule spec.Schedule
	fireTime time.Time // the latest fire time that has passed
	recorded bool      // stored as FiringAt by a sweep that may have crashed before it started the execution
	skipped  bool      // starts no execution, because the last one has not ended

	missed     int       // number of earlier fire times that were not handled, at most maxMissed
	lastMissed time.Time // the latest of them

	minFencingToken int64
}

// executionID returns the id of the execution that the fire time starts.
func (f firing) executionID() string {
	return ExecutionID(f.schedule.Tenant, f.schedule.Name, f.fireTime, f.minFencingToken)
}

// due reads a page of the due schedules of one shard, without writing. A schedule that cannot be
// read is logged and left out; the next sweep tries it again.
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
	for _, f := range evaluated {
		if f != nil {
			list.Items = append(list.Items, *f)
		}
	}
	return list, err
}

func (c *cronScheduler) logFailure(ctx context.Context, s spec.Schedule, err error) {
	c.Log.LogAttrs(ctx, slog.LevelWarn, "schedule not fired; the next sweep tries again",
		slog.String(observe.Tenant, s.Tenant), slog.String("schedule", s.Name), observe.Err(err))
}

// evaluate decides what to do about a schedule now. The result is nil if the schedule is not due.
func (c *cronScheduler) evaluate(ctx context.Context, tenant, name string) (*firing, error) {
	s, err := c.Schedules.Schedule(ctx, tenant, name)
	if err != nil {
		return nil, err
	}
	return c.evaluateLoaded(ctx, s)
}

// evaluateLoaded works like evaluate, for a schedule that has been read.
func (c *cronScheduler) evaluateLoaded(ctx context.Context, s spec.Schedule) (*firing, error) {
	now := c.Now()
	if s.Cron == nil || s.NextAt.IsZero() || s.NextAt.After(now) {
		return nil, nil
	}
	if !s.FiringAt.IsZero() {
		return c.begun(ctx, s)
	}
	at, err := latestFireTime(s.Cron, s.NextAt, now)
	if err != nil {
		return nil, err
	}
	busy, err := c.lastIsActive(ctx, s)
	if err != nil {
		return nil, err
	}
	f := &firing{schedule: s, fireTime: at, skipped: busy, minFencingToken: c.MinFencingToken}
	if f.missed = countMissed(s.Cron, s.NextAt, at); f.missed > 0 {
		f.lastMissed, err = latestFireTime(s.Cron, s.NextAt, at.Add(-time.Second))
	}
	return f, err
}

// begun returns what a schedule has begun and not finished.
func (c *cronScheduler) begun(ctx context.Context, s spec.Schedule) (*firing, error) {
	f := &firing{schedule: s, fireTime: s.FiringAt, minFencingToken: c.MinFencingToken}
	var err error
	f.recorded, err = c.isRecorded(ctx, f)
	return f, err
}

// isRecorded reports whether a stored fire time keeps the execution id that was stored with it. It
// does, unless the tables were restored since and that execution does not exist.
func (c *cronScheduler) isRecorded(ctx context.Context, f *firing) (bool, error) {
	if f.schedule.LastExecution == f.executionID() {
		return true, nil
	}
	heads, err := c.Store.Heads(ctx, f.schedule.Tenant, []string{f.schedule.LastExecution})
	return heads[f.schedule.LastExecution].State != "", err
}

// fireAll handles due schedules, Parallel at a time, and returns how many executions it has
// started. A failure is logged and does not stop the others; the next sweep tries again.
func (c *cronScheduler) fireAll(ctx context.Context, all []firing) (fired int, err error) {
	started := make([]bool, len(all))
	err = parallel.Each(ctx, c.Parallel, len(all), func(ctx context.Context, i int) error {
		var err error
		if started[i], err = c.fire(ctx, all[i]); err != nil {
			c.logFailure(ctx, all[i].schedule, err)
		}
		return nil
	})
	for _, ok := range started {
		if ok {
			fired++
		}
	}
	return fired, err
}

// fire starts the execution of a fire time, or records why there is none. It reports whether it has
// started one. If another sweep has changed the schedule in between, that sweep or the next one
// does the rest.
func (c *cronScheduler) fire(ctx context.Context, f firing) (started bool, err error) {
	s := f.schedule
	switch {
	case f.skipped:
		s.SkippedAt, s.SkippedCount = f.fireTime, s.SkippedCount+f.missed+1
		_, err := c.setNextFireTime(ctx, s, f.fireTime)
		return false, err
	case !f.recorded:
		s.Begin(spec.ScheduledStart{Execution: f.executionID(), At: f.fireTime})
		if f.missed > 0 {
			s.SkippedAt, s.SkippedCount = f.lastMissed, s.SkippedCount+f.missed
		}
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
	_, err = c.setNextFireTime(ctx, s, f.fireTime)
	return started, err
}

// lastIsActive reports whether the schedule's last execution prevents the next one.
func (c *cronScheduler) lastIsActive(ctx context.Context, s spec.Schedule) (bool, error) {
	if s.Cron.Concurrency || s.LastExecution == "" {
		return false, nil
	}
	heads, err := c.Store.Heads(ctx, s.Tenant, []string{s.LastExecution})
	state := heads[s.LastExecution].State
	return state != "" && !statemachines.Terminal(state), err
}

// setNextFireTime stores the schedule with the fire time that follows at. It stores none if there
// is no further one, or if the schedule is paused or removed.
func (c *cronScheduler) setNextFireTime(ctx context.Context, s spec.Schedule, at time.Time) (bool, error) {
	next, err := definition.NextFireTime(s.Cron, at)
	if err != nil || s.Paused != nil || s.Removed != nil {
		next = time.Time{}
	}
	if s.Removed != nil {
		s.Cron = nil
	}
	s.NextAt = next
	return c.Schedules.PutSchedule(ctx, s)
}

// ExecutionID returns the id of the execution that a schedule starts at a fire time: a UUIDv7 of
// the fire time in milliseconds. The other bits are a hash of the tenant, the schedule's name, the
// fire time and minFencingToken. So after a restore of the tables, the same fire time starts
// another execution, because devices may have seen jobs of the lost one.
func ExecutionID(tenant, name string, at time.Time, minFencingToken int64) string {
	ms := uint64(at.UnixMilli())
	text := tenant + "\x00" + name + "\x00" + at.UTC().Format(time.RFC3339Nano)
	if minFencingToken > 0 {
		text += "\x00" + strconv.FormatInt(minFencingToken, 10)
	}
	sum := sha256.Sum256([]byte(text))
	var id uuid.UUID
	copy(id[:], sum[:])
	binary.BigEndian.PutUint32(id[:4], uint32(ms>>16))
	binary.BigEndian.PutUint16(id[4:6], uint16(ms))
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// maxMissed bounds how many missed fire times are counted at a time. A schedule with seconds
// misses millions in a few weeks.
const maxMissed = 1000

// countMissed counts the fire times from next until before at, up to maxMissed.
func countMissed(c *spec.Cron, next, at time.Time) (n int) {
	for ; n < maxMissed && next.Before(at); n++ {
		following, err := definition.NextFireTime(c, next)
		if err != nil {
			return n + 1
		}
		next = following
	}
	return n
}

// latestFireTime returns the latest fire time of a schedule that is not after now. next is one that
// has passed. Of all missed fire times only the latest is made up for. The search goes back in
// growing steps, so that it is fast after a long pause.
func latestFireTime(c *spec.Cron, next, now time.Time) (time.Time, error) {
	for back := time.Second; now.Add(-back).After(next); back *= 2 {
		at, err := definition.NextFireTime(c, now.Add(-back))
		if err != nil {
			return next, err
		}
		if at.After(now) {
			continue
		}
		next = at
		break
	}
	for {
		at, err := definition.NextFireTime(c, next)
		if err != nil || at.After(now) {
			return next, nil //nolint:nilerr // an error means that no other fire time follows
		}
		next = at
	}
}
