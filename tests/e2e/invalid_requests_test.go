package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// invalidRequest is a request that must be rejected.
type invalidRequest struct {
	method, path, body string
	headers            []string // "Name: value"
	status             int
	code               string
	places             []string // each must be named, as a path or as "line:column"
}

const unknownID = "01890000-0000-7000-8000-000000000000"

// invalidRequests are for a tenant that has the workflow bad/typed and nothing else.
var invalidRequests = []invalidRequest{
	// Definitions: malformed, unknown fields, wrong types, with lines.
	{"POST", "/workflow-definition/publish", "package: p\nname: [\n", nil, 400, "invalid", []string{"2:7"}},
	{"POST", "/workflow-definition/publish", "package: p\n\tname: w\n", nil, 400, "invalid", []string{"2:1"}},
	{"POST", "/workflow-definition/publish", "package: p\nname: w\nversion: one\nsteps: []\n", nil, 400, "invalid", []string{"version", "steps"}},
	{"POST", "/workflow-definition/publish", "package: p\nname: w\nversion: 1.0.0\nsteps: {a: b}\n", nil, 400, "invalid", []string{"steps"}},
	{"POST", "/workflow-definition/publish", "package: p\nname: w\nversion: 1.0.0\nconfig: {maxInFlight: many, colour: red}\nsteps: [{label: a, functionBlock: p/b, runOn: global}]\n", nil, 400, "invalid", []string{"config.maxInFlight", "config.colour", "4:"}},
	{"POST", "/workflow-definition/publish", "package: p\nname: w\nversion: 1.0.0\nsteps:\n  - {label: a, functionBlock: p/b, runOn: global, condition: '1 +'}\n  - {label: b, functionBlock: p/b, runOn: global, condition: missing.result == 1}\n", nil, 400, "invalid", []string{"steps[0].condition", "steps[1].condition", "5:", "6:"}},
	{"POST", "/workflow-definition/publish", "package: p\nname: w\nversion: 1.0.0\nsteps:\n  - {label: a, functionBlock: 'p b', runOn: global, retry: {maxRetries: -1, delay: soon}}\n", nil, 400, "invalid", []string{"steps[0].functionBlock", "steps[0].retry.maxRetries", "steps[0].retry.delay"}},
	{"POST", "/workflow-definition/publish", `{"package":"p","name":"w","version":"1.0.0","steps":[{"label":1}]}`, nil, 400, "invalid", []string{"steps[0].label"}},
	{"POST", "/workflow-definition/publish", "a: &a [*a, *a]\n", nil, 400, "invalid", nil},
	{"POST", "/workflow-definition/publish", "a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n", nil, 400, "invalid", nil},
	{"POST", "/workflow-definition/publish", "a: " + strings.Repeat("[", 5000) + "\n", nil, 400, "invalid", nil},
	{"POST", "/workflow-definition/publish", "\xff\xfe\x00", nil, 400, "invalid", nil},
	{"POST", "/workflow-definition/publish", "--- \n...\n--- \n", nil, 400, "invalid", nil},
	{"POST", "/workflow-definition/publish?dryRun=maybe", "a: b", nil, 400, "invalid", []string{"dryRun"}},
	// Starts.
	{"POST", "/workflow-execution", `{"workflow":"bad/typed"}`, nil, 400, "invalid", []string{"parameters"}},
	{"POST", "/workflow-execution", `{"workflow":"bad/typed","parameters":{"target":7}}`, nil, 400, "invalid", []string{"parameters.target"}},
	{"POST", "/workflow-execution", `{"workflow":"bad/typed","parameters":{"target":"1","more":1}}`, nil, 400, "invalid", []string{"parameters"}},
	{"POST", "/workflow-execution", `{"workflow":"bad/typed:2","parameters":{"target":"1"}}`, nil, 404, "not_found", nil},
	{"POST", "/workflow-execution", `{"workflow":"bad/typed","parameters":{"target":"1"},"executeOnParameters":{"query":"entity.n >"}}`, nil, 400, "invalid", []string{"executeOnParameters.query"}},
	{"POST", "/workflow-execution", `{"workflow":"bad/typed","parameters":{"target":"1"},"executeOnParameters":{"type":"device"}}`, nil, 400, "invalid", []string{"executeOnParameters"}},
	{"POST", "/workflow-execution", `{"workflow":"bad/typed","parameters":{"target":"1"}}`, []string{"Idempotency-Key: a b"}, 400, "invalid", []string{"Idempotency-Key"}},
	{"POST", "/workflow-execution", `{"workflow":"bad/typed","parameters":` + strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000) + `}`, nil, 400, "invalid", nil},
	{"POST", "/workflow-execution", "{\"workflow\":\"bad/typed\",\"parameters\":{\"target\":\"\xff\"}}", nil, 400, "invalid", nil},
	// Entities and blocks: one error, nothing stored.
	{"POST", "/entities/import", `{"type":"device","id":"good"}` + "\n" + `{"type":"device","id":"b/d"}` + "\n" + `{"type":"device"` + "\n", nil, 400, "invalid", []string{"2:", "3:"}},
	{"POST", "/entities/import", strings.Repeat(" ", 11<<20), nil, 413, "too_large", nil},
	{"PUT", "/entities/device/b%2Fd", `{}`, nil, 404, "not_found", nil}, // the gateway passes a decoded path
	{"PUT", "/entities/device/b%20d", `{}`, nil, 400, "invalid", []string{"id"}},
	{"PUT", "/entities/device/a", `{"groups":"core"}`, nil, 400, "invalid", []string{"groups"}},
	{"POST", "/function-blocks/register", `{"package":"p","name":"b","version":"1.0.0","colour":"red"}`, nil, 400, "invalid", []string{"colour"}},
	{"POST", "/function-blocks/register", `{"package":"p","name":"b","version":"1.0.0","parameterSchema":{"type":7}}`, nil, 400, "invalid", []string{"parameterSchema"}},
	{"POST", "/function-blocks/register", `{"package":"p","name":"b","version":"1.0.0","timeout":"20h"}`, nil, 400, "invalid", []string{"timeout"}},
	// Missing things and invalid queries.
	{"GET", "/workflow-execution/id/%00", "", nil, 400, "invalid", []string{"id"}},
	{"GET", "/workflow-execution/id/" + strings.Repeat("x", 5000), "", nil, 400, "invalid", []string{"id"}},
	{"GET", "/workflow-execution/state/running", "", nil, 400, "invalid", []string{"state"}},
	{"GET", "/workflow-execution?state=SLEEPING&status=DOZING&limit=1001", "", nil, 400, "invalid", []string{"state", "status", "limit"}},
	{"GET", "/workflow-execution?colour=red", "", nil, 400, "invalid", []string{"colour"}},
	{"GET", "/workflow-execution/id/" + unknownID + "/jobs", "", nil, 404, "not_found", nil},
	{"GET", "/workflow-execution/id/" + unknownID + "/history", "", nil, 404, "not_found", nil},
	{"GET", "/workflow-execution/id/" + unknownID + "/steps", "", nil, 404, "not_found", nil},
	{"GET", "/workflow-execution/id/" + unknownID + "/result", "", nil, 404, "not_found", nil},
	{"GET", "/workflow-execution/id/" + unknownID + "/cost", "", nil, 404, "not_found", nil},
	{"GET", "/workflow-execution/id/" + unknownID + "/definition", "", nil, 404, "not_found", nil},
	{"POST", "/workflow-execution/" + unknownID + "/cancel", `{"rollback":"perhaps"}`, nil, 400, "invalid", []string{"rollback"}},
	{"POST", "/workflow-execution/" + unknownID + "/cancel", "", nil, 404, "not_found", nil},
	{"GET", "/workflow-definition/p/missing/1.0.0", "", nil, 404, "not_found", nil},
	{"GET", "/entities/device/missing", "", nil, 404, "not_found", nil},
	{"DELETE", "/locks", "", nil, 405, "method_not_allowed", nil},
	{"GET", "/..%2f..%2fetc%2fpasswd", "", nil, 404, "not_found", nil},
	{"GET", "/locks", "", []string{"X-Tenant: a b"}, 400, "invalid", []string{"X-Tenant"}},
	{"GET", "/locks", "", []string{"X-Actor: " + strings.Repeat("x", 3000)}, 400, "invalid", []string{"X-Actor"}},
}

