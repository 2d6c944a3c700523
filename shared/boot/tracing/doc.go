// Package tracing takes the spans that the engine and the worker begin and sends them
// to an OpenTelemetry collector, if the environment names one by the variables that
// OpenTelemetry has for that. Otherwise nothing of it runs.
//
//   - settings.go: what the environment asks for.
//   - tracing.go: [Open], and the spans, which OpenTelemetry's SDK makes and samples.
//   - exporter.go: how they are sent: OTLP over HTTP, as JSON.
//
// The exporter is written here, because OpenTelemetry's own links gRPC and protocol
// buffers and makes each function 8 MB larger, for all who want no spans too
// (docs/decisions).
package tracing
