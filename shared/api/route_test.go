package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lockstep-run/lockstep/shared/api"
	"github.com/lockstep-run/lockstep/shared/api/openapi"
)

var discardLog = slog.New(slog.NewTextHandler(io.Discard, nil))

func newHandler(f *fake, change ...func(*api.Options)) http.Handler {
	opt := api.Options{TrustHeaders: true, Log: discardLog, Version: "1.2.3", Commit: "abc", NewID: func() string { return "made-up" }}
	for _, c := range change {
		c(&opt)
	}
	return api.New(api.Services{Catalog: f, Engine: f, Queries: f, WorkerAPI: f, Operations: f}, opt)
}

// sendRequest sends "METHOD /path" with a body and headers given as "Name: value".
func sendRequest(h http.Handler, line, body string, headers ...string) *httptest.ResponseRecorder {
	method, target, _ := strings.Cut(line, " ")
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var openAPI = sync.OnceValue(func() map[string]any {
	var doc map[string]any
	if err := json.Unmarshal(openapi.JSON, &doc); err != nil {
		panic(err)
	}
	return doc
})

// checkResponse validates an answer against the document's description of the route, such
// as "GET /locks/{type}/{id}".
func checkResponse(t *testing.T, pattern string, w *httptest.ResponseRecorder) {
	t.Helper()
	method, path, _ := strings.Cut(pattern, " ")
	op := openAPI()["paths"].(map[string]any)[path].(map[string]any)[strings.ToLower(method)].(map[string]any)
	responses := op["responses"].(map[string]any)
	key := fmt.Sprint(w.Code)
	if responses[key] == nil {
		if w.Code < 400 {
			t.Fatalf("%s: the document has no status %d", pattern, w.Code)
		}
		key = "default"
	}
	var at string
	response := responses[key].(map[string]any)
	if ref, ok := response["$ref"].(string); ok {
		at = strings.TrimPrefix(ref, "#")
		response = openAPI()["components"].(map[string]any)["responses"].(map[string]any)[at[strings.LastIndex(at, "/")+1:]].(map[string]any)
	} else {
		at = "/paths/" + strings.ReplaceAll(path, "/", "~1") + "/" + strings.ToLower(method) + "/responses/" + key
	}
	media := w.Header().Get("Content-Type")
	if response["content"].(map[string]any)[media] == nil {
		t.Fatalf("%s: the document has no %q with status %d", pattern, media, w.Code)
	}
	headers := asObject(asObject(openAPI()["components"])["headers"])
	for name, header := range asObject(response["headers"]) {
		if ref, ok := asObject(header)["$ref"].(string); ok {
			header = headers[strings.TrimPrefix(ref, "#/components/headers/")]
		}
		if w.Header().Get(name) == "" && asObject(header)["required"] != false {
			t.Errorf("%s: no header %s", pattern, name)
		}
	}
	if media == "text/html" {
		return
	}
	schema := openapi.Load().CompileSchema(at + "/content/" + strings.ReplaceAll(media, "/", "~1") + "/schema")
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		t.Fatalf("%s: %v in %s", pattern, err, w.Body)
	}
	if err := schema.Validate(v); err != nil {
		t.Errorf("%s: %v\n%s", pattern, err, w.Body)
	}
}

func asObject(v any) map[string]any { m, _ := v.(map[string]any); return m }

const startBody = `{"workflow":"fleet/upgrade:1","parameters":{"target":"2"},"executeOnParameters":{"type":"device","groups":["core"]},"labels":{"a":"b"},"notBefore":null}`

