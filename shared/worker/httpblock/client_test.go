package httpblock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/worker/httpblock"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

var job = worker.Job{
	ID: "x.1.0.1", Tenant: "t", ExecutionID: "x", Step: "upgrade", Block: "fleet/upgrade:1.0.0", Operation: workflow.JobExecute, Attempt: 1,
	Entity: &workflow.EntityKey{Type: "device", ID: "sw-007"}, Attributes: json.RawMessage(`{"a":1}`),
	Parameters: json.RawMessage(`{"target":"2.0"}`), Token: 17, Fence: "0000000017-000001-01-01",
	Deadline: time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.UTC),
}

// serve serves one block and returns its URL.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// respondWith returns a block with a fixed response.
func respondWith(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// call calls a block with the test's job.
func call(url string, allow ...string) worker.JobResult {
	return httpblock.New(allow).Call(context.Background(), &workflow.Endpoint{URL: url}, &job)
}

// The request has exactly the fields and headers of docs/http-blocks.md.
func TestClient_SendsRequestOfContract(t *testing.T) {
	var header http.Header
	var body string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/upgrade" {
			t.Errorf("%s %s %v", r.Method, r.URL, err)
		}
		header, body = r.Header, string(raw)
		respondWith(200, `{"outcome":"OK"}`)(w, r)
	}) + "/upgrade"
	global, rollback, resumed := job, job, job
	resumed.Resume = &workflow.Resume{Kind: workflow.WaitSignal, Value: json.RawMessage(`{"n":1}`)}
	global.Entity, global.Attributes, global.Token, global.Parameters = nil, nil, 0, nil
	rollback.Operation, rollback.Result = workflow.JobRollback, json.RawMessage(`{"was":"1.0"}`)
	for want, j := range map[string]*worker.Job{
		`{"operation":"EXECUTE","block":"fleet/upgrade:1.0.0","job":{"id":"x.1.0.1","execution":"x","step":"upgrade","attempt":1},` +
			`"entity":{"type":"device","id":"sw-007","attributes":{"a":1}},"parameters":{"target":"2.0"},"result":null,"token":17,` +
			`"fence":"0000000017-000001-01-01","deadline":"2026-01-02T03:04:05.678Z"}`: &job,
		`{"operation":"EXECUTE","block":"fleet/upgrade:1.0.0","job":{"id":"x.1.0.1","execution":"x","step":"upgrade","attempt":1},` +
			`"entity":null,"parameters":{},"result":null,"token":null,` +
			`"fence":"0000000017-000001-01-01","deadline":"2026-01-02T03:04:05.678Z"}`: &global,
		`{"operation":"ROLLBACK","block":"fleet/upgrade:1.0.0","job":{"id":"x.1.0.1","execution":"x","step":"upgrade","attempt":1},` +
			`"entity":{"type":"device","id":"sw-007","attributes":{"a":1}},"parameters":{"target":"2.0"},"result":{"was":"1.0"},"token":17,` +
			`"fence":"0000000017-000001-01-01","deadline":"2026-01-02T03:04:05.678Z"}`: &rollback,
		`{"operation":"EXECUTE","block":"fleet/upgrade:1.0.0","job":{"id":"x.1.0.1","execution":"x","step":"upgrade","attempt":1},` +
			`"entity":{"type":"device","id":"sw-007","attributes":{"a":1}},"parameters":{"target":"2.0"},"result":null,"token":17,` +
			`"fence":"0000000017-000001-01-01","deadline":"2026-01-02T03:04:05.678Z","resume":{"kind":"SIGNAL","value":{"n":1}}}`: &resumed,
	} {
		e := &workflow.Endpoint{URL: url, Headers: map[string]string{"Authorization": "Bearer b", "Idempotency-Key": "mine", "content-type": "text/plain"}}
		if a := httpblock.New([]string{httpblock.Loopback}).Call(context.Background(), e, j); a.Outcome != sm.OutcomeOK {
			t.Fatalf("%+v", a.Failure)
		}
		if body != want {
			t.Errorf("sent %s, want %s", body, want)
		}
		if got := header.Values("Idempotency-Key"); len(got) != 1 || got[0] != "x.1.0.1" {
			t.Errorf("keys %v", got)
		}
		if header.Get("Authorization") != "Bearer b" || header.Get("Content-Type") != "application/json" {
			t.Errorf("%v", header)
		}
	}
}

