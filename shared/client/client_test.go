package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// scriptedServer answers requests from a list, then repeats the last answer. It records
// the requests.
type scriptedServer struct {
	responses []string // "503", "200 body", "429;7 body" with a Retry-After
	requests  []string
	headers   http.Header
}

func (s *scriptedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
	s.headers = r.Header
	answer := s.responses[0]
	if len(s.responses) > 1 {
		s.responses = s.responses[1:]
	}
	status, text, _ := strings.Cut(answer, " ")
	var code int
	status, after, ok := strings.Cut(status, ";")
	if ok {
		w.Header().Set("Retry-After", after)
	}
	_, _ = fmt.Sscan(status, &code)
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text)
}

// newScripted serves a list of answers; pauses collects the client's pauses.
func newScripted(t *testing.T, pauses *[]time.Duration, answers ...string) (*client.Client, *scriptedServer) {
	t.Helper()
	s := &scriptedServer{responses: answers}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return newClient(t, server.URL, pauses), s
}

func newClient(t *testing.T, url string, pauses *[]time.Duration) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{
		URL: url, Tenant: "acme", Actor: "ann", Headers: http.Header{"authorization": {"x"}}, Jitter: func() float64 { return 1 },
		Sleep: func(ctx context.Context, d time.Duration) error {
			if pauses != nil {
				*pauses = append(*pauses, d)
			}
			return ctx.Err()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestClient_SendsCallerHeaders(t *testing.T) {
	c, s := newScripted(t, nil, `200 {"version":"1","commit":"c","go":"g"}`)
	v, err := c.Version(t.Context())
	if err != nil || v.Version != "1" {
		t.Fatal(v, err)
	}
	for name, want := range map[string]string{"X-Tenant": "acme", "X-Actor": "ann", "Authorization": "x"} {
		if got := s.headers.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestClient_ReadsWhoTheCallerIs(t *testing.T) {
	c, s := newScripted(t, nil, `200 {"tenant":"acme","actor":"ann","roleNames":["netops"],"roles":["viewer"],"operations":["getCaller"]}`)
	me, err := c.Caller(t.Context())
	if err != nil || me.Tenant != "acme" || me.Actor != "ann" || len(me.RoleNames) != 1 || len(me.Roles) != 1 || len(me.Operations) != 1 || s.requests[0] != "GET /caller" {
		t.Error(me, err, s.requests)
	}
}

// A retry waits as long as the answer says, where that is no longer than its longest pause. Otherwise there is
// none, and the error says when the next request may come.
func TestClient_KeepsRetryAfter(t *testing.T) {
	problem := ` {"code":"rate_limited","detail":"too many"}`
	for answer, c := range map[string]struct {
		times  int
		pauses []time.Duration
		after  time.Duration
	}{
		"429":                {3, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}, 0},
		"429;7" + problem:    {3, []time.Duration{7 * time.Second, 7 * time.Second}, 7 * time.Second},
		"503;1":              {3, []time.Duration{time.Second, time.Second}, time.Second},
		"429;11" + problem:   {1, nil, 11 * time.Second},
		"429;3600" + problem: {1, nil, time.Hour},
		"429;-5":             {3, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}, 0},
		"429;soon":           {3, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}, 0},
	} {
		var pauses []time.Duration
		cl, s := newScripted(t, &pauses, answer, answer, "200 {}")
		_, _, err := cl.Start(t.Context(), views.StartRequest{Workflow: "a/b", IdempotencyKey: "k"})
		if len(s.requests) != c.times || (err == nil) != (c.times == 3) || !slices.Equal(pauses, c.pauses) {
			t.Errorf("%s: sent %d times, pauses %v: %v", answer, len(s.requests), pauses, err)
		}
		cl, _ = newScripted(t, &pauses, answer)
		_, _, err = cl.Start(t.Context(), views.StartRequest{Workflow: "a/b"})
		if refused := (*workflow.Error)(nil); !errors.As(err, &refused) || refused.RetryAfter != c.after {
			t.Errorf("%s: %#v", answer, err)
		}
	}
}

func TestClient_RetriesOnlyRepeatableRequests(t *testing.T) {
	start := func(key string) func(context.Context, *client.Client) error {
		return func(ctx context.Context, c *client.Client) error {
			_, _, err := c.Start(ctx, views.StartRequest{Workflow: "a/b", IdempotencyKey: key})
			return err
		}
	}
	for _, c := range []struct {
		name   string
		answer string
		do     func(context.Context, *client.Client) error
		times  int
	}{
		{"read", "503", func(ctx context.Context, c *client.Client) error { _, err := c.Status(ctx, "x"); return err }, 3},
		{"read, throttled", "429", func(ctx context.Context, c *client.Client) error { _, err := c.Status(ctx, "x"); return err }, 3},
		{"read, gateway", "502", func(ctx context.Context, c *client.Client) error { _, err := c.Status(ctx, "x"); return err }, 3},
		{"read, slow", "504", func(ctx context.Context, c *client.Client) error { _, err := c.Status(ctx, "x"); return err }, 3},
		{"read, internal", "500", func(ctx context.Context, c *client.Client) error { _, err := c.Status(ctx, "x"); return err }, 1},
		{"read, not found", "404", func(ctx context.Context, c *client.Client) error { _, err := c.Status(ctx, "x"); return err }, 1},
		{"put", "503", func(ctx context.Context, c *client.Client) error {
			_, err := c.PutEntity(ctx, workflow.Entity{Type: "a", ID: "b"})
			return err
		}, 3},
		{"import", "503", func(ctx context.Context, c *client.Client) error {
			_, err := c.ImportEntities(ctx, strings.NewReader("{}\n"))
			return err
		}, 3},
		{"publish", "503", func(ctx context.Context, c *client.Client) error {
			_, _, err := c.Publish(ctx, []byte("a: b"), false)
			return err
		}, 3},
		{"poll", "504", func(ctx context.Context, c *client.Client) error { _, err := c.Poll(ctx, views.JobPoll{}); return err }, 3},
		{"start with a key", "503", start("k"), 3},
		{"start without a key", "503", start(""), 1},
		{"answer with a token", "503", func(ctx context.Context, c *client.Client) error {
			_, err := c.AnswerByToken(ctx, "lst1.a.b", views.TokenAnswer{Input: []byte("1")})
			return err
		}, 3},
		{"cancel", "503", func(ctx context.Context, c *client.Client) error {
			_, err := c.Cancel(ctx, "x", views.CancelRequest{})
			return err
		}, 1},
		{"acknowledge", "503", func(ctx context.Context, c *client.Client) error { _, err := c.Acknowledge(ctx, "x", ""); return err }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var pauses []time.Duration
			cl, s := newScripted(t, &pauses, c.answer, c.answer, "200 {}")
			err := c.do(t.Context(), cl)
			if len(s.requests) != c.times || (err == nil) != (c.times == 3) {
				t.Errorf("sent %d times: %v", len(s.requests), err)
			}
			if c.times == 3 && !slices.Equal(pauses, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}) {
				t.Errorf("pauses %v", pauses)
			}
			if slices.Sort(s.requests); len(slices.Compact(s.requests)) != 1 {
				t.Errorf("the retry differs: %q", s.requests)
			}
		})
	}
}