// servedRoutes has a valid request for every route.
var servedRoutes = []struct {
	pattern, target, body string
	status                int
}{
	{"POST /workflow-definition/publish", "/workflow-definition/publish", "package: p\nname: w\nversion: 1.0.0\nsteps: [{label: a, set: {x: 1}}]\n", 201},
	{"POST /workflow-definition/publish", "/workflow-definition/publish?dryRun=true", "package: fleet", 200},
	{"GET /workflow-definition", "/workflow-definition?limit=1000", "", 200},
	{"GET /workflow-definition/{package}/{name}", "/workflow-definition/fleet/upgrade", "", 200},
	{"GET /workflow-definition/{package}/{name}/{version}", "/workflow-definition/fleet/upgrade/1.0.0", "", 200},
	{"GET /workflow-definition/schema", "/workflow-definition/schema", "", 200},
	{"DELETE /workflow-definition/{package}/{name}/{version}", "/workflow-definition/fleet/upgrade/1.0.0", "", 200},
	{"POST /workflow-definition/{package}/{name}/{version}/restore", "/workflow-definition/fleet/upgrade/1.0.0/restore", "", 200},
	{"POST /function-blocks/register", "/function-blocks/register", `{"package":"fleet","name":"upgrade","version":"1.0.0","timeout":"90s","pure":true,"parameterSchema":null,"http":{"url":"http://127.0.0.1:8/x","headers":{"A":"b"}}}`, 201},
	{"GET /function-blocks", "/function-blocks", "", 200},
	{"POST /workflow-execution", "/workflow-execution?dryRun=true", startBody, 200},
	{"POST /workflow-execution/batch", "/workflow-execution/batch", `{"items":[{"workflow":"fleet/upgrade"},{"workflow":"fleet/upgrade:1"}]}`, 200},
	{"POST /workflow-execution/bulk", "/workflow-execution/bulk?state=RUNNING&verb=cancel", `{"reason":"r"}`, 200},
	{"POST /workflow-execution/bulk", "/workflow-execution/bulk", `{"verb":"cancel","filter":{"state":"RUNNING"},"dryRun":true}`, 200},
	{"GET /forms/{tenant}/{name}", "/forms/default/contact", "", 200},
	{"POST /events", "/events", `{"id":"e1","source":"shop","detail-type":"placed","detail":{"a":1},"region":"eu"}`, 202},
	{"GET /triggers", "/triggers", "", 200},
	{"GET /triggers/{name}", "/triggers/push", "", 200},
	{"GET /triggers/{name}/history", "/triggers/push/history", "", 200},
	{"GET /triggers/{name}/stats", "/triggers/push/stats", "", 200},
	{"POST /triggers/{name}/pause", "/triggers/push/pause", `{"reason":"r"}`, 200},
	{"POST /triggers/{name}/resume", "/triggers/push/resume", `{"reason":"r"}`, 200},
	{"POST /triggers/{name}/fire", "/triggers/push/fire", `{"body":{"a":1}}`, 202},
	{"POST /hooks/{tenant}/{name}", "/hooks/default/push", `{"a":1}`, 202},
	{"GET /tables", "/tables", "", 200},
	{"GET /tables/{name}", "/tables/payments", "", 200},
	{"PUT /tables/{name}", "/tables/payments", `{"columns":[{"name":"txn","type":"string"}],"retention":"1h"}`, 200},
	{"GET /tables/{name}/rows", "/tables/payments/rows?where=txn+%3D%3D+%271%27&after=r0", "", 200},
	{"GET /tables/{name}/deliveries", "/tables/payments/deliveries", "", 200},
	{"POST /tables/{name}/retry", "/tables/payments/retry", `{"reason":"r"}`, 200},
	{"GET /subscriptions", "/subscriptions", "", 200},
	{"GET /subscriptions/{name}", "/subscriptions/failures", "", 200},
	{"POST /subscriptions/{name}/test", "/subscriptions/failures/test", `{"reason":"r"}`, 200},
	{"GET /subscriptions/{name}/deliveries", "/subscriptions/failures/deliveries", "", 200},
	{"PUT /subscriptions/{name}", "/subscriptions/failures", `{"url":"https://hooks.example","events":["execution.*"]}`, 200},
	{"DELETE /subscriptions/{name}", "/subscriptions/failures", "", 200},
	{"POST /subscriptions/{name}/resume", "/subscriptions/failures/resume", `{"reason":"r"}`, 200},
	{"GET /schedules", "/schedules", "", 200},
	{"GET /schedules/{package}/{name}", "/schedules/fleet/upgrade", "", 200},
	{"DELETE /schedules/{package}/{name}", "/schedules/fleet/upgrade", "", 200},
	{"POST /schedules/{package}/{name}/pause", "/schedules/fleet/upgrade/pause", `{"reason":"r"}`, 200},
	{"POST /schedules/{package}/{name}/remove", "/schedules/fleet/upgrade/remove", `{"reason":"r"}`, 200},
	{"POST /schedules/{package}/{name}/resume", "/schedules/fleet/upgrade/resume", "", 200},
	{"POST /schedules/{package}/{name}/fire", "/schedules/fleet/upgrade/fire", "", 202},
	{"GET /entities/types", "/entities/types", "", 200},
	{"GET /entities", "/entities?type=device&group=core&group=edge&query=true", "", 200},
	{"POST /entities/import", "/entities/import", "{\"type\":\"device\",\"id\":\"a\"}\n", 200},
	{"GET /entities/{type}/{id}", "/entities/device/sw-1", "", 200},
	{"GET /entities/{type}/{id}/executions", "/entities/device/sw-1/executions", "", 200},
	{"POST /entities/import", "/entities/import?replace=true", "{\"type\":\"device\",\"id\":\"a\"}\n", 200},
	{"PATCH /entities/{type}/{id}", "/entities/device/sw-1", `{"set":{"a":1},"remove":["b"],"addGroups":["core"],"removeGroups":["edge"],"version":7}`, 200},
	{"DELETE /entities/{type}/{id}", "/entities/device/sw-1?version=7", "", 200},
	{"DELETE /entities/{type}/{id}", "/entities/device/sw-1", "", 200},
	{"PUT /entities/{type}/{id}", "/entities/device/sw-1", `{"type":"device","id":"sw-1","attributes":{"a":1},"groups":["core"],"version":1,"token":0}`, 200},
	{"POST /workflow-execution", "/workflow-execution", startBody, 202},
	{"POST /workflow-execution/plan", "/workflow-execution/plan", startBody, 200},
	{"GET /workflow-execution", "/workflow-execution?state=RUNNING&status=RUNNING&workflow=fleet/upgrade:1&label=a=b&label=c:d&parent=x&key=order-7&region=eu&idempotencyKey=k&createdAfter=2026-11-21T05:00:00Z&createdBefore=2026-11-22T05:00:00Z&limit=5", "", 200},
	{"GET /workflow-execution/active", "/workflow-execution/active", "", 200},
	{"GET /workflow-execution/state/{state}", "/workflow-execution/state/RUNNING", "", 200},
	{"GET /workflow-execution/id/{id}", "/workflow-execution/id/" + executionID, "", 200},
	{"GET /workflow-execution/id/{id}/history", "/workflow-execution/id/" + executionID + "/history", "", 200},
	{"GET /workflow-execution/id/{id}/history", "/workflow-execution/id/" + executionID + "/history?after=3&wait=20s", "", 200},
	{"GET /workflow-execution/id/{id}/jobs", "/workflow-execution/id/" + executionID + "/jobs?step=upgrade&entity=device/sw-1&state=FAILED&kind=EXECUTE", "", 200},
	{"GET /workflow-execution/id/{id}/steps", "/workflow-execution/id/" + executionID + "/steps", "", 200},
	{"GET /workflow-execution/id/{id}/result", "/workflow-execution/id/" + executionID + "/result", "", 200},
	{"GET /workflow-execution/id/{id}/cost", "/workflow-execution/id/" + executionID + "/cost", "", 200},
	{"GET /workflow-execution/id/{id}/definition", "/workflow-execution/id/" + executionID + "/definition", "", 200},
	{"GET /workflow-execution/id/{id}/next", "/workflow-execution/id/" + executionID + "/next", "", 200},
	{"POST /workflow-execution/{id}/signal/{name}", "/workflow-execution/" + executionID + "/signal/paid", `{"data":{"amount":12},"reason":"r"}`, 202},
	{"POST /workflow-execution/{id}/signal/{name}", "/workflow-execution/" + executionID + "/signal/order.paid-1", "", 202},
	{"POST /workflow-execution", "/workflow-execution", `{"workflow":"fleet/upgrade:1","key":"order-7","signal":{"name":"paid","data":null,"id":"s"}}`, 202},
	{"POST /signals/{package}/{name}/{key}/{signal}", "/signals/fleet/upgrade/order:7/paid", `{"data":{"amount":12},"reason":"r"}`, 202},
	{"POST /signals/{package}/{name}/{key}/{signal}", "/signals/fleet/upgrade/order-7/paid", "", 202},
	{"POST /workflow-execution/{id}/tokens", "/workflow-execution/" + executionID + "/tokens", `{"for":"ann@example.com","step":"approve","visit":2,"expiresAt":"2030-01-02T00:00:00Z","reason":"r"}`, 201},
	{"POST /workflow-execution/{id}/tokens", "/workflow-execution/" + executionID + "/tokens", `{"for":"ann"}`, 201},
	{"GET /workflow-execution/id/{id}/tokens", "/workflow-execution/id/" + executionID + "/tokens", "", 200},
	{"POST /workflow-execution/{id}/tokens/revoke", "/workflow-execution/" + executionID + "/tokens/revoke", `{"step":"approve","reason":"r"}`, 202},
	{"GET /answers", "/answers", "", 200},
	{"POST /answers", "/answers", `{"input":{"approved":true}}`, 202},
	{"GET /workflow-execution/id/{id}/compensations", "/workflow-execution/id/" + executionID + "/compensations?limit=1", "", 200},
	{"GET /workflow-execution/id/{id}/children", "/workflow-execution/id/" + executionID + "/children?step=go&limit=1", "", 200},
	{"GET /workflow-execution/id/{id}/inputs", "/workflow-execution/id/" + executionID + "/inputs", "", 200},
	{"GET /inputs", "/inputs?mine=false&limit=1", "", 200},
	{"POST /workflow-execution/{id}/resume", "/workflow-execution/" + executionID + "/resume", `{"input":[1],"step":"outer.ask","visit":2}`, 202},
	{"DELETE /workflow-execution/{id}", "/workflow-execution/" + executionID, "", 202},
	{"POST /workflow-execution/{id}/cancel", "/workflow-execution/" + executionID + "/cancel", `{"reason":"r","rollback":"never","cascade":false}`, 202},
	{"POST /workflow-execution/{id}/acknowledge", "/workflow-execution/" + executionID + "/acknowledge", `{"reason":"checked"}`, 202},
	{"GET /failures", "/failures?since=2026-11-21T05:00:00Z&workflow=fleet/upgrade&group=core", "", 200},
	{"POST /workflow-execution/{id}/rerun", "/workflow-execution/" + executionID + "/rerun", `{"entities":["device/sw-1"],"parameters":{"a":1},"reason":"r"}`, 202},
	{"POST /workflow-execution/{id}/retry", "/workflow-execution/" + executionID + "/retry", `{"reason":"r","from":"outer.inner","entities":"all","force":true}`, 202},
	{"POST /workflow-execution/{id}/resume", "/workflow-execution/" + executionID + "/resume", `{"reason":"r"}`, 202},
	{"POST /workflow-execution/{id}/next", "/workflow-execution/" + executionID + "/next", `{"reason":"r","sequence":3,"all":true}`, 202},
	{"POST /workflow-execution/{id}/rewind", "/workflow-execution/" + executionID + "/rewind", `{"reason":"r","to":"outer.inner","force":true}`, 202},
	{"POST /workflow-execution/{id}/unlock", "/workflow-execution/" + executionID + "/unlock", `{"reason":"r"}`, 202},
	{"GET /metrics/summary", "/metrics/summary?workflow=fleet/upgrade&days=30", "", 200},
	{"GET /audit", "/audit?actor=ann&verb=cancelExecution&execution=" + executionID + "&after=2026-11-21T05:00:00Z&before=2026-11-22T05:00:00Z&limit=5", "", 200},
	{"GET /executions/{id}/status", "/executions/" + executionID + "/status", "", 200},
	{"GET /locks", "/locks", "", 200},
	{"GET /locks/{type}/{id}", "/locks/device/sw-1", "", 200},
	{"GET /workers", "/workers", "", 200},
	{"GET /function-blocks/{package}/{name}/{version}/workers", "/function-blocks/fleet/upgrade/1.0.0/workers", "", 200},
	{"POST /workers/register", "/workers/register", `{"id":"w1","pool":"edge","blocks":["fleet/upgrade:1"],"version":"2"}`, 201},
	{"GET /workers/{id}", "/workers/w1", "", 200},
	{"POST /workers/{id}/heartbeat", "/workers/w1/heartbeat", "", 200},
	{"POST /workers/{id}/drain", "/workers/w1/drain", `{"reason":"r"}`, 200},
	{"POST /workers/{id}/unregister", "/workers/w1/unregister", "", 200},
	{"POST /blackboard/job", "/blackboard/job", `{"worker":"w1","blocks":["fleet/upgrade:1"],"wait":"5s"}`, 200},
	{"POST /blackboard/job/heartbeat", "/blackboard/job/heartbeat", `{"pack":"p","token":1}`, 200},
	{"POST /blackboard/job/result", "/blackboard/job/result", `{"pack":"p","token":1,"results":[{"job":"j","outcome":"OK","result":{}}],"notBegun":["k"]}`, 200},
	{"GET /blackboard/jobs", "/blackboard/jobs", "", 200},
	{"GET /dead-letters", "/dead-letters?queue=jobs-edge&limit=7", "", 200},
	{"POST /dead-letters/redrive", "/dead-letters/redrive", `{"queue":"lifecycle","limit":10}`, 200},
	{"GET /sweep", "/sweep", "", 200},
	{"GET /secrets", "/secrets", "", 200},
	{"GET /caller", "/caller", "", 200},
	{"GET /health", "/health", "", 200},
	{"GET /version", "/version", "", 200},
	{"GET /openapi.json", "/openapi.json", "", 200},
	{"GET /", "/", "", 200},
	{"GET /answer", "/answer", "", 200},
}

