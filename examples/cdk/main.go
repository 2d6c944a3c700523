// Command cdk is a CDK app as a team of users would write it: a stack of their own,
// with a table of theirs, an engine in it, and a pool for their own worker. The worker
// reads that table; of the engine's it may use jobs alone.
//
//	make dist
//	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build -tags lambda.norpc -trimpath \
//	    -o examples/cdk/dist/bootstrap ./examples/cdk/worker
//	cd examples/cdk && npx aws-cdk@2.1148.1 deploy
//
// docs/deploying.md has the whole story.
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

// newMetersStack makes the team's stack. functions holds the engine's programs, worker
// the team's own.
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

	// The pool gives the worker what every worker needs. What this one needs besides
	// is the team's to give.
	readings.Grant(pool.Function, jsii.String("dynamodb:GetItem"))
}
