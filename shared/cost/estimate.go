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
	executionWrites = 7.0 // the states of an execution with one step, with their indexes
	stepWrites      = 1.0 // and for each step
	packWrites      = 2.0 // claim and results
	entityWrites    = 0.1 // its share of the stored scope
	lockWrites      = 1.0
	executionReads  = 3.5 // two version indexes, the state of whoever held the lock before, and the discovery
	stepReads       = 2.0
	lockReads       = 0.5
	attributeReads  = 1.0 // of an entity under its lock
	denseReads      = 0.1 // of an entity that is queried with those beside it, for discovery and under its lock
	denseEntities   = 256 // from as many on
	batch           = 10  // messages a request sends, receives and deletes
	queueRequests   = 3.0 // of a batch: send, receive, delete
)

// Estimate is what the work is expected to consume.
func Estimate(w Work) workflow.Cost {
	entities, steps, packs := float64(w.Entities), float64(w.Steps), float64(w.Packs)
	batches := float64((w.Packs + batch - 1) / batch)
	attributes := attributeReads
	if w.Entities >= denseEntities {
		attributes = denseReads
	}
	return workflow.Cost{
		WriteUnits: map[string]float64{
			topology.TableExecutions: executionWrites + stepWrites*steps + entityWrites*entities,
			topology.TableJobs:       packWrites * packs,
			topology.TableLocks:      lockWrites * entities,
		},
		ReadUnits: map[string]float64{
			topology.TableExecutions: executionReads + stepReads*steps,
			topology.TableRegistry:   attributes * entities,
			topology.TableLocks:      lockReads * entities,
		},
		QueueRequests: queueRequests * (batches + steps),
		Invocations:   1 + batches + steps,
	}
}
