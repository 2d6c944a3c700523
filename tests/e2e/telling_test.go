package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// collector takes spans as an OpenTelemetry collector does.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	text  bytes.Buffer
	spans []span
}

type span struct {
	TraceID, SpanID, ParentSpanID, Name string
	Attributes                          []struct {
		Key   string
		Value struct{ StringValue, IntValue string }
	}
	service string
}

func (s span) about(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.StringValue + a.Value.IntValue
		}
	}
	return ""
}

func newCollector(t *testing.T) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var told struct {
			ResourceSpans []struct {
				Resource   span
				ScopeSpans []struct{ Spans []span }
			}
		}
		if err == nil {
			err = json.Unmarshal(body, &told)
		}
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.text.Write(body)
		for _, of := range told.ResourceSpans {
			for _, s := range of.ScopeSpans {
				for _, one := range s.Spans {
					one.service = of.Resource.about("service.name")
					c.spans = append(c.spans, one)
				}
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// of are the spans of a name so far.
func (c *collector) of(name string) (all []span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.Name == name {
			all = append(all, s)
		}
	}
	return all
}

// marked is a secret that is told from others by its number.
const marked = "hunter2-"

// carelessly sends a request as a client does that is careless with secrets.
func (s *system) carelessly(method, path, body string) (int, http.Header, []byte) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Authorization": "Bearer " + marked + "1", "Cookie": "session=" + marked + "2", "X-Api-Key": marked + "3",
		"X-Correlation-Id": "order-7", "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	} {
		r.Header.Set(name, value)
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer reply.Body.Close()
	answer, err := io.ReadAll(reply.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply.StatusCode, reply.Header, answer
}

// launch starts a run so.
func (s *system) launch(name, more string) string {
	s.t.Helper()
	code, header, body := s.carelessly("POST", "/workflow-execution", `{"workflow":"test/`+name+`","parameters":{"key":"`+marked+`5"},"labels":{"l":"`+marked+`6"}`+more+`}`)
	var started struct{ ID string }
	if err := json.Unmarshal(body, &started); err != nil || code != http.StatusAccepted || header.Get("X-Correlation-Id") != "order-7" {
		s.t.Fatalf("%d, correlation %q: %s", code, header.Get("X-Correlation-Id"), body)
	}
	return started.ID
}

// TestTelling: what the functions say of requests, looks and jobs names the run, the
// entity, the step, the attempt, the invocation and the caller's own name for it, in the
// log and in spans of the caller's trace, and the block is told both; and of all that is
// secret in requests, runs and blocks nothing stands in a log or a span, at whatever level.
func TestTelling(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := start(t, setup{config: strings.Replace(quick, "level: info", "level: debug", 1), env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL}})
	var mu sync.Mutex
	var called []http.Header
	block := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var k call
		if err := json.NewDecoder(r.Body).Decode(&k); err != nil {
			t.Error(err)
		}
		mu.Lock()
		called = append(called, r.Header)
		mu.Unlock()
		switch {
		case k.Operation == "ROLLBACK":
			fmt.Fprint(w, `{"outcome":"OK"}`)
		case k.Entity.ID != "e-0002":
			fmt.Fprintf(w, `{"outcome":"OK","result":{"is":%q},"updates":[{"entity":{"type":"gadget","id":%q},"set":{"note":%q}}]}`, marked+"7", k.Entity.ID, marked+"8")
		case k.Job.Attempt == 1:
			fmt.Fprintf(w, `{"outcome":"ERROR","error":{"code":"BUSY","message":%q,"retryable":true,"details":{"d":%q}}}`, marked+"9", marked+"10")
		default:
			fmt.Fprintf(w, `no answer %s`, marked+"11")
		}
	}))
	defer block.Close()
	address := func(host string) string { return host + "/b?token=" + marked + "13" } // one with a user is refused
	if _, err := s.RegisterBlock(t.Context(), workflow.Block{Package: "test", Name: "user", Version: "1.0.0", HTTP: &workflow.Endpoint{URL: "http://ann:" + marked + "12@h"}}); !workflow.Is(err, workflow.CodeInvalid) {
		t.Errorf("a block with a user in its address: %v", err)
	}
	for name, url := range map[string]string{"work": address(block.URL), "away": address("http://127.0.0.1:9"), "barred": address("https://192.0.2.1")} {
		b := workflow.Block{
			Package: "test", Name: name, Version: "1.0.0", Idempotent: true, Reversible: true,
			HTTP: &workflow.Endpoint{URL: url, Headers: map[string]string{"X-Secret": marked + "14", "Authorization": "Basic " + marked + "15"}},
		}
		if _, err := s.RegisterBlock(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.ImportEntities(t.Context(), strings.NewReader(
		`{"type":"gadget","id":"e-0001","attributes":{"a":"`+marked+`16"}}`+"\n"+`{"type":"gadget","id":"e-0002","attributes":{"a":"`+marked+`17"}}`+"\n")); err != nil {
		t.Fatal(err)
	}
	for name, rest := range map[string]string{
		"good":   "steps:\n  - {label: work, functionBlock: test/work:1, runOn: gadget, retry: {maxRetries: 1, delay: 10ms}, parameters: {key: '${parameters.key}'}}\n",
		"away":   "steps:\n  - {label: away, functionBlock: test/away:1, runOn: global}\n",
		"barred": "steps:\n  - {label: barred, functionBlock: test/barred:1, runOn: global}\n",
		"number": "steps:\n  - {label: work, functionBlock: test/work:1, runOn: global, parameters: {n: '${int(parameters.key)}'}}\n",
		"never":  "config: {startWhen: {condition: 'int(parameters.key) > 1', deadline: 1s}}\nsteps:\n  - {label: work, functionBlock: test/work:1, runOn: global}\n",
	} {
		s.publish("package: test\nname: " + name + "\nversion: 1.0.0\nseedEntity: gadget\n" + rest)
	}
	good := s.launch("good", `,"executeOnParameters":{"ids":["e-0001"]}`)
	bad := s.launch("good", `,"executeOnParameters":{"ids":["e-0002"]}`)
	s.rests(good, sm.ExecutionCompletedAck)
	s.rests(bad, sm.ExecutionFailedSafeAck)
	for _, name := range []string{"away", "barred", "number", "never"} {
		if x := s.rests(s.launch(name, ""), sm.ExecutionFailedSafeAck); x.Error == nil {
			t.Errorf("%s has not failed", name)
		}
	}
	for path, want := range map[string]int{
		"/workflow-execution?limit=" + marked + "18": 400, "/entities/gadget?query=" + marked + "19": 404, "/workflow-execution/id/" + "00000000-0000-7000-8000-000000000000?x=" + marked + "20": 404,
	} {
		if code, _, body := s.carelessly("GET", path, ""); code < 400 || code >= 500 {
			t.Errorf("%s: %d, want %d: %s", path, code, want, body)
		}
	}
	if code, _, _ := s.carelessly("POST", "/workflow-definition/publish", marked+"21"); code != http.StatusBadRequest {
		t.Errorf("a definition that is none: %d", code)
	}

	job := s.said(t, "job ended", func(l line) bool { return l["executionId"] == bad && l["attempt"] == 1.0 })
	for name, want := range map[string]any{"entity": "gadget/e-0002", "step": "work", "block": "test/work:1.0.0", "code": "BUSY", "correlationId": "order-7", "component": "worker-default"} {
		if job[name] != want {
			t.Errorf("%s is %v, want %v: %v", name, job[name], want, job)
		}
	}
	for _, component := range []string{"api", "lifecycle"} {
		moved := s.said(t, "execution moved", func(l line) bool { return l["executionId"] == bad && l["component"] == component })
		if moved["correlationId"] != "order-7" || moved["requestId"] == nil || moved["workflow"] != "test/good:1.0.0" || moved["traceId"] != trace {
			t.Errorf("%v", moved)
		}
	}
	mu.Lock()
	for _, h := range called {
		if h.Get("X-Correlation-Id") != "order-7" || !strings.HasPrefix(h.Get("Traceparent"), "00-"+trace+"-") {
			t.Errorf("the block is told %v", h)
		}
	}
	mu.Unlock()
	c.holds(t, bad, job)
	if _, err := json.Marshal(c.spans); err != nil || strings.Contains(c.text.String(), marked) {
		t.Errorf("a span has a secret: %s", around(c.text.String()))
	}
	s.down() // what is said at the end counts too
	if text := s.log.tail(1 << 20); strings.Contains(text, marked) {
		t.Errorf("the log has a secret: %s", around(text))
	}
}

const trace = "0af7651916cd43dd8448eb211c80319c"

// around is the first mark with what stands around it.
func around(text string) string {
	at := strings.Index(text, marked)
	return text[max(0, at-400):min(len(text), at+200)]
}

// line is one of the log.
type line map[string]any

// said waits until the log has a line of a message that fits.
func (s *system) said(t *testing.T, message string, fits func(line) bool) line {
	t.Helper()
	for limit := time.Now().Add(patience); ; {
		for text := range strings.Lines(s.log.tail(1 << 20)) {
			_, text, _ = strings.Cut(text, " | ") // before it stands whose line it is
			var l line
			if json.Unmarshal([]byte(text), &l) == nil && l["message"] == message && fits(l) {
				return l
			}
		}
		if time.Now().After(limit) {
			t.Fatalf("the log has no such line %q:\n%s", message, s.log.tail(100))
		}
		<-time.After(20 * time.Millisecond)
	}
}

// holds waits for the spans of a run and looks at how they hang together: the caller's,
// the request, its looks and jobs.
func (c *collector) holds(t *testing.T, id string, job line) {
	t.Helper()
	about := func(name string, want int) []span {
		for limit := time.Now().Add(patience); ; {
			all := slices.DeleteFunc(c.of(name), func(s span) bool { return s.about("executionId") != id })
			if len(all) >= want {
				return all
			}
			if time.Now().After(limit) {
				t.Fatalf("%d spans %q of the run, want %d: %s", len(all), name, want, c.text.String())
			}
			<-time.After(20 * time.Millisecond)
		}
	}
	jobs, looks, commits := about("EXECUTE test/work:1.0.0", 2), about("look", 1), about("commit", 3)
	requests := map[string]bool{}
	for _, s := range c.of("POST /workflow-execution") {
		if s.TraceID == trace && s.ParentSpanID == "b7ad6b7169203331" && s.service == "lockstep-api" && s.about("correlationId") == "order-7" {
			requests[s.SpanID] = true
		}
	}
	under := map[string]bool{}
	for _, s := range slices.Concat(jobs, looks) {
		if s.TraceID != trace || !requests[s.ParentSpanID] || s.about("correlationId") != "order-7" {
			t.Errorf("%+v is not part of the request's span", s)
		}
		under[s.SpanID] = true
	}
	for _, s := range commits {
		if s.TraceID != trace || !requests[s.ParentSpanID] && !under[s.ParentSpanID] || s.about("to") == "" {
			t.Errorf("%+v is part of no look", s)
		}
	}
	first := jobs[slices.IndexFunc(jobs, func(s span) bool { return s.about("attempt") == "1" })]
	if first.about("entity") != "gadget/e-0002" || first.about("step") != "work" || first.SpanID != job["spanId"] || first.service != "lockstep-worker-default" {
		t.Errorf("%+v is not the job of the line %v", first, job)
	}
}
