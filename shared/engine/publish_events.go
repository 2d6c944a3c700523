package engine

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

const (
	// publishLease is how long one handler may work on the events of an execution before another may
	// take over. It only avoids duplicate deliveries; nothing else depends on it.
	publishLease = time.Minute
	// publishRetry is the retry delay of an announcement that finds another handler at work. The
	// queue allows enough retries to outlast that handler's lease.
	publishRetry = 5 * time.Second
	// maxPublished bounds the events in one delivery.
	maxPublished = 100
)

// PublishEvents publishes the events of an execution that follow the last one published: each of its
// subscriptions gets one message, which a queue keeps until the receiver has it. On an error the
// announcement should come again, after retryAfter if that is not 0.
//
// The cursor moves last, and only from where it was read. If a handler dies before that, some
// subscribers are told twice, but none is left out. The history pages are read after the state
// item, because events move from the item to the pages.
func (e *Engine) PublishEvents(ctx context.Context, a workflow.Announcement) (retryAfter time.Duration, err error) {
	ports, by := e.OpenPorts(), e.Nonce()
	for {
		x, err := ports.Store.Load(ctx, a.Tenant, a.Execution)
		if workflow.Is(err, workflow.CodeNotFound) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		o, err := ports.Store.ObservedThrough(ctx, a.Tenant, a.Execution)
		if err != nil || o.Sequence >= x.Sequence {
			return 0, err
		}
		now := e.now()
		ok, err := ports.Store.LeaseObserved(ctx, a.Tenant, a.Execution, o.Sequence, by, now, now.Add(publishLease))
		if err != nil {
			return 0, err
		}
		if !ok { // the other one may have read the execution before its last commit
			return publishRetry, errBeingPublished
		}
		events, err := eventsAfter(ctx, ports, x, o.Sequence)
		if err != nil {
			return 0, err
		}
		if len(events) == 0 {
			return 0, errHistoryGap(x, o.Sequence)
		}
		subscriptions, err := e.subscriptions(ctx, ports, a.Tenant, now)
		if err != nil {
			return 0, err
		}
		to := events[len(events)-1].Sequence
		if err := e.countEnds(ctx, ports, x, events); err != nil { // before what is not to be sent again for it
			return 0, err
		}
		ends, err := endDeliveries(ctx, ports, x, o.Sequence, events)
		if err != nil {
			return 0, err
		}
		for _, all := range [][]*workflow.Delivery{deliveriesOf(x, subscriptions, o.Sequence, events), e.rowDeliveries(ctx, x, o.Sequence, events), ends} {
			if len(all) == 0 {
				continue
			}
			if err := ports.Sender.SendDeliveries(ctx, all...); err != nil {
				return 0, err
			}
		}
		moved, err := ports.Store.MoveObserved(ctx, a.Tenant, a.Execution, o.Sequence, to)
		if err != nil {
			return 0, err
		}
		if !moved {
			return publishRetry, errBeingPublished
		}
		if to >= x.Sequence {
			return 0, nil
		}
	}
}

// errBeingPublished means that another handler is publishing the events of the execution.
var errBeingPublished = workflow.Errorf(workflow.CodeConflict, "another handler is publishing the events of this execution; it is tried again")

// eachEvent visits the events of an execution after a sequence number, up to another.
func eachEvent(ctx context.Context, ports port.Ports, x *workflow.Execution, after, through int64, visit func(*workflow.Event)) error {
	for after < through {
		events, err := eventsAfter(ctx, ports, x, after)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return errHistoryGap(x, after)
		}
		for i := range events {
			if after = events[i].Sequence; after <= through {
				visit(&events[i])
			}
		}
	}
	return nil
}

func errHistoryGap(x *workflow.Execution, after int64) error {
	return workflow.Errorf(workflow.CodeInternal, "the history of execution %s has nothing after event %d of %d", x.ID, after, x.Sequence)
}

// deliveriesOf makes a delivery for each subscription that wants some of the events.
func deliveriesOf(x *workflow.Execution, subscriptions []workflow.Subscription, after int64, events []workflow.Event) (all []*workflow.Delivery) {
	for i := range subscriptions {
		s := &subscriptions[i]
		if !s.Follows(x) {
			continue
		}
		d := &workflow.Delivery{
			Tenant: x.Tenant, Subscription: s.Name, SubscriptionID: s.ID, Execution: x.ID, Workflow: x.Workflow.String(),
			After: after, Through: events[len(events)-1].Sequence,
		}
		for j := range events {
			if s.Wants(&events[j]) {
				d.Events = append(d.Events, events[j].Observed(x.ID))
			}
		}
		if len(d.Events) > 0 {
			all = append(all, d)
		}
	}
	return all
}

// eventsAfter lists the events of an execution after a sequence number, without a gap: first those
// in the pages, then those in the state item, which was read earlier.
func eventsAfter(ctx context.Context, ports port.Ports, x *workflow.Execution, after int64) (events []workflow.Event, err error) {
	add := func(list []workflow.Event, through int64) {
		for _, e := range list {
			if e.Sequence == after+1 && e.Sequence <= through && len(events) < maxPublished {
				events, after = append(events, e), e.Sequence
			}
		}
	}
	if after < x.PagedThrough {
		paged, err := ports.Store.LoadEvents(ctx, x.Tenant, x.ID, after, maxPublished)
		if err != nil {
			return nil, err
		}
		add(paged, x.PagedThrough)
	}
	add(x.Events, x.Sequence)
	return events, nil
}

// AlertsName is the subscription that the configuration creates for every tenant; it tells people
// about failures. It is not stored as an item. It skips events older than alertsAge, such as the
// history of executions from before it was configured.
const (
	AlertsName = "~alerts"
	alertsAge  = 24 * time.Hour
)

// subscriptions lists the subscriptions of a tenant, including the one from the configuration.
func (e *Engine) subscriptions(ctx context.Context, ports port.Ports, tenant string, now time.Time) ([]workflow.Subscription, error) {
	list, err := ports.Registry.Subscriptions(ctx, tenant)
	if s, ok := e.alerts(now); ok && err == nil {
		list = append(list, s)
	}
	return list, err
}

func (e *Engine) alerts(now time.Time) (s workflow.Subscription, ok bool) {
	if e.Alerts == (workflow.AlertTarget{}) {
		return s, false
	}
	return workflow.Subscription{
		Name: AlertsName, ID: AlertsName, To: workflow.SubscriptionTarget{URL: e.Alerts.URL, Topic: e.Alerts.Topic, Text: true},
		States: workflow.AlertStates, Since: now.Add(-alertsAge),
	}, true
}
