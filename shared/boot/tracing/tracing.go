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

// Tracing sends spans. Its zero value takes none.
type Tracing struct {
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
func Open(ctx context.Context, o Options) (*Tracing, error) {
	s, err := settingsOf(o.Getenv)
	if err != nil || s.url == "" {
		return &Tracing{}, err
	}
	about := []attribute.KeyValue{attribute.String("service.name", "lockstep-"+o.Component), attribute.String("service.version", o.Version)}
	for name, variable := range map[string]string{"faas.name": "AWS_LAMBDA_FUNCTION_NAME", "cloud.region": "AWS_REGION"} {
		if v := o.Getenv(variable); v != "" {
			about = append(about, attribute.String(name, v))
		}
	}
	who, err := resource.New(ctx, resource.WithAttributes(about...), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return &Tracing{}, err
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(newExporter(s, o.Log)), sdk.WithResource(who))
	return &Tracing{provider, provider.Tracer("github.com/lockstep-run/lockstep", trace.WithInstrumentationVersion(o.Version)), s.timeout}, nil
}

// On reports whether somebody takes spans.
func (t *Tracing) On() bool { return t != nil && t.provider != nil }

// Flush sends what has not been sent. A process that may be frozen or ended calls it
// before that. What cannot be sent within the time for it is lost, which the log says.
func (t *Tracing) Flush(ctx context.Context) {
	if !t.On() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.timeout)
	defer cancel()
	_ = t.provider.ForceFlush(ctx) // the exporter has said it
}

// w3c is how spans are named across processes.
var w3c propagation.TraceContext

const traceparent = "traceparent"

// Begin is [observe.Tracer]'s.
func (t *Tracing) Begin(ctx context.Context, s observe.Span) (in context.Context, end observe.End) {
	if !t.On() {
		return observe.Off{}.Begin(ctx, s)
	}
	if s.Parent != "" {
		ctx = w3c.Extract(ctx, propagation.MapCarrier{traceparent: s.Parent})
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(kinds[s.Kind]), trace.WithAttributes(attributes(s.About)...)}
	in, span := t.tracer.Start(ctx, s.Name, options...)
	return in, func(err error, about ...slog.Attr) {
		span.SetAttributes(attributes(about)...)
		if err != nil {
			span.SetStatus(codes.Error, observe.Told(err))
		}
		span.End()
	}
}

var kinds = map[observe.Kind]trace.SpanKind{
	observe.Internal: trace.SpanKindInternal, observe.Server: trace.SpanKindServer,
	observe.Consumer: trace.SpanKindConsumer, observe.Client: trace.SpanKindClient,
}

// Here is [observe.Tracer]'s.
func (t *Tracing) Here(ctx context.Context) string {
	if !t.On() {
		return ""
	}
	named := propagation.MapCarrier{}
	w3c.Inject(ctx, named)
	return named[traceparent]
}

// Knows is what a context knows of the span in it, for a line of the log.
func Knows(ctx context.Context) []slog.Attr {
	at := trace.SpanContextFromContext(ctx)
	if !at.IsValid() {
		return nil
	}
	return []slog.Attr{slog.String(observe.TraceID, at.TraceID().String()), slog.String(observe.SpanID, at.SpanID().String())}
}

// attributes are what a span is about, as OpenTelemetry has it.
func attributes(about []slog.Attr) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, len(about))
	for _, a := range about {
		switch v := a.Value.Resolve(); v.Kind() {
		case slog.KindInt64:
			all = append(all, attribute.Int64(a.Key, v.Int64()))
		case slog.KindBool:
			all = append(all, attribute.Bool(a.Key, v.Bool()))
		case slog.KindString:
			all = append(all, attribute.String(a.Key, observe.Clean(v.String())))
		default:
			all = append(all, attribute.String(a.Key, observe.Redacted)) // nothing else is meant for a span
		}
	}
	return all
}
