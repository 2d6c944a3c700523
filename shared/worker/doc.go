// Package worker is the SDK with which function blocks are written, and the
// worker's side of the delivery protocol.
//
// For authors: make a [Worker], [Add] typed blocks to it, and serve it, either as
// a Lambda function behind a pool's queue or as a polling process anywhere (the
// package shared/boot/workerhost does both). A block's functions get a [Job] with the
// entity, the fence to pass on to the device, and an Idempotency-Key; they return
// a result, or an error that says whether repeating can help ([Retryable],
// [Terminal]; a plain error is retryable, a panic is not).
//
// A tour: worker.go and block.go hold what a worker offers, job.go what a block
// is told, answer.go what it may answer, call.go runs one job. handle.go answers one message; how
// is the matter of internal/session. batch.go and poll.go are the two ways to be
// fed: a message that has to wait is sent again with a delay and then deleted, so
// that it is not received over and over. presence.go keeps a polling worker known.
//
// A job that is still running after its time-out, and a moment more, is left to
// itself and has failed with TIMEOUT. Go cannot stop it: blocks listen to their
// context, and devices compare fences.
//
// The package knows neither AWS nor the engine: source.go says what it needs of
// them.
package worker
