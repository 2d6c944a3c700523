package catalog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Schedules lists the schedules of workflows.
func (c *Catalog) Schedules(ctx context.Context, caller workflow.Caller, p workflow.Page) (workflow.List[spec.Schedule], error) {
	return c.openPorts().Schedules.Schedules(ctx, caller.Tenant, clampPage(p))
}

// maxScheduleWrites bounds how often a schedule write is repeated because others are writing it
// too.
const maxScheduleWrites = 16

// syncSchedules updates all schedules of a workflow from its newest version that is not archived: the one
// without a name, which remembers the names of the others, and then each of those.
func (c *Catalog) syncSchedules(ctx context.Context, tenant, fullName string, published *spec.Definition) error {
	named, err := c.syncSchedule(ctx, tenant, fullName, "", published)
	for _, name := range named {
		if err == nil {
			_, err = c.syncSchedule(ctx, tenant, fullName, name, published)
		}
	}
	return err
}

// syncSchedule updates a schedule of a workflow from its newest version that is not archived, and returns
// the names of all that the workflow has had.
// Publishing and archiving a version call it afterwards. It reads the schedule first and
// the version index second, which has the change of its own request, and its write fails if
// the schedule was written in between. So of several concurrent calls, the one that writes
// last has read what all of them changed, but for those that found nothing to write. For
// these it looks again after its write.
func (c *Catalog) syncSchedule(ctx context.Context, tenant, fullName, name string, published *spec.Definition) (named []string, err error) {
	ports := c.openPorts()
	for range maxScheduleWrites {
		s, err := ports.Schedules.Schedule(ctx, tenant, spec.ScheduleName(fullName, name))
		if err != nil {
			return nil, err
		}
		newest, err := newestDefinition(ctx, ports.Registry, tenant, fullName, published)
		if err != nil {
			return nil, err
		}
		next, err := c.nextSchedule(s, newest)
		if err != nil {
			return nil, err
		}
		if newest != nil && name == "" {
			next.Named = slices.Compact(slices.Sorted(slices.Values(slices.Concat(s.Named, newest.CronNames()))))
		}
		if same, err := sameJSON(s, next); err != nil || same {
			return next.Named, err
		}
		if _, err := ports.Schedules.PutSchedule(ctx, next); err != nil {
			return nil, err
		}
	}
	return nil, workflow.Errorf(workflow.CodeConflict, "the schedule of %s keeps changing; publish again", fullName)
}

// newestDefinition returns the newest version that is not archived; nil if there is none. It is not
// read if it is the version that has just been published.
func newestDefinition(ctx context.Context, r Registry, tenant, fullName string, published *spec.Definition) (*spec.Definition, error) {
	ref, err := workflow.ParseRef(fullName)
	if err != nil {
		return nil, err
	}
	newest, err := NewestVersion(ctx, r, tenant, workflow.DefinitionVersions, ref)
	if err != nil || newest.Version == "" || newest.Archived {
		return nil, err
	}
	if published != nil && published.Version == newest.Version {
		return published, nil
	}
	ref.Version = newest.Version
	p, err := r.Definition(ctx, tenant, ref)
	if err != nil {
		return nil, err
	}
	return definition.Parse(p.Source)
}

// nextSchedule returns the schedule that the newest version of a definition asks for. The next fire
// time stays unless the cron expression or the zone has changed. If that version is older than the
// previous one, because others were archived, the schedule is paused: nobody has asked to start its
// work again.
func (c *Catalog) nextSchedule(s spec.Schedule, d *spec.Definition) (spec.Schedule, error) {
	before := s.Cron
	s.Cron = nil
	var cron *spec.Cron
	if _, name := spec.SplitScheduleName(s.Name); d != nil {
		cron = d.CronNamed(name)
	}
	asks := cron != nil && !cron.Disabled
	if s.MadeBy != nil && !asks {
		s.Cron = before // that of a step: no definition switches it off
		return s, nil
	}
	s.MadeBy, s.Follows = nil, ""
	if asks && s.Removed != nil && olderThan(s.Removed.Version, d.Version) {
		s.Removed = nil
	}
	if s.Removed != nil && !s.FiringAt.IsZero() {
		s.Cron = before // the scheduler finishes what it has begun, and then switches it off
		return s, nil
	}
	if d != nil {
		s.Paused = pausedByArchiving(c.now(), s.Paused, asks, s.Workflow.Version, d.Version, "schedule", "start executions")
	}
	if d != nil && (asks || s.Version > 0) {
		s.Workflow = d.Ref()
	}
	if asks && s.Removed == nil {
		s.Cron = cron
	}
	if s.Cron == nil {
		s.FiringAt = time.Time{} // an archived version starts nothing any more
	}
	if s.Cron == nil || s.Paused != nil && s.FiringAt.IsZero() {
		s.NextAt = time.Time{}
		return s, nil
	}
	same := before != nil && before.Schedule == cron.Schedule && before.Zone == cron.Zone
	if !s.NextAt.IsZero() && (same || !s.FiringAt.IsZero()) { // the scheduler finishes what it has begun first
		return s, nil
	}
	var err error
	s.NextAt, err = definition.NextFireTime(cron, c.now())
	return s, err
}

