package views

import (
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// SubscriptionRequest defines which events a subscription selects, and their receiver. Exactly one
// of URL, EventBus, Topic and Workflow is set.
type SubscriptionRequest struct {
	URL      string `json:"url,omitempty"`
	EventBus string `json:"eventBus,omitempty"`
	Topic    string `json:"topic,omitempty"`
	Workflow string `json:"workflow,omitempty"`
	Text     bool   `json:"text,omitempty"`

	Events    []string          `json:"events,omitempty"`
	States    []string          `json:"states,omitempty"`
	Workflows []string          `json:"workflows,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// SubscriptionView is a subscription as callers see it. Secret signs the requests to its webhook.
// It is only in the response to the request that created the subscription.
type SubscriptionView struct {
	Name      string                      `json:"name"`
	URL       *string                     `json:"url"`
	EventBus  *string                     `json:"eventBus"`
	Topic     *string                     `json:"topic"`
	Workflow  *string                     `json:"workflow"`
	Text      bool                        `json:"text"`
	Events    []string                    `json:"events"`
	States    []string                    `json:"states"`
	Workflows []string                    `json:"workflows"`
	Labels    map[string]string           `json:"labels"`
	Since     *time.Time                  `json:"since"`
	CreatedAt time.Time                   `json:"createdAt"`
	CreatedBy *string                     `json:"createdBy"`
	Suspended *workflow.SubscriptionPause `json:"suspended"`
	Dead      int                         `json:"dead"`
	Secret    *string                     `json:"secret"`
}

// NewSubscriptionView returns the view of a subscription, without its secret.
func NewSubscriptionView(s workflow.Subscription) SubscriptionView {
	v := SubscriptionView{
		Name: s.Name, URL: textOrNil(s.To.URL), EventBus: textOrNil(s.To.EventBus), Topic: textOrNil(s.To.Topic), Workflow: textOrNil(s.To.Workflow), Text: s.To.Text,
		Events: append([]string{}, s.Events...), States: append([]string{}, s.States...), Workflows: append([]string{}, s.Workflows...), Labels: s.Labels,
		CreatedAt: s.CreatedAt, CreatedBy: textOrNil(s.CreatedBy), Suspended: s.Suspended, Dead: s.Dead,
	}
	if v.Labels == nil {
		v.Labels = map[string]string{}
	}
	if !s.Since.IsZero() {
		v.Since = &s.Since
	}
	return v
}

func textOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
