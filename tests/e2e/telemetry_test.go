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

// spanCollector receives spans like an OpenTelemetry collector.
type spanCollector struct {
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

func (s span) attribute(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.StringValue + a.Value.IntValue
		}
	}
	return ""
}

func newSpanCollector(t *testing.T) *spanCollector {
	c := &spanCollector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var export struct {
			ResourceSpans []struct {
				Resource   span
				ScopeSpans []struct{ Spans []span }
			}
		}
		if err == nil {
			err = json.Unmarshal(body, &export)
		}
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.text.Write(body)
		for _, resource := range export.ResourceSpans {
			for _, s := range resource.ScopeSpans {
				for _, one := range s.Spans {
					one.service = resource.Resource.attribute("service.name")
					c.spans = append(c.spans, one)
				}
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// named returns the spans of a name so far.
func (c *spanCollector) named(name string) (all []span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.Name == name {
			all = append(all, s)
		}
	}
	return all
}

// secretPrefix is the prefix of all secrets; a number tells them apart.
const secretPrefix = "hunter2-"

// sendWithSecrets sends a request with secrets in its headers.
func (s *localStack) sendWithSecrets(method, path, body string) (int, http.Header, []byte) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Authorization": "Bearer " + secretPrefix + "1", "Cookie": "session=" + secretPrefix + "2", "X-Api-Key": secretPrefix + "3",
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

// startWithSecrets starts an execution with secrets in the request.
func (s *localStack) startWithSecrets(name, more string) string {
	s.t.Helper()
	code, header, body := s.sendWithSecrets("POST", "/workflow-execution", `{"workflow":"test/`+name+`","parameters":{"key":"`+secretPrefix+`5"},"labels":{"l":"`+secretPrefix+`6"}`+more+`}`)
	var started struct{ ID string }
	if err := json.Unmarshal(body, &started); err != nil || code != http.StatusAccepted || header.Get("X-Correlation-Id") != "order-7" {
		s.t.Fatalf("%d, correlation %q: %s", code, header.Get("X-Correlation-Id"), body)
	}
	return started.ID
}

// Logs and spans of requests, advances and jobs name the execution, entity, step,
// attempt, invocation and the caller's correlation id, in the caller's trace; the block
// gets the correlation id and the trace. No log line or span at any level has a secret of
// a request, an execution or a block.
func TestTelemetry_NamesExecutionAndHidesSecrets(t *testing.T) {
	t.Parallel()
	c := newSpanCollector(t)
	s := startStack(t, stackOptions{config: strings.Replace(fastConfig, "level: info", "level: debug", 1), env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL}})
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
			fmt.Fprintf(w, `{"outcome":"OK","result":{"is":%q},"updates":[{"entity":{"type":"gadget","id":%q},"set":{"note":%q}}]}`, secretPrefix+"7", k.Entity.ID, secretPrefix+"8")
		case k.Job.Attempt == 1:
			fmt.Fprintf(w, `{"outcome":"ERROR","error":{"code":"BUSY","message":%q,"retryable":true,"details":{"d":%q}}}`, secretPrefix+"9", secretPrefix+"10")
		default:
			fmt.Fprintf(w, `not JSON %s`, secretPrefix+"11")
		}
	}))
	defer block.Close()
	address := func(host string) string { return host + "/b?token=" + secretPrefix + "13" } // a URL with user information is rejected
	if _, err := s.RegisterBlock(t.Context(), workflow.Block{Package: "test", Name: "user", Version: "1.0.0", HTTP: &workflow.Endpoint{URL: "http://ann:" + secretPrefix + "12@h"}}); !workflow.Is(err, workflow.CodeInvalid) {
		t.Errorf("block with user information in its URL: %v", err)
	}
	for name, url := range map[string]string{"work": address(block.URL), "unreachable": address("http://127.0.0.1:9"), "blocked": address("https://192.0.2.1")} {
		b := workflow.Block{
			Package: "test", Name: name, Version: "1.0.0", Idempotent: true, Reversible: true,
			HTTP: &workflow.Endpoint{URL: url, Headers: map[string]string{"X-Secret": secretPrefix + "14", "Authorization": "Basic " + secretPrefix + "15"}},
		}
		if _, err := s.RegisterBlock(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.ImportEntities(t.Context(), strings.NewReader(
		`{"type":"gadget","id":"e-0001","attributes":{"a":"`+secretPrefix+`16"}}`+"\n"+`{"type":"gadget","id":"e-0002","attributes":{"a":"`+secretPrefix+`17"}}`+"\n")); err != nil {
		t.Fatal(err)
	}
	for name, rest := range map[string]string{
		"good":        "steps:\n  - {label: work, functionBlock: test/work:1, runOn: gadget, retry: {maxRetries: 1, delay: 10ms}, parameters: {key: '${parameters.key}'}}\n",
		"unreachable": "steps:\n  - {label: unreachable, functionBlock: test/unreachable:1, runOn: global}\n",
		"blocked":     "steps:\n  - {label: blocked, functionBlock: test/blocked:1, runOn: global}\n",
		"number":      "steps:\n  - {label: work, functionBlock: test/work:1, runOn: global, parameters: {n: '${int(parameters.key)}'}}\n",
		"never":       "config: {startWhen: {condition: 'int(parameters.key) > 1', deadline: 1s}}\nsteps:\n  - {label: work, functionBlock: test/work:1, runOn: global}\n",
	} {
		s.publish("package: test\nname: " + name + "\nversion: 1.0.0\nseedEntity: gadget\n" + rest)
	}
	good := s.startWithSecrets("good", `,"executeOnParameters":{"ids":["e-0001"]}`)
	bad := s.startWithSecrets("good", `,"executeOnParameters":{"ids":["e-0002"]}`)
	s.waitForState(good, sm.ExecutionCompletedAck)
	s.waitForState(bad, sm.ExecutionFailedSafeAck)
	for _, name := range []string{"unreachable", "blocked", "number", "never"} {
		if x := s.waitForState(s.startWithSecrets(name, ""), sm.ExecutionFailedSafeAck); x.Error == nil {
			t.Errorf("%s has no error", name)
		}
	}
	for path, want := range map[string]int{
		"/workflow-execution?limit=" + secretPrefix + "18": 400, "/entities/gadget?query=" + secretPrefix + "19": 404, "/workflow-execution/id/" + "00000000-0000-7000-8000-000000000000?x=" + secretPrefix + "20": 404,
	} {
		if code, _, body := s.sendWithSecrets("GET", path, ""); code < 400 || code >= 500 {
			t.Errorf("%s: %d, want %d: %s", path, code, want, body)
		}
	}
	if code, _, _ := s.sendWithSecrets("POST", "/workflow-definition/publish", secretPrefix+"21"); code != http.StatusBadRequest {
		t.Errorf("invalid definition: %d", code)
	}

	job := s.waitForLogLine(t, "job ended", func(l logLine) bool { return l["executionId"] == bad && l["attempt"] == 1.0 })
	for name, want := range map[string]any{"entity": "gadget/e-0002", "step": "work", "block": "test/work:1.0.0", "code": "BUSY", "correlationId": "order-7", "component": "worker-default"} {
		if job[name] != want {
			t.Errorf("%s is %v, want %v: %v", name, job[name], want, job)
		}
	}
	for _, component := range []string{"api", "lifecycle"} {
		changed := s.waitForLogLine(t, "execution changed state", func(l logLine) bool { return l["executionId"] == bad && l["component"] == component })
		if changed["correlationId"] != "order-7" || changed["requestId"] == nil || changed["workflow"] != "test/good:1.0.0" || changed["traceId"] != traceID {
			t.Errorf("%v", changed)
		}
	}
	mu.Lock()
	for _, h := range called {
		if h.Get("X-Correlation-Id") != "order-7" || !strings.HasPrefix(h.Get("Traceparent"), "00-"+traceID+"-") {
			t.Errorf("the block got the headers %v", h)
		}
	}
	mu.Unlock()
	c.wantTrace(t, bad, job)
	if _, err := json.Marshal(c.spans); err != nil || strings.Contains(c.text.String(), secretPrefix) {
		t.Errorf("a span has a secret: %s", excerpt(c.text.String()))
	}
	s.stopProcess() // its last log lines count too
	if text := s.log.Tail(1 << 20); strings.Contains(text, secretPrefix) {
		t.Errorf("the log has a secret: %s", excerpt(text))
	}
}

const traceID = "0af7651916cd43dd8448eb211c80319c"

// excerpt is the text around the first secret.
func excerpt(text string) string {
	at := strings.Index(text, secretPrefix)
	return text[max(0, at-400):min(len(text), at+200)]
}

// logLine is one line of the log.
type logLine map[string]any

// waitForLogLine waits until the log has a matching line with a message.
func (s *localStack) waitForLogLine(t *testing.T, message string, match func(logLine) bool) logLine {
	t.Helper()
	for limit := time.Now().Add(waitTimeout); ; {
		for text := range strings.Lines(s.log.Tail(1 << 20)) {
			_, text, _ = strings.Cut(text, " | ") // the prefix is the function's name
			var l logLine
			if json.Unmarshal([]byte(text), &l) == nil && l["message"] == message && match(l) {
				return l
			}
		}
		if time.Now().After(limit) {
			t.Fatalf("the log has no matching line %q:\n%s", message, s.log.Tail(100))
		}
		<-time.After(20 * time.Millisecond)
	}
}

// wantTrace waits for the spans of an execution and checks their parents: the caller, the
// request, advances and jobs.
func (c *spanCollector) wantTrace(t *testing.T, id string, job logLine) {
	t.Helper()
	spansOf := func(name string, want int) []span {
		for limit := time.Now().Add(waitTimeout); ; {
			all := slices.DeleteFunc(c.named(name), func(s span) bool { return s.attribute("executionId") != id })
			if len(all) >= want {
				return all
			}
			if time.Now().After(limit) {
				t.Fatalf("%d spans %q of the execution, want %d: %s", len(all), name, want, c.text.String())
			}
			<-time.After(20 * time.Millisecond)
		}
	}
	jobs, advances, commits := spansOf("EXECUTE test/work:1.0.0", 2), spansOf("advance", 1), spansOf("commit", 3)
	requests := map[string]bool{}
	for _, s := range c.named("POST /workflow-execution") {
		if s.TraceID == traceID && s.ParentSpanID == "b7ad6b7169203331" && s.service == "lockstep-api" && s.attribute("correlationId") == "order-7" {
			requests[s.SpanID] = true
		}
	}
	parents := map[string]bool{}
	for _, s := range slices.Concat(jobs, advances) {
		if s.TraceID != traceID || !requests[s.ParentSpanID] || s.attribute("correlationId") != "order-7" {
			t.Errorf("%+v is not a child of the request's span", s)
		}
		parents[s.SpanID] = true
	}
	for _, s := range commits {
		if s.TraceID != traceID || !requests[s.ParentSpanID] && !parents[s.ParentSpanID] || s.attribute("to") == "" {
			t.Errorf("%+v is not part of a request, advance or job", s)
		}
	}
	first := jobs[slices.IndexFunc(jobs, func(s span) bool { return s.attribute("attempt") == "1" })]
	if first.attribute("entity") != "gadget/e-0002" || first.attribute("step") != "work" || first.SpanID != job["spanId"] || first.service != "lockstep-worker-default" {
		t.Errorf("%+v is not the job of the log line %v", first, job)
	}
}
