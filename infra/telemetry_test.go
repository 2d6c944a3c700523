package infra

import (
	"os"
	"strings"
	"testing"
)

// Nothing speaks of telemetry unless it is asked for; then every function does, and so
// does a pool's that the engine makes.
func TestTelemetry_IsOptional(t *testing.T) {
	for name, x := range stacks() {
		asked := name == "dev"
		for _, f := range x.byType(t, "AWS::Lambda::Function") {
			env := f.environment()
			var found []string
			for key := range env {
				if strings.HasPrefix(key, "OTEL_") {
					found = append(found, key)
				}
			}
			switch {
			case !asked && (len(found) > 0 || f.property("Layers") != nil):
				t.Errorf("%s of stack %s: %v, layers %v", f.ID, name, found, f.property("Layers"))
			case asked && (len(found) != 2 || env["OTEL_EXPORTER_OTLP_ENDPOINT"] != "http://localhost:4318" || env["OTEL_TRACES_SAMPLER"] != "parentbased_traceidratio"):
				t.Errorf("%s of stack %s: %v", f.ID, name, env)
			case asked && (len(asList(f.property("Layers"))) != 1 || render(asList(f.property("Layers"))[0]) != collectorLayer):
				t.Errorf("%s of stack %s: layers %v", f.ID, name, f.property("Layers"))
			}
		}
	}
}

func TestTelemetry_ValidateNamesField(t *testing.T) {
	dir := t.TempDir()
	if err := writeDummyFunctions(dir); err != nil {
		t.Fatal(err)
	}
	const at = "http://localhost:4318"
	for want, asked := range map[string]Telemetry{
		"":                           {Endpoint: at, Environment: map[string]string{"OTEL_TRACES_SAMPLER": "always_on"}},
		"the endpoint":               {Endpoint: "localhost:4318"},
		"without a user":             {Endpoint: "https://ann:secret@h"},
		"OTEL_EXPORTER_OTLP_HEADERS": {Endpoint: at, Environment: map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "secret"}},
		"AWS_REGION":                 {Endpoint: at, Environment: map[string]string{"AWS_REGION": "secret"}},
		"in its own field":           {Endpoint: at, Environment: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "secret"}},
	} {
		p := EngineProps{FunctionsDir: dir, Telemetry: &asked}
		err := p.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// What the construct sets is what the page says.
func TestObservabilityPage_NamesOTLPVariable(t *testing.T) {
	page, err := os.ReadFile("../docs/observability.md")
	if err != nil || !strings.Contains(string(page), "`"+envOTLPEndpoint+"`") || !strings.Contains(string(page), "`Telemetry`") {
		t.Errorf("the page does not say how spans are asked for: %v", err)
	}
}
