// Package engine moves executions: load, decide, commit, perform.
//
//	API / message / alarm clock
//	        |  execution id
//	        v
//	load the state item -> decide (package lifecycle) -> one conditional write -> send packs -> loop until waiting
//
// A tour: engine.go is the type and its options; start.go creates a run, command.go
// carries out an operator's verbs, fire.go starts what a schedule wants, look.go is
// the loop behind every message. A look works in a workspace (work.go) that fetches
// the facts the decider asks for: resolve.go the program and its blocks, ready.go
// whether it may begin, discover.go the scope, hold.go the locks, planning.go the
// jobs and what came of them, child.go the runs that it has started, apply.go that
// updates stand in the inventory.
//
// Losing a race is normal here: the loop reloads and decides again. Every message
// may come twice, late or never, and a handler may die between any two lines; what
// it leaves is either nothing or a committed state whose alarm brings somebody
// back. The sub-rooms are port (what the engine needs), locking and delivery
// (the two protocols), library (programs and blocks), planner (the jobs of a
// visit), intake, beside, discovery and inventory (what a run is given, keeps, is
// about and changes), sweep, roster and calendar (what has become due), trouble
// (looks that fail), retention (runs of long ago), and view (what is shown).
package engine
