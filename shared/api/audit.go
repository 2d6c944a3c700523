package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// isAudited reports whether the requests of a route are audited. These are all routes but GET that need
// more than a viewer or a worker, except starts of executions and signals to them. Programs send
// any number of those, and executions record themselves who started them and who sent their
// signals.
func isAudited(pattern string, public bool, roles []Role) bool {
	starts := pattern == "POST /workflow-execution" || pattern == "POST /workflow-execution/batch"
	signals := pattern == "POST /workflow-execution/{id}/signal/{name}" || pattern == "POST /signals/{package}/{name}/{key}/{signal}"
	return !public && !strings.HasPrefix(pattern, http.MethodGet+" ") && !starts && !signals && !slices.Equal(roles, []Role{RoleViewer}) && !slices.Contains(roles, RoleWorker)
}

// sameVerbs are operations that do what another one does. The audit has one verb for both.
var sameVerbs = map[string]string{"abortExecution": "cancelExecution", "removeScheduleByPost": "removeSchedule"}

// auditVerb returns the verb under which an operation is audited.
func auditVerb(operation string) string { return cmp.Or(sameVerbs[operation], operation) }

// endAuditTime bounds the storing of a response's status, which may happen at the end of the
// request's time.
const endAuditTime = 2 * time.Second

// audited serves a request between the two writes of its audit entry. If the first fails, the
// request is not served.
func (a *routes) audited(verb string, w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter, *http.Request)) {
	c := a.caller(r)
	e := workflow.AuditEntry{Verb: auditVerb(verb), Target: workflow.Truncate(r.URL.RequestURI(), workflow.MaxReasonBytes), RequestID: r.Header.Get(headerRequestID)}
	e.Subject, e.Reason = aboutRequest(verb, r)
	if id := r.PathValue("id"); id != "" && strings.HasPrefix(r.URL.Path, "/workflow-execution/") {
		e.Execution = &id
	}
	e, err := a.Catalog.BeginAudit(r.Context(), c, e)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	recorder := &responseWriter{ResponseWriter: w}
	serve(recorder, r)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), endAuditTime)
	defer cancel()
	if err := a.Catalog.EndAudit(ctx, c, e, recorder.status); err != nil {
		a.opt.Log.LogAttrs(r.Context(), slog.LevelWarn, "status of an audit entry not stored", append(requestAttrs(r), observe.Err(err))...)
	}
}

// aboutRequest returns what the body of a request names, and the reason in its query or its body.
// The body has been validated.
func aboutRequest(verb string, r *http.Request) (subject, reason string) {
	reason = r.URL.Query().Get("reason")
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		return "", reason // the handler reports it
	}
	var named struct {
		Reason string `json:"reason"`
		Step   string `json:"step"`
		To     string `json:"to"`
		From   string `json:"from"`

		Verb   string          `json:"verb"`
		Filter json.RawMessage `json:"filter"`
		DryRun bool            `json:"dryRun"`
	}
	if verb != "publishDefinition" && json.NewDecoder(bytes.NewReader(body)).Decode(&named) != nil {
		return "", reason // the body is lines of entities
	}
	reason = cmp.Or(reason, named.Reason)
	step := ""
	switch verb {
	case "publishDefinition":
		return definition.NameOf(body), reason
	case "changeExecutions":
		asked := named.Verb
		if named.DryRun {
			asked += " (dry run)"
		}
		return workflow.Truncate(strings.TrimSpace(asked+" "+string(named.Filter)), workflow.MaxShortMessage), reason
	case "resumeExecution", "createToken", "revokeTokens":
		step = named.Step
	case "rewindExecution":
		step = named.To
	case "retryExecution":
		step = named.From
	}
	if step != "" {
		subject = "step " + step
	}
	return subject, reason
}

// ListAudit serves GET /audit.
func (a *routes) ListAudit(w http.ResponseWriter, r *http.Request, params gen.ListAuditParams) {
	f := workflow.AuditFilter{Actor: deref(params.Actor), Verb: auditVerb(deref(params.Verb)), Execution: deref(params.Execution), After: deref(params.After), Before: deref(params.Before)}
	servePage(a, w, r, params.Limit, params.PageToken, unchanged[workflow.AuditEntry], func(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[workflow.AuditEntry], error) {
		return a.Catalog.AuditEntries(ctx, c, f, page)
	})
}
