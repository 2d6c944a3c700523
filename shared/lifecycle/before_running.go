package lifecycle

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A try that ends before it is RUNNING has executed nothing. What the tries before have left is left
// still, whatever ended this one: so the execution ends as the last of them has ended.

// keepLastEnd keeps how the execution has ended, for a new try that takes its locks anew.
func (d *decider) keepLastEnd() {
	x := d.execution
	x.LastEnd = &workflow.LastEnd{Unsafe: x.State == sm.ExecutionFailedUnsafe || x.State == sm.ExecutionFailedUnsafeAck, StartedAt: x.StartedAt, Result: x.Result}
}

// failBeforeRunning fails an execution that has executed nothing in this try: as FAILED_UNSAFE where
// changes of the tries before remain, or may remain, and as FAILED_SAFE where there are none.
func (d *decider) failBeforeRunning(on sm.Event, data map[string]any) {
	to := sm.ExecutionFailedSafe
	if HasChanges(d.execution) {
		to = sm.ExecutionFailedUnsafe
	}
	d.endBeforeRunning(on, to, data)
}

// endBeforeRunning ends an execution that has executed nothing in this try. Its entities are those of
// the last end again, with their outcomes. Where an operator has to look at them once more, it keeps no
// locks: they were released before this try, which may have taken some of them only.
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

// leftByEarlierTries says what is left of earlier tries.
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
