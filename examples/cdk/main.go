// Command cdk is a CDK app as a user's team would write it: a stack with a table of the
// team, an engine, and a pool for the team's worker. The worker reads the team's table;
// of the engine's tables it may use only jobs. It needs nothing else of this repository:
// copy it into a module of yours.
//
//	go run github.com/lockstep-run/lockstep/cmd/lockstep@VERSION functions --out dist/functions
//	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build -tags lambda.norpc -trimpath -o dist/bootstrap ./worker
//	npx aws-cdk@2.1148.1 deploy
//
// In a working tree of this repository the first command is
// go run ../../cmd/lockstep functions --out dist/functions.
//
// Callers sign their requests with IAM credentials. With -c issuer=https://... they send
// tokens of that OpenID Connect provider instead, which API Gateway asks for its keys when it
// creates the authorizer, so the address has to exist.
//
// See docs/deploying.md.
package main

import (
	"path/filepath"

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
	newMetersStack(app, "Meters", filepath.Join("dist", "functions"), "dist")
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

	props := &infra.EngineProps{
		Stage:        "staging",
		FunctionsDir: functions,
		Architecture: context(app, "architecture"), // of both programs; arm64 by default
		AlarmTopic:   awssns.NewTopic(stack, jsii.String("OnCall"), nil),
	}
	if issuer := context(app, "issuer"); issuer != "" {
		props.JWTAuth = &infra.JWTAuth{Issuer: issuer, Audience: []string{"meters"}, TenantClaim: "team"}
	}
	engine := infra.NewEngine(stack, "Lockstep", props)
	pool := engine.AddWorkerPool("Meters", &infra.WorkerPoolProps{
		Pool: "meters", CodeDir: worker, Timeout: 60, Concurrency: 20,
		Environment: map[string]string{"READINGS": *readings.TableName()},
	})

	// The pool grants what every worker needs. The team grants the rest.
	readings.Grant(pool.Function, jsii.String("dynamodb:GetItem"))
}

// context returns a value from the command line (-c key=value).
func context(app awscdk.App, key string) string {
	value, _ := app.Node().TryGetContext(&key).(string)
	return value
}