func TestClient_ReadsResponses(t *testing.T) {
	for text, want := range map[string]string{
		`{"outcome":"OK","result":{"a":1},"entities":[],"updates":[]}`: `OK {"a":1}  <nil>`,
		`{"outcome":"OK"}`:                                                  `OK   <nil>`,
		`{"outcome":"OK","result":null}`:                                    `OK   <nil>`,
		`{"outcome":"BREAK","result":"b"}`:                                  `BREAK "b"  <nil>`,
		`{"outcome":"NOOP","new":"member"}`:                                 `NOOP   <nil>`,
		`{"outcome":"OK","result":{"Outcome":1,"a":2},"new":{"OUTCOME":1}}`: `OK {"Outcome":1,"a":2}  <nil>`,
		`{"outcome":"OK","updates":[{"entity":{"type":"device","id":"sw-007"},"set":{"v":"2"},"remove":["s"]}]}`: `OK  [{"entity":{"type":"device","id":"sw-007"},"set":{"v":"2"},"remove":["s"]}] <nil>`,
		`{"outcome":"ERROR","error":{"code":"BUSY","message":"m","retryable":true,"details":{"d":1}}}`:           `ERROR   &{BUSY m   true [123 34 100 34 58 49 125] false}`,
		`{"outcome":"ERROR","error":{"code":"GONE","message":"m"},"result":{"a":1}}`:                             `ERROR   &{GONE m   false [] false}`,
	} {
		a := call(serve(t, respondWith(200, text)), httpblock.Loopback)
		if got := fmt.Sprint(a.Outcome, " ", string(a.Result), " ", string(a.Updates), " ", a.Failure); got != want {
			t.Errorf("%s is decoded as %q, want %q", text, got, want)
		}
	}
}

// A log is read from successes and failures, and nothing that is odd in a line fails the job.
func TestParseResponse_ReadsLogs(t *testing.T) {
	const logs = `"logs":[{"text":"a"},{"level":"warning","text":"b","at":"2026-01-02T03:04:05.678+01:00"},{"level":"CRITICAL","text":"c","at":"yesterday"},{"level":"chatty","text":"d"}]`
	for _, text := range []string{`{"outcome":"OK",` + logs + `}`, `{"outcome":"ERROR","error":{"code":"NO"},` + logs + `}`} {
		a, err := httpblock.ParseResponse([]byte(text), workflow.JobExecute)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, l := range a.Logs {
			got += fmt.Sprintf("%s %s %t; ", l.Level, l.Text, l.At.IsZero())
		}
		if got != "INFO a true; WARN b false; ERROR c true; INFO d true; " || !a.Logs[1].At.Equal(time.Date(2026, 1, 2, 2, 4, 5, 678e6, time.UTC)) {
			t.Errorf("%s: %s", text, got)
		}
	}
	for logs, want := range map[string]string{
		`"a"`: "a;", `["a",{"text":"b"}]`: "a;b;", `{"text":"a"}`: "a;", `[{"level":30,"at":1764288000,"text":"a"}]`: "a;",
		`[{"Text":"a"}]`: "", `[{"text":1},null,[1]]`: "", `null`: "", `7`: "",
		`[{"at":"9999-12-31T23:59:59-01:00","text":"a"},{"at":"0000-01-01T00:00:00+01:00","text":"b"}]`: "a;b;", // no document holds these times
	} {
		a, err := httpblock.ParseResponse([]byte(`{"outcome":"OK","logs":`+logs+`}`), workflow.JobExecute)
		if err != nil {
			t.Errorf("%s: %v", logs, err)
		}
		got := ""
		for _, l := range a.Logs {
			if got += l.Text + ";"; !l.At.IsZero() {
				t.Errorf("%s: at %s", logs, l.At)
			}
		}
		if got != want {
			t.Errorf("%s is read as %q, want %q", logs, got, want)
		}
	}
}