// Every invalid request is answered with a typed problem that names every place, never
// with a 5xx or internals of the program, and stores nothing.
func TestAPI_RefusesInvalidRequests(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	api := s.clientFor("invalid")
	typed := "package: bad\nname: typed\nversion: 1.0.0\nseedEntity: device\n" +
		"parameters: {type: object, required: [target], additionalProperties: false, properties: {target: {type: string}}}\n" +
		"steps: [{label: a, functionBlock: bad/b, runOn: global}]\n"
	if _, _, err := api.Publish(t.Context(), []byte(typed), false); err != nil {
		t.Fatal(err)
	}
	for _, r := range invalidRequests {
		status, kind, body := s.sendInvalid(t, r)
		name := fmt.Sprintf("%s %.60s %.80q", r.method, r.path, r.body)
		var p struct {
			Type, Title, Detail, Code string
			Status                    int
			Errors                    []workflow.Issue
		}
		if err := json.Unmarshal([]byte(body), &p); err != nil || kind != "application/problem+json" {
			t.Errorf("%s: not a problem: %d %s %.200s", name, status, kind, body)
			continue
		}
		if status != r.status || p.Status != status || p.Code != r.code || p.Title == "" || p.Detail == "" || p.Type == "" {
			t.Errorf("%s: %d %.400s, want %d %s", name, status, body, r.status, r.code)
		}
		var places strings.Builder
		for _, i := range p.Errors {
			fmt.Fprintf(&places, "[%s][%d:%d]", i.Path, i.Line, i.Column)
		}
		for _, place := range r.places {
			if !strings.Contains(places.String(), "["+place) {
				t.Errorf("%s: names %s, want %s", name, places.String(), place)
			}
		}
		for _, inside := range []string{"goroutine", ".go:", "panic", "runtime error", "/shared/", "dynamodb", "*json."} {
			if strings.Contains(body, inside) {
				t.Errorf("%s: the problem shows internals: %.400s", name, body)
			}
		}
		if len(body) > 64<<10 {
			t.Errorf("%s: a problem of %d bytes", name, len(body))
		}
	}
	for path, n := range map[string]int{
		"/workflow-definition": 1, "/function-blocks": 0, "/entities?type=device": 0, "/workflow-execution": 0, "/locks": 0,
	} {
		_, _, body := s.sendInvalid(t, invalidRequest{method: "GET", path: path})
		var page struct{ Items []json.RawMessage }
		if err := json.Unmarshal([]byte(body), &page); err != nil || len(page.Items) != n {
			t.Errorf("%s has %.300s, want %d: a rejected request changed something", path, body, n)
		}
	}

	// A missing block is found when the references are resolved: the execution ends
	// without a job and names the block.
	x, _, err := api.Start(t.Context(), views.StartRequest{Workflow: "bad/typed", Parameters: []byte(`{"target":"1"}`)})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the execution with a missing block ends", func() bool {
		now, err := api.Execution(t.Context(), x.ID)
		return err == nil && now.State == sm.ExecutionFailedSafeAck && strings.Contains(now.Reason, "bad/b")
	})
}

