package port

import (
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Meter counts what has been consumed through the ports it was opened with.
type Meter interface {
	// Take returns the count since the last Take and starts anew.
	Take() workflow.Cost
}

// Ports is one view of the world, opened for one piece of work so that what it
// consumes is counted apart.
type Ports struct {
	Store     Store
	Locks     Locks
	Packs     Packs
	Sender    Sender
	Registry  Registry
	Workers   Workers
	Schedules Schedules
	Meter     Meter
}
