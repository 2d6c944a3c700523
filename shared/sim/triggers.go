package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Trigger reads a trigger.
func (r *Registry) Trigger(_ context.Context, tenant, name string) (spec.PublishedTrigger, error) {
	return call(r.conn, "registry.trigger", func(bool) (spec.PublishedTrigger, error) {
		r.countReads(tableRegistry, 1)
		t := clone(r.w.triggers[tenant][name])
		t.Name = name
		return t, nil
	})
}

// PutTrigger writes a trigger whose revision is still seen.
func (r *Registry) PutTrigger(_ context.Context, tenant string, t spec.PublishedTrigger) (bool, error) {
	return call(r.conn, "registry.put_trigger", func(bool) (bool, error) {
		r.countWrite(tableRegistry)
		old := r.w.triggers[tenant][t.Name]
		next := clone(t)
		next.Revision++
		if old.Revision != t.Revision {
			return old.Revision == next.Revision && string(encodeMessage(old)) == string(encodeMessage(next)), nil
		}
		if r.w.triggers[tenant] == nil {
			r.w.triggers[tenant] = map[string]spec.PublishedTrigger{}
		}
		r.w.triggers[tenant][t.Name] = next
		return true, nil
	})
}

// Triggers lists the triggers of a tenant.
func (r *Registry) Triggers(_ context.Context, tenant string) ([]spec.PublishedTrigger, error) {
	return call(r.conn, "registry.triggers", func(bool) (list []spec.PublishedTrigger, err error) {
		r.countReads(tableRegistry, 1)
		for _, name := range slices.Sorted(maps.Keys(r.w.triggers[tenant])) {
			list = append(list, clone(r.w.triggers[tenant][name]))
		}
		return list, nil
	})
}

// PutTriggerCall records a call under a key.
func (r *Registry) PutTriggerCall(_ context.Context, tenant, name, key string, c workflow.TriggerCall) error {
	_, err := call(r.conn, "registry.put_trigger_call", func(bool) (bool, error) {
		r.countWrite(tableRegistry)
		at := tenantKey(tenant, name)
		if r.w.triggerCalls[at] == nil {
			r.w.triggerCalls[at] = map[string]workflow.TriggerCall{}
		}
		r.w.triggerCalls[at][key] = clone(c)
		return true, nil
	})
	return err
}

// TriggerCalls lists the calls of a trigger, newest first.
func (r *Registry) TriggerCalls(_ context.Context, tenant, name string) ([]workflow.TriggerCall, error) {
	return call(r.conn, "registry.trigger_calls", func(bool) ([]workflow.TriggerCall, error) {
		r.countReads(tableRegistry, 1)
		list := slices.Collect(maps.Values(r.w.triggerCalls[tenantKey(tenant, name)]))
		slices.SortStableFunc(list, func(a, b workflow.TriggerCall) int { return b.At.Compare(a.At) })
		return list, nil
	})
}

// TakeRate takes one unit of a rate.
func (r *Registry) TakeRate(_ context.Context, tenant, name string, rate workflow.Rate, within time.Duration, now time.Time) (workflow.RateUse, error) {
	return call(r.conn, "registry.take_rate", func(bool) (workflow.RateUse, error) {
		r.countWrite(tableRegistry)
		at := tenantKey(tenant, name)
		next, wait := r.w.rates[at].Take(rate, within, now)
		if wait > within {
			next.Sequence = 0
			return next.Use(rate, wait, now), nil
		}
		r.w.rates[at] = next
		return next.Use(rate, wait, now), nil
	})
}
