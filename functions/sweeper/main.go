// The sweeper function runs once a minute and sends a message for every
// execution whose alarm has rung. It fires the schedules whose moment has come, and
// notices workers that have fallen silent. Invoked with {"dryRun": true}, it says
// what it would do, of every tenant, and does nothing.
package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/boot/enginehost"

	"github.com/lockstep-run/lockstep/shared/engine/scheduler"
	"github.com/lockstep-run/lockstep/shared/topology"
)

func main() {
	app := enginehost.MustOpen(context.Background(), "sweeper")
	lambda.Start(boot.FlushTraces(app.Process, func(ctx context.Context, order sweepRequest) (any, error) {
		if order.DryRun {
			return scheduler.PlanSweep(ctx, app.Engine, app.LivenessTimeouts(), topology.DueShards, "")
		}
		swept, err := scheduler.Sweep(ctx, app.Engine, app.LivenessTimeouts(), topology.DueShards)
		app.Log.InfoContext(ctx, "swept", "due", swept.WakeupsSent, "stuck", swept.Stuck, "workers", swept.WorkersChanged, "fired", swept.ExecutionsStarted)
		return swept, errors.Join(err, boot.WriteMetric(os.Stdout, os.Getenv(topology.EnvDeployment), topology.MetricStuckExecutions, swept.Stuck, time.Now()))
	}))
}

// sweepRequest is the event: the schedule's, of which nothing is of interest, or one by
// hand.
type sweepRequest struct {
	DryRun bool `json:"dryRun"`
}
