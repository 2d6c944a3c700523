package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// exporter sends spans over OTLP/HTTP in its JSON encoding
// (https://opentelemetry.io/docs/specs/otlp/#otlphttp).
type exporter struct {
	settings
	client      *http.Client
	log         *slog.Logger
	lastWarning atomic.Int64 // Unix seconds of the last warning
}

func newExporter(s settings, log *slog.Logger) *exporter {
	return &exporter{settings: s, client: &http.Client{Timeout: s.timeout}, log: log}
}

// warningInterval is the shortest time between two warnings about lost spans, in
// seconds.
const warningInterval = 60

// ExportSpans sends spans once. Spans that do not arrive are lost, because a collector that is down
// must not delay the traced work.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.send(ctx, spans)
	if now, last := time.Now().Unix(), e.lastWarning.Load(); err != nil && now-last >= warningInterval && e.lastWarning.CompareAndSwap(last, now) {
		e.log.WarnContext(ctx, "spans not sent", "lost", len(spans), observe.Err(err))
	}
	return nil
}

// Shutdown does nothing: the exporter holds no resources.
func (e *exporter) Shutdown(context.Context) error { return nil }

func (e *exporter) send(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	body, err := workflow.EncodeJSON(newExportRequest(spans))
	if err != nil {
		return err
	}
	if e.gzip {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(body) // writing to a buffer cannot fail
		_ = w.Close()
		body = b.Bytes()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range e.headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/json")
	if e.gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	reply, err := e.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()                      // the status has been read
	_, _ = io.Copy(io.Discard, io.LimitReader(reply.Body, 64<<10)) // so that the connection is reused
	if reply.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answered %s", reply.Status)
	}
	return nil
}

// The messages of OTLP, with the fields that are sent. 64-bit numbers are strings in
// JSON.
type (
	exportRequest struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   resourceAttributes `json:"resource"`
		ScopeSpans []scopeSpans       `json:"scopeSpans"`
	}
	resourceAttributes struct {
		Attributes []keyValue `json:"attributes"`
	}
	scopeSpans struct {
		Scope scope  `json:"scope"`
		Spans []span `json:"spans"`
	}
	scope struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	span struct {
		TraceID    string     `json:"traceId"`
		SpanID     string     `json:"spanId"`
		Parent     string     `json:"parentSpanId,omitempty"`
		TraceState string     `json:"traceState,omitempty"`
		Flags      int        `json:"flags"`
		Name       string     `json:"name"`
		Kind       int        `json:"kind"`
		Start      string     `json:"startTimeUnixNano"`
		End        string     `json:"endTimeUnixNano"`
		Attributes []keyValue `json:"attributes,omitempty"`
		Dropped    int        `json:"droppedAttributesCount,omitempty"`
		Status     status     `json:"status"`
	}
	status struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
	}
	keyValue struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	}
)

// newExportRequest makes a request with spans of one process and scope.
func newExportRequest(spans []sdk.ReadOnlySpan) exportRequest {
	all := make([]span, len(spans))
	for i, s := range spans {
		all[i] = newSpan(s)
	}
	first := spans[0].InstrumentationScope()
	return exportRequest{[]resourceSpans{{
		resourceAttributes{resourceOf(spans[0].Resource())},
		[]scopeSpans{{scope{first.Name, first.Version}, all}},
	}}}
}

func resourceOf(r *resource.Resource) []keyValue {
	if r == nil {
		return nil
	}
	return keyValues(r.Attributes())
}

func newSpan(s sdk.ReadOnlySpan) span {
	at, parent := s.SpanContext(), s.Parent()
	out := span{
		TraceID: at.TraceID().String(), SpanID: at.SpanID().String(), TraceState: at.TraceState().String(), Flags: int(at.TraceFlags()),
		Name: s.Name(), Kind: int(s.SpanKind()), Start: nanos(s.StartTime()), End: nanos(s.EndTime()),
		Attributes: keyValues(s.Attributes()), Dropped: s.DroppedAttributes(),
	}
	if parent.SpanID().IsValid() {
		out.Parent = parent.SpanID().String()
	}
	switch s.Status().Code {
	case codes.Ok:
		out.Status.Code = 1
	case codes.Error:
		out.Status = status{2, s.Status().Description}
	case codes.Unset:
	}
	return out
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func keyValues(set []attribute.KeyValue) []keyValue {
	all := make([]keyValue, len(set))
	for i, a := range set {
		value := map[string]any{"stringValue": a.Value.String()}
		switch a.Value.Type() {
		case attribute.BOOL:
			value = map[string]any{"boolValue": a.Value.AsBool()}
		case attribute.INT64:
			value = map[string]any{"intValue": strconv.FormatInt(a.Value.AsInt64(), 10)}
		case attribute.FLOAT64:
			value = map[string]any{"doubleValue": a.Value.AsFloat64()}
		default: // strings, and lists as JSON
		}
		all[i] = keyValue{string(a.Key), value}
	}
	return all
}
