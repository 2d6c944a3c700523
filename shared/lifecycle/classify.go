package lifecycle

import (
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// classify decides ERROR, once every pack of the failed run is final:
//
//   - nothing executed but pure blocks: FAILED_SAFE;
//   - every executed block that is not pure can be undone: ROLLBACK;
//   - otherwise FAILED_UNSAFE, naming what has to be looked at.
func (d *decider) classify() {
	if !d.closeOpenSteps() {
		return
	}
	switch v, why := d.classifyChanges(d.config().Rollback); v {
	case noChanges:
		d.end(sm.EventExecutionClassifiedSafe, sm.ExecutionFailedSafe, nil)
	case reversibleChanges:
		d.transition(sm.EventRollbackStarted, sm.ExecutionRollback, "", nil)
	default:
		d.end(sm.EventExecutionClassifiedUnsafe, sm.ExecutionFailedUnsafe, map[string]any{"because": why})
	}
}
