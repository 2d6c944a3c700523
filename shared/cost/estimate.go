package cost

import (
	"math"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Work is what an execution is expected to do, each job at the first attempt.
type Work struct {
	Entities int // that it locks
	Steps    int // step runs with jobs
	Packs    int // messages with jobs
}

// The units of the model. They are the figures of tests/bench, for entities, parameters and
// results of a few hundred bytes, with ten messages a batch.
const (
	executionWrites = 5.0 // the states of an execution with one step, with their indexes
	stepWrites      = 1.0 // and for each step
	scopeWrites     = 2.0 // more if there are several entities: the state is longer than 1 KB
	entityWrites    = 0.0075
	packWrites      = 3.0 // claim, results, and its place in the list of what is done
	lonePackWrites  = 2.0 // of the only pack of its step: the engine reads it itself
	lockWrites      = 1.0
	indexReads      = 1.0    // whether there is a new version of anything
	holderReads     = 0.5    // the state of whoever held the lock before
	lonePackReads   = 0.5    // of the only pack of its step
	shardReads      = 1.0    // of the execution, for each list of what is done
	scopeReads      = 0.0025 // of the list of entities, for each step
	lockReads       = 0.5
	entityReads     = 1.5  // of an entity, when it is found and under its lock
	denseReads      = 0.06 // of an entity that is queried with those beside it
	denseEntities   = 256  // from this many on
	batch           = 10   // messages a request sends, receives and deletes
	queueRequests   = 3.0  // of a batch: send, receive, delete
)

// Estimate returns what the work is expected to consume.
func Estimate(w Work) workflow.Cost {
	entities, steps, packs := float64(w.Entities), float64(w.Steps), float64(w.Packs)
	batches := float64((w.Packs + batch - 1) / batch)
	writes, attributes, ofPack, shards := executionWrites+stepWrites*steps, entityReads, packWrites, 1.0
	scope, holder, done := 0.0, 0.0, lonePackReads
	if w.Packs <= w.Steps {
		ofPack = lonePackWrites
	} else {
		shards = math.Ceil(packs / steps / workflow.LanesPerShard)
		done = shards * shards // each list is read with all others
	}
	if w.Entities > 1 {
		writes += scopeWrites + entityWrites*entities
		scope = scopeReads * entities
	}
	if w.Entities >= denseEntities {
		attributes = denseReads
	}
	if w.Entities > 0 {
		holder = holderReads
	}
	return workflow.Cost{
		WriteUnits: map[string]float64{
			topology.TableExecutions: writes,
			topology.TableJobs:       ofPack * packs,
			topology.TableLocks:      lockWrites * entities,
		},
		ReadUnits: map[string]float64{
			topology.TableExecutions: holder + (shardReads*shards+scope)*steps,
			topology.TableRegistry:   indexReads + attributes*entities,
			topology.TableJobs:       done * steps,
			topology.TableLocks:      lockReads * entities,
		},
		QueueRequests: queueRequests * (batches + steps),
		Invocations:   1 + batches + steps,
	}
}
