// Package worker is the SDK with which function blocks are written, and the
// worker's side of the delivery protocol.
//
// For authors: make a [Worker], [Add] typed blocks to it, and serve it, either as
// a Lambda function behind a pool's queue or as a polling process anywhere (the
// package shared/boot/pool does both). A block's functions get a [Job] with the
// entity, the fence to pass on to the device, and an Idempotency-Key; they return
// a result, or an error that says whether repeating can help ([Retryable],
// [Terminal]).
//
// A tour of the protocol, which docs/protocols/packs.md describes: handle.go
// answers one message; claim.go gets the pack or finds out whose it is; session.go
// runs its jobs under a lease that keeper.go renews meanwhile; finish.go writes
// what came of them, or what is left of a pack that was cancelled; after.go sends
// what follows a final pack. call.go runs one job. poll.go and batch.go are the
// two ways to be fed.
//
// The package knows neither AWS nor the engine: source.go says what it needs of
// them.
package worker
