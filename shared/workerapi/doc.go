// Package blackboard serves workers that are not Go and cannot be called: they
// register, poll for packs over HTTP, and push results. The service keeps the
// delivery protocol for them, by the SDK's own sessions: a poll claims a pack under
// the worker's name, a heartbeat renews the lease, a push finishes it, each in a
// process of its own. Nothing is remembered between them but the pack item.
//
// blackboard.go says what is needed of the world, workers.go serves the roster,
// poll.go finds a pack for a worker, loan.go hears what the worker says of it, and
// receipt.go writes the opaque text by which the worker names the pack: the
// message that offered it and its handle in the queue. The claim's nonce holds the
// text's digest, so that nobody can say something of a pack that was not given to
// him, or change what it is about.
package workerapi
