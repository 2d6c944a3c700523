// Package view answers questions about executions, and changes nothing.
//
// Every answer derives a run's state from the same state item by the same
// function, so that lists, details and status calls agree at any moment. Lists
// take ids from the index and states from strong reads, and filter again: a run
// may be missing from a list for a moment, it is never shown wrong.
//
// One file a question: execution.go and list.go, status.go, history.go, steps.go,
// jobs.go, result.go, cost.go, locks.go. waiting.go says for what a run waits.
package query
