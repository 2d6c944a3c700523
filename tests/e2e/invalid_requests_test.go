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

// invalidRequest is one request that must be refused.
type invalidRequest struct {
	method, path, body string
	headers            []string // "Name: value"
	status             int
	code               string
	places             []string // each must be named as a path, or as "line:column"
}

const unknownID = "01890000-0000-7000-8000-000000000000"

// invalidRequests concern a tenant of their own, which has the workflow
// bad/typed and nothing else.
var invalidRequests = []invalidRequest{
	// Definitions: malformed, unknown fields, wrong types, with their lines.
	{"POST", "/workflow-definition/publish", "package: p\nname: [\n", nil, 400, "invalid", []string{"2:7"}},
	{"POST", "/workflow-definition/publish", "package: p\n\tname: w\n", nil, 400, "invalid", []string{"2:1"}},
	{"POST", "/workflow-definition/publish", "package: p\nname: w\nversion: one\nsteps: []\n", nil, 400, "invalid", []string{"version", "steps"}},
	{"POST", "/workflow-definition/publish", "package: p\nname: w\nversion: 1.0.0\nsteps: {a: b}\n", nil, 400, "invalid", []string{"steps"}},
	{"POST", "/workflow-definition/publish", "package: p\nname: w\nversion: 1.0.0\nconfig: {maxInFlight: many, colour: red}\nsteps: [{label: a, functionBlock: p/b, runOn: global}]\n", nil, 400, "invalid", []string{"config.maxInFlight", "config.colour", "4:"}},
	{"POST", "/workflow-definition/publish", "package: p\nname: w\nversion: 1.0.0\nsteps:\n  - {label: a, functionBlock: p/b, runOn: global, condition: '1 +'}\n  - {label: b, functionBlock: p/b, runOn: global, condition: nobody.result == 1}\n", nil, 400, "invalid", []string{"steps[0].condition", "steps[1].condition", "5:", "6:"}},
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
	// Entities and blocks: one mistake, nothing stored.
	{"POST", "/entities/import", `{"type":"device","id":"good"}` + "\n" + `{"type":"device","id":"b/d"}` + "\n" + `{"type":"device"` + "\n", nil, 400, "invalid", []string{"2:", "3:"}},
	{"POST", "/entities/import", strings.Repeat(" ", 11<<20), nil, 413, "too_large", nil},
	{"PUT", "/entities/device/b%2Fd", `{}`, nil, 404, "not_found", nil}, // the gateway hands on a decoded path
	{"PUT", "/entities/device/b%20d", `{}`, nil, 400, "invalid", []string{"id"}},
	{"PUT", "/entities/device/a", `{"groups":"core"}`, nil, 400, "invalid", []string{"groups"}},
	{"POST", "/function-blocks/register", `{"package":"p","name":"b","version":"1.0.0","colour":"red"}`, nil, 400, "invalid", []string{"colour"}},
	{"POST", "/function-blocks/register", `{"package":"p","name":"b","version":"1.0.0","parameterSchema":{"type":7}}`, nil, 400, "invalid", []string{"parameterSchema"}},
	{"POST", "/function-blocks/register", `{"package":"p","name":"b","version":"1.0.0","timeout":"20h"}`, nil, 400, "invalid", []string{"timeout"}},
	// What is not there, and what may not be asked.
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
	{"POST", "/workflow-execution/" + unknownID + "/cancel", `{"rollback":"perhaps"}`, nil, 400, "invalid", []string{"rollback"}},
	{"POST", "/workflow-execution/" + unknownID + "/cancel", "", nil, 404, "not_found", nil},
	{"GET", "/workflow-definition/p/nobody/1.0.0", "", nil, 404, "not_found", nil},
	{"GET", "/entities/device/nobody", "", nil, 404, "not_found", nil},
	{"DELETE", "/locks", "", nil, 405, "method_not_allowed", nil},
	{"GET", "/..%2f..%2fetc%2fpasswd", "", nil, 404, "not_found", nil},
	{"GET", "/locks", "", []string{"X-Tenant: a b"}, 400, "invalid", []string{"X-Tenant"}},
	{"GET", "/locks", "", []string{"X-Actor: " + strings.Repeat("x", 3000)}, 400, "invalid", []string{"X-Actor"}},
}

// TestAPI_RefusesInvalidRequests: whatever is sent, the answer is a typed problem that names every
// place, never a 5xx, never the inside of the program, and nothing is stored.
func TestAPI_RefusesInvalidRequests(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	api := s.clientFor("refusals")
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
			t.Errorf("%s: no problem but %d %s %.200s", name, status, kind, body)
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
				t.Errorf("%s: tells the inside of the program: %.400s", name, body)
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
			t.Errorf("%s holds %.300s, want %d: a refused request has changed something", path, body, n)
		}
	}

	// A block that nobody has is found out when the run is resolved: it ends
	// without a job, and says so.
	x, _, err := api.Start(t.Context(), views.StartRequest{Workflow: "bad/typed", Parameters: []byte(`{"target":"1"}`)})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the run with an unknown block ends", func() bool {
		now, err := api.Execution(t.Context(), x.ID)
		return err == nil && now.State == sm.ExecutionFailedSafeAck && strings.Contains(now.Reason, "bad/b")
	})
}

// sendInvalid sends a request for the tenant of the refusals.
func (s *localStack) sendInvalid(t *testing.T, r invalidRequest) (status int, kind, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), r.method, s.url+r.path, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Tenant", "refusals")
	for _, h := range r.headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s %.60s: %v", r.method, r.path, err)
	}
	defer func() { _ = reply.Body.Close() }() // it has been read
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, reply.Header.Get("Content-Type"), string(text)
}

// TestAPI_SurvivesTornRequests: what is no HTTP, or only half of it, ends with an error and
// hurts nobody else.
func TestAPI_SurvivesTornRequests(t *testing.T) {
	t.Parallel()
	requireEmbedded(t, "its bytes would reach the door, not the gateway")
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
		_ = conn.SetDeadline(time.Now().Add(waitTimeout)) // a connection of ours has one
		_, _ = conn.Write([]byte(text))                   // the server may hang up before the end
		_ = conn.(*net.TCPConn).CloseWrite()              // the same
		line, _ := bufio.NewReader(conn).ReadString('\n')
		if strings.HasPrefix(line, "HTTP/1.1 ") && !strings.HasPrefix(line, "HTTP/1.1 4") {
			t.Errorf("%.40q is answered %s", text, line)
		}
		_ = conn.Close() // it has served
		if status, body := s.sendPlain(t, "GET", "/health"); status != http.StatusOK {
			t.Fatalf("after %.40q the service is not well: %d %s", text, status, body)
		}
	}
}
