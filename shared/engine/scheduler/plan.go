package scheduler

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/lockstep-run/lockstep/shared/engine"

	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxPlanned bounds what a plan lists of each kind.
const maxPlanned = 200

// PlanSweep says what a sweep would do now, with what is a tenant's or, with "", with
// everything. It reads what a sweep reads, by the same rules, and writes and sends
// nothing.
func PlanSweep(ctx context.Context, e *engine.Engine, timeouts workers.LivenessTimeouts, shards int, tenant string) (views.SweepView, error) {
	s := newSweeper(e, timeouts)
	v := views.SweepView{AsOf: s.now().UTC(), Complete: true}
	var mu sync.Mutex
	err := forEachShard(ctx, e.Parallelism, shards, func(ctx context.Context, kind, shard int) (err error) {
		matchesTenant := func(of string) bool { return tenant == "" || of == tenant }
		var complete bool
		switch kind {
		case 0:
			complete, err = s.dueExecutions(ctx, shard, func(due []workflow.Wakeup) error {
				rung, err := s.dueExecutionViews(ctx, slices.DeleteFunc(due, func(l workflow.Wakeup) bool { return !matchesTenant(l.Tenant) }))
				mu.Lock()
				defer mu.Unlock()
				v.Executions = append(v.Executions, rung...)
				return err
			})
		case 1:
			complete, err = s.dueWorkers(ctx, shard, func(due []workers.Transition) error {
				mu.Lock()
				defer mu.Unlock()
				for _, j := range due {
					if matchesTenant(j.Seen.Tenant) && j.ChangesState() {
						v.Workers = append(v.Workers, views.DueWorker{Worker: j.Seen.ID, State: j.Seen.State, NextState: j.Next.State, Since: j.Seen.LastSeenAt})
					}
				}
				return nil
			})
		default:
			complete, err = s.dueSchedules(ctx, shard, func(due []firing) error {
				mu.Lock()
				defer mu.Unlock()
				for _, m := range due {
					if matchesTenant(m.schedule.Tenant) {
						v.Schedules = append(v.Schedules, dueScheduleView(m))
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
		return cmp.Or(a.FireTime.Compare(b.FireTime), cmp.Compare(a.Schedule, b.Schedule))
	})
	v.Executions, v.Workers, v.Schedules = truncate(v.Executions, &v), truncate(v.Workers, &v), truncate(v.Schedules, &v)
	return v, err
}

func truncate[T any](all []T, v *views.SweepView) []T {
	if len(all) > maxPlanned {
		v.Complete = false
		return all[:maxPlanned]
	}
	return all
}

// dueExecutionViews are the executions whose alarm has rung as they stand: the index, from which
// a sweep sends its looks, knows neither their state nor, perhaps, their newest
// alarm. A look at one whose alarm has moved changes nothing.
func (s *sweeper) dueExecutionViews(ctx context.Context, wakeups []workflow.Wakeup) (all []views.DueExecution, err error) {
	ids := map[string][]string{}
	for _, l := range wakeups {
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

func dueScheduleView(m firing) views.DueSchedule {
	v := views.DueSchedule{Schedule: m.schedule.Name, FireTime: m.fireTime, Skipped: m.skipped}
	if !m.skipped {
		id := m.executionID()
		v.ExecutionID = &id
	}
	return v
}
