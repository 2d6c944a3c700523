// The observer function hands the events of executions on to their subscriptions, and sends them to
// the receivers. It also hands EventBridge events to the triggers that take them.
package main

import (
	"context"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lockstep-run/lockstep/functions/sqsbatch"
	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/boot/enginehost"
	"github.com/lockstep-run/lockstep/shared/topology"
)

func main() {
	app := enginehost.MustOpen(context.Background(), "observer")
	if err := boot.RequireEnv(topology.EnvQueueEvents, topology.EnvQueueHooksOut); err != nil {
		boot.Fatal("observer", err)
	}
	lambda.Start(boot.FlushTraces(app.Process, sqsbatch.HandleObserved(sqsbatch.ObservedOptions{
		Log: app.Log, Engine: app.Engine, Receivers: enginehost.NewReceivers(app.Process),
		Defer:     app.Queues.Defer,
		EventsURL: os.Getenv(topology.EnvQueueEvents), HooksOutURL: os.Getenv(topology.EnvQueueHooksOut), HooksInURL: os.Getenv(topology.EnvQueueHooksIn),
	})))
}
