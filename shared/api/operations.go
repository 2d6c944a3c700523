package api

import (
	"net/http"
	"slices"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// GetCaller serves GET /caller.
func (a *routes) GetCaller(w http.ResponseWriter, r *http.Request) {
	c := a.caller(r)
	v := views.CallerView{Tenant: c.Tenant, Actor: c.Actor, RoleNames: nonNilSlice(c.RoleNames()), Roles: []string{}, Operations: []string{}}
	for _, role := range []Role{RoleViewer, RoleOperator, RoleApprover, RoleAdmin, RoleWorker} {
		if a.opt.Access.check(c, role) == nil {
			v.Roles = append(v.Roles, string(role))
		}
	}
	for pattern, op := range a.doc.Operations {
		if op.Public || a.opt.Access.check(c, rolesOf(pattern)...) == nil {
			v.Operations = append(v.Operations, op.ID)
		}
	}
	slices.Sort(v.Operations)
	a.respond(w, r, http.StatusOK, v, nil)
}

// GetMetricsSummary serves GET /metrics/summary.
func (a *routes) GetMetricsSummary(w http.ResponseWriter, r *http.Request, params gen.GetMetricsSummaryParams) {
	v, err := a.Catalog.MetricsSummary(r.Context(), a.caller(r), deref(params.Workflow), deref(params.Days))
	a.respond(w, r, http.StatusOK, v, err)
}

// ListDeadLetters serves GET /dead-letters.
func (a *routes) ListDeadLetters(w http.ResponseWriter, r *http.Request, params gen.ListDeadLettersParams) {
	queues, err := a.Operations.DeadLetters(r.Context(), a.caller(r), deref(params.Queue), deref(params.Limit))
	respondList(a, w, r, workflow.List[views.DeadLetterQueue]{Items: queues}, deadLettersResponse, err)
}

// RedriveDeadLetters serves POST /dead-letters/redrive.
func (a *routes) RedriveDeadLetters(w http.ResponseWriter, r *http.Request) {
	var req views.RedriveRequest
	if err := decodeBody(r, &req); err != nil {
		a.writeError(w, r, err)
		return
	}
	v, err := a.Operations.Redrive(r.Context(), a.caller(r), req)
	a.respond(w, r, http.StatusOK, redriveResponse(v), err)
}

// GetSweep serves GET /sweep.
func (a *routes) GetSweep(w http.ResponseWriter, r *http.Request) {
	v, err := a.Operations.NextSweep(r.Context(), a.caller(r))
	a.respond(w, r, http.StatusOK, sweepResponse(v), err)
}
