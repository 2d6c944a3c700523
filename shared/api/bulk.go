package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

const (
	bulkParallel = 8               // executions of one request that are started or changed at a time
	bulkReserve  = 5 * time.Second // time that a request reserves for its response
)

// StartBatch serves POST /workflow-execution/batch.
func (a *routes) StartBatch(w http.ResponseWriter, r *http.Request, params gen.StartBatchParams) {
	var req views.BatchRequest
	if err := decodeBody(r, &req); err != nil {
		a.writeError(w, r, err)
		return
	}
	var issues []workflow.Issue
	for i := range req.Items {
		if req.Items[i].Workflow = cmp.Or(req.Items[i].Workflow, req.Workflow); req.Items[i].Workflow == "" {
			issues = append(issues, workflow.Issue{Path: fmt.Sprintf("items[%d].workflow", i), Code: "required", Message: "name the workflow, here or once for all items"})
		}
	}
	if err := workflow.Invalid("the request is not valid", issues); err != nil {
		a.writeError(w, r, err)
		return
	}
	items := make([]views.BatchItem, len(req.Items))
	err := a.each(r, len(items), func(ctx context.Context, i int) error {
		start := req.Items[i]
		if params.IdempotencyKey != nil {
			start.IdempotencyKey = fmt.Sprintf("%s#%d", *params.IdempotencyKey, i)
		}
		x, existed, signalled, err := a.start(ctx, a.caller(r), start)
		if err == nil {
			items[i] = views.BatchItem{ID: &x.ID, State: &x.State, Existed: existed, Signalled: signalled}
		}
		return err
	}, func(i int, why *views.ItemError) { items[i].Error = why })
	a.respond(w, r, http.StatusOK, map[string]any{"items": items}, err)
}

// ChangeExecutions serves POST /workflow-execution/bulk.
func (a *routes) ChangeExecutions(w http.ResponseWriter, r *http.Request, params gen.ChangeExecutionsParams) {
	var body gen.BulkRequest
	err := decodeBody(r, &body)
	if err == nil {
		r, err = addBody(r, &params, body)
	}
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	req := views.BulkRequest{Verb: deref(params.Verb), DryRun: deref(params.DryRun), Reason: deref(body.Reason), Rollback: deref(body.Rollback)}
	f, err := executionFilter(gen.ListExecutionsParams{
		State: params.State, Status: params.Status, Outcome: params.Outcome, Waiting: params.Waiting, Workflow: params.Workflow, Label: params.Label, Parent: params.Parent, Key: params.Key, Region: params.Region,
		CreatedAfter: params.CreatedAfter, CreatedBefore: params.CreatedBefore,
	})
	if err == nil && req.Rollback && req.Verb != views.BulkRetry {
		err = workflow.Invalid("the request is not valid", []workflow.Issue{{Path: "rollback", Code: "conflict", Message: "this is of the verb retry only"}})
	}
	if err == nil && f.Empty() {
		err = workflow.Invalid("the request is not valid", []workflow.Issue{{Path: "filter", Code: "required", Message: "say which executions: name a state, status, outcome, wait, workflow, label, parent, key, region or time"}})
	}
	if err == nil && req.Verb == "" {
		err = workflow.Invalid("the request is not valid", []workflow.Issue{{Path: "verb", Code: "required", Message: "say what to do with them: cancel, acknowledge, retry, resume or unlock"}})
	}
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	page, err := a.parsePage(r, params.Limit, params.PageToken)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	if page.Limit == 0 {
		page.Limit = views.MaxBatch
	}
	list, err := a.Queries.Executions(r.Context(), a.caller(r), f, page)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	answer := workflow.List[views.BulkItem]{Items: make([]views.BulkItem, len(list.Items)), NextToken: list.NextToken, Skipped: list.Skipped}
	for i, x := range list.Items {
		answer.Items[i] = views.BulkItem{ID: x.ID, Workflow: x.Workflow, State: x.State, CanRollback: x.FailedRollback != nil && x.FailedRollback.Obstacle == nil}
	}
	if !req.DryRun {
		err = a.each(r, len(answer.Items), func(ctx context.Context, i int) error {
			err := a.applyVerb(ctx, a.caller(r), answer.Items[i].ID, req)
			answer.Items[i].Applied = err == nil
			return err
		}, func(i int, why *views.ItemError) { answer.Items[i].Error = why })
	}
	respondList(a, w, r, answer, unchanged[views.BulkItem], err)
}

