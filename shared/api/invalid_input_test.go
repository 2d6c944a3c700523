package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

var serviceErrors = []struct {
	err    error
	status int
}{
	{workflow.Errorf(workflow.CodeNotFound, "no"), 404},
	{workflow.Errorf(workflow.CodeConflict, "no"), 409},
	{workflow.Errorf(workflow.CodeIllegalTransition, "COMPLETED_ACK does not take cancel.requested"), 409},
	{workflow.Errorf(workflow.CodeEntityLocked, "no"), 409},
	{workflow.Errorf(workflow.CodeTooLarge, "no"), 413},
	{workflow.Errorf(workflow.CodeLimit, "no"), 422},
	{workflow.Errorf(workflow.CodeForbidden, "no"), 403},
	{fmt.Errorf("wrapped: %w", &workflow.Error{Code: workflow.CodeUnavailable, Message: "no", Cause: errors.New("secret host")}), 503},
	{workflow.Invalid("no", []workflow.Issue{{Path: "steps[1]", Line: 3, Column: 2, Code: "required", Message: "m"}}), 400},
	{&workflow.Error{Code: workflow.CodeInternal, Message: "a secret"}, 500},
	{errors.New("a secret"), 500},
	{fmt.Errorf("a secret: %w", context.DeadlineExceeded), 503},
}

type problemBody struct {
	Type      string
	Title     string
	Status    int
	Detail    string
	Code      string
	RequestID string
	Errors    []workflow.Issue
}

