package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Receivers sends events to the targets of subscriptions.
type Receivers interface {
	// Post sends a request to a webhook and returns the status code of the response.
	Post(ctx context.Context, url string, header map[string]string, body []byte) (status int, err error)
	// PutEvents puts all entries on a bus, or returns an error.
	PutEvents(ctx context.Context, bus string, entries []BusEntry) error
	// Publish sends a message to a topic.
	Publish(ctx context.Context, topic, subject, message string) error
}

// BusEntry is an event in the shape that EventBridge takes.
type BusEntry struct {
	At     time.Time
	Type   string
	Detail []byte // JSON
}

// retryDelays are the delays before a failed delivery is tried again. They add up to about a day. A
// queue hides a message for at most twelve hours, counted from when it was received.
var retryDelays = []time.Duration{10 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 11 * time.Hour}

const (
	// suspendedRetry is the retry delay of a delivery for a suspended subscription. It is short, so
	// that the delivery becomes a dead letter soon. Dead letters can be redriven, and this happens
	// long before the message is too old.
	suspendedRetry = 10 * time.Second
	// maxDead is how many deliveries in a row must be given up before their subscription is
	// suspended.
	maxDead = 20
	// deliveryTimeout bounds one request to a receiver.
	deliveryTimeout = 15 * time.Second
)

// Deliver sends a delivery to its receiver. receives is the number of attempts, this one included.
// On an error the caller should try again after retryAfter.
func (e *Engine) Deliver(ctx context.Context, to Receivers, d *workflow.Delivery, receives int) (retryAfter time.Duration, err error) {
	if d.Rows != nil {
		return e.deliverRows(ctx, d, receives)
	}
	if d.Try > 0 {
		return e.deliverEnd(ctx, d, receives)
	}
	ports := e.OpenPorts()
	list, err := e.subscriptions(ctx, ports, d.Tenant, e.now())
	if err != nil {
		return retryDelays[0], err
	}
	i := slices.IndexFunc(list, func(s workflow.Subscription) bool {
		return s.Name == d.Subscription && s.ID == d.SubscriptionID && s.RemovedAt.IsZero()
	})
	if i < 0 {
		return 0, nil // the subscription is gone
	}
	s := &list[i]
	if s.Suspended != nil {
		return suspendedRetry, workflow.Errorf(workflow.CodeUnavailable, "subscription %s is suspended: %s", s.Name, s.Suspended.Reason)
	}
	sending, cancel := context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	status, err := e.sendDelivery(sending, to, s, d)
	e.rememberDelivery(ctx, d.Tenant, s.Name, workflow.DeliveryAttempt{Delivery: d.ID(), Execution: d.Execution, Attempts: receives, Status: status}, err)
	var gone *goneError
	switch {
	case errors.As(err, &gone):
		if err := e.changeSubscription(ctx, d, func(s *workflow.Subscription) bool {
			s.Suspended = &workflow.SubscriptionPause{At: e.now(), Reason: "its receiver has answered 410: it does not want to be told any more"}
			return true
		}); err != nil {
			return retryDelays[0], err
		}
		return suspendedRetry, workflow.Errorf(workflow.CodeUnavailable, "subscription %s is suspended: %w", s.Name, err) // kept until the subscription is resumed
	case err == nil:
		if s.Dead > 0 {
			e.noteDelivery(ctx, d, func(s *workflow.Subscription) bool {
				s.Dead = 0
				return true
			})
		}
		return 0, nil
	}
	e.Log.LogAttrs(ctx, slog.LevelWarn, "delivery failed", append(observe.ExecutionAttrs(d.Tenant, d.Execution, ""), slog.String("subscription", d.Subscription), slog.Int(observe.Receives, receives), observe.Err(err))...)
	if receives >= topology.MaxReceiveHooksOut {
		reason := workflow.Truncate(err.Error(), workflow.MaxReasonBytes)
		e.noteDelivery(ctx, d, func(s *workflow.Subscription) bool {
			if s.Dead++; s.Dead >= maxDead && s.Suspended == nil {
				s.Suspended = &workflow.SubscriptionPause{At: e.now(), Reason: fmt.Sprintf("%d deliveries in a row were given up, the last one because: %s", s.Dead, reason)}
			}
			return true
		})
	}
	return retryDelay(receives), err
}

// retryDelay returns the delay after so many attempts. After the last one it is short: the message is
// a dead letter once it is over.
func retryDelay(receives int) time.Duration {
	if receives >= topology.MaxReceiveHooksOut {
		return retryDelays[0]
	}
	return growingDelay(receives)
}

// growingDelay returns the delay after so many attempts, however many are still to follow.
func growingDelay(receives int) time.Duration {
	return retryDelays[min(max(receives, 1), len(retryDelays))-1]
}

