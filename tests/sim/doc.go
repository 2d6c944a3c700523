// Package sim is the world of the engine in memory: a store, lock items, packs,
// queues, a registry and a clock that obey the same conditions as the real ones
// and fail on request, so that whatever can go wrong between two calls can be
// made to go wrong, again and again, from a seed.
//
// A tour: world.go holds the parts together and opens views of them, each with
// its own meter; every call of a view passes the hook of package fate, which
// decides what becomes of it. store.go, lists.go and beside.go keep the
// executions, locks.go the lock items by the rules of package lockitem, packs.go the packs for the engine and
// claims.go for the workers, stored.go what is stored beside packs, board.go sends to the queues of package queue, and
// published.go and inventory.go are the registry.
//
// What goes in and what comes out are copies: nobody shares memory with the
// world. The world is safe for concurrent use, and deterministic if it is used by
// one goroutine, or by tasks.
//
// The rooms above meet their ports by the method sets of the types here; none of
// those ports is imported.
package sim