func decodeProblem(t *testing.T, w *httptest.ResponseRecorder) problemBody {
	t.Helper()
	var p problemBody
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("status %d with content type %q: %s", w.Code, got, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	if p.Status != w.Code || p.Type != "urn:lockstep:problem:"+p.Code || p.Title == "" || p.Detail == "" || p.Errors == nil || p.RequestID != w.Header().Get("X-Request-Id") {
		t.Errorf("an incomplete problem: %s", w.Body)
	}
	for _, word := range []string{"goroutine", ".go:", "gen.", "jsonschema", "json: "} {
		if strings.Contains(w.Body.String(), word) {
			t.Errorf("the problem leaks %q: %s", word, w.Body)
		}
	}
	return p
}

// badInputs are invalid requests, each with the issues that the problem must have, in
// order, as "path code".
var badInputs = []struct {
	name, line, body string
	headers          []string
	status           int
	issues           []string
}{
	{"no body", "POST /workflow-execution", "", nil, 400, []string{" required"}},
	{"blank body", "POST /workflow-execution", " \n", nil, 400, []string{" required"}},
	{"not JSON", "POST /workflow-execution", "workflow: fleet/x", nil, 400, []string{"1:1 syntax"}},
	{"truncated JSON", "POST /workflow-execution", `{"workflow":`, nil, 400, []string{"1:13 syntax"}},
	{"second line", "POST /workflow-execution", "{\n  \"workflow\": oops}", nil, 400, []string{"2:15 syntax"}},
	{"two values", "POST /workflow-execution", startBody + "{}", nil, 400, []string{fmt.Sprintf("1:%d syntax", 1+len(startBody))}},
	{"not UTF-8", "POST /workflow-execution", "{\"workflow\":\"\xff\"}", nil, 400, nil},
	{"array", "POST /workflow-execution", `[]`, nil, 400, []string{" type"}},
	{"null", "POST /workflow-execution", `null`, nil, 400, []string{" type"}},
	{"missing", "POST /workflow-execution", `{}`, nil, 400, []string{"workflow required"}},
	{"everything at once", "POST /workflow-execution", `{"workflow":7,"perameters":{},"labels":{"a":1},"executeOnParameters":{"ids":["ok",3],"limit":1}}`, nil, 400, []string{
		"executeOnParameters.ids[1] type", "executeOnParameters.limit unknown_field", "labels.a type", "perameters unknown_field", "workflow type"}},
	{"reference", "POST /workflow-execution", `{"workflow":"nope"}`, nil, 400, []string{"workflow pattern"}},
	{"reference version", "POST /workflow-execution", `{"workflow":"a/b:1.x"}`, nil, 400, []string{"workflow pattern"}},
	{"parameters", "POST /workflow-execution", `{"workflow":"a/b","parameters":[1]}`, nil, 400, []string{"parameters type"}},
	{"time", "POST /workflow-execution", `{"workflow":"a/b","notBefore":"tomorrow"}`, nil, 400, []string{"notBefore format"}},
	{"id with slash", "POST /workflow-execution", `{"workflow":"a/b","executeOnParameters":{"ids":["a/b"]}}`, nil, 400, []string{"executeOnParameters.ids[0] pattern"}},
	{"label name", "POST /workflow-execution", `{"workflow":"a/b","labels":{"a=b":"c"}}`, nil, 400, []string{"labels.a=b unknown_field"}},
	{"huge number", "POST /workflow-execution", `{"workflow":"a/b","parameters":{"n":[1,1e999999999]}}`, nil, 400, []string{"parameters.n[1] number"}},
	{"tiny number", "POST /workflow-execution", `{"workflow":"a/b","parameters":{"n":1e-999999999}}`, nil, 400, []string{"parameters.n number"}},
	{"long number", "POST /workflow-execution", `{"workflow":"a/b","parameters":{"n":1` + strings.Repeat("0", 500) + `}}`, nil, 400, []string{"parameters.n number"}},
	{"nested too deeply", "POST /workflow-execution", `{"workflow":"a/b","parameters":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`, nil, 400, []string{"parameters" + strings.Repeat("[0]", 100) + " depth"}},
	{"nested too deeply to parse", "POST /workflow-execution", strings.Repeat("[", 20000), nil, 400, []string{"1:10001 syntax"}},
	{"duplicate key", "POST /workflow-execution", `{"workflow":"a/b","workflow":"a/c"}`, nil, 400, []string{"1:19 duplicate_field"}},
	{"nested duplicate key", "POST /workflow-execution", "{\"workflow\":\"a/b\",\n \"parameters\":{\"a\":[{\"x\":1},{\"x\":1, \"x\":2}]}}", nil, 400, []string{"2:37 duplicate_field"}},
	{"duplicate key, escaped", "POST /workflow-execution", `{"workflow":"a/b","labels":{"a\"b":"1","\u0061\"b":"2"}}`, nil, 400, []string{"1:40 duplicate_field"}},
	{"duplicate key of a command", "POST /workflow-execution/x/cancel", `{"rollback":"auto","rollback":"never"}`, nil, 400, []string{"1:20 duplicate_field"}},
	{"duplicate key of an entity", "PUT /entities/device/a", `{"attributes":{"a":{"b":1},"c":{"b":1},"a":2}}`, nil, 400, []string{"1:40 duplicate_field"}},
	{"large", "POST /workflow-execution", strings.Repeat(" ", 1<<20) + startBody, nil, 413, nil},
	{"idempotency key empty", "POST /workflow-execution", startBody, []string{"Idempotency-Key: "}, 400, []string{"Idempotency-Key too_short", "Idempotency-Key pattern"}},
	{"idempotency key with a space", "POST /workflow-execution", startBody, []string{"Idempotency-Key: a b"}, 400, []string{"Idempotency-Key pattern"}},
	{"idempotency key too long", "POST /workflow-execution", startBody, []string{"Idempotency-Key: " + strings.Repeat("k", 256)}, 400, []string{"Idempotency-Key too_long"}},
	{"idempotency key repeated", "POST /workflow-execution", startBody, []string{"Idempotency-Key: a", "Idempotency-Key: b"}, 400, []string{"Idempotency-Key repeated"}},
	{"unexpected query parameter", "POST /workflow-execution?dry=true", startBody, nil, 400, []string{"dry unknown_parameter"}},

	{"publish an empty body", "POST /workflow-definition/publish", "", nil, 400, []string{" required"}},
	{"publish too large a body", "POST /workflow-definition/publish", strings.Repeat("#", 1<<18+1), nil, 413, nil},
	{"dry run", "POST /workflow-definition/publish?dryRun=perhaps", "a: b", nil, 400, []string{"dryRun type"}},
	{"definition name", "GET /workflow-definition/9/x", "", nil, 400, []string{"package pattern"}},
	{"definition version", "GET /workflow-definition/a/b/latest", "", nil, 400, []string{"version pattern"}},
	{"definition unknown version", "GET /workflow-definition/a/b/7", "", nil, 404, nil},

	{"block", "POST /function-blocks/register", `{"package":"a","name":"b c","version":"1","pure":"yes","timeout":"soon","http":{"url":"ftp://x","verb":"GET"}}`, nil, 400, []string{
		"http.url pattern", "http.verb unknown_field", "name pattern", "pure type", "timeout pattern", "version pattern"}},
	{"block timeout", "POST /function-blocks/register", `{"package":"a","name":"b","version":"1.0.0","timeout":"99999999999h"}`, nil, 400, []string{" value"}},
	{"block header", "POST /function-blocks/register", `{"package":"a","name":"b","version":"1.0.0","http":{"url":"http://x","headers":{"A":"b\r\nC: d","x y":"z"}}}`, nil, 400, []string{"http.headers.A pattern", "http.headers.x y unknown_field"}},
	{"block schema", "POST /function-blocks/register", `{"package":"a","name":"b","version":"1.0.0","resultSchema":[]}`, nil, 400, []string{"resultSchema type"}},

	{"entity attributes", "PUT /entities/device/a", `{"attributes":[1]}`, nil, 400, []string{"attributes type"}},
	{"entity groups", "PUT /entities/device/a", `{"groups":["ok","not ok"]}`, nil, 400, []string{"groups[1] pattern"}},
	{"entity with another key", "PUT /entities/device/a", `{"type":"x","id":"b"}`, nil, 400, []string{"type mismatch", "id mismatch"}},
	{"entity version", "PUT /entities/device/a", `{"version":1.5}`, nil, 400, []string{"version type"}},
	{"entity huge version", "PUT /entities/device/a", `{"version":1e300}`, nil, 400, []string{"version type"}},
	{"entity id", "GET /entities/device/a%20b", "", nil, 400, []string{"id pattern"}},
	{"entity id with slash", "GET /entities/device/a%2Fb", "", nil, 400, []string{"id pattern"}},
	{"entities query", "GET /entities?query=", "", nil, 400, []string{"query too_short"}},
	{"entities unknown", "GET /entities?grup=a", "", nil, 400, []string{"grup unknown_parameter"}},
	{"import an empty body", "POST /entities/import", "", nil, 400, []string{" required"}},
	{"import too large a body", "POST /entities/import", strings.Repeat("x", 10<<20+1), nil, 413, nil},

	{"state", "GET /workflow-execution/state/BUSY", "", nil, 400, []string{"state enum"}},
	{"state in lower case", "GET /workflow-execution/state/running", "", nil, 400, []string{"state enum"}},
	{"waiting filter", "GET /workflow-execution?waiting=KEY", "", nil, 400, []string{"waiting enum"}},
	{"no such order", "GET /workflow-execution?sort=updatedAt:desc", "", nil, 400, []string{"sort enum"}},
	{"state filter", "GET /workflow-execution?state=BUSY&status=WAITING", "", nil, 400, []string{"state enum", "status enum"}},
	{"workflow filter", "GET /workflow-execution?workflow=x", "", nil, 400, []string{"workflow pattern"}},
	{"label filter", "GET /workflow-execution?label=a=b&label=c", "", nil, 400, []string{"label[1] pattern"}},
	{"time filter", "GET /workflow-execution?createdAfter=yesterday", "", nil, 400, []string{"createdAfter format"}},
	{"limit 0", "GET /workflow-execution?limit=0", "", nil, 400, []string{"limit range"}},
	{"limit 1001", "GET /workflow-execution?limit=1001", "", nil, 400, []string{"limit range"}},
	{"limit huge", "GET /workflow-execution?limit=99999999999999999999", "", nil, 400, []string{"limit range"}},
	{"limit not a number", "GET /workflow-execution?limit=many", "", nil, 400, []string{"limit type"}},
	{"limit fraction", "GET /workflow-execution?limit=1.5", "", nil, 400, []string{"limit type"}},
	{"limit empty", "GET /workflow-execution?limit=", "", nil, 400, []string{"limit type"}},
	{"limit repeated", "GET /workflow-execution?limit=1&limit=2", "", nil, 400, []string{"limit repeated"}},
	{"page token", "GET /workflow-execution?pageToken=garbage", "", nil, 400, []string{"pageToken page_token"}},
	{"page token not base64", "GET /locks?pageToken=%00", "", nil, 400, []string{"pageToken page_token"}},
	{"malformed query", "GET /locks?limit=%zz", "", nil, 400, []string{" query"}},
	{"active with filter", "GET /workflow-execution/active?state=NEW", "", nil, 400, []string{"state unknown_parameter"}},
	{"unknown execution", "GET /workflow-execution/id/nobody", "", nil, 404, nil},
	{"invalid id", "GET /workflow-execution/id/%21", "", nil, 400, []string{"id pattern"}},
	{"status of an unknown execution", "GET /executions/nobody/status", "", nil, 404, nil},
	{"job filters", "GET /workflow-execution/id/x/jobs?state=ISSUED&kind=UNDO&entity=a/b/c", "", nil, 400, []string{"entity pattern", "state enum", "kind enum"}},
	{"cancel", "POST /workflow-execution/x/cancel", `{"rollback":"maybe","cascade":1,"why":"","source":"timeout"}`, nil, 400, []string{"cascade type", "rollback enum", "source enum", "why unknown_field"}},
	{"cancel an unknown execution", "POST /workflow-execution/nobody/cancel", ``, nil, 404, nil},
	{"abort with invalid JSON", "DELETE /workflow-execution/x", `{`, nil, 400, []string{"1:2 syntax"}},
	{"abort an unknown execution", "DELETE /workflow-execution/nobody", ``, nil, 404, nil},
	{"acknowledge", "POST /workflow-execution/x/acknowledge", `{"reason":7}`, nil, 400, []string{"reason type"}},
	{"acknowledge with too long a reason", "POST /workflow-execution/x/acknowledge", `{"reason":"` + strings.Repeat("x", 1001) + `"}`, nil, 400, []string{"reason too_long"}},
	{"retry", "POST /workflow-execution/x/retry", `{"from":"","entities":"some","fromStep":"a","reason":1}`, nil, 400, []string{"entities enum", "from too_short", "fromStep unknown_field", "reason type"}},
	{"rerun", "POST /workflow-execution/x/rerun", `{"entities":"some","reason":1}`, nil, 400, []string{"entities enum", "entities type", "reason type"}},
	{"rerun of nothing", "POST /workflow-execution/x/rerun", `{}`, nil, 400, []string{"entities required"}},
	{"retry an unknown execution", "POST /workflow-execution/nobody/retry", `{}`, nil, 404, nil},
	{"resume", "POST /workflow-execution/x/resume", `{"data":{}}`, nil, 400, []string{"data unknown_field"}},
	{"resume an unknown execution", "POST /workflow-execution/nobody/resume", ``, nil, 404, nil},
	{"unlock", "POST /workflow-execution/x/unlock", `{"reason":"` + strings.Repeat("x", 1001) + `","force":true}`, nil, 400, []string{"force unknown_field", "reason too_long"}},
	{"unlock an unknown execution", "POST /workflow-execution/nobody/unlock", ``, nil, 404, nil},
	{"archive a range", "DELETE /workflow-definition/a/b/1.0", "", nil, 400, []string{"version pattern"}},
	{"archive an unknown version", "DELETE /workflow-definition/a/b/7.0.0", "", nil, 404, nil},
	{"restore a range", "POST /workflow-definition/a/b/1/restore", "", nil, 400, []string{"version pattern"}},
	{"restore an unknown version", "POST /workflow-definition/a/b/7.0.0/restore", "", nil, 404, nil},
	{"execution id with slash", "GET /workflow-execution/id/a%2Fb", "", nil, 400, []string{"id pattern"}},
	{"command with a slash in the id", "POST /workflow-execution/a%2Fb/retry", "", nil, 400, []string{"id pattern"}},
	{"lock", "GET /locks/device/%7F", "", nil, 400, []string{"id pattern"}},

	{"tenant", "GET /locks", "", []string{"X-Tenant: a b"}, 400, []string{"X-Tenant pattern"}},
	{"actor", "GET /locks", "", []string{"X-Actor: a b"}, 400, []string{"X-Actor pattern"}},
	{"unknown route", "GET /nowhere", "", nil, 404, nil},
	{"trailing slash", "GET /locks/", "", nil, 404, nil},
	{"double slash", "GET //locks", "", nil, 404, nil},
	{"dots in the path", "GET /entities/../locks", "", nil, 404, nil},
	{"wrong method", "POST /locks", "", nil, 405, nil},
	{"wrong method of another route", "PATCH /workers", "", nil, 405, nil},
	{"options", "OPTIONS /locks", "", nil, 405, nil},
	{"unknown method", "BREW /locks", "", nil, 405, nil},
	{"cross-site request", "POST /workflow-execution", startBody, []string{"Sec-Fetch-Site: cross-site"}, 403, nil},
	{"foreign origin", "DELETE /workflow-execution/x", "", []string{"Origin: http://evil.example"}, 403, nil},
}

// An invalid request gets a problem that names every issue, and reaches no service.
func TestHandler_RefusesBadInput(t *testing.T) {
	for _, c := range badInputs {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			w := sendRequest(newHandler(f), c.line, c.body, c.headers...)
			if w.Code != c.status {
				t.Fatalf("status %d, want %d: %.600s", w.Code, c.status, w.Body)
			}
			p := decodeProblem(t, w)
			var got []string
			for _, i := range p.Errors {
				path := i.Path
				if i.Line > 0 {
					path = fmt.Sprintf("%d:%d", i.Line, i.Column)
				}
				got = append(got, path+" "+i.Code)
				if i.Message == "" || len(i.Message) > 1000 {
					t.Errorf("message of %d bytes", len(i.Message))
				}
			}
			if strings.Join(got, "; ") != strings.Join(c.issues, "; ") {
				t.Errorf("issues\n got %q\nwant %q", got, c.issues)
			}
			if c.status != 404 && len(f.calls) > 0 {
				t.Errorf("reached %v", f.calls)
			}
		})
	}
}

