// Package workflow holds the nouns of Lockstep: the plain values that every
// other room passes around, and the few rules that are true of a value alone.
//
// A tour, one file a noun:
//
//   - errors.go: the one error type and its codes.
//   - ref.go: references to definitions and blocks, and how versions compare.
//   - block.go, entity.go: what is offered, changed; what is published is in spec.
//   - execution.go: the state item of one run, the only authority on it.
//   - event.go: the history of a run.
//   - step.go: one visit of one step. job.go: one call for one entity.
//   - pack.go: a handful of jobs delivered together, and the rules by which a
//     claim is judged and a successor is derived. message.go: what queues carry.
//   - lock.go: the lock item of an entity and what "held" means.
//   - cost.go: what a run has consumed.
//   - request.go, view.go: what is asked over HTTP, and what is shown.
//
// The package knows nothing of AWS, of contexts or of clocks: times arrive as
// arguments.
package workflow
