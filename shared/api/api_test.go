package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/api"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

func TestStartExecution_SetsLocation(t *testing.T) {
	f := newFake()
	h := newHandler(f)
	w := sendRequest(h, "POST /workflow-execution", startBody, "Idempotency-Key: k1")
	if w.Code != 202 || w.Header().Get("Location") != "/workflow-execution/id/"+executionID {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	if got, want := strings.TrimSpace(w.Body.String()), `{"id":"`+executionID+`","state":"RUNNING","status":"RUNNING"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	want := views.StartRequest{
		Workflow: "fleet/upgrade:1", Parameters: json.RawMessage(`{"target":"2"}`), Labels: map[string]string{"a": "b"}, IdempotencyKey: "k1",
		ExecuteOnParameters: &workflow.Selector{Type: "device", Groups: []string{"core"}},
	}
	if d := cmp.Diff(want, f.start); d != "" {
		t.Error(d)
	}

	repeated := sendRequest(h, "POST /workflow-execution", startBody, "Idempotency-Key: k1")
	if repeated.Code != 200 || repeated.Body.String() != w.Body.String() || repeated.Header().Get("Location") == "" {
		t.Errorf("the same key and body: %d %s", repeated.Code, repeated.Body)
	}
	for life, code := range map[string]string{"90s": "", "168h": "", "169h": "range", "0s": "pattern", "soon": "pattern", "1.5h": "pattern"} {
		w := sendRequest(h, "POST /workflow-execution", startBody, "Idempotency-Key: life", "Idempotency-Life: "+life)
		if code == "" {
			if want, _ := time.ParseDuration(life); w.Code >= 300 || f.start.IdempotencyLife != want {
				t.Errorf("%s: %d, %s", life, w.Code, f.start.IdempotencyLife)
			}
		} else if p := decodeProblem(t, w); p.Status != 400 || len(p.Errors) != 1 || p.Errors[0].Path != "Idempotency-Life" || p.Errors[0].Code != code {
			t.Errorf("%s: %s", life, w.Body)
		}
	}
	if p := decodeProblem(t, sendRequest(h, "POST /workflow-execution", startBody, "Idempotency-Life: 90s")); p.Status != 400 || p.Errors[0].Code != "required" {
		t.Errorf("a life without a key: %+v", p)
	}
	f.start = views.StartRequest{}
	if w := sendRequest(h, "POST /workflow-execution?dryRun=true", startBody, "Idempotency-Key: dry"); w.Code != 200 || !strings.Contains(w.Body.String(), `"warnings":["`) || f.start.Workflow != "" {
		t.Errorf("a dry run: %d %s, started %+v", w.Code, w.Body, f.start)
	}
	other := sendRequest(h, "POST /workflow-execution", `{"workflow":"a/b"}`, "Idempotency-Key: k1")
	if p := decodeProblem(t, other); p.Status != 422 || p.Code != "idempotency_mismatch" {
		t.Errorf("the same key, another body: %s", other.Body)
	}
}

// A job that has ended says how long it took.
func TestListJobs_ShowsTheDuration(t *testing.T) {
	var list struct{ Items []struct{ Duration *string } }
	w := sendRequest(newHandler(newFake()), "GET /workflow-execution/id/"+executionID+"/jobs", "")
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list.Items) != 2 || list.Items[0].Duration != nil || list.Items[1].Duration == nil || *list.Items[1].Duration != "1.5s" {
		t.Errorf("%s", w.Body)
	}
}

// The end of a token has two names in the request, of which one is given.
func TestCreateToken_TakesExpires(t *testing.T) {
	f := newFake()
	h := newHandler(f)
	for body, code := range map[string]int{`{"for":"ann","expires":"2030-01-02T00:00:00Z"}`: 201, `{"for":"ann","expiresAt":"2030-01-02T00:00:00Z"}`: 201, `{"for":"ann","expires":"2030-01-02T00:00:00Z","expiresAt":"2030-01-02T00:00:00Z"}`: 400, `{"for":"ann","expires":"soon"}`: 400} {
		f.issue = views.TokenRequest{}
		w := sendRequest(h, "POST /workflow-execution/"+executionID+"/tokens", body)
		if w.Code != code || code == 201 && (f.issue.ExpiresAt == nil || f.issue.ExpiresAt.Year() != 2030) {
			t.Errorf("%s: %d %s, %+v", body, w.Code, w.Body, f.issue)
		}
	}
}

