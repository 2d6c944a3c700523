package sweep

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/calendar"
	"github.com/lockstep-run/lockstep/shared/engine/roster"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// planned bounds what a plan lists of each kind.
const planned = 200

// Plan says what a sweep would do now, with what is a tenant's or, with "", with
// everything. It reads what a sweep reads, by the same rules, and writes and sends
// nothing.
func Plan(ctx context.Context, e *engine.Engine, silence roster.Silence, shards int, tenant string) (views.SweepView, error) {
	s := newSweeper(e, silence)
	v := views.SweepView{AsOf: s.now().UTC(), Complete: true}
	var mu sync.Mutex
	err := everywhere(ctx, e.Parallel, shards, func(ctx context.Context, kind, shard int) (err error) {
		ours := func(of string) bool { return tenant == "" || of == tenant }
		var complete bool
		switch kind {
		case 0:
			complete, err = s.alarms(ctx, shard, func(due []workflow.Look) error {
				rung, err := s.rung(ctx, slices.DeleteFunc(due, func(l workflow.Look) bool { return !ours(l.Tenant) }))
				mu.Lock()
				defer mu.Unlock()
				v.Executions = append(v.Executions, rung...)
				return err
			})
		case 1:
			complete, err = s.silent(ctx, shard, func(due []roster.Judgement) error {
				mu.Lock()
				defer mu.Unlock()
				for _, j := range due {
					if ours(j.Seen.Tenant) && j.Moves() {
						v.Workers = append(v.Workers, views.DueWorker{Worker: j.Seen.ID, State: j.Seen.State, Becomes: j.Next.State, Since: j.Seen.Heard})
					}
				}
				return nil
			})
		default:
			complete, err = s.moments(ctx, shard, func(due []calendar.Moment) error {
				mu.Lock()
				defer mu.Unlock()
				for _, m := range due {
					if ours(m.Schedule.Tenant) {
						v.Schedules = append(v.Schedules, moment(m))
					}
				}
				return nil
			})
		}
		mu.Lock()
		defer mu.Unlock()
		v.Complete = v.Complete && complete
		return err
	})
	slices.SortFunc(v.Executions, func(a, b views.DueExecution) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Execution, b.Execution))
	})
	slices.SortFunc(v.Workers, func(a, b views.DueWorker) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Worker, b.Worker))
	})
	slices.SortFunc(v.Schedules, func(a, b views.DueSchedule) int {
		return cmp.Or(a.Moment.Compare(b.Moment), cmp.Compare(a.Schedule, b.Schedule))
	})
	v.Executions, v.Workers, v.Schedules = first(v.Executions, &v), first(v.Workers, &v), first(v.Schedules, &v)
	return v, err
}

func first[T any](all []T, v *views.SweepView) []T {
	if len(all) > planned {
		v.Complete = false
		return all[:planned]
	}
	return all
}

// rung are the executions whose alarm has rung as they stand: the index, from which
// a sweep sends its looks, knows neither their state nor, perhaps, their newest
// alarm. A look at one whose alarm has moved changes nothing.
func (s *sweeper) rung(ctx context.Context, looks []workflow.Look) (all []views.DueExecution, err error) {
	ids := map[string][]string{}
	for _, l := range looks {
		ids[l.Tenant] = append(ids[l.Tenant], l.Execution)
	}
	for tenant, of := range ids {
		found, err := s.ports.Store.LoadMany(ctx, tenant, of)
		if err != nil {
			return all, err
		}
		for _, x := range found {
			if !x.DueAt.IsZero() && !x.DueAt.After(s.now()) {
				all = append(all, views.DueExecution{Execution: x.ID, State: x.State, Since: x.DueAt})
			}
		}
	}
	return all, nil
}

func moment(m calendar.Moment) views.DueSchedule {
	v := views.DueSchedule{Schedule: m.Schedule.Name, Moment: m.At, Skipped: m.Skipped}
	if !m.Skipped {
		id := m.Run()
		v.Run = &id
	}
	return v
}
