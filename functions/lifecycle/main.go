// The lifecycle function looks at executions: each message names one, and the
// function moves it as far as it goes now.
package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lockstep-run/lockstep/functions/batch"
	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/boot/core"
	"github.com/lockstep-run/lockstep/shared/sqs"
)

func main() {
	app := core.MustOpen(context.Background(), "lifecycle")
	lambda.Start(boot.Flushed(app.Parts, batch.Looks(app.Log, sqs.DecodeLook, app.Engine, app.Queues.With(nil))))
}