// A body may have any content type: curl sends its own.
func TestHandler_IgnoresContentType(t *testing.T) {
	for _, c := range servedRoutes {
		method, _, _ := strings.Cut(c.pattern, " ")
		for _, media := range []string{"application/x-www-form-urlencoded", "text/yaml; charset=utf-8", "nonsense"} {
			if w := sendRequest(newHandler(newFake(), withMonitor), method+" "+c.target, c.body, "Content-Type: "+media); w.Code != c.status {
				t.Errorf("%s as %s: %d", c.pattern, media, w.Code)
			}
		}
	}
}

func TestHandler_PassesCommandsOn(t *testing.T) {
	f := newFake()
	h := newHandler(f)
	sendRequest(h, "POST /workflow-execution/"+executionID+"/cancel", `{"reason":"r","rollback":"never","cascade":false}`, "X-Actor: eve")
	if want := (views.CancelRequest{Reason: "r", Rollback: workflow.RollbackNever, Cascade: ptr(false)}); cmp.Diff(want, f.cancel) != "" || f.cancel.Cascades() || f.caller.Actor != "eve" {
		t.Errorf("%+v by %s", f.cancel, f.caller.Actor)
	}
	for _, c := range []string{"", "{}", `{"reason":""}`} {
		sendRequest(h, "DELETE /workflow-execution/"+executionID, c)
		if want := (views.CancelRequest{}); f.cancel != want || !f.cancel.Cascades() {
			t.Errorf("body %q: %+v", c, f.cancel)
		}
	}
	sendRequest(h, "POST /workflow-execution/"+executionID+"/retry", `{"reason":"r","from":"upgrade.check","entities":"failed"}`, "X-Actor: eve")
	if want := (views.RetryRequest{Reason: "r", From: "upgrade.check", Entities: views.RetryFailed}); f.retry != want || f.caller.Actor != "eve" {
		t.Errorf("%+v by %s", f.retry, f.caller.Actor)
	}
	for _, verb := range []string{"retry", "resume", "unlock", "acknowledge", "cancel"} {
		f.calls, f.reason, f.retry, f.cancel = nil, "?", views.RetryRequest{}, views.CancelRequest{}
		w := sendRequest(h, "POST /workflow-execution/"+executionID+"/"+verb, "", "X-Actor: eve")
		if name := strings.ToUpper(verb[:1]) + verb[1:]; w.Code != 202 || !slices.Equal(f.calls, []string{name, "Execution"}) {
			t.Errorf("%s without a body: %d, reached %v", verb, w.Code, f.calls)
		}
	}
	for _, verb := range []string{"resume", "unlock"} {
		if sendRequest(h, "POST /workflow-execution/"+executionID+"/"+verb, `{"reason":"for `+verb+`"}`); f.reason != "for "+verb {
			t.Errorf("%s: reason %q", verb, f.reason)
		}
	}
	// With input, resume is an answer; without, it is none, whatever else is said.
	f.calls, f.answer = nil, views.AnswerRequest{}
	w := sendRequest(h, "POST /workflow-execution/"+executionID+"/resume", `{"input":{"a":[1]},"step":"x.y","visit":2,"reason":"r"}`, "X-Actor: eve", "X-Roles: cab,duty", "Idempotency-Key: k")
	if want := (views.AnswerRequest{Input: rawJSON(`{"a":[1]}`), Step: "x.y", Visit: 2, Reason: "r", IdempotencyKey: "k"}); w.Code != 202 || cmp.Diff(want, f.answer) != "" || f.caller.Actor != "eve" || !slices.Equal(f.caller.RoleNames(), []string{"cab", "duty"}) {
		t.Errorf("%d: %+v by %+v", w.Code, f.answer, f.caller)
	}
	for body, want := range map[string]string{`{"input":null}`: "Resume", `{"input":false}`: "Answer", `{"input":0}`: "Answer", `{"input":""}`: "Answer", `{"step":"a"}`: "ResumeStep"} {
		f.calls = nil
		if w := sendRequest(h, "POST /workflow-execution/"+executionID+"/resume", body); w.Code != 202 || f.calls[0] != want {
			t.Errorf("%s: %d, reached %v", body, w.Code, f.calls)
		}
	}
	// The bearer of a token needs nothing else, whatever the credentials of others are.
	bare := newHandler(f, func(o *api.Options) { o.TrustHeaders = false })
	for header, want := range map[string]string{"Bearer lst1.a.b": "lst1.a.b", "bearer  lst1.a.b ": "lst1.a.b", "Basic lst1.a.b": "", "lst1.a.b": "", "": ""} {
		f.token = "?"
		if w := sendRequest(bare, "POST /answers", `{"input":[1]}`, "Authorization: "+header, "Idempotency-Key: k"); w.Code != 202 || f.token != want || string(f.byToken.Input) != "[1]" || f.byToken.IdempotencyKey != "k" {
			t.Errorf("%s: %d, %q %+v", header, w.Code, f.token, f.byToken)
		}
		f.token = "?"
		if w := sendRequest(bare, "GET /answers", "", "Authorization: "+header); w.Code != 200 || f.token != want || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d, %q", header, w.Code, f.token)
		}
	}
	if w := sendRequest(bare, "POST /workflow-execution/"+executionID+"/tokens", `{"for":"ann"}`); w.Code != 401 {
		t.Errorf("a token for nobody who is known: %d", w.Code)
	}
	if w := sendRequest(bare, "POST /answers", `{"input":"`+strings.Repeat("x", 70_000)+`"}`); w.Code != 413 {
		t.Errorf("a large answer: %d", w.Code)
	}
	for _, id := range []string{"", "id/"} { // where they are made, too
		if w := sendRequest(h, "GET /workflow-execution/"+id+executionID+"/tokens", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"state":"expired"`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	if w := sendRequest(h, "POST /workflow-execution/"+executionID+"/tokens", `{"for":"ann"}`); w.Header().Get("Cache-Control") != "no-store" {
		t.Error("a token may be kept by caches")
	}
	for body, want := range map[string]string{"": "", `{"data":null}`: "", `{"data":0}`: "0", `{"data":{"a":null}}`: `{"a":null}`} {
		f.signal.Data = rawJSON("?")
		if w := sendRequest(h, "POST /workflow-execution/"+executionID+"/signal/a.b", body, "Idempotency-Key: k"); w.Code != 202 || string(f.signal.Data) != want || f.signal.IdempotencyKey != "k" || f.signalName != "a.b" {
			t.Errorf("%s: %d, %+v %s", body, w.Code, f.signal, f.signalName)
		}
	}
	if w := sendRequest(h, "POST /workflow-execution/"+executionID+"/signal/9", ""); w.Code != 400 {
		t.Errorf("a name that is none: %d", w.Code)
	}
	for _, body := range []string{`{"inputs":1}`, `{"input":1,"visit":0}`, `{"input":1,"step":5}`} {
		if w := sendRequest(h, "POST /workflow-execution/"+executionID+"/resume", body); w.Code != 400 {
			t.Errorf("%s: %d", body, w.Code)
		}
	}
	if w := sendRequest(h, "GET /inputs", "", "X-Roles: "+strings.Repeat("x", workflow.MaxRolesBytes+1)); w.Code != 400 {
		t.Errorf("too many roles: %d", w.Code)
	}
	for line, archived := range map[string]bool{"DELETE /workflow-definition/fleet/upgrade/1.0.0": true, "POST /workflow-definition/fleet/upgrade/1.0.0/restore": false} {
		f.archived = !archived
		w := sendRequest(h, line, "")
		if w.Code != 200 || f.archived != archived || !strings.Contains(w.Body.String(), fmt.Sprintf(`"archived":%v`, archived)) {
			t.Errorf("%s: %d %s", line, w.Code, w.Body)
		}
	}
	sendRequest(h, "POST /workflow-execution/"+executionID+"/acknowledge", `{"reason":"checked"}`)
	if f.reason != "checked" {
		t.Errorf("reason %q", f.reason)
	}
	f.calls = nil
	for _, entities := range []string{"[]", `["sw-1"]`, `["device/sw-1", 2]`, `"device/sw-1"`} { // none must not mean all
		if w := sendRequest(h, "POST /workflow-execution/"+executionID+"/acknowledge", `{"entities":`+entities+`}`); w.Code != 400 || len(f.calls) > 0 {
			t.Errorf("entities %s: %d, reached %v", entities, w.Code, f.calls)
		}
	}
	sendRequest(h, "POST /workflow-definition/publish", "a: [b")
	if string(f.source) != "a: [b" {
		t.Errorf("source %q", f.source)
	}
	sendRequest(h, "POST /entities/import", "{}\n{}\n")
	if string(f.imported) != "{}\n{}\n" {
		t.Errorf("imported %q", f.imported)
	}
	sendRequest(h, "PUT /entities/device/sw-1", `{"attributes":{"a":1},"version":9,"token":9}`)
	if f.entity.Version != 0 || f.entity.Token != 0 || f.entity.Type != "device" || f.entity.ID != "sw-1" {
		t.Errorf("a client set the version or the token: %+v", f.entity)
	}
}

func TestHandler_PassesFiltersOn(t *testing.T) {
	f := newFake()
	h := newHandler(f)
	sendRequest(h, "GET /workflow-execution?state=RUNNING&status=RUNNING&workflow=fleet/upgrade:1.2&label=a=b=c&label=d:e&parent=p&createdAfter=2026-11-21T05:00:00Z&idempotencyKey=a%230&sort=createdAt:asc&limit=7", "")
	want := views.ExecutionFilter{
		State: statemachines.ExecutionRunning, Status: statemachines.StatusRunning, Workflow: workflow.Ref{Package: "fleet", Name: "upgrade", Version: "1.2"},
		Labels: map[string]string{"a": "b=c", "d": "e"}, Parent: "p", CreatedAfter: at, Order: workflow.OrderOldest, IdempotencyKey: "a#0",
	}
	if d := cmp.Diff(want, f.filter); d != "" || f.page.Limit != 7 {
		t.Errorf("%s limit %d", d, f.page.Limit)
	}
	sendRequest(h, "GET /workflow-execution/active", "")
	if !f.filter.Active || f.page != (workflow.Page{Limit: workflow.DefaultPageSize}) {
		t.Errorf("%+v %+v", f.filter, f.page)
	}
	for text, key := range map[string]workflow.EntityKey{"device/sw-1": {Type: "device", ID: "sw-1"}, "sw-1": {ID: "sw-1"}} {
		sendRequest(h, "GET /workflow-execution/id/"+executionID+"/jobs?entity="+text+"&state=UNKNOWN&kind=ROLLBACK&step=up%20grade&attempts=last&failed=true", "")
		if want := (views.JobFilter{Step: "up grade", Entity: key, State: statemachines.JobUnknown, Kind: workflow.JobRollback, LastAttempts: true, FinallyFailed: true}); f.jobs != want {
			t.Errorf("got %+v, want %+v", f.jobs, want)
		}
	}
	sendRequest(h, "GET /workflow-definition?label=team=net&label=tier:1&limit=3", "")
	if d := cmp.Diff(map[string]string{"team": "net", "tier": "1"}, f.labels); d != "" || f.page.Limit != 3 {
		t.Errorf("%s limit %d", d, f.page.Limit)
	}
	sendRequest(h, "GET /entities?type=device&group=core&group=edge&query=entity.a%20%3D%3D%201", "")
	if d := cmp.Diff(workflow.Selector{Type: "device", Groups: []string{"core", "edge"}, Query: "entity.a == 1"}, f.selector); d != "" {
		t.Error(d)
	}
}

// A page token is valid only for its own list.
func TestHandler_PageTokenContinuesOnlyItsList(t *testing.T) {
	f := newFake()
	f.next = "inner\x00token"
	h := newHandler(f)
	var first struct{ NextPageToken string }
	if err := json.Unmarshal(sendRequest(h, "GET /workflow-execution?state=RUNNING&limit=1", "").Body.Bytes(), &first); err != nil || first.NextPageToken == "" {
		t.Fatalf("%+v %v", first, err)
	}
	token := "pageToken=" + first.NextPageToken
	if w := sendRequest(h, "GET /workflow-execution?limit=50&state=RUNNING&"+token, ""); w.Code != 200 || f.page != (workflow.Page{Limit: 50, Token: f.next}) {
		t.Errorf("%d %+v", w.Code, f.page)
	}
	for _, line := range []string{
		"GET /workflow-execution?state=NEW&" + token, "GET /workflow-execution?" + token, "GET /locks?" + token,
		"GET /workflow-execution?state=RUNNING&" + token + "A", "GET /workflow-execution?state=RUNNING&pageToken=" + first.NextPageToken[:8], "GET /workflow-execution?state=RUNNING&pageToken=" + first.NextPageToken[:24],
	} {
		f.calls = nil
		if p := decodeProblem(t, sendRequest(h, line, "")); p.Status != 400 || len(f.calls) > 0 {
			t.Errorf("%s: %d", line, p.Status)
		}
	}
	if w := sendRequest(h, "GET /workflow-execution?state=RUNNING&"+token, "", "X-Tenant: other"); w.Code != 400 {
		t.Errorf("another tenant's token: %d", w.Code)
	}
}

// R57: an execution does not exist for another tenant.
func TestHandler_HidesOtherTenants(t *testing.T) {
	h := newHandler(newFake())
	for _, line := range []string{"GET /workflow-execution/id/" + executionID, "GET /executions/" + executionID + "/status", "DELETE /workflow-execution/" + executionID} {
		if w := sendRequest(h, line, "", "X-Tenant: other"); w.Code != 404 {
			t.Errorf("%s: %d", line, w.Code)
		}
		if w := sendRequest(h, line, ""); w.Code >= 300 {
			t.Errorf("%s by the owner: %d", line, w.Code)
		}
	}
}

func TestHandler_IdentifiesCaller(t *testing.T) {
	untrusted := func(o *api.Options) { o.TrustHeaders = false }
	claims := func(c workflow.Caller, err error) func(*api.Options) {
		return func(o *api.Options) {
			o.TrustHeaders = false
			o.Identify = func(*http.Request) (workflow.Caller, error) { return c, err }
		}
	}
	for _, c := range []struct {
		name   string
		change func(*api.Options)
		status int
		caller workflow.Caller
	}{
		{"no authorizer", untrusted, 401, workflow.Caller{}},
		{"claims", claims(workflow.Caller{Tenant: "acme", Actor: "ann"}, nil), 200, workflow.Caller{Tenant: "acme", Actor: "ann"}},
		{"no tenant", claims(workflow.Caller{Actor: "ann"}, nil), 401, workflow.Caller{}},
		{"identity error", claims(workflow.Caller{}, errors.New("a secret")), 401, workflow.Caller{}},
		{"forbidden", claims(workflow.Caller{}, workflow.Errorf(workflow.CodeForbidden, "no")), 403, workflow.Caller{}},
		{"headers", func(*api.Options) {}, 200, workflow.Caller{Tenant: "mine", Actor: "me"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			h := newHandler(f, c.change)
			w := sendRequest(h, "GET /locks", "", "X-Tenant: mine", "X-Actor: me")
			if w.Code != c.status || f.caller != c.caller || strings.Contains(w.Body.String(), "secret") {
				t.Errorf("%d by %+v: %s", w.Code, f.caller, w.Body)
			}
			// Public routes need no identity; others do.
			if w := sendRequest(h, "GET /health", ""); w.Code != 200 {
				t.Errorf("health: %d", w.Code)
			}
			if w := sendRequest(h, "GET /workers", ""); c.status >= 400 && w.Code != c.status {
				t.Errorf("another route: %d", w.Code)
			}
		})
	}
	f := newFake()
	sendRequest(newHandler(f), "GET /locks", "")
	if f.caller != (workflow.Caller{Tenant: "default", Actor: "local"}) {
		t.Errorf("default caller %+v", f.caller)
	}
}

func TestHandler_SetsRequestIDs(t *testing.T) {
	h := newHandler(newFake())
	for _, line := range []string{"GET /health", "GET /nowhere", "GET /locks?limit=x", "PATCH /locks"} {
		w := sendRequest(h, line, "", "X-Request-Id: r-1", "X-Correlation-Id: c-1")
		if w.Header().Get("X-Request-Id") != "r-1" || w.Header().Get("X-Correlation-Id") != "c-1" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", line, w.Header())
		}
		w = sendRequest(h, line, "", "X-Request-Id: a b")
		if w.Header().Get("X-Request-Id") != "made-up" || w.Header().Get("X-Correlation-Id") != "made-up" {
			t.Errorf("%s: %v", line, w.Header())
		}
	}
}

func TestHandler_AllowHeaderListsMethods(t *testing.T) {
	h := newHandler(newFake())
	for line, want := range map[string]string{
		"POST /locks": "GET, HEAD", "POST /entities/a/b": "GET, HEAD, PUT, PATCH, DELETE", "GET /workflow-execution/x": "DELETE", "PUT /workflow-execution": "GET, HEAD, POST",
	} {
		if got := sendRequest(h, line, "").Header().Get("Allow"); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// The client gets a problem; the log gets the stack.
func TestHandler_PanicBecomesProblem(t *testing.T) {
	var log bytes.Buffer
	f := newFake()
	f.panics = true
	h := newHandler(f, func(o *api.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	w := sendRequest(h, "GET /locks", "", "X-Request-Id: r-9")
	if p := decodeProblem(t, w); p.Status != 500 || p.Code != "internal" || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("%s", w.Body)
	}
	for _, want := range []string{"a secret", "fake_test.go", "r-9"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q", want)
		}
	}
}

func TestHealth_FollowsReadiness(t *testing.T) {
	var ready error
	h := newHandler(newFake(), func(o *api.Options) { o.Ready = func(context.Context) error { return ready } })
	if w := sendRequest(h, "GET /health", ""); w.Code != 200 {
		t.Errorf("%d", w.Code)
	}
	ready = errors.New("secret table is missing")
	w := sendRequest(h, "GET /health", "")
	if p := decodeProblem(t, w); p.Status != 503 || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("%s", w.Body)
	}
}

func TestHandler_ServesMonitor(t *testing.T) {
	h := newHandler(newFake(), withMonitor)
	for line, status := range map[string]int{"GET /": 200, "HEAD /": 200, "GET /monitor/app.js": 200, "POST /": 405, "GET /answer": 200, "POST /answer": 405, "GET /answer/": 404, "GET /index.html": 404} {
		if w := sendRequest(h, line, ""); w.Code != status {
			t.Errorf("%s: %d, want %d", line, w.Code, status)
		}
	}
	if w := sendRequest(newHandler(newFake()), "GET /", ""); w.Code != 404 {
		t.Errorf("without a monitor: %d", w.Code)
	}
	for _, header := range []string{"Access-Control-Allow-Origin", "Access-Control-Allow-Methods"} {
		if w := sendRequest(h, "GET /locks", "", "Origin: http://other.example"); w.Header().Get(header) != "" {
			t.Errorf("%s is set", header)
		}
	}
}

// N59: list, detail and status of an execution agree in every state. N60: the status has
// seven fields and nothing about entities, and a terminal event exactly when the execution
// has ended.
func TestGetStatus_AgreesInEveryState(t *testing.T) {
	f := newFake()
	h := newHandler(f)
	fields := []string{"completion_inferred", "current_step", "ended_at", "execution_id", "started_at", "state", "terminal_event"}
	for _, state := range statemachines.ExecutionStates() {
		f.executions[executionID].State = state
		var detail struct{ State, Status string }
		var list struct {
			Items []struct{ State, Status string }
		}
		var status map[string]any
		for line, v := range map[string]any{
			"GET /workflow-execution/id/" + executionID: &detail, "GET /workflow-execution/state/" + string(state): &list, "GET /executions/" + executionID + "/status": &status,
		} {
			w := sendRequest(h, line, "")
			if err := json.Unmarshal(w.Body.Bytes(), v); err != nil || w.Code != 200 {
				t.Fatalf("%s: %d %v", line, w.Code, err)
			}
			if strings.HasSuffix(line, "/status") {
				checkResponse(t, "GET /executions/{id}/status", w)
			}
		}
		want := string(statemachines.StatusOf(state))
		if detail.Status != want || status["state"] != want || len(list.Items) != 1 || list.Items[0].Status != want || detail.State != string(state) {
			t.Errorf("%s: detail %+v, list %+v, status %v", state, detail, list, status)
		}
		var got []string
		for name := range status {
			got = append(got, name)
		}
		if slices.Sort(got); !slices.Equal(got, fields) {
			t.Errorf("%s: fields %v", state, got)
		}
		if ended := statemachines.Terminal(state); ended != (status["terminal_event"] != nil) || ended != (status["ended_at"] != nil) {
			t.Errorf("%s: %v", state, status)
		}
	}
}

// A worker's report arrives unchanged, and an empty poll has no body.
func TestHandler_WorkerPollingRoutes(t *testing.T) {
	f := newFake()
	h := newHandler(f)
	sendRequest(h, "POST /blackboard/job/result", `{"pack":"p","token":3,"results":[{"job":"j","outcome":"NOOP"}],"notBegun":["k"]}`)
	if f.results.Pack != "p" || f.results.Token != 3 || len(f.results.Results) != 1 || string(f.results.Results[0]) != `{"job":"j","outcome":"NOOP"}` || f.results.NotStarted[0] != "k" {
		t.Errorf("%+v", f.results)
	}
	if w := sendRequest(h, "POST /blackboard/job", `{"worker":"idle","blocks":["a/b"]}`); w.Code != 204 || w.Body.Len() != 0 {
		t.Errorf("nothing to do: %d %q", w.Code, w.Body)
	}
	sendRequest(h, "GET /function-blocks/fleet/upgrade/1.2.3/workers", "")
	if got := f.calls[len(f.calls)-1]; got != "Workers fleet/upgrade:1.2.3" {
		t.Error(got)
	}
	for _, body := range []string{`{"worker":"w","blocks":[]}`, `{"blocks":["a/b"]}`, `{"worker":"w","blocks":["a/b"],"wait":"soon"}`} {
		if w := sendRequest(h, "POST /blackboard/job", body); w.Code != 400 {
			t.Errorf("%s: %d", body, w.Code)
		}
	}
}

// Pages of a trusted origin may write, after a preflight. Pages of any other origin may
// not, and get no preflight answer.
func TestHandler_CrossOriginRequests(t *testing.T) {
	const start = "POST /workflow-execution"
	for name, c := range map[string]struct {
		line, body, origin string
		headers            []string
		status             int
	}{
		"trusted preflight":        {"OPTIONS /workflow-execution", "", "https://ops.example", []string{"Access-Control-Request-Method: POST"}, 204},
		"trusted request":          {start, startBody, "https://ops.example", []string{"Sec-Fetch-Site: cross-site"}, 202},
		"untrusted preflight":      {"OPTIONS /workflow-execution", "", "https://evil.example", []string{"Access-Control-Request-Method: POST"}, 405},
		"untrusted request":        {start, startBody, "https://evil.example", []string{"Sec-Fetch-Site: cross-site"}, 403},
		"OPTIONS, not a preflight": {"OPTIONS /workflow-execution", "", "https://ops.example", nil, 405},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			h := newHandler(f, func(o *api.Options) { o.Origins = []string{"https://ops.example"} })
			w := sendRequest(h, c.line, c.body, append(c.headers, "Origin: "+c.origin)...)
			if w.Code != c.status {
				t.Fatalf("status %d, want %d: %.300s", w.Code, c.status, w.Body)
			}
			if reached := len(f.calls) > 0; reached != (c.status == 202) {
				t.Errorf("reached %v", f.calls)
			}
		})
	}
}
