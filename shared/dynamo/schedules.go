package dynamo

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// A tenant's schedules are one partition. The sparse index holds those that have a next fire time.
// So a schedule is one item, and the same write moves it in the index.
func schedulesKey(tenant string) string { return table.TenantPrefix(tenant) + "schedules" }

// attrEnabled marks a schedule that is not off.
const attrEnabled = "enabled"

// Schedule reads a schedule, strongly consistent.
func (r *Registry) Schedule(ctx context.Context, tenant, name string) (spec.Schedule, error) {
	it, err := r.t.Get(ctx, table.Key{PK: schedulesKey(tenant), SK: name})
	if err != nil || it == nil {
		return spec.Schedule{Tenant: tenant, Name: name}, err
	}
	return scheduleOf(it)
}

// PutSchedule replaces the schedule if its version is still the one given.
func (r *Registry) PutSchedule(ctx context.Context, s spec.Schedule) (bool, error) {
	s.Version++
	more := table.Item{}
	if s.Cron != nil {
		more[attrEnabled] = table.True()
	}
	if due := topology.IndexScheduled; !s.NextAt.IsZero() {
		more[due.Partition], more[due.Sort] = dueShard(s.Tenant+"#"+s.Name), table.N(s.NextAt.UnixMilli())
	}
	ok, _, err := putRevised(ctx, r.t, table.Key{PK: schedulesKey(s.Tenant), SK: s.Name}, s.Version, s, more)
	return ok, err
}

// Schedules lists a tenant's schedules that are not off, ordered by name.
func (r *Registry) Schedules(ctx context.Context, tenant string, page workflow.Page) (workflow.List[spec.Schedule], error) {
	after, err := decodePageToken(page)
	if err != nil {
		return workflow.List[spec.Schedule]{}, err
	}
	rows := r.t.Query(ctx, partitionQuery(schedulesKey(tenant), after, pageLimit(page)))
	enabled := filter(rows, func(it table.Item) bool { return it.Has(attrEnabled) })
	return collectPage(enabled, pageLimit(page), scheduleOf)
}

func scheduleOf(it table.Item) (s spec.Schedule, err error) {
	return s, decodeDocument(it, &s)
}

// DueSchedules lists the schedules of one shard whose next fire time is not after
// now. Only Tenant and Name are set.
func (r *Registry) DueSchedules(ctx context.Context, shard int, now time.Time, page workflow.Page) (workflow.List[spec.Schedule], error) {
	return listDue(ctx, r.t, topology.IndexScheduled, shard, time.Time{}, now, page, func(it table.Item) spec.Schedule {
		tenant, _ := table.SplitTenant(it.Key().PK)
		return spec.Schedule{Tenant: tenant, Name: it.Key().SK}
	})
}
