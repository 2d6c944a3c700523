// Package session is the worker's side of the delivery protocol, which
// docs/protocols/packs.md describes: the work on one message.
//
// rules.go holds the way through it; claim.go gets the pack or finds out whose it
// is; session.go runs its jobs under a lease that keeper.go renews meanwhile;
// lend.go does the same for jobs that are run elsewhere;
// finish.go writes what came of them, or what is left of a pack that was
// cancelled; after.go sends what follows a final pack. stored.go keeps what is too
// large for the pack's item beside it, and fetches what is too large for a message.
//
// What must hold, whoever dies when: a job of a block that is neither pure nor
// idempotent begins only after its STARTED is known to be written, under a lease
// that is known to run; a pack's end is written under the token with which it was
// claimed; and what follows is sent only for a pack that is known to be final.
package session
