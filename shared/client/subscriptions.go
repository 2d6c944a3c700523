package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Subscriptions lists the subscriptions to the events of executions.
func (c *Client) Subscriptions(ctx context.Context) iter.Seq2[views.SubscriptionView, error] {
	return paginate[views.SubscriptionView](ctx, c, nil, "subscriptions")
}

// Subscription returns one subscription.
func (c *Client) Subscription(ctx context.Context, name string) (views.SubscriptionView, error) {
	return get[views.SubscriptionView](ctx, c, "subscriptions", name)
}

// PutSubscription creates or changes a subscription. For a webhook, the response has the secret
// with which its requests are signed.
func (c *Client) PutSubscription(ctx context.Context, name string, req views.SubscriptionRequest) (views.SubscriptionView, error) {
	return do[views.SubscriptionView](ctx, c, request{method: http.MethodPut, path: route("subscriptions", name), body: req})
}

// RemoveSubscription removes a subscription and its undelivered events.
func (c *Client) RemoveSubscription(ctx context.Context, name string) (views.SubscriptionView, error) {
	return do[views.SubscriptionView](ctx, c, request{method: http.MethodDelete, path: route("subscriptions", name)})
}

// ResumeSubscription resumes a suspended subscription.
func (c *Client) ResumeSubscription(ctx context.Context, name, why string) (views.SubscriptionView, error) {
	return post[views.SubscriptionView](ctx, c, reason{why}, "subscriptions", name, "resume")
}

// TestSubscription sends one event to the webhook of a subscription, and returns the outcome.
func (c *Client) TestSubscription(ctx context.Context, name, why string) (workflow.DeliveryAttempt, error) {
	return post[workflow.DeliveryAttempt](ctx, c, reason{why}, "subscriptions", name, "test")
}

// Deliveries lists the newest deliveries of a subscription, the newest first.
func (c *Client) Deliveries(ctx context.Context, name string) ([]workflow.DeliveryAttempt, error) {
	list, err := get[struct{ Items []workflow.DeliveryAttempt }](ctx, c, "subscriptions", name, "deliveries")
	return list.Items, err
}
