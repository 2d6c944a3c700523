// Package worker is the Go SDK for function blocks, and the worker's side of the
// delivery protocol that docs/protocols/packs.md describes.
//
// # Writing a block
//
// A function block is a named, versioned unit of work. Declare it as a [Block]
// with typed parameters and a typed result, and register it with a [Worker]:
//
//	w := worker.New(worker.Options{Pool: "fleet"})
//	worker.Register(w, worker.Block[Upgrade, Version]{
//		Name:       "fleet/upgrade",
//		Version:    "1.0.0",
//		RunOn:      "device",
//		Idempotent: true,
//		Execute: func(ctx context.Context, job *worker.Job, p Upgrade) (Version, error) {
//			return devices.Upgrade(ctx, job.Entity.ID, p.Target, job.Fence)
//		},
//	})
//
// Execute receives a [Job]: the entity and its attributes, an idempotency key, a
// deadline, and the fence to pass to the device. It returns a result or an error:
//
//   - A plain error, or one marked with [Retryable], fails this attempt. The job is
//     tried again if the step's retry policy has attempts left.
//   - An error marked with [Terminal] fails the job for good. So does a panic.
//   - A successful job can call [Job.NoOp] or [Job.Break] to change its outcome, and
//     [Job.SetAttribute] to change its entity when the execution completes.
//
// A block with a Rollback function is reversible: the engine calls it to undo what
// Execute did. A block with an Acquire function can find the entities of an
// execution.
//
// # Promises to a block
//
// A block that is neither Pure nor Idempotent starts at most once per attempt. Any
// other block may start more than once for the same attempt, always with the same
// [Job.ID]. Each further start of an Idempotent block has a higher [Job.Fence].
//
// A job that ignores its context is abandoned shortly after its time-out and fails
// with TIMEOUT. Go cannot stop its goroutine, so it may still reach the device:
// watch the context, and let the device refuse a fence lower than the highest it
// has seen.
//
// # Running a worker
//
// Serve in the package shared/boot/workerhost runs a worker as a Lambda function
// behind its pool's queue, or as a process that polls the queue. It is built on the
// two functions that feed a worker: [HandleBatch] takes the messages of one Lambda
// event, [Poll] receives messages until its context ends.
//
// # How the package is organised
//
// What block authors use: worker.go (Options, Worker), block.go (Block, Register),
// job.go (Job, Retryable, Terminal) and result.go (JobResult and its validation).
//
// How messages arrive: delivery.go takes every message from decoding to settling, from
// [HandleBatch] in the same file or from poll.go. heartbeat.go keeps a polling worker registered.
// final_receive.go reports a message that fails at its last permitted receive.
//
// How one pack is worked on: handle.go answers a message with a session. claim.go
// claims the pack, session.go decides which jobs may start and run_job.go runs
// them, while lease.go renews the lease. finish.go writes the results, and
// follow_up.go sends what comes after the pack. remote_lease.go does the same for
// jobs that another program runs. payload.go stores and loads what is too large
// for a pack item or a message.
//
// Three rules hold even if a worker crashes at any point. A job of a block that is
// neither pure nor idempotent starts only after its STARTED record is known to be
// written, under a lease that is known to be valid. A pack is finished under the
// token it was claimed with. Follow-ups are sent only for a pack that is known to be
// final.
//
// The package imports neither AWS nor the engine. ports.go lists what it needs of
// them.
package worker
