package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

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
	req.IdempotencyKey = deref(params.IdempotencyKey)
	var err error
	if req.IdempotencyLife, err = idempotencyLife(params.IdempotencyLife, req.IdempotencyKey); err != nil {
		a.writeError(w, r, err)
		return
	}
	if deref(params.DryRun) {
		a.plan(w, r, req)
		return
	}
	x, existed, signalled, err := a.start(r.Context(), a.caller(r), req)
	a.respondStarted(w, r, x, existed, signalled, err)
}

// idempotencyLife reads how long a key is remembered; 0 means as long as configured.
func idempotencyLife(text *string, key string) (time.Duration, error) {
	if text == nil {
		return 0, nil
	}
	life, err := time.ParseDuration(*text)
	issue := workflow.Issue{Path: "Idempotency-Life", Code: "range", Message: fmt.Sprintf("want 1s to %s", views.MaxIdempotencyLife)}
	switch {
	case err == nil && life >= time.Second && life <= views.MaxIdempotencyLife && key != "":
		return life, nil
	case key == "":
		issue.Code, issue.Message = "required", "there is no Idempotency-Key to be remembered"
	}
	return 0, workflow.Invalid("the request is not valid", []workflow.Issue{issue})
}

// start starts one execution, or sends the signal of the request to the execution that holds its
// key. If the request has a signal, signalled says which.
func (a *routes) start(ctx context.Context, c workflow.Caller, req views.StartRequest) (x *workflow.Execution, existed bool, signalled *bool, err error) {
	req.Parameters = nullToNil(req.Parameters)
	if req.Signal == nil {
		x, existed, err = a.Engine.Start(ctx, c, req)
		return x, existed, nil, err
	}
	signal := *req.Signal
	signal.Data = nullToNil(signal.Data)
	req.Signal = &signal
	x, started, existed, err := a.Engine.SignalWithStart(ctx, c, req)
	sent := !started
	return x, existed, &sent, err
}

// respondStarted answers with the execution that the request has started, now or before, or to
// which it has sent its signal.
func (a *routes) respondStarted(w http.ResponseWriter, r *http.Request, x *workflow.Execution, existed bool, signalled *bool, err error) {
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	status := http.StatusAccepted
	if existed {
		status = http.StatusOK
	}
	w.Header().Set("Location", "/workflow-execution/id/"+x.ID)
	a.respond(w, r, status, gen.Started{Id: x.ID, State: x.State, Status: x.Status(), Signalled: signalled}, nil)
}

// PlanExecution serves POST /workflow-execution/plan.
func (a *routes) PlanExecution(w http.ResponseWriter, r *http.Request) {
	var req views.StartRequest
	if err := decodeBody(r, &req); err != nil {
		a.writeError(w, r, err)
		return
	}
	a.plan(w, r, req)
}

// plan answers with what a start would do.
func (a *routes) plan(w http.ResponseWriter, r *http.Request, req views.StartRequest) {
	req.Parameters = nullToNil(req.Parameters)
	p, err := a.Queries.Plan(r.Context(), a.caller(r), req)
	a.respond(w, r, http.StatusOK, planResponse(p), err)
}

// ListExecutions serves GET /workflow-execution.
func (a *routes) ListExecutions(w http.ResponseWriter, r *http.Request, params gen.ListExecutionsParams) {
	f, err := executionFilter(params)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	a.listExecutions(w, r, f, params.Limit, params.PageToken)
}

// executionFilter returns the filter of a list request.
func executionFilter(params gen.ListExecutionsParams) (f views.ExecutionFilter, err error) {
	f = views.ExecutionFilter{
		State: deref(params.State), Status: deref(params.Status), Outcome: deref(params.Outcome), Waiting: deref(params.Waiting), Labels: parseLabels(deref(params.Label)), Parent: deref(params.Parent), Key: deref(params.Key), Region: deref(params.Region),
		CreatedAfter: deref(params.CreatedAfter), CreatedBefore: deref(params.CreatedBefore), IdempotencyKey: deref(params.IdempotencyKey),
	}
	if deref(params.Sort) == gen.OldestFirst {
		f.Order = workflow.OrderOldest
	}
	if params.Workflow != nil {
		f.Workflow, err = workflow.ParseRef(*params.Workflow)
	}
	return f, err
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
	servePage(a, w, r, limit, token, executionResponse, func(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[views.ExecutionView], error) {
		return a.Queries.Executions(ctx, c, f, page)
	})
}

