package sim

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// scheduleCaller makes one call of a world: perform is its whole effect.
type scheduleCaller interface {
	Do(name string, perform func() error) error
}

// scheduleItems is the schedules of a world, by tenant and name. Its world guards it.
type scheduleItems map[[2]string]spec.Schedule

// Schedules is the book as one piece of work sees it.
type Schedules struct {
	caller scheduleCaller
	items  scheduleItems
	shards int
}

// Schedule is a strongly consistent read.
func (s *Schedules) Schedule(_ context.Context, tenant, name string) (found spec.Schedule, err error) {
	err = s.caller.Do("schedules.schedule", func() error {
		found = clone(s.items[[2]string{tenant, name}])
		found.Tenant, found.Name = tenant, name
		return nil
	})
	return found, err
}

// PutSchedule replaces the schedule if its version is still the one given.
func (s *Schedules) PutSchedule(_ context.Context, next spec.Schedule) (ok bool, err error) {
	err = s.caller.Do("schedules.put", func() error {
		key := [2]string{next.Tenant, next.Name}
		if ok = s.items[key].Version == next.Version; ok {
			next := clone(next)
			next.Version++
			s.items[key] = next
		}
		return nil
	})
	return ok, err
}

// Schedules lists a tenant's schedules that are not off.
func (s *Schedules) Schedules(_ context.Context, tenant string, page workflow.Page) (list workflow.List[spec.Schedule], err error) {
	err = s.caller.Do("schedules.list", func() error {
		list, err = paginateSchedules(s.sorted(func(one spec.Schedule) (string, bool) {
			return one.Name, one.Tenant == tenant && one.Cron != nil
		}), page)
		return err
	})
	return list, err
}

// DueSchedules lists schedules of one shard whose next moment has come by now.
func (s *Schedules) DueSchedules(_ context.Context, shard int, now time.Time, page workflow.Page) (list workflow.List[spec.Schedule], err error) {
	err = s.caller.Do("schedules.due", func() error {
		list, err = paginateSchedules(s.sorted(func(one spec.Schedule) (string, bool) {
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

type sortedSchedule struct {
	key      string
	schedule spec.Schedule
}

// sorted is what a list wants, in its order.
func (s *Schedules) sorted(want func(spec.Schedule) (at string, ok bool)) (all []sortedSchedule) {
	for _, one := range s.items {
		if at, ok := want(one); ok {
			all = append(all, sortedSchedule{at, clone(one)})
		}
	}
	slices.SortFunc(all, func(a, b sortedSchedule) int { return cmp.Compare(a.key, b.key) })
	return all
}

func paginateSchedules(all []sortedSchedule, page workflow.Page) (list workflow.List[spec.Schedule], err error) {
	after, err := base64.RawURLEncoding.DecodeString(page.Token)
	if err != nil {
		return list, workflow.Errorf(workflow.CodeInvalid, "the page token is invalid: start again at the first page")
	}
	limit, last := cmp.Or(page.Limit, workflow.DefaultPageSize), ""
	for _, p := range all {
		if len(after) > 0 && p.key <= string(after) {
			continue
		}
		if len(list.Items) == limit {
			list.NextToken = base64.RawURLEncoding.EncodeToString([]byte(last))
			break
		}
		list.Items, last = append(list.Items, p.schedule), p.key
	}
	return list, nil
}
