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

// keptTriggers has the triggers of tenants for a while, with their patterns parsed: others decide how
// many events come that no trigger takes.
type keptTriggers struct {
	mu      sync.Mutex
	tenants map[string]tenantTriggers
}

type tenantTriggers struct {
	list   []eventTrigger
	readAt time.Time
}

// eventTrigger is a trigger of events. A pattern that cannot be read, because a later release has
// published it, is nil.
type eventTrigger struct {
	published spec.PublishedTrigger
	pattern   *eventpattern.Pattern
	kept      bool // it may be another one by now
}

// maxKeptTenants bounds what a process keeps.
const maxKeptTenants = 100

// eventTriggers are the triggers of events of a tenant: as they are now for somebody who hands in an
// event, who may just have published one, and as they were at most SubscriptionsAge ago for any other.
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

// matchEvent reports whether an event fits the pattern of a trigger. One that was kept is read again
// before it takes the event: it may have been paused since, or published with another pattern.
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
