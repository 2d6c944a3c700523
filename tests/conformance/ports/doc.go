// Package ports is the conformance kit of the engine's and the worker's ports:
// what every implementation must do, whatever it keeps its items in. The test
// files beside it run the kit on each implementation.
//
//   - world.go: an implementation as the kit sees it, with a switch that loses
//     the replies of writes.
//   - store.go, beside.go: executions. locks.go: locks. packs.go, claims.go:
//     packs, from the engine's and from the worker's side. registry.go,
//     entities.go: what is published and registered. board.go: messages.
//
// The kit sets times to whole milliseconds, which is what an implementation has
// to keep.
package ports