// sendInvalid sends a request for the tenant of the invalid requests.
func (s *localStack) sendInvalid(t *testing.T, r invalidRequest) (status int, kind, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), r.method, s.url+r.path, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Tenant", "invalid")
	for _, h := range r.headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s %.60s: %v", r.method, r.path, err)
	}
	defer func() { _ = reply.Body.Close() }() // already read
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, reply.Header.Get("Content-Type"), string(text)
}

// Requests that are not HTTP or incomplete get an error and do not affect others.
func TestAPI_SurvivesTornRequests(t *testing.T) {
	t.Parallel()
	requireEmbedded(t, "its bytes would reach the proxy, not the gateway")
	s := startStack(t, stackOptions{})
	host := strings.TrimPrefix(s.url, "http://")
	for _, text := range []string{
		"GARBAGE\r\n\r\n",
		"GET /locks HTTP/1.1\r\n\r\n",
		"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /workflow-execution HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
		"POST /workflow-execution HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
		"POST /workflow-execution HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"GET /locks HTTP/1.1\r\nHost: x\r\nX-Long: " + strings.Repeat("x", 2<<20) + "\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(waitTimeout)) // fails only on a closed connection
		_, _ = conn.Write([]byte(text))                   // the server may close the connection
		_ = conn.(*net.TCPConn).CloseWrite()              // the server may have closed it
		line, _ := bufio.NewReader(conn).ReadString('\n')
		if strings.HasPrefix(line, "HTTP/1.1 ") && !strings.HasPrefix(line, "HTTP/1.1 4") {
			t.Errorf("%.40q is answered %s", text, line)
		}
		_ = conn.Close() // no longer used
		if status, body := s.sendPlain(t, "GET", "/health"); status != http.StatusOK {
			t.Fatalf("after %.40q the service is unhealthy: %d %s", text, status, body)
		}
	}
}

