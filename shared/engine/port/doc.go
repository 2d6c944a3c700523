// Package port says what the engine needs of the world, in the engine's words:
// a store of executions with one conditional write, lock items, pack items, a
// board of queues, a registry, and a clock. The adapters in shared/dynamo and
// shared/sqs and the simulation meet these interfaces by their method sets; none
// of them imports this package except in tests.
//
// Every write below is conditional or idempotent. A method that returns a bool
// named ok reports with false that its condition did not hold and nothing was
// written; an error means that the outcome is not known.
package port
