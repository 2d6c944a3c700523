// Command app is a CDK app as a user would write it, for LocalStack: an engine with
// pools of the user's own, whose workers are functions. One upgrades the fleet of
// examples/fleet, the others fail in every way that a function can.
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

// Pools whose worker is tests/localstack/faulty, in the order in which the stack
// makes them.
var faultyPools = []string{"faulty", "broken"}

// faultyTimeoutSeconds is the time-out of the functions that fail.
const faultyTimeoutSeconds = 8

func main() {
	infra.SilenceJSII() // before anything of CDK
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
	stack := awscdk.NewStack(app, jsii.String("Scenes"), &awscdk.StackProps{Description: jsii.String("Scenes of the end-to-end tests")})
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
			Environment: map[string]string{"POOL": pool, "ORDERS_URL": setting("orders")},
		})
	}
	app.Synth(nil)
}
