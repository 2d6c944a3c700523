package cost

import (
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Work is what an execution is expected to do, all of it at the first attempt.
type Work struct {
	Entities int // that it locks
	Steps    int // step runs with jobs
	Packs    int // messages with jobs
}

// The units of the model. They are the figures of tests/bench, for entities, parameters and
// results of a few hundred bytes, with ten messages a batch.
const (
	executionWrites = 9.0 // the states of an execution with one step, with their indexes
	stepWrites      = 1.0 // and for each step
	packWrites      = 2.0 // claim and results
	entityWrites    = 0.1 // its share of the stored scope
	lockWrites      = 1.0
	executionReads  = 4.0
	stepReads       = 2.0
	entityReads     = 2.0 // the lock, and the attributes under it
	batch           = 10  // messages a request sends, receives and deletes
	queueRequests   = 3.0 // of a batch: send, receive, delete
)

// Estimate is what the work is expected to consume.
func Estimate(w Work) workflow.Cost {
	entities, steps, packs := float64(w.Entities), float64(w.Steps), float64(w.Packs)
	batches := float64((w.Packs + batch - 1) / batch)
	return workflow.Cost{
		WriteUnits: map[string]float64{
			topology.TableExecutions: executionWrites + stepWrites*steps + entityWrites*entities,
			topology.TableJobs:       packWrites * packs,
			topology.TableLocks:      lockWrites * entities,
		},
		ReadUnits: map[string]float64{
			topology.TableExecutions: executionReads + stepReads*steps,
			topology.TableRegistry:   entityReads / 2 * entities,
			topology.TableLocks:      entityReads / 2 * entities,
		},
		QueueRequests: queueRequests * (batches + steps),
		Invocations:   1 + batches + steps,
	}
}
