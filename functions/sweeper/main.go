// The sweeper function runs once a minute. It sends a wake-up for every execution whose
// timer is due, starts the executions of schedules that are due, and updates the state
// of workers without heartbeats. Invoked with {"dryRun": true}, it returns what it
// would do, for every tenant, and does nothing.
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
	sweeper := scheduler.NewSweeper(app.Engine, app.LivenessTimeouts(), topology.DueShards) // an instance handles one event at a time
	lambda.Start(boot.FlushTraces(app.Process, func(ctx context.Context, request sweepRequest) (any, error) {
		if request.DryRun {
			return scheduler.PlanSweep(ctx, app.Engine, app.LivenessTimeouts(), topology.DueShards, "")
		}
		within, cancel := boot.ReserveTime(ctx)
		defer cancel()
		swept, err := sweeper.Sweep(within)
		app.Log.InfoContext(ctx, "swept", "due", swept.WakeupsSent, "queued", swept.Queued, "stuck", swept.Stuck, "workers", swept.WorkersChanged, "fired", swept.ExecutionsStarted)
		return swept, errors.Join(err, boot.WriteMetric(os.Stdout, os.Getenv(topology.EnvDeployment), topology.MetricStuckExecutions, swept.Stuck, time.Now()))
	}))
}

// sweepRequest is the event. The event of the schedule has none of its fields.
type sweepRequest struct {
	DryRun bool `json:"dryRun"` // return the plan and change nothing
}
