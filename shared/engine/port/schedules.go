package port

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Schedules keeps the schedules of workflows, one for each workflow of a tenant.
type Schedules interface {
	// Schedule is a strongly consistent read; one that was never written has
	// Version 0 and nothing but its names.
	Schedule(ctx context.Context, tenant, name string) (spec.Schedule, error)

	// PutSchedule replaces the schedule if its version is still s.Version; the new
	// one is s.Version+1. A reply that is lost may make ok false although the
	// schedule was written.
	PutSchedule(ctx context.Context, s spec.Schedule) (ok bool, err error)

	// Schedules lists a tenant's schedules that are not off, in order of name.
	Schedules(ctx context.Context, tenant string, page workflow.Page) (workflow.List[spec.Schedule], error)

	// DueSchedules lists schedules of one shard whose next moment has come by now,
	// the oldest first, from the index, which may lag behind. Only Tenant and Name
	// are set.
	DueSchedules(ctx context.Context, shard int, now time.Time, page workflow.Page) (workflow.List[spec.Schedule], error)
}
