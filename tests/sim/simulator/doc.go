// Package simulate plays the real engine, the real worker SDK and the real sweeper
// in a simulated world, in one goroutine, from a seed: several runs at once over
// overlapping devices, operators that interfere, and faults at every call. After
// every single call it is held against what must always hold.
//
// A tour: theatre.go has the stage on which a block of seeds is played, world.go
// plays one seed, as a list of what happens next at which time; process.go is one
// piece of work under way in it, which stands still before each of its calls;
// people.go what clients and operators do. ending.go brings a play to its end and
// says whether that is one. shrink.go makes a play that fails as short as it can be
// made, and trace.go tells it.
//
// The rooms below: workload draws what happens, trouble what goes wrong, invariant
// has what must hold, and mutation proves that it would be seen if it did not.
package simulator
