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
	Parameters: json.RawMessage(`{"target":"2.0"}`), Token: 17, Fence: "0000000017-0001-01-01",
	Deadline: time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.UTC),
}

// serve serves one block.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// respondWith is a block that always answers the same.
func respondWith(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

func call(url string, allow ...string) worker.JobResult {
	return httpblock.New(allow).Call(context.Background(), &workflow.Endpoint{URL: url}, &job)
}

// TestClient_SendsRequestOfContract holds the request to the contract, member by member.
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
	global, undo := job, job
	global.Entity, global.Attributes, global.Token, global.Parameters = nil, nil, 0, nil
	undo.Operation, undo.Result = workflow.JobRollback, json.RawMessage(`{"was":"1.0"}`)
	for want, j := range map[string]*worker.Job{
		`{"operation":"EXECUTE","block":"fleet/upgrade:1.0.0","job":{"id":"x.1.0.1","execution":"x","step":"upgrade","attempt":1},` +
			`"entity":{"type":"device","id":"sw-007","attributes":{"a":1}},"parameters":{"target":"2.0"},"result":null,"token":17,` +
			`"fence":"0000000017-0001-01-01","deadline":"2026-01-02T03:04:05.678Z"}`: &job,
		`{"operation":"EXECUTE","block":"fleet/upgrade:1.0.0","job":{"id":"x.1.0.1","execution":"x","step":"upgrade","attempt":1},` +
			`"entity":null,"parameters":{},"result":null,"token":null,` +
			`"fence":"0000000017-0001-01-01","deadline":"2026-01-02T03:04:05.678Z"}`: &global,
		`{"operation":"ROLLBACK","block":"fleet/upgrade:1.0.0","job":{"id":"x.1.0.1","execution":"x","step":"upgrade","attempt":1},` +
			`"entity":{"type":"device","id":"sw-007","attributes":{"a":1}},"parameters":{"target":"2.0"},"result":{"was":"1.0"},"token":17,` +
			`"fence":"0000000017-0001-01-01","deadline":"2026-01-02T03:04:05.678Z"}`: &undo,
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
		`{"outcome":"OK"}`:                  `OK   <nil>`,
		`{"outcome":"OK","result":null}`:    `OK   <nil>`,
		`{"outcome":"BREAK","result":"b"}`:  `BREAK "b"  <nil>`,
		`{"outcome":"NOOP","new":"member"}`: `NOOP   <nil>`,
		`{"outcome":"OK","updates":[{"entity":{"type":"device","id":"sw-007"},"set":{"v":"2"},"remove":["s"]}]}`: `OK  [{"entity":{"type":"device","id":"sw-007"},"set":{"v":"2"},"remove":["s"]}] <nil>`,
		`{"outcome":"ERROR","error":{"code":"BUSY","message":"m","retryable":true,"details":{"d":1}}}`:           `ERROR   &{BUSY m   true [123 34 100 34 58 49 125] false}`,
		`{"outcome":"ERROR","error":{"code":"GONE","message":"m"},"result":{"a":1}}`:                             `ERROR   &{GONE m   false [] false}`,
	} {
		a := call(serve(t, respondWith(200, text)), httpblock.Loopback)
		if got := fmt.Sprint(a.Outcome, " ", string(a.Result), " ", string(a.Updates), " ", a.Failure); got != want {
			t.Errorf("%s is read as %q, want %q", text, got, want)
		}
	}
}

// What an ACQUIRE has found is a list of objects or of texts.
func TestParseResponse_ReadsAcquiredEntities(t *testing.T) {
	a := call(serve(t, respondWith(200, `{"outcome":"OK","entities":[{"type":"device","id":"a"},"site/b"]}`)), httpblock.Loopback)
	if got := fmt.Sprint(a.Entities, a.Failure); got != "[device/a site/b] <nil>" {
		t.Errorf("read as %s", got)
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

// A job that undoes a large result is sent, however little room that leaves: what
// a block has returned it takes back. Everything else stays bounded.
func TestClient_SendsLargeRollbackResult(t *testing.T) {
	url := serve(t, respondWith(200, `{"outcome":"OK"}`))
	undo := job
	undo.Operation, undo.Result = workflow.JobRollback, json.RawMessage(`"`+strings.Repeat("x", 1<<20-2)+`"`)
	c := httpblock.New([]string{httpblock.Loopback})
	if a := c.Call(context.Background(), &workflow.Endpoint{URL: url}, &undo); a.Failure != nil {
		t.Errorf("%+v", a.Failure)
	}
	big := job
	big.Parameters = undo.Result
	if a := c.Call(context.Background(), &workflow.Endpoint{URL: url}, &big); a.Failure == nil || a.Failure.Code != "LIMIT" {
		t.Errorf("%+v", a.Failure)
	}
}

// TestClient_InvalidResponsesHaveCodes: what is none of the contract's answers has a code of its own,
// and repeating helps only where the contract says so.
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
	// The job's own time-out reads the same.
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
	url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("sent") })
	large := job
	large.Parameters = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	a := httpblock.New([]string{httpblock.Loopback}).Call(context.Background(), &workflow.Endpoint{URL: url}, &large)
	if a.Failure == nil || a.Failure.Code != "LIMIT" || a.Failure.Retryable {
		t.Errorf("%+v", a.Failure)
	}
}

// TestClient_CallsOnlyAllowedHosts: names and addresses, with a port or without; and where a name
// leads is looked at again when the connection is made.
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
		// Instance metadata and credentials, by any of their addresses.
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

// A connection is used again. When one breaks after the request was sent, the
// request is not repeated behind the worker's back, although it has a key.
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
