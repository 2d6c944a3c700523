package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Triggers lists what starts executions from outside.
func (c *Client) Triggers(ctx context.Context) iter.Seq2[views.TriggerView, error] {
	return paginate[views.TriggerView](ctx, c, nil, "triggers")
}

// Trigger returns one trigger.
func (c *Client) Trigger(ctx context.Context, name string) (views.TriggerView, error) {
	return get[views.TriggerView](ctx, c, "triggers", name)
}

// TriggerCalls lists the newest calls of a trigger, the newest first.
func (c *Client) TriggerCalls(ctx context.Context, name string) ([]workflow.TriggerCall, error) {
	list, err := get[struct{ Items []workflow.TriggerCall }](ctx, c, "triggers", name, "history")
	return list.Items, err
}

// TriggerStats counts the newest calls of a trigger.
func (c *Client) TriggerStats(ctx context.Context, name string) (views.TriggerStats, error) {
	return get[views.TriggerStats](ctx, c, "triggers", name, "stats")
}

// PauseTrigger makes a trigger refuse all calls until it is resumed.
func (c *Client) PauseTrigger(ctx context.Context, name, why string) (views.TriggerView, error) {
	return post[views.TriggerView](ctx, c, reason{why}, "triggers", name, "pause")
}

// ResumeTrigger lets a paused trigger accept calls again.
func (c *Client) ResumeTrigger(ctx context.Context, name, why string) (views.TriggerView, error) {
	return post[views.TriggerView](ctx, c, reason{why}, "triggers", name, "resume")
}

// FireTrigger does what a call of the trigger would do.
func (c *Client) FireTrigger(ctx context.Context, name string, req views.FireRequest) (views.TriggerReceipt, error) {
	return do[views.TriggerReceipt](ctx, c, request{method: http.MethodPost, path: route("triggers", name, "fire"), body: req, key: req.IdempotencyKey})
}

// Form returns the public part of a form.
func (c *Client) Form(ctx context.Context, tenant, name string) (views.FormView, error) {
	return get[views.FormView](ctx, c, "forms", tenant, name)
}

// SendEvent hands an event to the triggers whose patterns it matches. Sending the same event again,
// by source and id, starts nothing.
func (c *Client) SendEvent(ctx context.Context, e views.Event) (views.EventReceipt, error) {
	return post[views.EventReceipt](ctx, c, e, "events")
}
