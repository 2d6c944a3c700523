package api

import (
	"net/http"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/api/shape"
	"github.com/lockstep-run/lockstep/shared/views"
)

// GetExecution serves GET /workflow-execution/id/{id}.
func (a *routes) GetExecution(w http.ResponseWriter, r *http.Request, id gen.Id) {
	x, err := a.View.Execution(r.Context(), a.caller(r), id)
	a.reply(w, r, http.StatusOK, shape.Execution(x), err)
}

// GetStatus serves GET /executions/{id}/status.
func (a *routes) GetStatus(w http.ResponseWriter, r *http.Request, id gen.Id) {
	s, err := a.View.Status(r.Context(), a.caller(r), id)
	a.reply(w, r, http.StatusOK, s, err)
}

// GetResult serves GET /workflow-execution/id/{id}/result.
func (a *routes) GetResult(w http.ResponseWriter, r *http.Request, id gen.Id) {
	v, err := a.View.Result(r.Context(), a.caller(r), id)
	a.reply(w, r, http.StatusOK, shape.Result(v), err)
}

// GetCost serves GET /workflow-execution/id/{id}/cost.
func (a *routes) GetCost(w http.ResponseWriter, r *http.Request, id gen.Id) {
	c, err := a.View.Cost(r.Context(), a.caller(r), id)
	a.reply(w, r, http.StatusOK, shape.Cost(c), err)
}

// ListEvents serves GET /workflow-execution/id/{id}/history.
func (a *routes) ListEvents(w http.ResponseWriter, r *http.Request, id gen.Id, params gen.ListEventsParams) {
	page, err := a.page(r, params.Limit, params.PageToken)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	part, err := a.View.History(r.Context(), a.caller(r), id, page)
	replyList(a, w, r, part, shape.Event, err)
}

// ListSteps serves GET /workflow-execution/id/{id}/steps.
func (a *routes) ListSteps(w http.ResponseWriter, r *http.Request, id gen.Id, params gen.ListStepsParams) {
	page, err := a.page(r, params.Limit, params.PageToken)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	part, err := a.View.Steps(r.Context(), a.caller(r), id, page)
	replyList(a, w, r, part, func(s views.StepView) views.StepView { return s }, err)
}