// Every bad request is answered with a typed problem that names the place of the error,
// never with a 5xx or a stack trace.
func TestAPI_BadInputNamesPlace(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	s.publish(globalWorkflow)
	const missingID = "01890000-0000-7000-8000-000000000000"
	for _, c := range []struct {
		method, path, kind, body string
		status                   int
		code, place              string
	}{
		{"POST", "/workflow-definition/publish", "", "a: [", 400, "invalid", ""},
		{"POST", "/workflow-definition/publish", "", "", 400, "invalid", ""},
		{"POST", "/workflow-definition/publish", "", "colour: red\n", 400, "invalid", "colour"},
		{"POST", "/workflow-definition/publish", "", strings.Repeat("# x\n", 100_000), 413, "too_large", ""},
		{"POST", "/workflow-execution", "application/json", "{", 400, "invalid", ""},
		{"POST", "/workflow-execution", "application/json", `{"workflow":1}`, 400, "invalid", "workflow"},
		{"POST", "/workflow-execution", "application/json", `{"workflow":"test/hello","colour":"red"}`, 400, "invalid", "colour"},
		{"POST", "/workflow-execution", "application/json", `{"workflow":"test/hello","parameters":[]}`, 400, "invalid", "parameters"},
		{"POST", "/workflow-execution", "application/json", `{"workflow":"nonsense"}`, 400, "invalid", "workflow"},
		{"POST", "/workflow-execution", "application/json", `{"workflow":"test/missing"}`, 404, "not_found", ""},
		{"POST", "/workflow-execution", "application/json", `{"workflow":"test/hello","executeOnParameters":{"ids":["a"]}}`, 400, "invalid", "executeOnParameters.type"},
		{"POST", "/workflow-execution", "application/json", `{"workflow":"test/hello","notBefore":"tomorrow"}`, 400, "invalid", "notBefore"},
		{"POST", "/workflow-execution", "application/json", `{"workflow":"` + strings.Repeat("x", 2<<20) + `"}`, 413, "too_large", ""},
		{"GET", "/workflow-execution/id/" + missingID, "", "", 404, "not_found", ""},
		{"GET", "/workflow-execution/state/SLEEPING", "", "", 400, "invalid", ""},
		{"GET", "/workflow-execution?limit=0", "", "", 400, "invalid", "limit"},
		{"GET", "/workflow-execution?pageToken=garbage", "", "", 400, "invalid", "pageToken"},
		{"GET", "/executions/" + missingID + "/status", "", "", 404, "not_found", ""},
		{"POST", "/workflow-execution/" + missingID + "/acknowledge", "application/json", `{"reason":"x"}`, 404, "not_found", ""},
		{"DELETE", "/workflow-execution/" + missingID, "", "", 404, "not_found", ""},
		{"PUT", "/entities/device/a", "application/json", `{"attributes":[]}`, 400, "invalid", "attributes"},
		{"GET", "/entities?type=device&query=1%2B", "", "", 400, "invalid", "query"},
		{"GET", "/locks/device/missing", "", "", 404, "not_found", ""},
		{"POST", "/function-blocks/register", "application/json", `{"package":"p","name":"b","version":"one"}`, 400, "invalid", "version"},
		{"GET", "/nowhere", "", "", 404, "not_found", ""},
		{"PATCH", "/workflow-execution", "", "", 405, "method_not_allowed", ""},
		{"POST", "/workflow-execution/" + missingID + "/retry", "application/json", `{}`, 404, "not_found", ""},
		{"POST", "/workflow-execution/" + missingID + "/signal/go", "application/json", `{}`, 404, "not_found", ""},
	} {
		status, body := s.sendRaw(c.method, c.path, c.kind, c.body)
		var p struct {
			Code   string `json:"code"`
			Status int    `json:"status"`
			Errors []struct {
				Path string `json:"path"`
			} `json:"errors"`
		}
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Errorf("%s %s: not a problem: %.200s", c.method, c.path, body)
			continue
		}
		named := c.place == ""
		for _, e := range p.Errors {
			named = named || strings.Contains(e.Path, c.place)
		}
		if status != c.status || p.Status != c.status || p.Code != c.code || !named || strings.Contains(body, "goroutine") {
			t.Errorf("%s %s %.60q: %d %.300s, want %d %s naming %q", c.method, c.path, c.body, status, body, c.status, c.code, c.place)
		}
	}
	if status, body := s.sendRaw("GET", "/workflow-execution", "", ""); status != 200 || !strings.Contains(body, `"items":[]`) {
		t.Errorf("bad input created an execution: %d %s", status, body)
	}
}
