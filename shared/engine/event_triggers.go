package engine

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition/eventpattern"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// keptTriggers caches the triggers of tenants for a while, with their patterns parsed. Without it,
// every event would be a read, even if no trigger wants it, and others decide how many events
// arrive.
type keptTriggers struct {
	mu      sync.Mutex
	tenants map[string]tenantTriggers
}

type tenantTriggers struct {
	list   []eventTrigger
	readAt time.Time
}

// eventTrigger is a trigger that takes events. pattern is nil if it cannot be parsed because a
// later release published it.
type eventTrigger struct {
	published spec.PublishedTrigger
	pattern   *eventpattern.Pattern
	kept      bool // from the cache: it may have changed since
}

// maxKeptTenants bounds how many tenants a process caches.
const maxKeptTenants = 100

// eventTriggers returns the triggers of a tenant that take events. A caller who sends an event may
// have just published a trigger, so he gets them as they are now. For events from EventBridge they
// may be as old as SubscriptionsAge.
func (e *Engine) eventTriggers(ctx context.Context, caller workflow.Caller) ([]eventTrigger, error) {
	k, now := e.events, e.now()
	if caller.Actor == "" {
		k.mu.Lock()
		known, ok := k.tenants[caller.Tenant]
		k.mu.Unlock()
		if age := now.Sub(known.readAt); ok && age >= 0 && age < e.SubscriptionsAge {
			return known.list, nil
		}
	}
	all, err := e.OpenPorts().Registry.Triggers(ctx, caller.Tenant)
	if err != nil {
		return nil, err
	}
	var list, kept []eventTrigger
	for _, t := range all {
		if t.Trigger == nil || !t.Trigger.TakesEvents() {
			continue
		}
		one := newEventTrigger(t)
		list = append(list, one)
		one.kept = true
		kept = append(kept, one)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.tenants) >= maxKeptTenants {
		clear(k.tenants)
	}
	k.tenants[caller.Tenant] = tenantTriggers{kept, now}
	return list, nil
}

func newEventTrigger(t spec.PublishedTrigger) eventTrigger {
	one := eventTrigger{published: t}
	if pattern, issues := eventpattern.Parse(t.Trigger.Pattern); len(issues) == 0 {
		one.pattern = pattern
	}
	return one
}

// matchEvent reports whether an event matches the pattern of a trigger. A cached trigger is read
// again before it takes the event: it may have been paused or published with another pattern.
func (e *Engine) matchEvent(ctx context.Context, caller workflow.Caller, t *eventTrigger, decoded any) (bool, error) {
	if t.pattern != nil && !t.pattern.Matches(decoded) {
		return false, nil
	}
	if t.kept {
		now, err := e.OpenPorts().Registry.Trigger(ctx, caller.Tenant, t.published.Name)
		if err != nil {
			return false, err
		}
		if now.Trigger == nil || !now.Trigger.TakesEvents() {
			return false, nil
		}
		if same := bytes.Equal(now.Trigger.Pattern, t.published.Trigger.Pattern); !same {
			*t = newEventTrigger(now)
			return e.matchEvent(ctx, caller, t, decoded)
		}
		t.published = now
	}
	if t.pattern == nil {
		e.Log.ErrorContext(ctx, "pattern of a trigger cannot be read", observe.Tenant, caller.Tenant, "trigger", t.published.Name)
		return false, workflow.Errorf(workflow.CodeUnavailable, "the pattern of trigger %s cannot be read", t.published.Name)
	}
	return true, nil
}
