package tracing_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/boot/tracing"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// collector is a server that records OTLP requests.
type collector struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	path   string
	header http.Header
	bodies [][]byte
}

func newCollector(t *testing.T) *collector {
	c := &collector{status: http.StatusOK}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			var err error
			if body, err = gzip.NewReader(r.Body); err != nil {
				t.Error(err)
				return
			}
		}
		text, err := io.ReadAll(body)
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.path, c.header, c.bodies = r.URL.Path, r.Header, append(c.bodies, text)
		w.WriteHeader(c.status)
	}))
	t.Cleanup(c.Close)
	return c
}

func open(t *testing.T, log io.Writer, env map[string]string) (*tracing.Tracer, error) {
	t.Helper()
	for name, value := range env {
		t.Setenv(name, value) // the SDK reads it itself
	}
	return tracing.Open(t.Context(), tracing.Options{
		Component: "lifecycle", Version: "1.2.3", Getenv: func(name string) string { return env[name] },
		Log: observe.NewLog(observe.Options{Writer: log}),
	})
}

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A span whose parent is in another process arrives with its attributes, and so does a
// failed span inside it; secrets do not arrive.
func TestTracer_SendsSpans(t *testing.T) {
	c := newCollector(t)
	for _, compression := range []string{"", "gzip"} {
		c.bodies = nil
		var log bytes.Buffer
		tr, err := open(t, &log, map[string]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL + "/", "OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b, x-other=c", "OTEL_EXPORTER_OTLP_COMPRESSION": compression,
			"AWS_LAMBDA_FUNCTION_NAME": "f", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
		})
		if err != nil || !tr.Enabled() {
			t.Fatal(err)
		}
		ctx, end := tr.Start(t.Context(), observe.SpanConfig{Name: "advance", Parent: parent, Kind: observe.Consumer, Attrs: []slog.Attr{
			slog.String(observe.ExecutionID, "x1"), slog.Int(observe.Attempt, 2), slog.Bool("late", true), slog.Any("about", map[string]string{"a": "hunter2"}),
		}})
		in, endIn := tr.Start(ctx, observe.SpanConfig{Name: "commit"})
		attrs := tracing.SpanAttrs(in)
		endIn(workflow.Errorf(workflow.CodeInvalid, "the value hunter2 is wrong"), slog.String("at", "https://ann:hunter2@host/"))
		end(nil)
		tr.Flush(t.Context())
		if len(c.bodies) != 1 || c.path != "/v1/traces" || c.header.Get("X-Key") != "a b" || c.header.Get("X-Other") != "c" || c.header.Get("Content-Type") != "application/json" {
			t.Fatalf("%d requests to %q with %v", len(c.bodies), c.path, c.header)
		}
		type keyValue struct {
			Key   string
			Value map[string]any
		}
		var got struct {
			ResourceSpans []struct {
				Resource   struct{ Attributes []keyValue }
				ScopeSpans []struct {
					Scope struct{ Name, Version string }
					Spans []struct {
						TraceID, SpanID, ParentSpanID, Name string
						Kind                                int
						StartTimeUnixNano, EndTimeUnixNano  string
						Attributes                          []keyValue
						Status                              struct {
							Code    int
							Message string
						}
					}
				}
			}
		}
		if err := json.Unmarshal(c.bodies[0], &got); err != nil {
			t.Fatal(err)
		}
		resource := map[string]any{}
		for _, a := range got.ResourceSpans[0].Resource.Attributes {
			resource[a.Key] = a.Value["stringValue"]
		}
		for name, want := range map[string]string{"service.name": "lockstep-lifecycle", "service.version": "1.2.3", "faas.name": "f", "deployment.environment": "test"} {
			if resource[name] != want {
				t.Errorf("%s is %v, want %s", name, resource[name], want)
			}
		}
		spans := got.ResourceSpans[0].ScopeSpans[0].Spans
		commit, advance := spans[0], spans[1] // in the order in which they ended
		if advance.TraceID != "0af7651916cd43dd8448eb211c80319c" || advance.ParentSpanID != "b7ad6b7169203331" || advance.Kind != 5 || advance.Status.Code != 0 ||
			advance.StartTimeUnixNano > advance.EndTimeUnixNano || len(advance.StartTimeUnixNano) != 19 {
			t.Errorf("%+v", advance)
		}
		if diff := cmp.Diff([]keyValue{
			{"executionId", map[string]any{"stringValue": "x1"}}, {"attempt", map[string]any{"intValue": "2"}},
			{"late", map[string]any{"boolValue": true}}, {"about", map[string]any{"stringValue": observe.Redacted}},
		}, advance.Attributes); diff != "" {
			t.Error(diff)
		}
		if commit.TraceID != advance.TraceID || commit.ParentSpanID != advance.SpanID || commit.Kind != 1 || commit.Status.Code != 2 || commit.Status.Message != "invalid: REDACTED" {
			t.Errorf("%+v", commit)
		}
		if len(attrs) != 2 || attrs[0].Value.String() != commit.TraceID || attrs[1].Value.String() != commit.SpanID {
			t.Errorf("log attributes %v", attrs)
		}
		if traceparent := tr.Traceparent(ctx); traceparent != "00-"+advance.TraceID+"-"+advance.SpanID+"-01" {
			t.Errorf("traceparent %s", traceparent)
		}
		if bytes.Contains(c.bodies[0], []byte("hunter2")) || log.Len() > 0 {
			t.Errorf("sent %s\nlogged %s", c.bodies[0], log.String())
		}
	}
}

