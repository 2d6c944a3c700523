// Package workflow holds the nouns of Lockstep: the plain values that every
// other room passes around, and the few rules that are true of a value alone.
//
// A tour, one file a noun:
//
//   - errors.go: the one error type and its codes.
//   - ref.go: references to definitions and blocks, and how versions compare.
//   - block.go, entity.go: what is offered, changed; what is published is in spec.
//   - execution.go: the state item of one run, the only authority on it.
//   - failure.go: why something failed. event.go: the history of a run.
//   - step.go: one visit of one step. job.go: one call for one entity.
//   - pack.go: a handful of jobs delivered together, and the rules by which a
//     claim is judged and a successor is derived. message.go: what queues carry.
//   - lock.go: the lock item of an entity and what "held" means.
//   - cost.go: what a run has consumed. stored.go: what lies beside an item.
//   - worker.go: who polls. mode.go, retry.go, duration.go, page.go, id.go: the
//     small values that all of these are made of.
//
// The package knows nothing of AWS, of contexts or of clocks: times arrive as
// arguments.
package workflow