// pausedByArchiving returns the pause of a schedule or a trigger whose newest version has changed
// from was to is. If the new one is older, because others were archived, and asks for it, it is
// paused: nobody has asked to start its work again. The pause ends with a version that is not
// older. A pause that somebody has requested stays.
func pausedByArchiving(now time.Time, paused *spec.ScheduleHalt, asks bool, was, is, what, does string) *spec.ScheduleHalt {
	switch {
	case asks && paused == nil && olderThan(is, was):
		return &spec.ScheduleHalt{At: now.UTC(), Version: was,
			Reason: fmt.Sprintf("version %s was archived, and version %s before it has a %s too: resume it if that is to %s again", was, is, what, does)}
	case paused != nil && paused.By == "" && (olderThan(was, is) || !olderThan(is, paused.Version)):
		return nil
	}
	return paused
}

// olderThan reports whether one version is older than another. No version is older than none.
func olderThan(version, than string) bool {
	v, ok := workflow.ParseSemver(version)
	w, known := workflow.ParseSemver(than)
	return ok && known && v.Compare(w) < 0
}

// NoSchedule returns the error of a request about a schedule that is off.
func NoSchedule(s spec.Schedule) error {
	why := "the newest version of the workflow has no schedule"
	if _, name := spec.SplitScheduleName(s.Name); name != "" {
		why += " of this name"
	} else if len(s.Named) > 0 {
		why += " without a name: say " + s.Name + "@NAME"
	}
	if s.Removed != nil {
		why = fmt.Sprintf("%s has removed it at %s: publish another version with a schedule", s.Removed.By, s.Removed.At.Format(time.RFC3339))
	}
	if s.Version == 0 {
		why = "no version of a workflow of this name has had one"
	}
	return workflow.Errorf(workflow.CodeNotFound, "there is no schedule %q: %s", s.Name, why)
}

// PauseSchedule stops a schedule from starting anything until it is resumed, whatever is published.
// Pausing a paused schedule changes nothing.
func (c *Catalog) PauseSchedule(ctx context.Context, caller workflow.Caller, fullName, reason string) (spec.Schedule, error) {
	return c.changeSchedule(ctx, caller, fullName, func(s *spec.Schedule) error {
		if s.Off() {
			return NoSchedule(*s)
		}
		if s.Paused != nil && s.Paused.By != "" {
			return nil
		}
		s.Paused = &spec.ScheduleHalt{By: caller.Actor, At: c.now().UTC(), Reason: workflow.Truncate(reason, workflow.MaxReasonBytes)}
		if s.FiringAt.IsZero() { // else the scheduler ends that first
			s.NextAt = time.Time{}
		}
		return nil
	})
}

// ResumeSchedule lets a paused schedule start executions again, beginning with its next fire time.
// Fire times that have passed are not made up for.
func (c *Catalog) ResumeSchedule(ctx context.Context, caller workflow.Caller, fullName, reason string) (spec.Schedule, error) {
	return c.changeSchedule(ctx, caller, fullName, func(s *spec.Schedule) (err error) {
		if s.Off() {
			return NoSchedule(*s)
		}
		if s.Paused == nil {
			return nil
		}
		if s.Paused = nil; s.FiringAt.IsZero() {
			s.NextAt, err = definition.NextFireTime(s.Cron, c.now())
		}
		return err
	})
}

// RemoveSchedule switches a schedule off for the current version of the definition, and for older
// ones. Removing it again is accepted.
func (c *Catalog) RemoveSchedule(ctx context.Context, caller workflow.Caller, fullName, reason string) (spec.Schedule, error) {
	return c.changeSchedule(ctx, caller, fullName, func(s *spec.Schedule) error {
		if s.Off() {
			if s.Removed != nil && s.Removed.By == caller.Actor {
				return nil
			}
			return NoSchedule(*s)
		}
		s.Removed = &spec.ScheduleHalt{By: caller.Actor, At: c.now().UTC(), Reason: workflow.Truncate(reason, workflow.MaxReasonBytes), Version: s.Workflow.Version}
		if s.Paused = nil; s.FiringAt.IsZero() { // else the scheduler ends that first
			s.Cron, s.NextAt = nil, time.Time{}
		}
		return nil
	})
}

// changeSchedule changes a schedule, and writes it if it has changed.
func (c *Catalog) changeSchedule(ctx context.Context, caller workflow.Caller, fullName string, change func(*spec.Schedule) error) (spec.Schedule, error) {
	schedules := c.openPorts().Schedules
	for range maxScheduleWrites {
		s, err := schedules.Schedule(ctx, caller.Tenant, fullName)
		if err != nil {
			return s, err
		}
		before := s
		if err := change(&s); err != nil {
			return s, err
		}
		if same, err := sameJSON(before, s); err != nil || same {
			return s, err
		}
		if ok, err := schedules.PutSchedule(ctx, s); err != nil || ok {
			s.Version++
			return s, err
		}
	}
	return spec.Schedule{}, workflow.Errorf(workflow.CodeConflict, "the schedule of %s keeps changing; try again", fullName)
}

// sameJSON compares two values as they are stored.
func sameJSON(a, b any) (bool, error) {
	x, err := workflow.EncodeJSON(a)
	if err != nil {
		return false, err
	}
	y, err := workflow.EncodeJSON(b)
	return slices.Equal(x, y), err
}
