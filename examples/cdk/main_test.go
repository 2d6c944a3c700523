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

// The app is synthesised as by a user, with the team's worker compiled and dummy files as
// the engine's programs.
func TestApp_SynthesizesWithWorkerPool(t *testing.T) {
	worker, functions, out := t.TempDir(), t.TempDir(), t.TempDir()
	build := exec.Command("go", "build", "-tags", "lambda.norpc", "-trimpath", "-o", filepath.Join(worker, "bootstrap"), "./worker")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0") // as for the engine
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for _, name := range topology.Functions {
		if err := os.MkdirAll(filepath.Join(functions, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(functions, name, "bootstrap"), []byte(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	app := awscdk.NewApp(&awscdk.AppProps{AnalyticsReporting: jsii.Bool(false), Outdir: &out})
	newMetersStack(app, "Meters", functions, worker)
	app.Synth(nil)
	content, err := os.ReadFile(filepath.Join(out, "Meters.template.json"))
	if err != nil {
		t.Fatal(err)
	}
	var template struct {
		Resources map[string]struct {
			Type       string
			Properties map[string]any
		}
		Outputs map[string]any
	}
	if err := json.Unmarshal(content, &template); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for id, r := range template.Resources {
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
		for id := range template.Outputs {
			found = found || strings.HasPrefix(id, output)
		}
		if !found {
			t.Errorf("no output %s", output)
		}
	}
}