// addBody adds what the body of a bulk request says to what its query says. The request that it
// returns has all of it in the query, to which tokens of pages belong.
func addBody(r *http.Request, params *gen.ChangeExecutionsParams, body gen.BulkRequest) (*http.Request, error) {
	q := r.URL.Query()
	var issues []workflow.Issue
	add := func(name string, given bool, value any) bool {
		if !given {
			return false
		}
		text, err := workflow.EncodeJSON(value)
		if err != nil || q.Has(name) {
			issues = append(issues, workflow.Issue{Path: name, Code: "conflict", Message: "say it in the body or in the query, not in both"})
			return false
		}
		q.Set(name, string(text))
		return true
	}
	if add("verb", body.Verb != nil, body.Verb) {
		params.Verb = body.Verb
	}
	if add("dryRun", body.DryRun != nil, body.DryRun) {
		params.DryRun = body.DryRun
	}
	if add("limit", body.Limit != nil, body.Limit) {
		params.Limit = body.Limit
	}
	if add("pageToken", body.PageToken != nil, body.PageToken) {
		params.PageToken = body.PageToken
	}
	if f := body.Filter; f != nil {
		given, to := reflect.ValueOf(*f), reflect.ValueOf(params).Elem()
		for _, filter := range reflect.VisibleFields(given.Type()) {
			if name, _, _ := strings.Cut(filter.Tag.Get("json"), ","); q.Has(name) {
				issues = append(issues, workflow.Issue{Path: "filter", Code: "conflict", Message: "say it in the body or in the query, not in both: the query has " + name})
			}
			to.FieldByName(filter.Name).Set(given.FieldByIndex(filter.Index)) // the query has the same filters
		}
		add("filter", true, f)
	}
	all := *r
	at := *r.URL
	at.RawQuery = q.Encode()
	all.URL = &at
	return &all, workflow.Invalid("the request is not valid", issues)
}

func (a *routes) applyVerb(ctx context.Context, c workflow.Caller, id string, req views.BulkRequest) (err error) {
	switch req.Verb {
	case views.BulkCancel:
		_, err = a.Engine.Cancel(ctx, c, id, views.CancelRequest{Reason: req.Reason})
	case views.BulkAcknowledge:
		_, err = a.Engine.Acknowledge(ctx, c, id, req.Reason)
	case views.BulkRetry:
		_, err = a.Engine.Retry(ctx, c, id, views.RetryRequest{Reason: req.Reason, Rollback: req.Rollback})
	case views.BulkResume:
		_, err = a.Engine.Resume(ctx, c, id, req.Reason)
	case views.BulkUnlock:
		_, err = a.Engine.Unlock(ctx, c, id, req.Reason)
	default:
		err = workflow.Errorf(workflow.CodeInvalid, "there is no bulk verb %q", req.Verb)
	}
	return err
}

// each does n things, several at a time. It calls refused for each that fails or that there is no
// time left for; the others are not affected.
func (a *routes) each(r *http.Request, n int, do func(ctx context.Context, i int) error, refused func(i int, why *views.ItemError)) error {
	ctx := r.Context()
	deadline, limited := ctx.Deadline()
	return parallel.Each(context.WithoutCancel(ctx), bulkParallel, n, func(_ context.Context, i int) error {
		var err error
		if limited && time.Until(deadline) < bulkReserve {
			err = workflow.Errorf(workflow.CodeUnavailable, "not tried: there was no time left; send the request again")
		} else {
			err = do(ctx, i)
		}
		if err == nil {
			return nil
		}
		e := a.tellable(r, err, "request failed in part")
		refused(i, &views.ItemError{Code: e.Code, Detail: e.Message, Errors: nonNilSlice(e.Issues), RetryAfter: retryAfter(e)})
		return nil
	})
}