// The problem about an unknown state lists the states.
func TestHandler_UnknownStateListsStates(t *testing.T) {
	p := decodeProblem(t, sendRequest(newHandler(newFake()), "GET /workflow-execution/state/BUSY", ""))
	for _, state := range []string{"NEW", "BLOCKED_WAITING", "ROLLBACK", "CANCELLED_ACK"} {
		if !strings.Contains(p.Errors[0].Message, state) {
			t.Errorf("the message does not name %s: %s", state, p.Errors[0].Message)
		}
	}
}

// A problem repeats only a bounded part of the request.
func TestHandler_BoundsProblemSize(t *testing.T) {
	var many []string
	for i := range 5000 {
		many = append(many, fmt.Sprintf(`"%s%d":1`, strings.Repeat("x", 100), i))
	}
	for _, body := range []string{
		`{"workflow":"` + strings.Repeat("y", 500_000) + `"}`,
		`{"workflow":"a/b","` + strings.Repeat("z", 500_000) + `":1}`,
		`{` + strings.Join(many, ",") + `}`,
	} {
		w := sendRequest(newHandler(newFake()), "POST /workflow-execution", body)
		if p := decodeProblem(t, w); w.Code != 400 || len(p.Errors) == 0 || len(p.Errors) > 100 || w.Body.Len() > 50_000 {
			t.Errorf("status %d, %d issues, %d bytes", w.Code, len(p.Errors), w.Body.Len())
		}
	}
}

