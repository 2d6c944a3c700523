// Command app is a CDK app for LocalStack, as a user would write it: an engine with worker
// pools whose workers are functions. One upgrades the fleet of examples/fleet, the others
// fail in the ways that a function can.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/infra"
)

// faultyPools are the pools whose worker is tests/localstack/faulty.
var faultyPools = []string{"faulty", "broken"}

// faultyTimeoutSeconds is the timeout of the functions that fail. It is long enough for a start on a
// busy machine, or no attempt of a job would ever begin.
const faultyTimeoutSeconds = 20

func main() {
	infra.SilenceJSII() // before any use of CDK
	defer jsii.Close()
	app := awscdk.NewApp(&awscdk.AppProps{AnalyticsReporting: jsii.Bool(false)})
	setting := func(key string) string {
		value, ok := app.Node().TryGetContext(&key).(string)
		if !ok || value == "" {
			fmt.Fprintf(os.Stderr, "app: the context %s is missing\n", key)
			os.Exit(1)
		}
		return value
	}
	stack := awscdk.NewStack(app, jsii.String("Scenarios"), &awscdk.StackProps{Description: jsii.String("Scenarios of the end-to-end tests")})
	engine := infra.NewEngine(stack, "Engine", &infra.EngineProps{
		Stage: "dev", Local: true, FunctionsDir: setting("functionsDir"), Architecture: setting("architecture"), Config: setting("config"),
		Concurrency: map[string]int{"lifecycle": 8, "worker": 4},
	})
	workers := setting("workersDir")
	engine.AddWorkerPool("Fleet", &infra.WorkerPoolProps{
		Pool: "fleet", CodeDir: filepath.Join(workers, "fleet"), Timeout: 60, Concurrency: 10,
		Environment: map[string]string{"FLEET_URL": setting("fleet")},
	})
	for _, pool := range faultyPools {
		engine.AddWorkerPool(strings.ToUpper(pool[:1])+pool[1:], &infra.WorkerPoolProps{
			Pool: pool, CodeDir: filepath.Join(workers, "faulty"), Timeout: faultyTimeoutSeconds, Concurrency: 2,
			Environment: map[string]string{"POOL": pool, "COMMANDS_URL": setting("commands")},
		})
	}
	app.Synth(nil)
}
