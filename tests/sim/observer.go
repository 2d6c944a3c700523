package sim

import "github.com/lockstep-run/lockstep/shared/workflow"

// Observer is told of every write that changes an item, in the middle of the call
// that makes it. What was there before is nil, or zero, if nothing was. It may keep
// what it is given and must not change it; it must not call the world.
type Observer interface {
	ExecutionWritten(before, after *workflow.Execution)
	// WaitersRemaining follows every commit: so many are registered with the run still.
	WaitersRemaining(id string, registered int)
	LockWritten(before, after workflow.Lock)
	PackWritten(before, after *workflow.Pack)
	EntityWritten(before, after workflow.Entity)
}
