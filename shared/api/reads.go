package api

import (
	"net/http"

	"github.com/lockstep-run/lockstep/shared/api/gen"

	"github.com/lockstep-run/lockstep/shared/views"
)

// GetExecution serves GET /workflow-execution/id/{id}.
func (a *routes) GetExecution(w http.ResponseWriter, r *http.Request, id gen.Id) {
	x, err := a.Queries.Execution(r.Context(), a.caller(r), id)
	a.respond(w, r, http.StatusOK, executionResponse(x), err)
}

// GetStatus serves GET /executions/{id}/status.
func (a *routes) GetStatus(w http.ResponseWriter, r *http.Request, id gen.Id) {
	s, err := a.Queries.Status(r.Context(), a.caller(r), id)
	a.respond(w, r, http.StatusOK, s, err)
}

// GetResult serves GET /workflow-execution/id/{id}/result.
func (a *routes) GetResult(w http.ResponseWriter, r *http.Request, id gen.Id) {
	v, err := a.Queries.Result(r.Context(), a.caller(r), id)
	a.respond(w, r, http.StatusOK, resultResponse(v), err)
}

// GetCost serves GET /workflow-execution/id/{id}/cost.
func (a *routes) GetCost(w http.ResponseWriter, r *http.Request, id gen.Id) {
	c, err := a.Queries.Cost(r.Context(), a.caller(r), id)
	a.respond(w, r, http.StatusOK, costResponse(c), err)
}

// ListEvents serves GET /workflow-execution/id/{id}/history.
func (a *routes) ListEvents(w http.ResponseWriter, r *http.Request, id gen.Id, params gen.ListEventsParams) {
	page, err := a.parsePage(r, params.Limit, params.PageToken)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	part, err := a.Queries.History(r.Context(), a.caller(r), id, page)
	respondList(a, w, r, part, eventResponse, err)
}

// ListSteps serves GET /workflow-execution/id/{id}/steps.
func (a *routes) ListSteps(w http.ResponseWriter, r *http.Request, id gen.Id, params gen.ListStepsParams) {
	page, err := a.parsePage(r, params.Limit, params.PageToken)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	part, err := a.Queries.Steps(r.Context(), a.caller(r), id, page)
	respondList(a, w, r, part, func(s views.StepView) views.StepView { return s }, err)
}
