package lifecycle

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// If a step has started an execution and waited for it, the work of that execution is undone by
// another execution, of the workflow that the step names. This is a rollback wave whose only work
// is a child. The execution does not wait for it in the state WAITING, because it stays in ROLLBACK
// until everything is undone. Otherwise it is like any other child: it checks in before it begins,
// and its step run is closed before its end counts.

// startCompensation begins a rollback wave that starts an execution. The wave is committed first,
// like the step run of any child.
func (d *decider) startCompensation(r workflow.StepRun, c *workflow.Compensation) {
	r.Jobs = 1
	r.Child = &workflow.Child{ID: workflow.DerivedID(d.now, fmt.Sprintf("%s.%d", d.execution.ID, r.Seq)), Workflow: c.Workflow, Mode: workflow.ModeDispatch}
	d.appendStepRun(r)
	d.decision.DispatchSeq = r.Seq
	d.waitUntil(d.now.Add(d.policy.PollInterval))
}

// followCompensation waits for the execution of a wave to end. If it has completed only for some of
// its entities, or has left some out, it has not undone everything.
func (d *decider) followCompensation(r *workflow.StepRun) {
	kind := NeedChild
	if r.Closing {
		kind = NeedChildClose
	}
	c := d.childStatus(r, kind)
	switch {
	case c == nil:
	case !r.Closing && c.Refused:
		r.Failure = c.Failure
		d.closeStepRun(r)
	case !r.Closing && c.Over:
		d.closeStepRun(r)
	case !c.Over && !c.Absent:
		d.waitUntil(d.now.Add(d.policy.PollInterval))
	default:
		d.recordChildEnd(r, c)
		if r.Failure == nil && c.State == sm.ExecutionCompletedAck && !c.Partial && !c.Dropped {
			d.exitStepRun(r, sm.StepCompleted)
			return
		}
		why := r.Failure
		if why == nil {
			why = childFailure(r, c)
			if c.Failure != nil && c.Failure.Code == workflow.FailureOutdated {
				why.Code = c.Failure.Code
			}
		}
		r.Counts = workflow.Counts{Failed: 1, Failure: why}
		d.exitStepRun(r, sm.StepFailed)
		d.failWave(r, why)
	}
}

// failChangedUndo ends a compensation that has just acquired its locks and executed nothing: others
// have changed entities since the execution to undo released them, so restoring them would
// overwrite newer changes.
func (d *decider) failChangedUndo(changed []OutdatedEntity) {
	entities := changed[0].Entity.String()
	if n := len(changed) - 1; n > 0 {
		entities += fmt.Sprintf(" and %d more", n)
	}
	message := fmt.Sprintf("%s held %s exclusively since execution %s released it, and undoing that would overwrite what has changed: check it, then retry the rollback of execution %s with force, or undo by hand",
		heldBy(changed[0].By), entities, changed[0].Undone, d.execution.Parent.Execution)
	d.setFailure(workflow.CauseOutdated, &workflow.Failure{Code: workflow.FailureOutdated, Entity: changed[0].Entity.String(), Message: message})
	var names []string
	for _, o := range changed[:min(len(changed), workflow.MaxNamed)] {
		names = append(names, o.Entity.String())
	}
	d.failBeforeRunning(sm.EventLockRefused, map[string]any{"outdated": names, "heldBy": changed[0].By, "reason": message})
}
