package watch

import "github.com/lockstep-run/lockstep/shared/workflow"

// Watcher is told of every write that changes an item, in the middle of the call
// that makes it. What was there before is nil, or zero, if nothing was. It may keep
// what it is given and must not change it; it must not call the world.
type Watcher interface {
	Execution(before, after *workflow.Execution)
	// Waiting follows every commit: so many are registered with the run still.
	Waiting(id string, registered int)
	Lock(before, after workflow.Lock)
	Pack(before, after *workflow.Pack)
	Entity(before, after workflow.Entity)
}
