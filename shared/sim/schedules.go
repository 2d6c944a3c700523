package sim

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// scheduleItems holds the schedules of a world by tenant and name. The world's mutex guards it.
type scheduleItems map[[2]string]spec.Schedule

// Schedules stores schedules. It is part of a View.
type Schedules struct {
	caller *conn
	items  scheduleItems
	shards int
}

// Schedule reads a schedule, strongly consistent.
func (s *Schedules) Schedule(_ context.Context, tenant, name string) (found spec.Schedule, err error) {
	err = s.caller.Do("schedules.schedule", func() error {
		found = clone(s.items[[2]string{tenant, name}])
		found.Tenant, found.Name = tenant, name
		return nil
	})
	return found, err
}

// PutSchedule replaces the schedule if its version is still next.Version.
func (s *Schedules) PutSchedule(_ context.Context, next spec.Schedule) (ok bool, err error) {
	err = s.caller.Do("schedules.put", func() error {
		key := [2]string{next.Tenant, next.Name}
		old := s.items[key]
		if ok = old.Version == next.Version; ok {
			next := clone(next)
			next.Version++
			s.items[key] = next
			if s.caller.w.Observer != nil {
				s.caller.w.Observer.ScheduleWritten(old, next)
			}
		}
		return nil
	})
	return ok, err
}

// Schedules lists a tenant's active schedules.
func (s *Schedules) Schedules(_ context.Context, tenant string, page workflow.Page) (list workflow.List[spec.Schedule], err error) {
	err = s.caller.Do("schedules.list", func() error {
		list, err = paginateKeyed(s.sorted(func(one spec.Schedule) (string, bool) {
			return one.Name, one.Tenant == tenant && one.Cron != nil
		}), page)
		return err
	})
	return list, err
}

// DueSchedules lists schedules of one shard whose next fire time is not after now.
func (s *Schedules) DueSchedules(_ context.Context, shard int, now time.Time, page workflow.Page) (list workflow.List[spec.Schedule], err error) {
	err = s.caller.Do("schedules.due", func() error {
		list, err = paginateKeyed(s.sorted(func(one spec.Schedule) (string, bool) {
			h := fnv.New32a()
			h.Write([]byte(one.Tenant + "#" + one.Name))
			due := !one.NextAt.IsZero() && !one.NextAt.After(now) && int(h.Sum32()%uint32(s.shards)) == shard
			return fmt.Sprintf("%015d %s %s", one.NextAt.UnixMilli(), one.Tenant, one.Name), due
		}), page)
		for i, one := range list.Items {
			list.Items[i] = spec.Schedule{Tenant: one.Tenant, Name: one.Name}
		}
		return err
	})
	return list, err
}

// sorted returns the schedules that want selects, in the order of the keys it returns.
func (s *Schedules) sorted(want func(spec.Schedule) (at string, ok bool)) (all []keyed[spec.Schedule]) {
	for _, one := range s.items {
		if at, ok := want(one); ok {
			all = append(all, keyed[spec.Schedule]{at, clone(one)})
		}
	}
	slices.SortFunc(all, func(a, b keyed[spec.Schedule]) int { return cmp.Compare(a.key, b.key) })
	return all
}
