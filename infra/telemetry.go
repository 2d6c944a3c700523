package infra

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
)

// Telemetry sends spans of requests, looks and jobs to an OpenTelemetry collector
// (docs/observability.md).
type Telemetry struct {
	// Endpoint is the collector's address for OTLP over HTTP. A collector that runs as
	// an extension in each function, which is what AWS recommends, is http://localhost:4318.
	Endpoint string

	// Layers with such an extension, for the functions' architecture. Default: none.
	Layers []awslambda.ILayerVersion

	// Environment is what else OpenTelemetry shall know, by the names of its variables:
	// OTEL_TRACES_SAMPLER, OTEL_RESOURCE_ATTRIBUTES. Everybody who may look at a function
	// can read it, so that headers, which let somebody in, are refused: the collector has
	// them.
	Environment map[string]string
}

// The variables by which OpenTelemetry is told.
const (
	otelPrefix        = "OTEL_"
	otelHeadersSuffix = "_HEADERS"
	envOTLPEndpoint   = "OTEL_EXPORTER_OTLP_ENDPOINT"
)

// Validate says what is wrong; nil is no telemetry.
func (t *Telemetry) Validate() error {
	if t == nil {
		return nil
	}
	if !strings.HasPrefix(t.Endpoint, "http://") && !strings.HasPrefix(t.Endpoint, "https://") || strings.Contains(t.Endpoint, "@") {
		return fmt.Errorf("telemetry: the endpoint has to be an http or https address without a user")
	}
	for name := range t.Environment {
		if !strings.HasPrefix(name, otelPrefix) || strings.HasSuffix(name, otelHeadersSuffix) || name == envOTLPEndpoint {
			return fmt.Errorf("telemetry: the variable %s: want OTEL_*, no headers, and the endpoint in its own field", name)
		}
	}
	return nil
}

// lambdaLayers is the layers of every function.
func (t *Telemetry) lambdaLayers() *[]awslambda.ILayerVersion {
	if t == nil || len(t.Layers) == 0 {
		return nil
	}
	return &t.Layers
}

// setEnv sets what a function's environment says.
func (t *Telemetry) setEnv(set func(name, value string)) {
	if t == nil {
		return
	}
	set(envOTLPEndpoint, t.Endpoint)
	for _, name := range slices.Sorted(maps.Keys(t.Environment)) {
		set(name, t.Environment[name])
	}
}
