package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/infra"
	"github.com/lockstep-run/lockstep/shared/topology"
)

func TestMain(m *testing.M) {
	infra.SilenceJSII()
	code := m.Run()
	jsii.Close()
	os.Exit(code)
}

// resource is a resource of a template.
type resource struct {
	Type       string
	Properties map[string]any
}

// synthesize returns the resources and the outputs of the app with a context, and with dummy
// files as the engine's programs.
func synthesize(t *testing.T, worker string, context map[string]any) (map[string]resource, map[string]any) {
	t.Helper()
	functions, out := t.TempDir(), t.TempDir()
	for _, name := range topology.Functions {
		if err := os.MkdirAll(filepath.Join(functions, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(functions, name, "bootstrap"), []byte(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	app := awscdk.NewApp(&awscdk.AppProps{AnalyticsReporting: jsii.Bool(false), Outdir: &out, Context: &context})
	newMetersStack(app, "Meters", functions, worker)
	app.Synth(nil)
	content, err := os.ReadFile(filepath.Join(out, "Meters.template.json"))
	if err != nil {
		t.Fatal(err)
	}
	var template struct {
		Resources map[string]resource
		Outputs   map[string]any
	}
	if err := json.Unmarshal(content, &template); err != nil {
		t.Fatal(err)
	}
	return template.Resources, template.Outputs
}

// authorizations counts the routes by how callers prove who they are.
func authorizations(resources map[string]resource) map[any]int {
	kinds := map[any]int{}
	for _, r := range resources {
		if r.Type == "AWS::ApiGatewayV2::Route" {
			kinds[r.Properties["AuthorizationType"]]++
		}
	}
	return kinds
}

// API Gateway asks the issuer for its keys when it creates the authorizer, so an app that
// everybody may deploy names none.
func TestApp_IssuerComesFromContext(t *testing.T) {
	worker := t.TempDir()
	if err := os.WriteFile(filepath.Join(worker, "bootstrap"), []byte("worker"), 0o755); err != nil {
		t.Fatal(err)
	}
	resources, _ := synthesize(t, worker, nil)
	if kinds := authorizations(resources); kinds["AWS_IAM"] == 0 || kinds["JWT"] != 0 {
		t.Errorf("without an issuer: %v", kinds)
	}
	resources, _ = synthesize(t, worker, map[string]any{"issuer": "https://login.acme.example/"})
	if kinds := authorizations(resources); kinds["AWS_IAM"] != 0 || kinds["JWT"] == 0 {
		t.Errorf("with an issuer: %v", kinds)
	}
	for _, r := range resources {
		if r.Type == "AWS::ApiGatewayV2::Authorizer" && !strings.Contains(fmt.Sprint(r.Properties), "https://login.acme.example/") {
			t.Errorf("authorizer %v", r.Properties)
		}
	}
}

// The app is synthesised as by a user, with the team's worker compiled.
func TestApp_SynthesizesWithWorkerPool(t *testing.T) {
	worker := t.TempDir()
	build := exec.Command("go", "build", "-tags", "lambda.norpc", "-trimpath", "-o", filepath.Join(worker, "bootstrap"), "./worker")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0") // as for the engine
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	resources, outputs := synthesize(t, worker, nil)
	seen := map[string]bool{}
	for id, r := range resources {
		properties := fmt.Sprint(r.Properties)
		switch {
		case r.Type == "AWS::IAM::Policy" && strings.HasPrefix(id, "LockstepMetersWorkerRole"):
			for _, table := range []string{"Executions", "Locks", "Registry"} {
				if strings.Contains(properties, "LockstepTable"+table) {
					t.Errorf("the team's worker may use the table %s: %s", table, properties)
				}
			}
			seen["policy"] = strings.Contains(properties, "LockstepTableJobs") && strings.Contains(properties, "Readings")
		case r.Type == "AWS::Lambda::Function" && strings.HasPrefix(id, "LockstepMetersWorker"):
			seen["function"] = r.Properties["RecursiveLoop"] == "Allow" && strings.Contains(properties, "READINGS:")
		case r.Type == "AWS::SQS::Queue" && strings.HasPrefix(id, "LockstepJobsMetersQueue"):
			seen["queue"] = r.Properties["VisibilityTimeout"] == float64(360) && r.Properties["RedrivePolicy"] != nil
		case r.Type == "AWS::Lambda::EventSourceMapping" && strings.HasPrefix(id, "LockstepJobsMeters"):
			seen["mapping"] = strings.Contains(properties, "MaximumConcurrency:20") && strings.Contains(properties, "ReportBatchItemFailures")
		}
	}
	for _, part := range []string{"policy", "function", "queue", "mapping"} {
		if !seen[part] {
			t.Errorf("the pool's %s is missing or wrong", part)
		}
	}
	for _, output := range []string{"LockstepApiUrl", "LockstepJobsMetersUrl", "LockstepJobsMetersDlqUrl"} {
		found := false
		for id := range outputs {
			found = found || strings.HasPrefix(id, output)
		}
		if !found {
			t.Errorf("no output %s", output)
		}
	}
}