// A response may ask to wait.
func TestParseResponse_ReadsWaits(t *testing.T) {
	for text, want := range map[string]string{
		`{"outcome":"OK","wait":{"until":"2030-01-31T08:00:00Z","reason":"the window"}}`:          "TIMER the window 2030-01-31T08:00:00Z",
		`{"outcome":"NOOP","wait":{"signal":"paid"}}`:                                             "SIGNAL  0001-01-01T00:00:00Z",
		`{"outcome":"OK","wait":{"input":{"schema":{"type":"object"},"who":{"actors":["ann"]}}}}`: "INPUT  0001-01-01T00:00:00Z",
		`{"outcome":"OK","wait":null}`:                                                            "none",
		`{"outcome":"ERROR","error":{"code":"BUSY"},"wait":{"signal":"paid"}}`:                    "none",
		`{"outcome":"OK","wait":{"Until":"2030-01-31T08:00:00Z"}}`:                                "error",
		`{"outcome":"OK","wait":{"input":{"Schema":{}}}}`:                                         "error",
		`{"outcome":"OK","wait":{"until":"soon"}}`:                                                "error",
		`{"outcome":"OK","wait":5}`:                                                               "error",
	} {
		a, err := httpblock.ParseResponse([]byte(text), workflow.JobExecute)
		got := "none"
		switch {
		case err != nil:
			got = "error"
		case a.Wait != nil:
			got = fmt.Sprint(a.Wait.Kind(), " ", a.Wait.Reason, " ", a.Wait.Until.Format(time.RFC3339))
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// The entities of an ACQUIRE are objects or strings.
func TestParseResponse_ReadsAcquiredEntities(t *testing.T) {
	a := call(serve(t, respondWith(200, `{"outcome":"OK","entities":[{"type":"device","id":"a"},"site/b"]}`)), httpblock.Loopback)
	if got := fmt.Sprint(a.Entities, a.Failure); got != "[device/a site/b] <nil>" {
		t.Errorf("decoded as %s", got)
	}
	for text, want := range map[string]bool{
		`{"outcome":"OK","entities":[]}`: true, `{"outcome":"OK"}`: false, `{"outcome":"OK","entities":null}`: false,
		`{"outcome":"OK","result":{"entities":["device/a"]}}`: false,
	} {
		if _, err := httpblock.ParseResponse([]byte(text), workflow.JobAcquire); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The size limit of a request does not count the result that a rollback takes back.
// Everything else counts.
func TestClient_SendsLargeRollbackResult(t *testing.T) {
	url := serve(t, respondWith(200, `{"outcome":"OK"}`))
	rollback := job
	rollback.Operation, rollback.Result = workflow.JobRollback, json.RawMessage(`"`+strings.Repeat("x", 1<<20-2)+`"`)
	c := httpblock.New([]string{httpblock.Loopback})
	if a := c.Call(context.Background(), &workflow.Endpoint{URL: url}, &rollback); a.Failure != nil {
		t.Errorf("%+v", a.Failure)
	}
	large := job
	large.Parameters = rollback.Result
	if a := c.Call(context.Background(), &workflow.Endpoint{URL: url}, &large); a.Failure == nil || a.Failure.Code != "LIMIT" {
		t.Errorf("%+v", a.Failure)
	}
}

// A response that the contract does not allow has a code of its own, and is retryable
// only if the contract says so.
func TestClient_InvalidResponsesHaveCodes(t *testing.T) {
	huge := `{"outcome":"OK","result":"` + strings.Repeat("x", 1<<20) + `"}`
	for _, c := range []struct {
		status    int
		text      string
		code      string
		retryable bool
	}{
		{200, ``, "HTTP_INVALID", false},
		{200, `<html>`, "HTTP_INVALID", false},
		{200, `null`, "HTTP_INVALID", false},
		{200, `[]`, "HTTP_INVALID", false},
		{200, `{}`, "HTTP_INVALID", false},
		{200, `{"outcome":"ok"}`, "HTTP_INVALID", false},
		{200, `{"outcome":"SUCCESS"}`, "HTTP_INVALID", false},
		{200, `{"outcome":"OK"} {}`, "HTTP_INVALID", false},
		{200, `{"outcome":"OK","updates":{}}`, "HTTP_INVALID", false},
		{200, `{"outcome":"OK","entities":["device"]}`, "HTTP_INVALID", false},
		{200, `{"outcome":"OK","entities":[7]}`, "HTTP_INVALID", false},
		{200, `{"outcome":"ERROR"}`, "HTTP_INVALID", false},
		{200, `{"outcome":"ERROR","error":{"message":"no code"}}`, "HTTP_INVALID", false},
		{200, `{"outcome":"ERROR","error":{"code":"A","retryable":"yes"}}`, "HTTP_INVALID", false},
		{200, "{\"outcome\":\"OK\",\"result\":\"a\xffb\"}", "HTTP_INVALID", false},
		{200, `{"outcome":"OK","result":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, "HTTP_INVALID", false},
		{200, `{"outcome":"OK","result":{"n":1e999}}`, "HTTP_INVALID", false},
		{200, `{"Outcome":"OK"}`, "HTTP_INVALID", false},
		{200, `{"outcome":"OK","RESULT":1}`, "HTTP_INVALID", false},
		{200, `{"outcome":"ERROR","error":{"code":"A","Retryable":true}}`, "HTTP_INVALID", false},
		{200, `{"outcome":"OK","updates":[{"entity":{"type":"device","ID":"a","id":"b"}}]}`, "HTTP_INVALID", false},
		{200, `{"outcome":"ERROR","outcome":"OK","error":{"code":"A"}}`, "HTTP_INVALID", false},
		{200, `{"outcome":"OK","result":{"a":1,"a":2}}`, "HTTP_INVALID", false},
		{200, huge, "LIMIT", false},
		{201, `{"outcome":"OK"}`, "HTTP_201", false},
		{204, ``, "HTTP_204", false},
		{302, ``, "HTTP_302", false},
		{400, `{"outcome":"OK"}`, "HTTP_400", false},
		{404, ``, "HTTP_404", false},
		{429, ``, "HTTP_429", true},
		{500, ``, "HTTP_500", true},
		{503, ``, "HTTP_503", true},
	} {
		a := call(serve(t, respondWith(c.status, c.text)), httpblock.Loopback)
		if a.Outcome != sm.OutcomeError || a.Failure == nil || a.Failure.Code != c.code || a.Failure.Retryable != c.retryable || a.Result != nil {
			t.Errorf("%d %.60s: %+v, want %s %v", c.status, c.text, a.Failure, c.code, c.retryable)
		}
	}
}

func TestClient_DoesNotFollowRedirects(t *testing.T) {
	var followed atomic.Bool
	to := serve(t, func(http.ResponseWriter, *http.Request) { followed.Store(true) })
	from := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusTemporaryRedirect) })
	if a := call(from, httpblock.Loopback); a.Failure == nil || a.Failure.Code != "HTTP_307" || followed.Load() {
		t.Errorf("%+v", a.Failure)
	}
}

func TestClient_TimesOut(t *testing.T) {
	end := make(chan struct{})
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-end:
		case <-r.Context().Done():
		}
	})
	defer close(end)
	e := &workflow.Endpoint{URL: url, Timeout: workflow.Duration(20 * time.Millisecond)}
	a := httpblock.New([]string{httpblock.Loopback}).Call(context.Background(), e, &job)
	if a.Failure == nil || a.Failure.Code != "HTTP_TIMEOUT" || !a.Failure.Retryable {
		t.Errorf("%+v", a.Failure)
	}
	// The job's own time-out has the same code.
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	a = httpblock.New([]string{httpblock.Loopback}).Call(ctx, &workflow.Endpoint{URL: url}, &job)
	if a.Failure == nil || a.Failure.Code != "HTTP_TIMEOUT" {
		t.Errorf("%+v", a.Failure)
	}
}

func TestClient_UnreachableIsRetryable(t *testing.T) {
	s := httptest.NewServer(respondWith(200, ""))
	s.Close()
	if a := call(s.URL, httpblock.Loopback); a.Failure == nil || a.Failure.Code != "HTTP_UNREACHABLE" || !a.Failure.Retryable {
		t.Errorf("%+v", a.Failure)
	}
}

func TestClient_RejectsLargeJob(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the block was called") })
	large := job
	large.Parameters = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	a := httpblock.New([]string{httpblock.Loopback}).Call(context.Background(), &workflow.Endpoint{URL: url}, &large)
	if a.Failure == nil || a.Failure.Code != "LIMIT" || a.Failure.Retryable {
		t.Errorf("%+v", a.Failure)
	}
}

// Only allowed hosts are called, by name or address, with a port or without. The resolved
// address is checked again when the connection is made.
func TestClient_CallsOnlyAllowedHosts(t *testing.T) {
	url := serve(t, respondWith(200, `{"outcome":"OK"}`))
	host := strings.TrimPrefix(url, "http://")
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		t.Fatal(err)
	}
	named := "http://localhost:" + port
	for _, c := range []struct {
		url   string
		allow []string
		ok    bool
	}{
		{url, []string{"loopback"}, true},
		{named, []string{"loopback"}, true},
		{strings.Replace(named, "localhost", "LOCALHOST", 1), []string{"LoopBack"}, true},
		{url, []string{"127.0.0.1"}, true},
		{url, []string{host}, true},
		{named, []string{"localhost"}, true},
		{named, []string{" localhost:" + port + " "}, true},
		{url, nil, false},
		{url, []string{"blocks.example.com"}, false},
		{url, []string{"127.0.0.1:1"}, false},
		{url, []string{"localhost"}, false},
		{named, []string{"localhost:1"}, false},
		{"http://localhost.example.com:" + port, []string{"loopback"}, false},
		{"http://127.0.0.1.example.com:" + port, []string{"loopback"}, false},
		{"http://loopback:" + port, []string{"example.com"}, false},
		{"http://user@example.com@" + host, []string{"example.com"}, false},
		{"ftp://" + host, []string{"loopback"}, false},
		{"http:///path", []string{"loopback", ""}, false},
		{"%", []string{"loopback"}, false},
		// Instance metadata and credentials are never allowed, by any address.
		{"http://169.254.169.254/latest", []string{"169.254.169.254", "loopback"}, false},
		{"http://[::ffff:169.254.169.254]/latest", []string{"::ffff:169.254.169.254"}, false},
		{"http://[fd00:ec2::254]/latest", []string{"fd00:ec2::254"}, false},
		{"http://0.0.0.0:" + port, []string{"0.0.0.0"}, false},
	} {
		a := call(c.url, c.allow...)
		if c.ok != (a.Outcome == sm.OutcomeOK) || (!c.ok && (a.Failure.Code != "HTTP_FORBIDDEN" || a.Failure.Retryable)) {
			t.Errorf("%s with %v: %s %+v", c.url, c.allow, a.Outcome, a.Failure)
		}
	}
}

// Connections are reused. If one breaks after the request was sent, net/http does not
// repeat the request, although it has an idempotency key.
func TestClient_ReusesConnectionsWithoutRetrying(t *testing.T) {
	var calls, opened atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 3 {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		respondWith(200, `{"outcome":"OK"}`)(w, r)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	c := httpblock.New([]string{httpblock.Loopback})
	var codes bytes.Buffer
	for range 4 {
		a := c.Call(context.Background(), &workflow.Endpoint{URL: s.URL}, &job)
		if a.Failure != nil {
			fmt.Fprint(&codes, a.Failure.Code, " ")
		} else {
			fmt.Fprint(&codes, a.Outcome, " ")
		}
	}
	if got := codes.String(); got != "OK OK HTTP_UNREACHABLE OK " || calls.Load() != 4 || opened.Load() != 2 {
		t.Errorf("%s, %d calls on %d connections", got, calls.Load(), opened.Load())
	}
}

// A failure is marked as unsent only if the block was certainly not called. The failure
// for a host that is not allowed names the setting.
func TestClient_MarksUnsentOnlyWhenCertain(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unreachable := "http://" + closed.Addr().String()
	_ = closed.Close()
	brokenOff := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = c.Close()
	})
	for name, c := range map[string]struct {
		url, code string
		allow     []string
		unsent    bool
	}{
		"not on the list":   {"http://192.0.2.1/", "HTTP_FORBIDDEN", []string{httpblock.Loopback}, true},
		"invalid URL":       {"http://%zz/", "HTTP_FORBIDDEN", []string{httpblock.Loopback}, true},
		"nobody listens":    {unreachable, "HTTP_UNREACHABLE", []string{httpblock.Loopback}, true},
		"connection breaks": {brokenOff, "HTTP_UNREACHABLE", []string{httpblock.Loopback}, false},
		"error status":      {serve(t, respondWith(500, "")), "HTTP_500", []string{httpblock.Loopback}, false},
		"claimed by block":  {serve(t, respondWith(200, `{"outcome":"ERROR","error":{"code":"NO","unsent":true}}`)), "NO", []string{httpblock.Loopback}, false},
	} {
		a := call(c.url, c.allow...)
		if a.Failure == nil || a.Failure.Code != c.code || a.Failure.Unsent != c.unsent {
			t.Errorf("%s: %+v", name, a.Failure)
			continue
		}
		if c.code == "HTTP_FORBIDDEN" && !strings.Contains(a.Failure.Message, "LOCKSTEP_WORKER_ALLOW_HOSTS") {
			t.Errorf("%s: the message does not name the setting: %s", name, a.Failure.Message)
		}
	}
}

// A block names an endpoint of the stage, whose host may be called, and a path behind it. Its requests
// are signed with a secret that only the worker has.
func TestClient_CallsEndpointAndSigns(t *testing.T) {
	var header http.Header
	var line string
	var body []byte
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		header, line = r.Header, r.URL.Path
		body, _ = io.ReadAll(r.Body)
		respondWith(200, `{"outcome":"OK"}`)(w, r)
	})
	c := httpblock.NewWithEndpoints(nil, workflow.Endpoints{"inventory": url + "/api/", "ours": "http://169.254.169.254/"})
	e := &workflow.Endpoint{Endpoint: "inventory", Path: "/set", Sign: &workflow.Signing{Secret: "k"}, SignKey: "hunter2"}
	for _, to := range []*workflow.Endpoint{{Endpoint: "ours"}, {URL: "http://127.0.0.1:1/"}} {
		if a := c.Call(t.Context(), to, &job); a.Failure == nil || a.Failure.Code != "HTTP_FORBIDDEN" {
			t.Errorf("%+v: %+v", to, a)
		}
	}
	if a := c.Call(t.Context(), e, &job); a.Outcome != sm.OutcomeOK || line != "/api/set" {
		t.Fatalf("%s, %+v", line, a.Failure)
	}
	var at int64
	if _, err := fmt.Sscanf(header.Get("Lockstep-Signature"), "t=%d,", &at); err != nil || header.Get("Lockstep-Signature") != workflow.Sign([]byte("hunter2"), time.Unix(at, 0), body) || len(body) == 0 {
		t.Errorf("%v, %v", header, err)
	}
	for endpoint, path := range map[string]string{"shop": "/set", "inventory": "/../admin"} {
		if a := c.Call(t.Context(), &workflow.Endpoint{Endpoint: endpoint, Path: path}, &job); a.Failure == nil || a.Failure.Code != workflow.FailureEndpoint || !a.Failure.Unsent {
			t.Errorf("%s%s: %+v", endpoint, path, a.Failure)
		}
	}
}

// An address may hold what nobody should read: no failure of a call has it.
func TestClient_FailuresHaveNoAddress(t *testing.T) {
	broken := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer broken.Close()
	for _, url := range []string{"http://127.0.0.1:1/", broken.URL + "/"} {
		if a := call(url+"x?key=hidden", httpblock.Loopback); a.Failure == nil || a.Failure.Code != workflow.FailureHTTPUnreachable || strings.Contains(a.Failure.Message, "hidden") {
			t.Errorf("%+v", a.Failure)
		}
	}
}
