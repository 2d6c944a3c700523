// Package telemetry lets an engine's functions send spans to an OpenTelemetry collector.
package telemetry