func TestClient_StopsRetrying(t *testing.T) {
	c, s := newScripted(t, nil, "503")
	if _, err := c.Status(t.Context(), "x"); !workflow.Is(err, workflow.CodeUnavailable) || len(s.requests) != 5 {
		t.Errorf("sent %d times: %v", len(s.requests), err)
	}
}

func TestClient_Unreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	_ = l.Close() // nothing listens here now
	var pauses []time.Duration
	c := newClient(t, url, &pauses)
	_, err = c.Status(t.Context(), "x")
	var u *client.UnreachableError
	if !errors.As(err, &u) || u.URL != url || len(pauses) != 4 {
		t.Errorf("%v after %v", err, pauses)
	}
	pauses = nil
	if _, err = c.Cancel(t.Context(), "x", views.CancelRequest{}); !errors.As(err, &u) || len(pauses) != 0 {
		t.Errorf("%v after %v", err, pauses)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Status(ctx, "x"); !errors.Is(err, context.Canceled) || errors.As(err, &u) {
		t.Errorf("a cancelled context: %v", err)
	}
}

func TestClient_ReturnsTypedProblems(t *testing.T) {
	c, _ := newScripted(t, nil, `400 {"code":"invalid","detail":"no","errors":[{"path":"steps[0]","line":3,"column":4,"code":"required","message":"m"}]}`)
	_, _, err := c.Publish(t.Context(), []byte("x"), true)
	var e *workflow.Error
	if !errors.As(err, &e) || e.Code != workflow.CodeInvalid || e.Message != "no" || len(e.Issues) != 1 || e.Issues[0].Line != 3 {
		t.Errorf("%+v", err)
	}
	c, _ = newScripted(t, nil, `501 {"code":"not_implemented","detail":"not yet","requestId":"r-1"}`)
	if _, err = c.Status(t.Context(), "x"); !workflow.Is(err, workflow.CodeNotImplemented) || !strings.Contains(err.Error(), "r-1") {
		t.Error(err)
	}
	for status, code := range map[string]workflow.Code{"401": "unauthorized", "403": "forbidden", "404": "not_found", "405": "method_not_allowed", "413": "too_large", "418": "invalid", "500": "internal", "504": "unavailable"} {
		c, _ = newScripted(t, nil, status+` <html>from a gateway</html>`)
		if _, err := c.Cancel(t.Context(), "x", views.CancelRequest{}); !workflow.Is(err, code) {
			t.Errorf("%s: %v", status, err)
		}
	}
	c, _ = newScripted(t, nil, `200 <html>`)
	if _, err := c.Status(t.Context(), "x"); !workflow.Is(err, workflow.CodeInternal) {
		t.Error(err)
	}
}

