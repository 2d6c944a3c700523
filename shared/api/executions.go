package api

import (
	"net/http"
	"strings"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/api/shape"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// StartExecution serves POST /workflow-execution.
func (a *routes) StartExecution(w http.ResponseWriter, r *http.Request, params gen.StartExecutionParams) {
	var req views.StartRequest
	if err := decode(r, &req); err != nil {
		a.fail(w, r, err)
		return
	}
	req.Parameters = orNone(req.Parameters)
	req.IdempotencyKey = or(params.IdempotencyKey)
	x, existed, err := a.Engine.Start(r.Context(), a.caller(r), req)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	status := http.StatusAccepted
	if existed {
		status = http.StatusOK
	}
	w.Header().Set("Location", "/workflow-execution/id/"+x.ID)
	a.reply(w, r, status, gen.Started{Id: x.ID, State: x.State, Status: x.Status()}, nil)
}

// ListExecutions serves GET /workflow-execution.
func (a *routes) ListExecutions(w http.ResponseWriter, r *http.Request, params gen.ListExecutionsParams) {
	f := views.ExecutionFilter{
		State: or(params.State), Status: or(params.Status), Labels: labels(or(params.Label)), Parent: or(params.Parent),
		CreatedAfter: or(params.CreatedAfter), CreatedBefore: or(params.CreatedBefore),
	}
	if params.Workflow != nil {
		ref, err := workflow.ParseRef(*params.Workflow)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		f.Workflow = ref
	}
	a.executions(w, r, f, params.Limit, params.PageToken)
}

// ListActiveExecutions serves GET /workflow-execution/active.
func (a *routes) ListActiveExecutions(w http.ResponseWriter, r *http.Request, params gen.ListActiveExecutionsParams) {
	a.executions(w, r, views.ExecutionFilter{Active: true}, params.Limit, params.PageToken)
}

// ListExecutionsInState serves GET /workflow-execution/state/{state}.
func (a *routes) ListExecutionsInState(w http.ResponseWriter, r *http.Request, state gen.ExecutionState, params gen.ListExecutionsInStateParams) {
	a.executions(w, r, views.ExecutionFilter{State: state}, params.Limit, params.PageToken)
}

func (a *routes) executions(w http.ResponseWriter, r *http.Request, f views.ExecutionFilter, limit *int, token *string) {
	page, err := a.page(r, limit, token)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	part, err := a.View.Executions(r.Context(), a.caller(r), f, page)
	replyList(a, w, r, part, shape.Execution, err)
}

// labels reads "key=value" or "key:value".
func labels(texts []string) map[string]string {
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
	page, err := a.page(r, params.Limit, params.PageToken)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	f := views.JobFilter{Step: or(params.Step), State: or(params.State), Kind: or(params.Kind)}
	if key := or(params.Entity); key != "" {
		before, after, both := strings.Cut(key, "/")
		if f.Entity = (workflow.EntityKey{Type: before, ID: after}); !both {
			f.Entity = workflow.EntityKey{ID: before}
		}
	}
	part, err := a.View.Jobs(r.Context(), a.caller(r), id, f, page)
	replyList(a, w, r, part, shape.Job, err)
}
