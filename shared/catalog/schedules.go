package catalog

import (
	"context"
	"slices"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Schedules lists the schedules of workflows.
func (c *Catalog) Schedules(ctx context.Context, caller workflow.Caller, p workflow.Page) (workflow.List[spec.Schedule], error) {
	return c.openPorts().Schedules.Schedules(ctx, caller.Tenant, clampPage(p))
}

// maxScheduleWrites is how often a schedule write is repeated because others write it too.
const maxScheduleWrites = 16

// syncSchedule updates a workflow's schedule from its newest version that is not archived.
// Publishing and archiving a version call it afterwards. It reads the schedule first and
// the version index second, which has the change of its own request, and its write fails if
// the schedule was written in between. So of several concurrent calls, the one that writes
// last has read what all of them changed, but for those that found nothing to write. For
// these it looks again after its write.
func (c *Catalog) syncSchedule(ctx context.Context, tenant, fullName string) error {
	ports := c.openPorts()
	for range maxScheduleWrites {
		s, err := ports.Schedules.Schedule(ctx, tenant, fullName)
		if err != nil {
			return err
		}
		newest, err := newestDefinition(ctx, ports.Registry, tenant, fullName)
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
		if _, err := ports.Schedules.PutSchedule(ctx, next); err != nil {
			return err
		}
	}
	return workflow.Errorf(workflow.CodeConflict, "the schedule of %s keeps changing; publish again", fullName)
}

// newestDefinition is the newest version that is not archived, nil if there is none.
func newestDefinition(ctx context.Context, r Registry, tenant, fullName string) (*spec.Definition, error) {
	ref, err := workflow.ParseRef(fullName)
	if err != nil {
		return nil, err
	}
	newest, err := NewestVersion(ctx, r, tenant, workflow.DefinitionVersions, ref)
	if err != nil || newest.Version == "" || newest.Archived {
		return nil, err
	}
	ref.Version = newest.Version
	p, err := r.Definition(ctx, tenant, ref)
	if err != nil {
		return nil, err
	}
	return definition.Parse(p.Source)
}

// nextSchedule is the schedule that the definition asks for. The next fire time stays unless
// the cron expression or the zone has changed.
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

// sameSchedule compares two schedules as they are stored.
func sameSchedule(a, b spec.Schedule) (bool, error) {
	x, err := workflow.EncodeJSON(a)
	if err != nil {
		return false, err
	}
	y, err := workflow.EncodeJSON(b)
	return slices.Equal(x, y), err
}
