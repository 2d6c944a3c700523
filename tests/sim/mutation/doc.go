// Package mutation proves that the simulation can see: it has deliberate mistakes
// of the engine, the worker and the stores, each of which some law must catch.
//
// A mistake is a replacement of text in source files, which the compiler is given
// in place of the real ones, so that the tree stays as it is. locks.go has those of
// the lock protocol, packs.go those of the delivery protocol, runs.go the others, and
// adapters.go those of the real adapters, which tests/protocol looks for.
// mutation.go applies one and builds the simulation with it, or the test that is
// its judge where no play shows it: what happens between two calls of one loan, or
// needs too many things at once.
package mutation
