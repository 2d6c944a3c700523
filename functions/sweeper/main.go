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
	"github.com/lockstep-run/lockstep/shared/boot/core"
	"github.com/lockstep-run/lockstep/shared/boot/metric"
	"github.com/lockstep-run/lockstep/shared/engine/sweep"
	"github.com/lockstep-run/lockstep/shared/topology"
)

func main() {
	app := core.MustOpen(context.Background(), "sweeper")
	lambda.Start(boot.Flushed(app.Parts, func(ctx context.Context, order order) (any, error) {
		if order.DryRun {
			return sweep.Plan(ctx, app.Engine, app.Silence(), topology.DueShards, "")
		}
		swept, err := sweep.Run(ctx, app.Engine, app.Silence(), topology.DueShards)
		app.Log.InfoContext(ctx, "swept", "due", swept.Due, "stuck", swept.Stuck, "workers", swept.Workers, "fired", swept.Fired)
		return swept, errors.Join(err, metric.Write(os.Stdout, os.Getenv(topology.EnvDeployment), topology.MetricStuckExecutions, swept.Stuck, time.Now()))
	}))
}

// order is the event: the schedule's, of which nothing is of interest, or one by
// hand.
type order struct {
	DryRun bool `json:"dryRun"`
}
