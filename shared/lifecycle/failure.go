package lifecycle

import (
	"github.com/lockstep-run/lockstep/shared/lifecycle/visits"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// classify decides ERROR, once every pack of the failed run is final:
//
//   - nothing executed but pure blocks: FAILED_SAFE;
//   - every executed block that is not pure can be undone: ROLLBACK;
//   - otherwise FAILED_UNSAFE, naming what has to be looked at.
func (d *decider) classify() {
	if !d.Closed() {
		return
	}
	switch v, why := d.Judge(d.Config().Rollback); v {
	case visits.Untouched:
		d.End(sm.EventExecutionClassifiedSafe, sm.ExecutionFailedSafe, nil)
	case visits.Reversible:
		d.Move(sm.EventRollbackStarted, sm.ExecutionRollback, "", nil)
	default:
		d.End(sm.EventExecutionClassifiedUnsafe, sm.ExecutionFailedUnsafe, map[string]any{"because": why})
	}
}
