package lifecycle

import (
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// closeOpenSteps reports whether no job of the run can start or change any more. Until
// then it keeps stopping what has not started. A run that never began a step has
// nothing to stop; any other needs its definition to decide what next.
func (d *decider) closeOpenSteps() bool {
	if d.execution.LastStepRun() == nil {
		return true
	}
	if d.facts.Resolution == nil {
		d.need(Need{Kind: NeedResolution})
		return false
	}
	status := sm.StepFailed
	if d.execution.Cancellation != nil {
		status = sm.StepCancelled
	}
	at := time.Time{}
	for _, r := range d.openStepRuns() {
		if r.Child != nil {
			if !d.closeChild(r, status) {
				return false
			}
			continue
		}
		f := d.report(r, NeedClose)
		if f == nil {
			return false
		}
		if !f.Complete {
			checkAt := d.nextCheckAt(r, f)
			if at.IsZero() || checkAt.Before(at) {
				at = checkAt
			}
			continue
		}
		d.recordResult(r, f)
		if t := r.Counts; t.Failed+t.Unknown+t.NotExecuted == 0 {
			d.exitStepRun(r, sm.StepCompleted)
			continue
		}
		d.exitStepRun(r, status)
	}
	if len(d.openStepRuns()) > 0 {
		d.waitUntil(at)
		return false
	}
	for c := d.openContainer(); c != nil; c = d.openContainer() {
		d.exitStepRun(c, status)
	}
	return true
}

// remainingChanges says what is left of what has been executed.
type remainingChanges int

// The verdicts, from the best to the worst.
const (
	noChanges           remainingChanges = iota // nothing that is not pure was executed
	reversibleChanges                           // everything executed can be undone
	irreversibleChanges                         // something cannot, or must not
)

// classifyChanges judges all executed runs of blocks that are not pure.
func (d *decider) classifyChanges(mode workflow.RollbackMode) (remainingChanges, string) {
	remaining := d.stepRunsToUndo()
	if isEntityNotHeld(d.execution.Error) {
		return irreversibleChanges, d.execution.Error.Message
	}
	if len(remaining) == 0 {
		return noChanges, ""
	}
	for _, r := range remaining {
		switch {
		case d.rollbackOf(r.Seq) != nil:
			return irreversibleChanges, fmt.Sprintf("the rollback of step %q has failed", r.Label)
		case r.Child != nil:
			return irreversibleChanges, fmt.Sprintf("step %q started execution %s, whose changes stand", r.Label, r.Child.ID)
		case r.Counts.Unknown > 0 && !r.UndoHarmless:
			return irreversibleChanges, fmt.Sprintf("whether step %q changed %s is not known", r.Label, r.Counts.UnknownEntity)
		case !r.Reversible:
			return irreversibleChanges, fmt.Sprintf("step %q has no rollback", r.Label)
		}
	}
	if mode == workflow.RollbackNever {
		return irreversibleChanges, "rollback is switched off"
	}
	return reversibleChanges, ""
}

// stepRunsToUndo lists the runs that changed something and have not been undone, the
// newest first. A rollback that failed has not undone its run.
func (d *decider) stepRunsToUndo() []*workflow.StepRun {
	var remaining []*workflow.StepRun
	for i := len(d.execution.StepRuns) - 1; i >= 0; i-- {
		r := &d.execution.StepRuns[i]
		if (r.Kind != workflow.JobExecute && r.Child == nil) || r.Pure || r.Counts.Executed() == 0 {
			continue
		}
		if u := d.rollbackOf(r.Seq); u == nil || u.Status != sm.StepCompleted {
			remaining = append(remaining, r)
		}
	}
	return remaining
}

// rollbackOf is the last rollback of a run, nil if there is none.
func (d *decider) rollbackOf(seq int) *workflow.StepRun {
	for i := len(d.execution.StepRuns) - 1; i >= 0; i-- {
		if r := &d.execution.StepRuns[i]; r.Kind == workflow.JobRollback && r.Undoes == seq {
			return r
		}
	}
	return nil
}

// hasUpdates reports whether some job asks for updates of entities.
func (d *decider) hasUpdates() bool {
	for i := range d.execution.StepRuns {
		if r := &d.execution.StepRuns[i]; r.HasUpdates && r.Forward() && r.SupersededBy == 0 {
			return true
		}
	}
	return false
}
