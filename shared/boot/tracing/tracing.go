// Package tracing sends the spans of the engine and the worker to an OpenTelemetry collector, if
// OpenTelemetry's environment variables name one. Otherwise it does nothing.
//
//   - settings.go: the environment variables.
//   - tracing.go: [Open], and the spans, which OpenTelemetry's SDK makes and samples.
//   - exporter.go: sends them over OTLP/HTTP, as JSON.
//
// The exporter is our own, because OpenTelemetry's links gRPC and protocol buffers and makes each
// function 8 MB larger, even without tracing (docs/decisions).
package tracing

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockstep-run/lockstep/shared/observe"
)

// Tracer sends spans. Its zero value is disabled.
type Tracer struct {
	provider *sdk.TracerProvider // nil if disabled
	tracer   trace.Tracer
	timeout  time.Duration
}

// Options describe the process that sends spans.
type Options struct {
	Component string // service.name is "lockstep-" and this, unless OTEL_SERVICE_NAME is set
	Version   string
	Getenv    func(string) string
	Log       *slog.Logger // for spans that could not be sent
}

// Open reads the environment. It sends nothing yet. If the environment names no
// collector, or on an error, the tracer is disabled.
func Open(ctx context.Context, o Options) (*Tracer, error) {
	s, err := readSettings(o.Getenv)
	if err != nil || s.url == "" {
		return &Tracer{}, err
	}
	attrs := []attribute.KeyValue{attribute.String("service.name", "lockstep-"+o.Component), attribute.String("service.version", o.Version)}
	for name, variable := range map[string]string{"faas.name": "AWS_LAMBDA_FUNCTION_NAME", "cloud.region": "AWS_REGION"} {
		if v := o.Getenv(variable); v != "" {
			attrs = append(attrs, attribute.String(name, v))
		}
	}
	res, err := resource.New(ctx, resource.WithAttributes(attrs...), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return &Tracer{}, err
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(newExporter(s, o.Log)), sdk.WithResource(res))
	return &Tracer{provider, provider.Tracer("github.com/lockstep-run/lockstep", trace.WithInstrumentationVersion(o.Version)), s.timeout}, nil
}

// Enabled reports whether spans are sent.
func (t *Tracer) Enabled() bool { return t != nil && t.provider != nil }

// Flush sends the spans that have not been sent. A process calls it before it may be
// frozen or ended. Spans that cannot be sent within the timeout are lost and logged.
func (t *Tracer) Flush(ctx context.Context) {
	if !t.Enabled() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.timeout)
	defer cancel()
	_ = t.provider.ForceFlush(ctx) // the exporter logs errors
}

// propagator reads and writes the W3C traceparent.
var propagator propagation.TraceContext

const traceparent = "traceparent"

// Start implements [observe.Tracer].
func (t *Tracer) Start(ctx context.Context, s observe.SpanConfig) (in context.Context, end observe.EndFunc) {
	if !t.Enabled() {
		return observe.NoopTracer{}.Start(ctx, s)
	}
	if s.Parent != "" {
		ctx = propagator.Extract(ctx, propagation.MapCarrier{traceparent: s.Parent})
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(spanKinds[s.Kind]), trace.WithAttributes(spanAttributes(s.Attrs)...)}
	in, span := t.tracer.Start(ctx, s.Name, options...)
	return in, func(err error, attrs ...slog.Attr) {
		span.SetAttributes(spanAttributes(attrs)...)
		if err != nil {
			span.SetStatus(codes.Error, observe.ErrorText(err))
		}
		span.End()
	}
}

var spanKinds = map[observe.SpanKind]trace.SpanKind{
	observe.Internal: trace.SpanKindInternal, observe.Server: trace.SpanKindServer,
	observe.Consumer: trace.SpanKindConsumer, observe.Client: trace.SpanKindClient,
}

// Traceparent implements [observe.Tracer].
func (t *Tracer) Traceparent(ctx context.Context) string {
	if !t.Enabled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagator.Inject(ctx, carrier)
	return carrier[traceparent]
}

// SpanAttrs returns log attributes with the ids of the span in a context.
func SpanAttrs(ctx context.Context) []slog.Attr {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return nil
	}
	return []slog.Attr{slog.String(observe.TraceID, span.TraceID().String()), slog.String(observe.SpanID, span.SpanID().String())}
}

// spanAttributes converts log attributes to OpenTelemetry's, without secrets.
func spanAttributes(attrs []slog.Attr) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, len(attrs))
	for _, a := range attrs {
		switch v := a.Value.Resolve(); v.Kind() {
		case slog.KindInt64:
			all = append(all, attribute.Int64(a.Key, v.Int64()))
		case slog.KindBool:
			all = append(all, attribute.Bool(a.Key, v.Bool()))
		case slog.KindString:
			all = append(all, attribute.String(a.Key, observe.RedactText(v.String())))
		default:
			all = append(all, attribute.String(a.Key, observe.Redacted)) // spans have no values of other kinds
		}
	}
	return all
}
