package catalog

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Triggers lists the triggers of a tenant that are on, all on one page.
func (c *Catalog) Triggers(ctx context.Context, caller workflow.Caller, _ workflow.Page) (list workflow.List[spec.PublishedTrigger], err error) {
	all, err := c.openPorts().Registry.Triggers(ctx, caller.Tenant)
	list.Items = slices.DeleteFunc(all, func(t spec.PublishedTrigger) bool { return t.Trigger == nil })
	return list, err
}

// Trigger reads a trigger that is on.
func (c *Catalog) Trigger(ctx context.Context, caller workflow.Caller, name string) (spec.PublishedTrigger, error) {
	t, err := c.openPorts().Registry.Trigger(ctx, caller.Tenant, name)
	if err == nil && t.Trigger == nil {
		err = spec.NoTrigger(name, t)
	}
	return t, err
}

// TriggerCalls lists the newest calls of a trigger, even if it is off.
func (c *Catalog) TriggerCalls(ctx context.Context, caller workflow.Caller, name string) (list workflow.List[workflow.TriggerCall], err error) {
	t, err := c.openPorts().Registry.Trigger(ctx, caller.Tenant, name)
	if err == nil && t.Revision == 0 {
		err = spec.NoTrigger(name, t)
	}
	if err != nil {
		return list, err
	}
	list.Items, err = c.openPorts().Registry.TriggerCalls(ctx, caller.Tenant, name)
	return list, err
}

// PauseTrigger makes a trigger refuse all calls until it is resumed, whatever is published.
func (c *Catalog) PauseTrigger(ctx context.Context, caller workflow.Caller, name, reason string) (spec.PublishedTrigger, error) {
	return c.changeTrigger(ctx, caller, name, func(t *spec.PublishedTrigger) bool {
		if t.Paused != nil && t.Paused.By != "" {
			return false
		}
		t.Paused = &spec.ScheduleHalt{By: caller.Actor, At: c.now().UTC(), Reason: workflow.Truncate(reason, workflow.MaxReasonBytes)}
		return true
	})
}

// ResumeTrigger lets a paused trigger take calls again.
func (c *Catalog) ResumeTrigger(ctx context.Context, caller workflow.Caller, name string) (spec.PublishedTrigger, error) {
	return c.changeTrigger(ctx, caller, name, func(t *spec.PublishedTrigger) bool {
		was := t.Paused
		t.Paused = nil
		return was != nil
	})
}

func (c *Catalog) changeTrigger(ctx context.Context, caller workflow.Caller, name string, change func(*spec.PublishedTrigger) bool) (spec.PublishedTrigger, error) {
	registry := c.openPorts().Registry
	for range maxScheduleWrites {
		t, err := registry.Trigger(ctx, caller.Tenant, name)
		if err == nil && t.Trigger == nil {
			err = spec.NoTrigger(name, t)
		}
		if err != nil || !change(&t) {
			return t, err
		}
		if ok, err := registry.PutTrigger(ctx, caller.Tenant, t); err != nil || ok {
			t.Revision++
			return t, err
		}
	}
	return spec.PublishedTrigger{}, workflow.Contended(workflow.CodeConflict, "trigger %s", name)
}

// takenTriggers returns issues for the triggers of a definition whose names belong to another
// workflow, and for those beyond the limit.
func (c *Catalog) takenTriggers(ctx context.Context, tenant string, d *spec.Definition) (issues []workflow.Issue, err error) {
	if len(d.Triggers.All()) == 0 {
		return nil, nil
	}
	all, err := c.openPorts().Registry.Triggers(ctx, tenant)
	if err != nil {
		return nil, err
	}
	on := 0
	owner := map[string]string{}
	for _, t := range all {
		if name := t.Workflow.FullName(); t.Trigger != nil && name != d.Ref().FullName() {
			owner[t.Name] = name
			on++
		}
	}
	for i, t := range d.Triggers.All() {
		if by := owner[t.Name]; by != "" {
			issues = append(issues, workflow.Issue{Path: d.Triggers.Path(i) + ".name", Code: "taken", Message: by + " has a trigger of this name: they are unique in a tenant"})
		}
	}
	if n := on + len(d.Triggers.All()); n > spec.MaxTenantTriggers {
		issues = append(issues, workflow.Issue{Path: "triggers", Code: "limit", Message: fmt.Sprintf("there would be %d triggers, and there may be %d", n, spec.MaxTenantTriggers)})
	}
	return issues, nil
}