func withMonitor(o *api.Options) {
	o.Monitor = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<p>fine</p>")
	})
}

// Every route's answer matches the document, with all optional fields and with none, with
// and without a next page.
func TestHandler_ResponsesMatchOpenAPI(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range servedRoutes {
		for _, bare := range []bool{false, true} {
			f := newFake()
			f.minimal = bare
			if !bare {
				f.next = "more"
			}
			h := newHandler(f, withMonitor)
			method, _, _ := strings.Cut(c.pattern, " ")
			w := sendRequest(h, method+" "+c.target, c.body)
			if w.Code != c.status {
				t.Fatalf("%s %s: status %d, want %d: %s", method, c.target, w.Code, c.status, w.Body)
			}
			checkResponse(t, c.pattern, w)
			if method == "GET" {
				head := sendRequest(h, "HEAD "+c.target, "")
				if head.Code != c.status || head.Body.Len() != 0 {
					t.Errorf("HEAD %s: status %d and %d bytes", c.target, head.Code, head.Body.Len())
				}
			}
		}
		seen[c.pattern] = true
	}
	for pattern := range openapi.Load().Operations {
		if !seen[pattern] {
			t.Errorf("%s is not tested", pattern)
		}
	}
}

// Every error of a service becomes the problem of its code, whatever the route.
func TestHandler_ServiceErrorsBecomeProblems(t *testing.T) {
	for _, c := range servedRoutes {
		if op := openapi.Load().Operations[c.pattern]; op.Public || c.pattern == "GET /caller" { // which asks no service
			continue
		}
		method, _, _ := strings.Cut(c.pattern, " ")
		for _, err := range serviceErrors {
			f := newFake()
			f.err = err.err
			w := sendRequest(newHandler(f), method+" "+c.target, c.body)
			if strings.HasSuffix(c.target, "/batch") { // each start has an error of its own
				if w.Code != 200 || strings.Count(w.Body.String(), `"error":{"code"`) != 2 || strings.Contains(w.Body.String(), "secret") {
					t.Errorf("%s with %v: %d %s", c.target, err.err, w.Code, w.Body)
				}
				continue
			}
			if w.Code != err.status {
				t.Errorf("%s %s with %v: status %d, want %d", method, c.target, err.err, w.Code, err.status)
			}
			checkResponse(t, c.pattern, w)
			if strings.Contains(w.Body.String(), "secret") || w.Header().Get("Location") != "" {
				t.Errorf("%s %s: leaks details: %v %s", method, c.target, w.Header(), w.Body)
			}
		}
	}
}
