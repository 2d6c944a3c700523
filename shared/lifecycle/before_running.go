package lifecycle

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A try that ends before it is RUNNING has executed nothing. Whatever earlier tries have left still
// remains. So the execution ends as the last of those tries ended.

// keepLastEnd remembers how the execution ended, for a new try that acquires its locks again.
func (d *decider) keepLastEnd() {
	x := d.execution
	x.LastEnd = &workflow.LastEnd{Unsafe: x.State == sm.ExecutionFailedUnsafe || x.State == sm.ExecutionFailedUnsafeAck, StartedAt: x.StartedAt, Result: x.Result}
}

// failBeforeRunning fails an execution that has executed nothing in this try: as FAILED_UNSAFE if
// changes of earlier tries remain, or may remain, and as FAILED_SAFE if there are none.
func (d *decider) failBeforeRunning(on sm.Event, data map[string]any) {
	to := sm.ExecutionFailedSafe
	if HasChanges(d.execution) {
		to = sm.ExecutionFailedUnsafe
	}
	d.endBeforeRunning(on, to, data)
}

// endBeforeRunning ends an execution that has executed nothing in this try. It restores the
// entities of the last end, with their outcomes. If an operator must look at them again, the
// execution still keeps no locks: they were released before this try, which may have acquired only
// some of them.
func (d *decider) endBeforeRunning(on sm.Event, to sm.ExecutionState, data map[string]any) {
	x := d.execution
	if HasChanges(x) {
		if data == nil {
			data = map[string]any{}
		}
		data["because"] = d.leftByEarlierTries()
		x.Unlocked, d.decision.WakeWaiters = true, true
	}
	x.BlockedBy, x.Wait = nil, nil
	d.transition(on, to, "", data)
	d.cancelOpenStepRuns()
	if last := x.LastEnd; last != nil {
		x.Scope, x.StartedAt, x.Result = x.PastScopes[x.Try-1], last.StartedAt, last.Result
	}
}

// leftByEarlierTries describes what earlier tries have left.
func (d *decider) leftByEarlierTries() string {
	const nothing = "this try has executed nothing, and "
	remaining := stepRunsToUndo(d.execution)
	switch v, why := classifyChanges(d.execution, workflow.RollbackAuto); {
	case len(remaining) == 0:
		return nothing + "what an earlier one has done is unknown"
	case v == irreversibleChanges:
		return nothing + "of an earlier one, " + why
	}
	return fmt.Sprintf("%swhat step %q changed in an earlier one was not undone", nothing, remaining[0].Label)
}
