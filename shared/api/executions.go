package api

import (
	"net/http"
	"strings"

	"github.com/lockstep-run/lockstep/shared/api/gen"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// StartExecution serves POST /workflow-execution.
func (a *routes) StartExecution(w http.ResponseWriter, r *http.Request, params gen.StartExecutionParams) {
	var req views.StartRequest
	if err := decodeBody(r, &req); err != nil {
		a.writeError(w, r, err)
		return
	}
	req.Parameters = nullToNil(req.Parameters)
	req.IdempotencyKey = deref(params.IdempotencyKey)
	x, existed, err := a.Engine.Start(r.Context(), a.caller(r), req)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	status := http.StatusAccepted
	if existed {
		status = http.StatusOK
	}
	w.Header().Set("Location", "/workflow-execution/id/"+x.ID)
	a.respond(w, r, status, gen.Started{Id: x.ID, State: x.State, Status: x.Status()}, nil)
}

// ListExecutions serves GET /workflow-execution.
func (a *routes) ListExecutions(w http.ResponseWriter, r *http.Request, params gen.ListExecutionsParams) {
	f := views.ExecutionFilter{
		State: deref(params.State), Status: deref(params.Status), Labels: parseLabels(deref(params.Label)), Parent: deref(params.Parent),
		CreatedAfter: deref(params.CreatedAfter), CreatedBefore: deref(params.CreatedBefore),
	}
	if params.Workflow != nil {
		ref, err := workflow.ParseRef(*params.Workflow)
		if err != nil {
			a.writeError(w, r, err)
			return
		}
		f.Workflow = ref
	}
	a.listExecutions(w, r, f, params.Limit, params.PageToken)
}

// ListActiveExecutions serves GET /workflow-execution/active.
func (a *routes) ListActiveExecutions(w http.ResponseWriter, r *http.Request, params gen.ListActiveExecutionsParams) {
	a.listExecutions(w, r, views.ExecutionFilter{Active: true}, params.Limit, params.PageToken)
}

// ListExecutionsInState serves GET /workflow-execution/state/{state}.
func (a *routes) ListExecutionsInState(w http.ResponseWriter, r *http.Request, state gen.ExecutionState, params gen.ListExecutionsInStateParams) {
	a.listExecutions(w, r, views.ExecutionFilter{State: state}, params.Limit, params.PageToken)
}

func (a *routes) listExecutions(w http.ResponseWriter, r *http.Request, f views.ExecutionFilter, limit *int, token *string) {
	page, err := a.parsePage(r, limit, token)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	part, err := a.Queries.Executions(r.Context(), a.caller(r), f, page)
	respondList(a, w, r, part, executionResponse, err)
}

// parseLabels reads "key=value" or "key:value".
func parseLabels(texts []string) map[string]string {
	m := map[string]string{}
	for _, s := range texts {
		if i := strings.IndexAny(s, "=:"); i > 0 {
			m[s[:i]] = s[i+1:]
		}
	}
	return m
}

// ListJobs serves GET /workflow-execution/id/{id}/jobs.
func (a *routes) ListJobs(w http.ResponseWriter, r *http.Request, id gen.Id, params gen.ListJobsParams) {
	page, err := a.parsePage(r, params.Limit, params.PageToken)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	f := views.JobFilter{Step: deref(params.Step), State: deref(params.State), Kind: deref(params.Kind)}
	if key := deref(params.Entity); key != "" {
		before, after, both := strings.Cut(key, "/")
		if f.Entity = (workflow.EntityKey{Type: before, ID: after}); !both {
			f.Entity = workflow.EntityKey{ID: before}
		}
	}
	part, err := a.Queries.Jobs(r.Context(), a.caller(r), id, f, page)
	respondList(a, w, r, part, jobResponse, err)
}