// Spans whose parent is not sampled are not sent, and pass that on to their children.
func TestTracer_SkipsUnsampledSpans(t *testing.T) {
	c := newCollector(t)
	tr, err := open(t, io.Discard, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": c.URL + "/own"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := tr.Start(t.Context(), observe.SpanConfig{Name: "advance", Parent: strings.TrimSuffix(parent, "1") + "0"})
	end(nil)
	if traceparent := tr.Traceparent(ctx); !strings.HasSuffix(traceparent, "-00") {
		t.Errorf("traceparent %s", traceparent)
	}
	tr.Flush(t.Context())
	if len(c.bodies) != 0 {
		t.Errorf("sent %s", c.bodies)
	}
	_, end = tr.Start(t.Context(), observe.SpanConfig{Name: "advance"})
	end(nil)
	tr.Flush(t.Context())
	if len(c.bodies) != 1 || c.path != "/own" {
		t.Errorf("%d requests to %s", len(c.bodies), c.path)
	}
}

// A collector that answers an error, or is down, is logged once and delays nothing.
func TestTracer_CollectorFails(t *testing.T) {
	for _, closed := range []bool{false, true} {
		c := newCollector(t)
		c.status = http.StatusServiceUnavailable
		if closed {
			c.Close()
		}
		var log bytes.Buffer
		tr, err := open(t, &log, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			_, end := tr.Start(t.Context(), observe.SpanConfig{Name: "advance"})
			end(errors.New("no"))
			tr.Flush(t.Context())
		}
		if strings.Count(log.String(), "spans not sent") != 1 {
			t.Errorf("logged %s", log.String())
		}
	}
}

// Without a collector tracing is disabled, whatever else is set. An unsupported setting
// is an error that names the variable and repeats no credentials.
func TestOpen_ReadsSettings(t *testing.T) {
	const at = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for name, env := range map[string]map[string]string{
		"no endpoint":  {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
		"SDK disabled": {at: "http://h", "OTEL_SDK_DISABLED": "true"},
		"no exporter":  {at: "http://h", "OTEL_TRACES_EXPORTER": "none"},
	} {
		tr, err := open(t, io.Discard, env)
		if err != nil || tr.Enabled() {
			t.Errorf("%s: enabled %t, %v", name, tr.Enabled(), err)
		}
		ctx, end := tr.Start(t.Context(), observe.SpanConfig{Name: "advance", Parent: parent})
		end(nil)
		tr.Flush(ctx)
		if tr.Traceparent(ctx) != "" || tracing.SpanAttrs(ctx) != nil {
			t.Errorf("%s: spans are recorded", name)
		}
	}
	var none *tracing.Tracer
	none.Flush(context.Background())
	for name, env := range map[string]map[string]string{
		"OTEL_EXPORTER_OTLP_PROTOCOL":         {at: "http://h", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
		"OTEL_TRACES_EXPORTER":                {at: "http://h", "OTEL_TRACES_EXPORTER": "zipkin"},
		"OTEL_EXPORTER_OTLP_ENDPOINT is not":  {at: "h:4318"},
		"OTEL_EXPORTER_OTLP_TIMEOUT":          {at: "http://h", "OTEL_EXPORTER_OTLP_TIMEOUT": "2s"},
		"OTEL_EXPORTER_OTLP_COMPRESSION":      {at: "http://h", "OTEL_EXPORTER_OTLP_COMPRESSION": "lz4"},
		"OTEL_EXPORTER_OTLP_HEADERS is not":   {at: "http://h", "OTEL_EXPORTER_OTLP_HEADERS": "hunter2"},
		"OTEL_EXPORTER_OTLP_HEADERS is not a": {at: "http://h", "OTEL_EXPORTER_OTLP_HEADERS": "a=hunter2%"},
	} {
		tr, err := open(t, io.Discard, env)
		if err == nil || tr.Enabled() || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: enabled %t, %v", name, tr.Enabled(), err)
		}
	}
}
