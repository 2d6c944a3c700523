package api

import (
	"net/http"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// ListSubscriptions serves GET /subscriptions.
func (a *routes) ListSubscriptions(w http.ResponseWriter, r *http.Request, params gen.ListSubscriptionsParams) {
	servePage(a, w, r, params.Limit, params.PageToken, views.NewSubscriptionView, a.Catalog.Subscriptions)
}

// GetSubscription serves GET /subscriptions/{name}.
func (a *routes) GetSubscription(w http.ResponseWriter, r *http.Request, name gen.SubscriptionName) {
	s, err := a.Catalog.Subscription(r.Context(), a.caller(r), name)
	a.respond(w, r, http.StatusOK, views.NewSubscriptionView(s), err)
}

// PutSubscription serves PUT /subscriptions/{name}.
func (a *routes) PutSubscription(w http.ResponseWriter, r *http.Request, name gen.SubscriptionName) {
	var req views.SubscriptionRequest
	if err := decodeBody(r, &req); err != nil {
		a.writeError(w, r, err)
		return
	}
	s, secret, err := a.Catalog.PutSubscription(r.Context(), a.caller(r), name, req)
	v := views.NewSubscriptionView(s)
	if secret != "" {
		v.Secret = &secret
	}
	a.respond(w, r, http.StatusOK, v, err)
}

// RemoveSubscription serves DELETE /subscriptions/{name}.
func (a *routes) RemoveSubscription(w http.ResponseWriter, r *http.Request, name gen.SubscriptionName) {
	s, err := a.Catalog.RemoveSubscription(r.Context(), a.caller(r), name)
	a.respond(w, r, http.StatusOK, views.NewSubscriptionView(s), err)
}

// ResumeSubscription serves POST /subscriptions/{name}/resume.
func (a *routes) ResumeSubscription(w http.ResponseWriter, r *http.Request, name gen.SubscriptionName) {
	var req gen.ReasonRequest // for the reason, which the audit records
	if err := decodeBody(r, &req); err != nil {
		a.writeError(w, r, err)
		return
	}
	s, err := a.Catalog.ResumeSubscription(r.Context(), a.caller(r), name)
	a.respond(w, r, http.StatusOK, views.NewSubscriptionView(s), err)
}

// TestSubscription serves POST /subscriptions/{name}/test.
func (a *routes) TestSubscription(w http.ResponseWriter, r *http.Request, name gen.SubscriptionName) {
	var req gen.ReasonRequest // for the reason, which the audit records
	if err := decodeBody(r, &req); err != nil {
		a.writeError(w, r, err)
		return
	}
	attempt, err := a.Operations.TestSubscription(r.Context(), a.caller(r), name)
	a.respond(w, r, http.StatusOK, attempt, err)
}

// ListDeliveries serves GET /subscriptions/{name}/deliveries.
func (a *routes) ListDeliveries(w http.ResponseWriter, r *http.Request, name gen.SubscriptionName) {
	list, err := a.Catalog.Deliveries(r.Context(), a.caller(r), name)
	respondList(a, w, r, list, unchanged[workflow.DeliveryAttempt], err)
}