func TestClient_FetchesPagesLazily(t *testing.T) {
	answers := []string{`200 {"items":[{"sequence":1},{"sequence":2}],"nextPageToken":"p2"}`, `200 {"items":[],"nextPageToken":"p3"}`, `200 {"items":[{"sequence":3}],"nextPageToken":null}`}
	c, s := newScripted(t, nil, answers...)
	var got []int64
	for e, err := range c.History(t.Context(), "x") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Sequence)
	}
	want := []string{"GET /workflow-execution/id/x/history", "GET /workflow-execution/id/x/history?pageToken=p2", "GET /workflow-execution/id/x/history?pageToken=p3"}
	if !slices.Equal(got, []int64{1, 2, 3}) || !slices.Equal(s.requests, want) {
		t.Errorf("%v by %q", got, s.requests)
	}

	c, s = newScripted(t, nil, answers...)
	for range c.History(t.Context(), "x") {
		break
	}
	if len(s.requests) != 1 {
		t.Errorf("fetched more pages than needed: %q", s.requests)
	}

	c, _ = newScripted(t, nil, answers[0], "404")
	var last error
	n := 0
	for _, err := range c.History(t.Context(), "x") {
		n, last = n+1, err
	}
	if n != 3 || !workflow.Is(last, workflow.CodeNotFound) {
		t.Errorf("%d items, then %v", n, last)
	}
}

// What is read is what follows the last event, for which the service waits unless nothing can come. That an
// execution has ended is asked again only when something of the execution has happened, and what
// happened until then is still read.
func TestClient_FollowsAHistoryToItsEnd(t *testing.T) {
	const running, ended = `200 {"id":"x","state":"RUNNING","status":"RUNNING"}`, `200 {"id":"x","state":"COMPLETED_ACK","status":"COMPLETED"}`
	var pauses []time.Duration
	c, s := newScripted(t, &pauses,
		running, `200 {"items":[{"sequence":5,"layer":"step"}],"nextPageToken":"p"}`, `200 {"items":[{"sequence":6,"layer":"step"}]}`,
		`200 {"items":[]}`, "503", "503", `200 {"items":[]}`, `200 {"items":[{"sequence":7,"layer":"execution"}]}`,
		ended, `200 {"items":[{"sequence":8,"layer":"execution"},{"sequence":9,"layer":"execution"}]}`)
	var got []int64
	lost := 0
	for e, err := range c.FollowHistory(t.Context(), "x", 4, time.Second, 1200*time.Millisecond, func(error) { lost++ }) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Sequence)
	}
	const history = "GET /workflow-execution/id/x/history?after="
	want := []string{
		"GET /workflow-execution/id/x", history + "4&wait=20s", history + "4&pageToken=p&wait=20s", history + "6&wait=20s", history + "6&wait=20s", history + "6&wait=20s", history + "6&wait=20s", history + "6&wait=20s",
		"GET /workflow-execution/id/x", history + "7",
	}
	if !slices.Equal(got, []int64{5, 6, 7, 8, 9}) || !slices.Equal(s.requests, want) {
		t.Errorf("%v by\n%s", got, strings.Join(s.requests, "\n"))
	}
	waited := slices.DeleteFunc(pauses, func(d time.Duration) bool { return d != time.Second && d != 1200*time.Millisecond })
	if waits := []time.Duration{time.Second, time.Second, time.Second}; !slices.Equal(waited, waits) {
		t.Errorf("paused %v", pauses)
	}

	c, s = newScripted(t, nil, running, `200 {"items":[{"sequence":1,"layer":"step"},{"sequence":2}]}`)
	for range c.FollowHistory(t.Context(), "x", 0, time.Second, time.Second, nil) {
		break
	}
	if len(s.requests) != 2 {
		t.Errorf("went on after its reader had stopped: %q", s.requests)
	}
	c, _ = newScripted(t, nil, "404")
	for _, err := range c.FollowHistory(t.Context(), "x", 0, time.Second, time.Second, nil) {
		if !workflow.Is(err, workflow.CodeNotFound) {
			t.Error(err)
		}
	}
}

