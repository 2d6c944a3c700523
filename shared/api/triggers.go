package api

import (
	"io"
	"net/http"
	"strings"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// CallTrigger serves POST /hooks/{tenant}/{name}.
func (a *routes) CallTrigger(w http.ResponseWriter, r *http.Request, tenant gen.EntityName, name gen.TriggerName) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	call := views.TriggerCall{Body: body, Headers: map[string]string{}, Query: map[string]string{}}
	for k, values := range r.Header {
		call.Headers[strings.ToLower(k)] = values[0]
	}
	for k, values := range r.URL.Query() {
		call.Query[k] = values[0]
	}
	receipt, err := a.Engine.CallTrigger(r.Context(), tenant, name, call)
	if receipt.Form {
		a.respond(w, r, http.StatusAccepted, views.FormReceipt{Message: receipt.Message}, err)
		return
	}
	a.respond(w, r, receiptStatus(receipt), receipt, err)
}

// GetForm serves GET /forms/{tenant}/{name}.
func (a *routes) GetForm(w http.ResponseWriter, r *http.Request, tenant gen.EntityName, name gen.TriggerName) {
	form, err := a.Engine.Form(r.Context(), tenant, name)
	a.respond(w, r, http.StatusOK, form, err)
}

// receiptStatus returns 202 for a call that has changed something.
func receiptStatus(receipt views.TriggerReceipt) int {
	if receipt.Duplicate {
		return http.StatusOK
	}
	return http.StatusAccepted
}

// ListTriggers serves GET /triggers.
func (a *routes) ListTriggers(w http.ResponseWriter, r *http.Request, params gen.ListTriggersParams) {
	tenant := a.caller(r).Tenant
	servePage(a, w, r, params.Limit, params.PageToken, func(t spec.PublishedTrigger) views.TriggerView { return views.NewTriggerView(tenant, t) }, a.Catalog.Triggers)
}

// GetTrigger serves GET /triggers/{name}.
func (a *routes) GetTrigger(w http.ResponseWriter, r *http.Request, name gen.TriggerName) {
	c := a.caller(r)
	t, err := a.Catalog.Trigger(r.Context(), c, name)
	a.respond(w, r, http.StatusOK, views.NewTriggerView(c.Tenant, t), err)
}

// ListTriggerCalls serves GET /triggers/{name}/history.
func (a *routes) ListTriggerCalls(w http.ResponseWriter, r *http.Request, name gen.TriggerName) {
	calls, err := a.Catalog.TriggerCalls(r.Context(), a.caller(r), name)
	respondList(a, w, r, calls, unchanged[workflow.TriggerCall], err)
}

// GetTriggerStats serves GET /triggers/{name}/stats.
func (a *routes) GetTriggerStats(w http.ResponseWriter, r *http.Request, name gen.TriggerName) {
	calls, err := a.Catalog.TriggerCalls(r.Context(), a.caller(r), name)
	a.respond(w, r, http.StatusOK, views.NewTriggerStats(name, calls.Items), err)
}

// PauseTrigger serves POST /triggers/{name}/pause.
func (a *routes) PauseTrigger(w http.ResponseWriter, r *http.Request, name gen.TriggerName) {
	var req gen.ReasonRequest
	if err := decodeBody(r, &req); err != nil {
		a.writeError(w, r, err)
		return
	}
	c := a.caller(r)
	t, err := a.Catalog.PauseTrigger(r.Context(), c, name, deref(req.Reason))
	a.respond(w, r, http.StatusOK, views.NewTriggerView(c.Tenant, t), err)
}

// ResumeTrigger serves POST /triggers/{name}/resume.
func (a *routes) ResumeTrigger(w http.ResponseWriter, r *http.Request, name gen.TriggerName) {
	c := a.caller(r)
	t, err := a.Catalog.ResumeTrigger(r.Context(), c, name)
	a.respond(w, r, http.StatusOK, views.NewTriggerView(c.Tenant, t), err)
}

// FireTrigger serves POST /triggers/{name}/fire.
func (a *routes) FireTrigger(w http.ResponseWriter, r *http.Request, name gen.TriggerName, params gen.FireTriggerParams) {
	var req views.FireRequest
	if err := decodeBody(r, &req); err != nil {
		a.writeError(w, r, err)
		return
	}
	req.IdempotencyKey = deref(params.IdempotencyKey)
	receipt, err := a.Engine.FireTrigger(r.Context(), a.caller(r), name, req)
	if err == nil {
		w.Header().Set("Location", "/workflow-execution/id/"+receipt.ID)
	}
	a.respond(w, r, receiptStatus(receipt), receipt, err)
}

// SendEvent serves POST /events.
func (a *routes) SendEvent(w http.ResponseWriter, r *http.Request) {
	event, err := io.ReadAll(r.Body)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	receipt, err := a.Engine.TakeEvent(r.Context(), a.caller(r), event)
	a.respond(w, r, http.StatusAccepted, receipt, err)
}
