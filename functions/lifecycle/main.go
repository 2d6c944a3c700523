// The lifecycle function advances executions. Each message names one, and the function
// advances it as far as possible.
package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lockstep-run/lockstep/functions/sqsbatch"
	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/boot/enginehost"
	"github.com/lockstep-run/lockstep/shared/sqs"
)

func main() {
	app := enginehost.MustOpen(context.Background(), "lifecycle")
	lambda.Start(boot.FlushTraces(app.Process, sqsbatch.HandleWakeups(app.Log, sqs.DecodeWakeup, app.Engine, app.Unmetered().Sender, app.RecordMetric)))
}
