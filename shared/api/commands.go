package api

import (
	"context"
	"net/http"

	"github.com/lockstep-run/lockstep/shared/api/gen"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// CancelExecution serves POST /workflow-execution/{id}/cancel.
func (a *routes) CancelExecution(w http.ResponseWriter, r *http.Request, id gen.Id) {
	var req views.CancelRequest
	executeCommand(a, w, r, id, &req, func(ctx context.Context, c workflow.Caller) (*workflow.Execution, error) {
		return a.Engine.Cancel(ctx, c, id, req)
	})
}

// AbortExecution serves DELETE /workflow-execution/{id}.
func (a *routes) AbortExecution(w http.ResponseWriter, r *http.Request, id gen.Id) {
	a.CancelExecution(w, r, id)
}

// RetryExecution serves POST /workflow-execution/{id}/retry.
func (a *routes) RetryExecution(w http.ResponseWriter, r *http.Request, id gen.Id) {
	var req views.RetryRequest
	executeCommand(a, w, r, id, &req, func(ctx context.Context, c workflow.Caller) (*workflow.Execution, error) {
		return a.Engine.Retry(ctx, c, id, req)
	})
}

// AcknowledgeExecution serves POST /workflow-execution/{id}/acknowledge.
func (a *routes) AcknowledgeExecution(w http.ResponseWriter, r *http.Request, id gen.Id) {
	a.executeWithReason(w, r, id, a.Engine.Acknowledge)
}

// ResumeExecution serves POST /workflow-execution/{id}/resume.
func (a *routes) ResumeExecution(w http.ResponseWriter, r *http.Request, id gen.Id) {
	a.executeWithReason(w, r, id, a.Engine.Resume)
}

// UnlockExecution serves POST /workflow-execution/{id}/unlock.
func (a *routes) UnlockExecution(w http.ResponseWriter, r *http.Request, id gen.Id) {
	a.executeWithReason(w, r, id, a.Engine.Unlock)
}

// executeWithReason serves a verb that takes nothing but a reason.
func (a *routes) executeWithReason(w http.ResponseWriter, r *http.Request, id string, do func(ctx context.Context, c workflow.Caller, id, reason string) (*workflow.Execution, error)) {
	var req gen.ReasonRequest
	executeCommand(a, w, r, id, &req, func(ctx context.Context, c workflow.Caller) (*workflow.Execution, error) {
		return do(ctx, c, id, deref(req.Reason))
	})
}

// executeCommand reads the request, has it done and answers with the run as it is then.
func executeCommand[T any](a *routes, w http.ResponseWriter, r *http.Request, id string, req *T, do func(context.Context, workflow.Caller) (*workflow.Execution, error)) {
	if err := decodeBody(r, req); err != nil {
		a.writeError(w, r, err)
		return
	}
	if _, err := do(r.Context(), a.caller(r)); err != nil {
		a.writeError(w, r, err)
		return
	}
	x, err := a.Queries.Execution(r.Context(), a.caller(r), id)
	a.respond(w, r, http.StatusAccepted, executionResponse(x), err)
}
