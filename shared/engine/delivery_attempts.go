package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// rememberDelivery stores the result of a delivery. The record is only for people, so a failure is
// logged and ignored.
func (e *Engine) rememberDelivery(ctx context.Context, tenant, subscription string, a workflow.DeliveryAttempt, failed error) workflow.DeliveryAttempt {
	a.At, a.Delivered = e.now(), failed == nil
	if failed != nil {
		a.DeadLetter = a.Attempts >= topology.MaxReceiveHooksOut
		a.Error = workflow.Truncate(failed.Error(), workflow.MaxReasonBytes)
	}
	if err := e.OpenPorts().Registry.PutDeliveryAttempt(context.WithoutCancel(ctx), tenant, subscription, a); err != nil {
		e.Log.WarnContext(ctx, "delivery not remembered", observe.Tenant, tenant, "subscription", subscription, observe.Err(err))
	}
	return a
}

// TestSubscription sends one test event to a webhook now, signed like any other event, and returns
// the result. Nothing else depends on the response. A suspended subscription is tested as well.
func (e *Engine) TestSubscription(ctx context.Context, to Receivers, tenant, name string) (none workflow.DeliveryAttempt, err error) {
	list, err := e.OpenPorts().Registry.Subscriptions(ctx, tenant)
	if err != nil {
		return none, err
	}
	for i := range list {
		if s := &list[i]; s.Name == name && s.RemovedAt.IsZero() {
			return e.testSubscription(ctx, to, tenant, s)
		}
	}
	return none, workflow.Errorf(workflow.CodeNotFound, "there is no subscription %q", name)
}

func (e *Engine) testSubscription(ctx context.Context, to Receivers, tenant string, s *workflow.Subscription) (none workflow.DeliveryAttempt, err error) {
	if s.To.URL == "" {
		return none, workflow.Invalid("only a webhook can be tested", []workflow.Issue{{Path: "name", Code: "target", Message: "this subscription has no webhook, which would answer"}})
	}
	delivery := s.ID + ":test:" + e.NewID()
	var body any = views.DeliveryBody{Delivery: delivery, Subscription: s.Name, Events: []workflow.ObservedEvent{
		{ID: delivery, Sequence: 1, At: e.now(), Layer: "subscription", Type: workflow.TestEventType},
	}}
	if s.To.Text {
		body = map[string]string{"text": "A test of the subscription " + s.Name + " of lockstep: failures will be told here."}
	}
	raw, err := workflow.EncodeJSON(body)
	if err != nil {
		return none, err
	}
	sending, cancel := context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	status, failed := e.post(sending, to, s, delivery, raw)
	return e.rememberDelivery(ctx, tenant, s.Name, workflow.DeliveryAttempt{Delivery: delivery, Attempts: 1, Status: status, Test: true}, failed), nil
}
