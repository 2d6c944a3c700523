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

// maxPlanned bounds the items of each kind in a plan.
const maxPlanned = 200

// PlanSweep reports what a sweep would do now for one tenant, or for all tenants if tenant is "".
// It makes the same reads by the same rules as Sweep, and neither writes nor sends anything.
func PlanSweep(ctx context.Context, e *engine.Engine, timeouts workers.LivenessTimeouts, shards int, tenant string) (views.SweepView, error) {
	s := newSweeper(e, timeouts)
	v := views.SweepView{AsOf: s.now().UTC(), Complete: true}
	var mu sync.Mutex
	err := forEachShard(ctx, e.Parallelism, shards, func(ctx context.Context, kind, shard int) (err error) {
		matchesTenant := func(t string) bool { return tenant == "" || t == tenant }
		var complete bool
		switch kind {
		case 0:
			complete, err = s.dueExecutions(ctx, shard, func(due []workflow.Wakeup) error {
				found, err := s.dueExecutionViews(ctx, slices.DeleteFunc(due, func(w workflow.Wakeup) bool { return !matchesTenant(w.Tenant) }))
				mu.Lock()
				defer mu.Unlock()
				v.Executions = append(v.Executions, found...)
				return err
			})
		case 1:
			complete, err = s.dueWorkers(ctx, shard, func(due []workers.Transition) error {
				mu.Lock()
				defer mu.Unlock()
				for _, t := range due {
					if matchesTenant(t.Seen.Tenant) && t.ChangesState() {
						v.Workers = append(v.Workers, views.DueWorker{Worker: t.Seen.ID, State: t.Seen.State, NextState: t.Next.State, Since: timeouts.DueSince(*t.Seen)})
					}
				}
				return nil
			})
		default:
			complete, err = s.dueSchedules(ctx, shard, func(due []firing) error {
				mu.Lock()
				defer mu.Unlock()
				for _, f := range due {
					if matchesTenant(f.schedule.Tenant) {
						v.Schedules = append(v.Schedules, dueScheduleView(f))
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

// truncate cuts a list to maxPlanned items, and marks the plan incomplete if it does.
func truncate[T any](all []T, v *views.SweepView) []T {
	if len(all) > maxPlanned {
		v.Complete = false
		return all[:maxPlanned]
	}
	return all
}

// dueExecutionViews reads the executions to be woken, and leaves out those whose timer is not due.
// The index from which a sweep sends its wake-ups does not contain their states, and may lag behind
// their timers; a wake-up for a timer that has moved changes nothing. For an execution of a newer
// version, only the index tells since when it is due.
func (s *sweeper) dueExecutionViews(ctx context.Context, wakeups []workflow.Wakeup) (all []views.DueExecution, err error) {
	ids, listed := map[string][]string{}, map[string]workflow.Wakeup{}
	for _, w := range wakeups {
		ids[w.Tenant] = append(ids[w.Tenant], w.Execution)
		listed[w.Execution] = w
	}
	for tenant, executions := range ids {
		found, newer, err := s.ports.Store.LoadMany(ctx, tenant, executions)
		if err != nil {
			return all, err
		}
		if len(newer) > 0 {
			heads, err := s.ports.Store.Heads(ctx, tenant, newer)
			if err != nil {
				return all, err
			}
			for _, id := range newer {
				found = append(found, &workflow.Execution{ID: id, State: heads[id].State, DueAt: listed[id].DueAt})
			}
		}
		for _, x := range found {
			if !x.DueAt.IsZero() && !x.DueAt.After(s.now()) {
				all = append(all, views.DueExecution{Execution: x.ID, State: x.State, Since: x.DueAt})
			}
		}
	}
	return all, nil
}

func dueScheduleView(f firing) views.DueSchedule {
	v := views.DueSchedule{Schedule: f.schedule.Name, FireTime: f.fireTime, Skipped: f.skipped}
	if !f.skipped {
		id := f.executionID()
		v.ExecutionID = &id
	}
	return v
}
