// Command cdk is a CDK app as a user's team would write it: a stack with a table of the
// team, an engine, and a pool for the team's worker. The worker reads the team's table;
// of the engine's tables it may use only jobs.
//
//	make dist
//	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build -tags lambda.norpc -trimpath \
//	    -o examples/cdk/dist/bootstrap ./examples/cdk/worker
//	cd examples/cdk && npx aws-cdk@2.1148.1 deploy
//
// See docs/deploying.md.
package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/infra"
)

func main() {
	infra.SilenceJSII() // before anything of CDK
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	newMetersStack(app, "Meters", "../../dist/functions", "dist")
	app.Synth(nil)
}

// newMetersStack creates the team's stack. functions is the directory with the engine's
// programs, worker that with the team's program.
func newMetersStack(app awscdk.App, id, functions, worker string) {
	stack := awscdk.NewStack(app, &id, &awscdk.StackProps{Description: jsii.String("The meters team")})
	readings := awsdynamodb.NewTable(stack, jsii.String("Readings"), &awsdynamodb.TableProps{
		PartitionKey: &awsdynamodb.Attribute{Name: jsii.String("meter"), Type: awsdynamodb.AttributeType_STRING},
		BillingMode:  awsdynamodb.BillingMode_PAY_PER_REQUEST,
	})

	engine := infra.NewEngine(stack, "Lockstep", &infra.EngineProps{
		Stage:        "staging",
		FunctionsDir: functions,
		AlarmTopic:   awssns.NewTopic(stack, jsii.String("OnCall"), nil),
		JWTAuth:      &infra.JWTAuth{Issuer: "https://login.example/", Audience: []string{"meters"}, TenantClaim: "team"},
	})
	pool := engine.AddWorkerPool("Meters", &infra.WorkerPoolProps{
		Pool: "meters", CodeDir: worker, Timeout: 60, Concurrency: 20,
		Environment: map[string]string{"READINGS": *readings.TableName()},
	})

	// The pool grants what every worker needs. The team grants the rest.
	readings.Grant(pool.Function, jsii.String("dynamodb:GetItem"))
}
