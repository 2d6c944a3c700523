// The worker function is the stock worker of the pool "default". It runs the blocks
// that are served over HTTP.
package main

import (
	"github.com/lockstep-run/lockstep/shared/boot/workerhost"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/worker"
)

func main() {
	workerhost.Serve(topology.PoolDefault, func(*worker.Worker) {})
}