// No body may cause a panic or a 5xx status.
func FuzzHandler_Bodies(f *testing.F) {
	for _, c := range badInputs {
		if len(c.body) < 1000 {
			f.Add(c.body)
		}
	}
	for _, c := range servedRoutes {
		f.Add(c.body)
	}
	h := newHandler(newFake())
	routes := []string{
		"POST /workflow-execution", "POST /function-blocks/register", "PUT /entities/device/a", "POST /entities/import",
		"POST /workflow-definition/publish", "POST /workflow-execution/" + executionID + "/cancel", "DELETE /workflow-execution/" + executionID,
		"POST /workflow-execution/" + executionID + "/acknowledge",
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, line := range routes {
			if w := sendRequest(h, line, body); w.Code >= 500 {
				t.Errorf("%s: %d %s", line, w.Code, w.Body)
			}
		}
	})
}

// No query may cause a panic or a 5xx status.
func FuzzHandler_Queries(f *testing.F) {
	for _, c := range badInputs {
		if _, q, ok := strings.Cut(c.line, "?"); ok {
			f.Add(q)
		}
	}
	h := newHandler(newFake())
	f.Fuzz(func(t *testing.T, query string) {
		for _, path := range []string{"/workflow-execution", "/workflow-execution/id/x/jobs", "/entities", "/locks"} {
			r := httptest.NewRequest("GET", path, nil)
			r.URL.RawQuery = query
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code >= 500 {
				t.Errorf("%s?%s: %d %s", path, query, w.Code, w.Body)
			}
		}
	})
}

// A name that is refused says what the names are.
func TestHandler_SaysWhatNamesAre(t *testing.T) {
	for line, c := range map[string]struct{ body, want string }{
		"POST /workflow-execution":       {`{"workflow":"a/b","labels":{"a:b":"c"}}`, `{"path":"labels.a:b","code":"unknown_field","message":"the name of a label is 1 to 64 characters, none of them = or :"}`},
		"POST /workflow-execution/batch": {`{"items":[{"workflow":"a/b","labels":{"a:b":"c"}}]}`, `{"path":"items[0].labels.a:b","code":"unknown_field","message":"the name of a label is`},
		"POST /workflow-execution/plan":  {`{"workflow":"a/b","paramters":{}}`, `"message":"unknown field; did you mean \"parameters\"?"`},
		"POST /function-blocks/register": {`{"package":"a","name":"b","version":"1.0.0","http":{"url":"http://x","headers":{"x y":"z"}}}`, `{"path":"http.headers.x y","code":"unknown_field","message":"the name of a header is`},
	} {
		if w := sendRequest(newHandler(newFake()), line, c.body); w.Code != 400 || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s, want %s", line, w.Code, w.Body, c.want)
		}
	}
}
