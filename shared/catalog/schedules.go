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
// without a name, which remembers the names of the others, and those others. Publishing and archiving a
// version call it afterwards.
//
// It reads the schedules first and the version index second, which has the change of its own request, and a
// write fails if the schedule was written in between. So of several concurrent calls, the one that writes
// last has read what all of them changed, but for those that found nothing to write. For these it looks again
// after its writes.
//
// A name is remembered before its schedule is switched on, and forgotten when that is off and the newest version
// does not ask for it. The schedule without a name is written before another is switched on, even if it has the name
// already: who is about to forget the name then has to look again.
func (c *Catalog) syncSchedules(ctx context.Context, tenant, fullName string, published *spec.Definition) error {
	ports := c.openPorts()
	announced := false
	for range maxScheduleWrites {
		unnamed, err := ports.Schedules.Schedule(ctx, tenant, fullName)
		if err != nil {
			return err
		}
		named, err := readNamedSchedules(ctx, ports.Schedules, unnamed)
		if err != nil {
			return err
		}
		newest, err := newestDefinition(ctx, ports.Registry, tenant, fullName, published)
		if err != nil {
			return err
		}
		changed, known, switchesOn, err := c.nextNamedSchedules(unnamed, named, newest)
		if err != nil {
			return err
		}
		unknown := slices.ContainsFunc(known, func(name string) bool { return !slices.Contains(unnamed.Named, name) })
		if unknown || switchesOn && !announced {
			unnamed.Named = sortedSet(slices.Concat(unnamed.Named, known))
			if announced, err = ports.Schedules.PutSchedule(ctx, unnamed); err != nil {
				return err
			}
			continue
		}
		// The schedule without a name is the last one to follow a version: until then it says which version
		// those that were forgotten have last belonged to.
		if len(changed) == 0 {
			next, err := c.nextSchedule(unnamed, newest)
			if err != nil {
				return err
			}
			next.Named = known
			if same, err := sameJSON(unnamed, next); err != nil || same {
				return err
			}
			changed = append(changed, next)
		}
		for _, next := range changed {
			if _, err := ports.Schedules.PutSchedule(ctx, next); err != nil {
				return err
			}
		}
	}
	return workflow.Errorf(workflow.CodeConflict, "other requests are changing the schedule of %s: publish again", fullName)
}

// readNamedSchedules reads the schedules that the one without a name remembers.
func readNamedSchedules(ctx context.Context, schedules Schedules, unnamed spec.Schedule) ([]spec.Schedule, error) {
	named := make([]spec.Schedule, len(unnamed.Named))
	for i, name := range unnamed.Named {
		var err error
		if named[i], err = schedules.Schedule(ctx, unnamed.Tenant, spec.ScheduleName(unnamed.Name, name)); err != nil {
			return nil, err
		}
	}
	return named, nil
}

// nextNamedSchedules returns what has to change in the schedules with names, and the names to remember: those
// that the newest version has, and those whose schedule is still on. switchesOn reports that a schedule changes that
// is off so far.
func (c *Catalog) nextNamedSchedules(unnamed spec.Schedule, named []spec.Schedule, newest *spec.Definition) (changed []spec.Schedule, known []string, switchesOn bool, err error) {
	if newest != nil {
		known = newest.CronNames()
	}
	for i, s := range named {
		was := s
		if s.Version > 0 && s.MadeBy == nil && olderThan(s.Workflow.Version, unnamed.Workflow.Version) {
			was.Workflow = unnamed.Workflow // it was forgotten, and did not follow the versions since
		}
		next, err := c.nextSchedule(was, newest)
		if err != nil {
			return nil, nil, false, err
		}
		if same, err := sameJSON(s, next); err != nil {
			return nil, nil, false, err
		} else if !same {
			changed = append(changed, next)
		}
		switchesOn = switchesOn || s.Off() && !next.Off()
		if !next.Off() || !s.Off() {
			known = append(known, unnamed.Named[i])
		}
	}
	return changed, sortedSet(known), switchesOn, nil
}

// sortedSet returns each text once, in order.
func sortedSet(all []string) []string { return slices.Compact(slices.Sorted(slices.Values(all))) }

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
	if asks && s.Removed != nil && (s.Removed.Version == "" || olderThan(s.Removed.Version, d.Version)) { // a step removes no version
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
	why := "the newest version of the workflow that is not archived has no schedule"
	if _, name := spec.SplitScheduleName(s.Name); name != "" {
		why += " of this name"
	} else if len(s.Named) > 0 {
		why += " without a name: say " + s.Name + "@NAME"
	}
	why += "; publish one that has it, or restore the one that has it"
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
	return spec.Schedule{}, workflow.Errorf(workflow.CodeConflict, "other requests are changing the schedule of %s: try again", fullName)
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
