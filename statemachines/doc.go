// Package statemachines is the law: which layer may go from which state to
// which, on which event, who may cause it and what the history says about it.
//
// Six layers have a status of their own, and each has one owner: the execution,
// the workflow inside it, a step of it, a job of a step, the outcome of a job's
// tool, and the worker that runs jobs. Only an event of the layer "execution"
// opens or closes an execution; what happens on a lower layer may inform it.
//
// A tour of the room:
//
//   - machine.go: what a machine is. [Machine] holds rows; [Law] is a machine
//     with the states' own Go type, which is what callers use:
//     Execution.Move(from, event, to) is nil or a typed [*Refusal].
//   - execution.go, workflow.go, step.go, job.go, tool.go, worker.go: the six
//     layers, one file each: states, events, rows.
//   - status.go: pure functions of an execution's state: its normalised
//     [Status], whether it is [Terminal] or [Acknowledged], whether it is
//     [Holding] locks, and the event that ended it.
//   - vocabulary.go: what four other workflow engines call the same situation.
//   - verify.go: what must be true of every machine, whatever its rows say.
//
// Every pair of a state and an event has exactly one verdict: the event moves
// the machine, is ignored because it is late or a duplicate, or is refused. A
// row says which, and why. What is not listed cell by cell is covered by a
// default with a reason of its own; nothing is left to chance.
//
// The diagrams and tables in docs/lifecycle are generated from the rows.
//
// The package imports nothing but the standard library, and knows neither time
// nor context: a law does not depend on when it is read.
package statemachines

//go:generate go run ./internal/generate