// syncTriggers updates the triggers of a workflow to those of its newest version that is not
// archived. It is called together with [Catalog.syncSchedules], reads in the same order, and repeats
// for the same reasons. published is the version that has just been published; nil if none has.
func (c *Catalog) syncTriggers(ctx context.Context, tenant, fullName string, published *spec.Definition) error {
	registry, version := c.openPorts().Registry, ""
	if published != nil {
		version = published.Version
	}
	for range maxScheduleWrites {
		all, err := registry.Triggers(ctx, tenant)
		if err != nil {
			return err
		}
		newest, err := newestDefinition(ctx, registry, tenant, fullName, published)
		if err != nil {
			return err
		}
		changed := false
		for _, next := range c.nextTriggers(all, newest, fullName, version) {
			changed = true
			if _, err := registry.PutTrigger(ctx, tenant, next); err != nil {
				return err
			}
		}
		if !changed {
			return lostTrigger(all, newest, version)
		}
	}
	return workflow.Errorf(workflow.CodeConflict, "other requests are changing the triggers of %s: publish again", fullName)
}

// lostTrigger returns the error of a version that has just been published if another workflow has
// taken the name of one of its triggers at the same time.
func lostTrigger(all []spec.PublishedTrigger, newest *spec.Definition, published string) error {
	if newest == nil || newest.Version != published {
		return nil
	}
	for _, t := range all {
		for _, ask := range newest.Triggers.All() {
			if t.Name == ask.Name && !ask.Disabled && t.Trigger != nil && t.Workflow.FullName() != newest.Ref().FullName() {
				return workflow.Errorf(workflow.CodeConflict, "%s is published without the trigger %q: %s has taken the name; publish a version with another one", newest.Ref(), t.Name, t.Workflow.FullName())
			}
		}
	}
	return nil
}

// nextTriggers returns the triggers of a workflow that differ from what its newest version asks
// for; newest is nil if there is none. A name that belongs to another workflow stays with it. A
// name that another workflow had is taken by a newly published version, but not by an older one
// that is the newest because others were archived.
func (c *Catalog) nextTriggers(all []spec.PublishedTrigger, newest *spec.Definition, fullName, published string) (changed []spec.PublishedTrigger) {
	asked := map[string]*spec.Trigger{}
	if newest != nil {
		for _, t := range newest.Triggers.All() {
			asked[t.Name] = t
		}
	}
	for _, was := range all {
		ask := asked[was.Name]
		delete(asked, was.Name)
		if was.Workflow.FullName() != fullName {
			if ask == nil || ask.Disabled || was.Trigger != nil || newest.Version != published {
				continue
			}
			was.Workflow, was.Paused = newest.Ref(), nil
		}
		next := was
		next.Trigger = nil
		if newest != nil {
			asks := ask != nil && !ask.Disabled
			next.Paused = pausedByArchiving(c.now(), was.Paused, asks, was.Workflow.Version, newest.Version, "trigger", "take calls")
			if next.Workflow = newest.Ref(); asks {
				next.Trigger = storedTrigger(ask)
			}
		}
		if same, err := sameJSON(was, next); err != nil || !same {
			changed = append(changed, next)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if ask := asked[name]; !ask.Disabled {
			changed = append(changed, spec.PublishedTrigger{Name: name, Workflow: newest.Ref(), Trigger: storedTrigger(ask)})
		}
	}
	return changed
}

// storedTrigger returns a trigger without its schema, which is in the definition.
func storedTrigger(t *spec.Trigger) *spec.Trigger {
	stored := *t
	stored.Schema = nil
	return &stored
}
