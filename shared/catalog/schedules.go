package catalog

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Schedules lists the workflows that are started by the clock.
func (c *Catalog) Schedules(ctx context.Context, caller workflow.Caller, p workflow.Page) (workflow.List[spec.Schedule], error) {
	return c.openPorts().Schedules.Schedules(ctx, caller.Tenant, clampPage(p))
}

// maxScheduleWrites bounds how often a schedule is written anew because others write it
// too.
const maxScheduleWrites = 16

// syncSchedule brings a workflow's schedule in line with its newest version that is
// not archived. Whoever publishes or archives a version calls it afterwards; it
// reads the versions after it has read the schedule, and its write fails if
// somebody else has written the schedule since, so that of many at once the last
// one has seen all versions.
func (c *Catalog) syncSchedule(ctx context.Context, tenant, fullName string) error {
	w := c.openPorts()
	for range maxScheduleWrites {
		s, err := w.Schedules.Schedule(ctx, tenant, fullName)
		if err != nil {
			return err
		}
		newest, err := newestDefinition(ctx, w.Registry, tenant, fullName)
		if err != nil {
			return err
		}
		next, err := c.nextSchedule(s, newest)
		if err != nil {
			return err
		}
		if same, err := sameSchedule(s, next); err != nil || same {
			return err
		}
		if ok, err := w.Schedules.PutSchedule(ctx, next); err != nil || ok {
			return err
		}
	}
	return workflow.Errorf(workflow.CodeConflict, "the schedule of %s keeps changing; publish again", fullName)
}

// newestDefinition is the definition of the newest version that is not archived; nil if
// there is none.
func newestDefinition(ctx context.Context, r Registry, tenant, fullName string) (*spec.Definition, error) {
	var versions []string
	page := workflow.Page{Limit: workflow.MaxPageSize}
	for {
		list, err := r.DefinitionVersions(ctx, tenant, fullName, page)
		if err != nil {
			return nil, err
		}
		for _, p := range list.Items {
			if !p.Archived {
				versions = append(versions, p.Ref.Version)
			}
		}
		if page.Token = list.NextToken; page.Token == "" {
			break
		}
	}
	ref, err := workflow.ParseRef(fullName)
	if err != nil {
		return nil, err
	}
	if ref.Version = ref.Newest(versions); ref.Version == "" {
		return nil, nil
	}
	p, err := r.Definition(ctx, tenant, ref)
	if err != nil {
		return nil, err
	}
	return definition.Parse(p.Source)
}

// nextSchedule is the schedule as the definition wants it. A moment that was already
// waited for stays, unless the clock itself is another one.
func (c *Catalog) nextSchedule(s spec.Schedule, d *spec.Definition) (spec.Schedule, error) {
	before := s.Cron
	s.Cron = nil
	if d == nil || d.Cron == nil || d.Cron.Disabled {
		s.NextAt = spec.Schedule{}.NextAt
		return s, nil
	}
	s.Workflow, s.Cron = d.Ref(), d.Cron
	if before != nil && before.Schedule == d.Cron.Schedule && before.Zone == d.Cron.Zone && !s.NextAt.IsZero() {
		return s, nil
	}
	var err error
	s.NextAt, err = definition.NextFireTime(d.Cron, c.now())
	return s, err
}

// sameSchedule compares as stored.
func sameSchedule(a, b spec.Schedule) (bool, error) {
	x, err := json.Marshal(a)
	if err != nil {
		return false, err
	}
	y, err := json.Marshal(b)
	return slices.Equal(x, y), err
}