// noteDelivery updates the counters of a subscription after a delivery. They are only for people,
// so a failure is logged and ignored.
func (e *Engine) noteDelivery(ctx context.Context, d *workflow.Delivery, change func(*workflow.Subscription) bool) {
	if err := e.changeSubscription(ctx, d, change); err != nil {
		e.Log.WarnContext(ctx, "cannot count a delivery", observe.Err(err))
	}
}

// changeSubscription changes the subscription of a delivery, if it still exists.
func (e *Engine) changeSubscription(ctx context.Context, d *workflow.Delivery, change func(*workflow.Subscription) bool) error {
	ports := e.OpenPorts()
	for round := range e.MaxConflictRetries {
		list, err := ports.Registry.Subscriptions(ctx, d.Tenant)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list, func(s workflow.Subscription) bool { return s.Name == d.Subscription && s.ID == d.SubscriptionID })
		if i < 0 || !list[i].RemovedAt.IsZero() || !change(&list[i]) {
			return nil
		}
		if ok, err := ports.Registry.PutSubscription(ctx, d.Tenant, list[i]); ok || err != nil {
			return err
		}
		e.Backoff(round + 1)
	}
	return workflow.Contended(workflow.CodeConflict, "subscription %s", d.Subscription)
}

// statusGone is the response of a receiver that wants no more events.
const statusGone = 410

// goneError says that the receiver wants no more events.
type goneError struct{}

func (*goneError) Error() string { return "the receiver has answered 410" }

// sendDelivery sends the whole delivery. status is the response status of a webhook.
func (e *Engine) sendDelivery(ctx context.Context, to Receivers, s *workflow.Subscription, d *workflow.Delivery) (status int, err error) {
	switch {
	case s.To.Workflow != "":
		return 0, e.startFollowUps(ctx, s, d)
	case s.To.EventBus != "":
		return 0, putOnBus(ctx, to, s.To.EventBus, d)
	}
	body, err := workflow.EncodeJSON(views.DeliveryBody{
		Delivery: d.ID(), Subscription: d.Subscription, Execution: d.Execution, Workflow: d.Workflow, After: d.After, Through: d.Through, Events: d.Events,
	})
	if err != nil {
		return 0, err
	}
	subject := "lockstep: events of " + d.Workflow
	if s.To.Text {
		text, err := e.alertText(ctx, d.Tenant, d.Execution)
		if workflow.Is(err, workflow.CodeNotFound) {
			return 0, nil // the execution has been removed: there is nothing to show
		}
		if err != nil || text == "" {
			return 0, err
		}
		subject = "lockstep: " + d.Workflow + " is " + d.Events[len(d.Events)-1].To
		if body = []byte(text); s.To.URL != "" {
			if body, err = workflow.EncodeJSON(map[string]string{"text": text}); err != nil {
				return 0, err
			}
		}
	}
	if s.To.Topic != "" {
		return 0, to.Publish(ctx, s.To.Topic, workflow.Truncate(subject, maxSubjectBytes), string(body))
	}
	return e.post(ctx, to, s, d.ID(), body)
}

// maxSubjectBytes is the longest subject of an SNS message.
const maxSubjectBytes = 99

// post sends a signed request to a webhook and returns the status of the response.
func (e *Engine) post(ctx context.Context, to Receivers, s *workflow.Subscription, delivery string, body []byte) (status int, err error) {
	header := map[string]string{"Content-Type": "application/json", "Lockstep-Delivery": delivery}
	if len(s.To.Secret) > 0 {
		keys, err := e.TokenKeys(ctx)
		if err != nil {
			return 0, err
		}
		secret, err := keys.Open(s.To.Secret)
		if err != nil {
			return 0, err
		}
		header[workflow.SignatureHeader] = workflow.Sign(secret, e.now(), body)
	}
	status, err = to.Post(ctx, s.To.URL, header, body)
	switch {
	case err != nil:
		return 0, err
	case status == statusGone:
		return status, &goneError{}
	case status < 200 || status > 299:
		return status, workflow.Errorf(workflow.CodeUnavailable, "the receiver has answered with status %d", status)
	}
	return status, nil
}

// putOnBus puts each event on a bus.
func putOnBus(ctx context.Context, to Receivers, bus string, d *workflow.Delivery) error {
	entries := make([]BusEntry, len(d.Events))
	for i := range d.Events {
		detail, err := workflow.EncodeJSON(views.BusDetail{Execution: d.Execution, Workflow: d.Workflow, ObservedEvent: d.Events[i]})
		if err != nil {
			return err
		}
		entries[i] = BusEntry{At: d.Events[i].At, Type: d.Events[i].Type, Detail: detail}
	}
	return to.PutEvents(ctx, bus, entries)
}