// parseLabels parses labels of the form "key=value" or "key:value".
func parseLabels(texts []string) map[string]string {
	m := map[string]string{}
	for _, s := range texts {
		if i := strings.IndexAny(s, "=:"); i > 0 {
			m[s[:i]] = s[i+1:]
		}
	}
	return m
}

// ListFailures serves GET /failures.
func (a *routes) ListFailures(w http.ResponseWriter, r *http.Request, params gen.ListFailuresParams) {
	f := views.FailureFilter{Since: deref(params.Since), Groups: deref(params.Group)}
	if params.Workflow != nil {
		ref, err := workflow.ParseRef(*params.Workflow)
		if err != nil {
			a.writeError(w, r, err)
			return
		}
		f.Workflow = ref
	}
	servePage(a, w, r, params.Limit, params.PageToken, unchanged[views.FailedEntityView], func(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[views.FailedEntityView], error) {
		return a.Queries.Failures(ctx, c, f, page)
	})
}

// GetExecution serves GET /workflow-execution/id/{id}.
func (a *routes) GetExecution(w http.ResponseWriter, r *http.Request, id gen.Id, _ gen.GetExecutionParams) {
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

// GetNext serves GET /workflow-execution/id/{id}/next.
func (a *routes) GetNext(w http.ResponseWriter, r *http.Request, id gen.Id, params gen.GetNextParams) {
	page, err := a.parsePage(r, params.Limit, params.PageToken)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	v, err := a.Queries.Next(r.Context(), a.caller(r), id, page)
	v.Items = nonNilSlice(v.Items)
	v.NextPageToken = a.nextPageToken(r, deref(v.NextPageToken))
	a.respond(w, r, http.StatusOK, v, err)
}

// GetCost serves GET /workflow-execution/id/{id}/cost.
func (a *routes) GetCost(w http.ResponseWriter, r *http.Request, id gen.Id) {
	c, err := a.Queries.Cost(r.Context(), a.caller(r), id)
	a.respond(w, r, http.StatusOK, costResponse(c), err)
}

// GetPinnedDefinition serves GET /workflow-execution/id/{id}/definition.
func (a *routes) GetPinnedDefinition(w http.ResponseWriter, r *http.Request, id gen.Id) {
	d, err := a.Queries.PinnedDefinition(r.Context(), a.caller(r), id)
	d.Workflows, d.Blocks = nonNilMap(d.Workflows), nonNilMap(d.Blocks)
	a.respond(w, r, http.StatusOK, d, err)
}

// eventWaitInterval is how often a waiting request checks for events. Each check reads the
// execution, and the wait occupies an invocation of the function.
const eventWaitInterval = time.Second

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// ListEvents serves GET /workflow-execution/id/{id}/history.
func (a *routes) ListEvents(w http.ResponseWriter, r *http.Request, id gen.Id, params gen.ListEventsParams) {
	wait, _ := time.ParseDuration(deref(params.Wait)) // valid, or absent, as the document requires
	servePage(a, w, r, params.Limit, params.PageToken, eventResponse, func(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[workflow.Event], error) {
		for waited := time.Duration(0); ; waited += eventWaitInterval {
			list, err := a.Queries.History(ctx, c, id, deref(params.After), page)
			if err != nil || len(list.Items) > 0 || page.Token != "" || waited >= wait {
				return list, err
			}
			if err := a.opt.Sleep(ctx, eventWaitInterval); err != nil {
				return list, err
			}
		}
	})
}

// ListSteps serves GET /workflow-execution/id/{id}/steps.
func (a *routes) ListSteps(w http.ResponseWriter, r *http.Request, id gen.Id, params gen.ListStepsParams) {
	servePage(a, w, r, params.Limit, params.PageToken, unchanged[views.StepView], func(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[views.StepView], error) {
		return a.Queries.Steps(ctx, c, id, page)
	})
}

// ListJobs serves GET /workflow-execution/id/{id}/jobs.
func (a *routes) ListJobs(w http.ResponseWriter, r *http.Request, id gen.Id, params gen.ListJobsParams) {
	f := views.JobFilter{
		Step: deref(params.Step), State: deref(params.State), Kind: deref(params.Kind),
		LastAttempts: deref(params.Attempts) == gen.Last, FinallyFailed: deref(params.Failed),
	}
	if key := deref(params.Entity); key != "" {
		before, after, both := strings.Cut(key, "/")
		if f.Entity = (workflow.EntityKey{Type: before, ID: after}); !both {
			f.Entity = workflow.EntityKey{ID: before}
		}
	}
	servePage(a, w, r, params.Limit, params.PageToken, jobResponse, func(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[workflow.Job], error) {
		return a.Queries.Jobs(ctx, c, id, f, page)
	})
}

// ListCompensations serves GET /workflow-execution/id/{id}/compensations.
func (a *routes) ListCompensations(w http.ResponseWriter, r *http.Request, id gen.Id, params gen.ListCompensationsParams) {
	servePage(a, w, r, params.Limit, params.PageToken, jobResponse, func(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[workflow.Job], error) {
		return a.Queries.Jobs(ctx, c, id, views.JobFilter{Kind: workflow.JobRollback}, page)
	})
}

// ListChildren serves GET /workflow-execution/id/{id}/children.
func (a *routes) ListChildren(w http.ResponseWriter, r *http.Request, id gen.Id, params gen.ListChildrenParams) {
	servePage(a, w, r, params.Limit, params.PageToken, unchanged[views.ChildExecutionView], func(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[views.ChildExecutionView], error) {
		return a.Queries.Children(ctx, c, id, deref(params.Step), page)
	})
}

// CancelExecution serves POST /workflow-execution/{id}/cancel.
func (a *routes) CancelExecution(w http.ResponseWriter, r *http.Request, id gen.Id) {
	var req views.CancelRequest
	executeCommand(a, w, r, id, &req, func(ctx context.Context, c workflow.Caller) (*workflow.Execution, error) {
		if req.Source != "" && req.Source != workflow.CancelledByUser { // nobody else cancels in the name of these
			if err := a.opt.Access.check(c, RoleAdmin); err != nil {
				return nil, err
			}
		}
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

// RerunExecution serves POST /workflow-execution/{id}/rerun.
func (a *routes) RerunExecution(w http.ResponseWriter, r *http.Request, id gen.Id, params gen.RerunExecutionParams) {
	var req views.RerunRequest
	if err := decodeBody(r, &req); err != nil {
		a.writeError(w, r, err)
		return
	}
	req.Parameters = nullToNil(req.Parameters)
	req.IdempotencyKey = deref(params.IdempotencyKey)
	x, existed, err := a.Engine.Rerun(r.Context(), a.caller(r), id, req)
	a.respondStarted(w, r, x, existed, nil, err)
}

// AcknowledgeExecution serves POST /workflow-execution/{id}/acknowledge.
func (a *routes) AcknowledgeExecution(w http.ResponseWriter, r *http.Request, id gen.Id) {
	a.release(w, r, id, a.Engine.Acknowledge)
}

// ResumeExecution serves POST /workflow-execution/{id}/resume.
func (a *routes) ResumeExecution(w http.ResponseWriter, r *http.Request, id gen.Id, params gen.ResumeExecutionParams) {
	var req views.AnswerRequest
	executeCommand(a, w, r, id, &req, func(ctx context.Context, c workflow.Caller) (*workflow.Execution, error) {
		req.Input = nullToNil(req.Input)
		needed := RoleOperator
		if req.Input != nil {
			needed = RoleApprover
		}
		if err := a.opt.Access.check(c, needed); err != nil {
			return nil, err
		}
		switch {
		case req.Input == nil && req.Step == "":
			return a.Engine.Resume(ctx, c, id, req.Reason)
		case req.Input == nil && req.Visit == 0:
			return a.Engine.ResumeStep(ctx, c, id, req.Step, req.Reason)
		}
		req.IdempotencyKey = deref(params.IdempotencyKey)
		return a.Engine.Answer(ctx, c, id, req)
	})
}

// NextStep serves POST /workflow-execution/{id}/next.
func (a *routes) NextStep(w http.ResponseWriter, r *http.Request, id gen.Id, params gen.NextStepParams) {
	var req views.NextRequest
	executeCommand(a, w, r, id, &req, func(ctx context.Context, c workflow.Caller) (*workflow.Execution, error) {
		if req.Input = nullToNil(req.Input); req.Input != nil {
			if err := a.opt.Access.check(c, RoleApprover); err != nil {
				return nil, err
			}
		}
		req.IdempotencyKey = deref(params.IdempotencyKey)
		return a.Engine.NextStep(ctx, c, id, req)
	})
}

// RewindExecution serves POST /workflow-execution/{id}/rewind.
func (a *routes) RewindExecution(w http.ResponseWriter, r *http.Request, id gen.Id) {
	var req views.RewindRequest
	executeCommand(a, w, r, id, &req, func(ctx context.Context, c workflow.Caller) (*workflow.Execution, error) {
		return a.Engine.Rewind(ctx, c, id, req)
	})
}

// SignalExecution serves POST /workflow-execution/{id}/signal/{name}.
func (a *routes) SignalExecution(w http.ResponseWriter, r *http.Request, id gen.Id, name gen.SignalName, params gen.SignalExecutionParams) {
	var req views.SignalRequest
	executeCommand(a, w, r, id, &req, func(ctx context.Context, c workflow.Caller) (*workflow.Execution, error) {
		_, err := a.Engine.Signal(ctx, c, id, name, nullToNil(req.Data), deref(params.IdempotencyKey), req.Reason)
		return nil, err
	})
}

// SignalKey serves POST /signals/{package}/{name}/{key}/{signal}.
func (a *routes) SignalKey(w http.ResponseWriter, r *http.Request, pkg, name gen.PlainName, key gen.EntityName, signal string, params gen.SignalKeyParams) {
	var req views.SignalRequest
	if err := decodeBody(r, &req); err != nil {
		a.writeError(w, r, err)
		return
	}
	ref := workflow.Ref{Package: pkg, Name: name}
	receipt, err := a.Engine.SignalKey(r.Context(), a.caller(r), ref.FullName(), key, signal, nullToNil(req.Data), deref(params.IdempotencyKey), req.Reason)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	x, err := a.Queries.Execution(r.Context(), a.caller(r), receipt.Execution)
	a.respond(w, r, http.StatusAccepted, executionResponse(x), err)
}

// CreateToken serves POST /workflow-execution/{id}/tokens.
func (a *routes) CreateToken(w http.ResponseWriter, r *http.Request, id gen.Id) {
	var req struct {
		views.TokenRequest
		Expires *time.Time `json:"expires"`
	}
	if err := decodeBody(r, &req); err != nil {
		a.writeError(w, r, err)
		return
	}
	if req.Expires != nil && req.ExpiresAt != nil {
		a.writeError(w, r, workflow.Invalid("the request is not valid", []workflow.Issue{{Path: "expires", Code: "conflict", Message: "expiresAt says the same: name one of them"}}))
		return
	}
	req.ExpiresAt = cmp.Or(req.ExpiresAt, req.Expires)
	made, err := a.Engine.IssueToken(r.Context(), a.caller(r), id, req.TokenRequest)
	w.Header().Set("Cache-Control", "no-store")
	a.respond(w, r, http.StatusCreated, made, err)
}

// ListTokens serves GET /workflow-execution/id/{id}/tokens.
func (a *routes) ListTokens(w http.ResponseWriter, r *http.Request, id gen.Id) {
	items, err := a.Queries.Tokens(r.Context(), a.caller(r), id)
	respondList(a, w, r, workflow.List[views.TokenStateView]{Items: items}, unchanged[views.TokenStateView], err)
}

// RevokeTokens serves POST /workflow-execution/{id}/tokens/revoke.
func (a *routes) RevokeTokens(w http.ResponseWriter, r *http.Request, id gen.Id) {
	var req views.RevokeRequest
	executeCommand(a, w, r, id, &req, func(ctx context.Context, c workflow.Caller) (*workflow.Execution, error) {
		return a.Engine.RevokeTokens(ctx, c, id, req)
	})
}

// GetQuestion serves GET /answers.
func (a *routes) GetQuestion(w http.ResponseWriter, r *http.Request) {
	q, err := a.Engine.QuestionOfToken(r.Context(), bearer(r))
	w.Header().Set("Cache-Control", "no-store")
	a.respond(w, r, http.StatusOK, q, err)
}

// AnswerByToken serves POST /answers.
func (a *routes) AnswerByToken(w http.ResponseWriter, r *http.Request, params gen.AnswerByTokenParams) {
	var req views.TokenAnswer
	if err := decodeBody(r, &req); err != nil {
		a.writeError(w, r, err)
		return
	}
	req.IdempotencyKey = deref(params.IdempotencyKey)
	receipt, err := a.Engine.AnswerByToken(r.Context(), bearer(r), req)
	a.respond(w, r, http.StatusAccepted, receipt, err)
}

// bearer returns the token in the header of a request; "" for none.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// ListInputs serves GET /inputs.
func (a *routes) ListInputs(w http.ResponseWriter, r *http.Request, params gen.ListInputsParams) {
	servePage(a, w, r, params.Limit, params.PageToken, unchanged[views.InputView], func(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[views.InputView], error) {
		if deref(params.Mine) && a.opt.Access.check(c, RoleApprover) != nil {
			return workflow.List[views.InputView]{}, nil // the caller may not answer anything
		}
		return a.Queries.Inbox(ctx, c, deref(params.Mine), page)
	})
}

// GetInputs serves GET /workflow-execution/id/{id}/inputs.
func (a *routes) GetInputs(w http.ResponseWriter, r *http.Request, id gen.Id, params gen.GetInputsParams) {
	c, mine := a.caller(r), deref(params.Mine)
	items, err := a.Queries.Inputs(r.Context(), c, id, mine)
	if mine && err == nil && a.opt.Access.check(c, RoleApprover) != nil {
		items = nil // the caller may not answer anything
	}
	respondList(a, w, r, workflow.List[views.InputView]{Items: items}, unchanged[views.InputView], err)
}

// UnlockExecution serves POST /workflow-execution/{id}/unlock.
func (a *routes) UnlockExecution(w http.ResponseWriter, r *http.Request, id gen.Id) {
	a.release(w, r, id, a.Engine.Unlock)
}

// release serves a command that releases the locks of an execution, or of some entities.
func (a *routes) release(w http.ResponseWriter, r *http.Request, id string, do func(ctx context.Context, c workflow.Caller, id, reason string, entities ...workflow.EntityKey) (*workflow.Execution, error)) {
	var req gen.ReleaseRequest
	executeCommand(a, w, r, id, &req, func(ctx context.Context, c workflow.Caller) (*workflow.Execution, error) {
		var entities []workflow.EntityKey
		for _, path := range deref(req.Entities) {
			key, err := workflow.ParseEntityKey(path)
			if err != nil {
				return nil, err
			}
			entities = append(entities, key)
		}
		return do(ctx, c, id, deref(req.Reason), entities...)
	})
}

// executeCommand decodes the request, executes it, and answers with the execution afterwards.
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
