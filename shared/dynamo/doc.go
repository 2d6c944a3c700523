// Package dynamo keeps executions, packs and locks in DynamoDB. It meets the
// engine's and the worker's ports by method set and decides nothing: every
// method is one read, or one conditional write of a single item.
//
// A tour:
//
//   - dynamo.go: opening the tables, and the view that one piece of work gets.
//     keys.go: how items are named. Every key starts with the tenant.
//   - store.go: executions and their heads. commit.go: the one conditional write
//     that moves an execution. lists.go: what the indexes list. waiters.go: who
//     is woken when a run ends. beside.go: input, scope and paged-out events, in
//     items of their own.
//   - locks.go: the lock items.
//
// Below it, table is the plumbing that all of them share and form is how
// executions and packs are stored in few bytes; beside it, packs keeps the packs
// with their done sets, and registry what is published and registered.
//
// A write whose reply was lost is repeated and may then fail its own condition.
// Each method recognises its own write by the mark it left: a commit id, a
// nonce, a token. Alarms, leases and the times of events, locks, packs and jobs
// are kept to the millisecond.
package dynamo
