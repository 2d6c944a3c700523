package lifecycle

import "github.com/lockstep-run/lockstep/shared/workflow"

// maxKeptBytes bounds the text of the entities that an execution keeps.
const maxKeptBytes = 24 << 10

// keepOnly releases the locks of all entities but those at the places, and tells everybody
// who waits for the execution. What was released before stays released. It reports whether
// it did: a set that is too large for the state item is not stored, and nothing changes.
func (d *decider) keepOnly(places workflow.Places) bool {
	if d.execution.Kept != nil {
		places = d.execution.Kept.Both(places)
	}
	if len(places.String()) > maxKeptBytes {
		return false
	}
	d.execution.Kept = &places
	d.execution.Narrowed++
	d.decision.WakeWaiters, d.changed = true, true
	return true
}
