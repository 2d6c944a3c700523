// Package telemetry is how an engine's functions are heard: at which level Lambda passes on what
// they write, and to which OpenTelemetry collector they send spans.
package telemetry