func TestClient_EncodesFilters(t *testing.T) {
	c, s := newScripted(t, nil, `200 {"items":[]}`)
	for range c.Executions(t.Context(), views.ExecutionFilter{State: "NEW", Workflow: workflow.Ref{Package: "a", Name: "b", Version: "1"}, Labels: map[string]string{"x": "1", "k": "v w"}}) {
	}
	for range c.Executions(t.Context(), views.ExecutionFilter{Active: true}) {
	}
	for range c.Jobs(t.Context(), "x", views.JobFilter{Entity: workflow.EntityKey{ID: "sw"}, State: statemachines.JobFailed}) {
	}
	for range c.Entities(t.Context(), workflow.Selector{Type: "device", Groups: []string{"a", "b"}}) {
	}
	want := []string{
		"GET /workflow-execution?label=k%3Dv%20w&label=x%3D1&state=NEW&workflow=a%2Fb%3A1", "GET /workflow-execution/active",
		"GET /workflow-execution/id/x/jobs?entity=sw&state=FAILED", "GET /entities?group=a&group=b&type=device",
	}
	for i := range s.requests {
		s.requests[i] = sortQuery(s.requests[i])
	}
	for i := range want {
		want[i] = sortQuery(want[i])
	}
	if !slices.Equal(s.requests, want) {
		t.Errorf("got  %q\nwant %q", s.requests, want)
	}
}

// sortQuery sorts the parameters of a URL.
func sortQuery(s string) string {
	path, query, ok := strings.Cut(strings.ReplaceAll(s, "+", "%20"), "?")
	if !ok {
		return s
	}
	parts := strings.Split(query, "&")
	slices.Sort(parts)
	return path + "?" + strings.Join(parts, "&")
}

func TestWait_EndsWhenExecutionIsIdle(t *testing.T) {
	execution := func(state, waiting string) string {
		return fmt.Sprintf(`200 {"id":"x","state":%q,"waiting":%s}`, state, waiting)
	}
	for _, end := range []string{execution("COMPLETED_ACK", "null"), execution("FAILED_SAFE_ACK", "null"), execution("FAILED_UNSAFE", "null"), execution("CANCELLED", `{"kind":"ACKNOWLEDGE"}`)} {
		var pauses []time.Duration
		c, s := newScripted(t, &pauses, execution("SCHEDULED", `{"kind":"LOCK"}`), execution("RUNNING", "null"), execution("COMPLETED", "null"), execution("CANCELLED", "null"), end)
		var states []string
		x, err := c.Wait(t.Context(), "x", time.Minute, func(x views.ExecutionView) { states = append(states, string(x.State)) })
		if err != nil || len(s.requests) != 5 || len(states) != 5 || states[4] != string(x.State) || !slices.Equal(pauses, slices.Repeat([]time.Duration{time.Minute}, 4)) {
			t.Errorf("%s: %v %v %v", x.State, err, states, pauses)
		}
	}
}

// Wait survives a restart of the service; it gives up on a service that was never there
// and on an execution that does not exist.
func TestWait_SurvivesServiceRestart(t *testing.T) {
	outage := slices.Repeat([]string{"503"}, 12)
	c, _ := newScripted(t, nil, append(append([]string{`200 {"state":"RUNNING"}`}, outage...), `200 {"state":"COMPLETED_ACK"}`)...)
	if x, err := c.Wait(t.Context(), "x", 0, nil); err != nil || x.State != "COMPLETED_ACK" {
		t.Errorf("%s %v", x.State, err)
	}
	c, s := newScripted(t, nil, `200 {"state":"RUNNING"}`, "503")
	if _, err := c.Wait(t.Context(), "x", 0, nil); !workflow.Is(err, workflow.CodeUnavailable) || len(s.requests) != 1+11*5 {
		t.Errorf("%v after %d", err, len(s.requests))
	}
	c, s = newScripted(t, nil, "503")
	if _, err := c.Wait(t.Context(), "x", 0, nil); !workflow.Is(err, workflow.CodeUnavailable) || len(s.requests) != 5 {
		t.Errorf("%v after %d", err, len(s.requests))
	}
	c, s = newScripted(t, nil, `200 {"state":"RUNNING"}`, "404")
	if _, err := c.Wait(t.Context(), "x", 0, nil); !workflow.Is(err, workflow.CodeNotFound) || len(s.requests) != 2 {
		t.Errorf("%v after %d", err, len(s.requests))
	}
}

func TestNew_ChecksURL(t *testing.T) {
	for _, url := range []string{"", "localhost:3030", "ftp://x", "http://", "%"} {
		if _, err := client.New(client.Options{URL: url}); !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("%q: %v", url, err)
		}
	}
}
