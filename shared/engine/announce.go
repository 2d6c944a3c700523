package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// announceTimeout is the time of an announcement. Nothing depends on whether it arrives.
const announceTimeout = 2 * time.Second

// announce tells those who observe the execution to look at its events, once for each wake-up or
// request that has changed it, and again when its timer was due for that. It may fail: the timer
// of the execution stays near until its events have been handed on.
func (w *workspace) announce(ctx context.Context) {
	x := w.execution
	if !w.facts.Observed || x == nil || x.Version == 0 || x.Announced >= x.Sequence {
		return
	}
	if !w.committed && !w.handedOnRead {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), announceTimeout)
	defer cancel()
	if err := w.ports.Sender.SendAnnouncements(ctx, 0, workflow.Announcement{Tenant: w.tenant, Execution: w.id}); err != nil {
		w.recorder.Warn(ctx, "events not announced; the timer will retry", err)
	}
}

// readClock reads the time of the next decision, and then whether somebody observes: what is
// known of that must not be older than the events that the decision stamps.
func (w *workspace) readClock(ctx context.Context) {
	w.now = w.e.now()
	w.facts.Observed = w.piped() || w.e.observed(ctx, w.tenant, w.now)
}

// readClockAfterReport reads the time again, so that what follows from a report does not come before
// the end of a job that has ended meanwhile; unless the timer has become due meanwhile, for
// which the report was not made.
func (w *workspace) readClockAfterReport(ctx context.Context) {
	if due := w.execution.DueAt; due.IsZero() || !w.now.Before(due) || w.e.now().Before(due) {
		w.readClock(ctx)
	}
}

// piped reports whether pipes make rows of the jobs of the execution. They are handed its events like
// those who observe it, whoever else does.
func (w *workspace) piped() bool {
	return w.e.SubscriptionsAge > 0 && w.execution != nil && w.execution.Piped
}

// observedTenants knows for a while which tenants have subscriptions.
type observedTenants struct {
	mu      sync.Mutex
	tenants map[string]observedTenant
}

type observedTenant struct {
	observed bool
	readAt   time.Time
}

// maxObservedTenants bounds what a process remembers.
const maxObservedTenants = 10_000

// observed reports whether somebody observes the executions of a tenant, as it was at most
// SubscriptionsAge before now. If that cannot be read, somebody may.
func (e *Engine) observed(ctx context.Context, tenant string, now time.Time) bool {
	if e.SubscriptionsAge == 0 {
		return false
	}
	o := e.observers
	o.mu.Lock()
	known, ok := o.tenants[tenant]
	o.mu.Unlock()
	if age := now.Sub(known.readAt); ok && age >= 0 && age < e.SubscriptionsAge {
		return known.observed
	}
	if _, always := e.alerts(now); always || e.CountEnds {
		return true
	}
	list, err := e.OpenPorts().Registry.Subscriptions(ctx, tenant)
	if err != nil {
		e.Log.WarnContext(ctx, "cannot read who observes; the events are announced", observe.Err(err))
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.tenants) >= maxObservedTenants {
		clear(o.tenants)
	}
	one := observedTenant{slices.ContainsFunc(list, func(s workflow.Subscription) bool { return s.RemovedAt.IsZero() }), now}
	o.tenants[tenant] = one
	return one.observed
}
