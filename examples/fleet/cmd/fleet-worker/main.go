// Command fleet-worker serves the example fleet's blocks. Its environment, set by lockstep
// dev, names the tables and queues; FLEET_URL is the address of the devices.
package main

import (
	"cmp"
	"os"

	fleet "github.com/lockstep-run/lockstep/examples/fleet/worker"
	"github.com/lockstep-run/lockstep/shared/boot/workerhost"
	"github.com/lockstep-run/lockstep/shared/worker"
)

func main() {
	devices := cmp.Or(os.Getenv("FLEET_URL"), "http://127.0.0.1:4040")
	workerhost.Serve("fleet", func(w *worker.Worker) { fleet.Add(w, devices) })
}
