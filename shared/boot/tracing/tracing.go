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

// Tracer sends spans. Its zero value takes none.
type Tracer struct {
	provider *sdk.TracerProvider // nil: nobody takes spans
	tracer   trace.Tracer
	timeout  time.Duration
}

// Options say who sends spans.
type Options struct {
	Component string // of which service.name is made unless OTEL_SERVICE_NAME says it
	Version   string
	Getenv    func(string) string
	Log       *slog.Logger // takes that spans could not be sent
}

// Open reads the environment. Nothing is sent yet, and nothing is done at all where the
// environment names no collector.
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

// Enabled reports whether somebody takes spans.
func (t *Tracer) Enabled() bool { return t != nil && t.provider != nil }

// Flush sends what has not been sent. A process that may be frozen or ended calls it
// before that. What cannot be sent within the time for it is lost, which the log says.
func (t *Tracer) Flush(ctx context.Context) {
	if !t.Enabled() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.timeout)
	defer cancel()
	_ = t.provider.ForceFlush(ctx) // the exporter has said it
}

// propagator is how spans are named across processes.
var propagator propagation.TraceContext

const traceparent = "traceparent"

// Start is [observe.Tracer]'s.
func (t *Tracer) Start(ctx context.Context, s observe.SpanConfig) (in context.Context, end observe.EndFunc) {
	if !t.Enabled() {
		return observe.NoopTracer{}.Start(ctx, s)
	}
	if s.Parent != "" {
		ctx = propagator.Extract(ctx, propagation.MapCarrier{traceparent: s.Parent})
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(spanKinds[s.Kind]), trace.WithAttributes(spanAttributes(s.Attrs)...)}
	in, span := t.tracer.Start(ctx, s.Name, options...)
	return in, func(err error, about ...slog.Attr) {
		span.SetAttributes(spanAttributes(about)...)
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

// Traceparent is [observe.Tracer]'s.
func (t *Tracer) Traceparent(ctx context.Context) string {
	if !t.Enabled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagator.Inject(ctx, carrier)
	return carrier[traceparent]
}

// SpanAttrs is what a context knows of the span in it, for a line of the log.
func SpanAttrs(ctx context.Context) []slog.Attr {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return nil
	}
	return []slog.Attr{slog.String(observe.TraceID, span.TraceID().String()), slog.String(observe.SpanID, span.SpanID().String())}
}

// spanAttributes are what a span is about, as OpenTelemetry has it.
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
			all = append(all, attribute.String(a.Key, observe.Redacted)) // nothing else is meant for a span
		}
	}
	return all
}
