package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// announceTimeout bounds the sending of an announcement. Nothing depends on its arrival.
const announceTimeout = 2 * time.Second

// announce sends an announcement, so that the events of the execution are published to its
// subscribers. It does so once for each wake-up or request that has changed the execution, and
// again if the timer was due for that. It may fail: the execution's timer stays near until its
// events have been published.
func (w *workspace) announce(ctx context.Context) {
	x := w.execution
	if !w.facts.Observed || x == nil || x.Version == 0 || x.Announced >= x.Sequence {
		return
	}
	if !w.committed && !w.publishedRead {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), announceTimeout)
	defer cancel()
	if err := w.ports.Sender.SendAnnouncements(ctx, 0, workflow.Announcement{Tenant: w.tenant, Execution: w.id}); err != nil {
		w.recorder.Warn(ctx, "events not announced; the timer will retry", err)
	}
}

// readClock reads the time of the next decision first, and only then whether the tenant has
// subscriptions. That answer must not be older than the events that the decision stamps.
func (w *workspace) readClock(ctx context.Context) {
	w.now = w.e.now()
	w.facts.Observed = w.hasOwnReceivers() || w.e.observed(ctx, w.tenant, w.now)
}

// readClockAfterReport reads the time again, so that what follows from a report is not stamped
// earlier than the end of a job that ended while the report was made. It keeps the old time if the
// timer has become due in between, because the report was not made for that.
func (w *workspace) readClockAfterReport(ctx context.Context) {
	if due := w.execution.DueAt; due.IsZero() || !w.now.Before(due) || w.e.now().Before(due) {
		w.readClock(ctx)
	}
}

// hasOwnReceivers reports whether the definition itself has receivers of events: pipes, or
// workflows that the end starts. If so, the events are published even if the tenant has no
// subscriptions.
func (w *workspace) hasOwnReceivers() bool {
	return w.e.SubscriptionsAge > 0 && w.execution != nil && (w.execution.Piped || len(w.execution.OnEnd) > 0)
}

// observedTenants remembers for a while which tenants have subscriptions.
type observedTenants struct {
	mu      sync.Mutex
	tenants map[string]observedTenant
}

type observedTenant struct {
	observed bool
	readAt   time.Time
}

func (o *observedTenants) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.tenants)
}

// maxObservedTenants bounds how many tenants a process remembers.
const maxObservedTenants = 10_000

// observed reports whether a tenant has subscriptions. The answer may be as old as
// SubscriptionsAge. If the subscriptions cannot be read, it reports true.
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
