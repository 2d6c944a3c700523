// Package workflow holds the nouns of Lockstep: the plain values that every other
// package passes around, and the rules that concern one value alone.
//
// A tour, one noun a file:
//
//   - errors.go: the error type and its codes. failure.go: why an execution, a step or a
//     job failed, with the codes of failures.
//   - definition.go: references to definitions and blocks, how versions compare, and
//     published definitions. The definition itself is in package spec.
//   - block.go, entity.go: function blocks; entities of the inventory.
//   - execution.go: the state item of an execution, the only authority on it, and its
//     history.
//   - step.go: one run of one step. job.go: one call for one entity.
//   - pack.go: the jobs that travel in one message, and the rules by which a claim is
//     evaluated and a successor is derived. message.go: what queues carry.
//   - lock.go: the lock item of an entity, and when a lock is held.
//   - payload.go: values that are stored apart because they are too large. cost.go: what
//     an execution has consumed.
//   - worker.go: polling workers. retry.go: durations and the repetition of jobs.
//     page.go: callers and pages of lists.
//
// The package knows nothing of AWS, of contexts or of clocks: times are arguments.
package workflow
