package lifecycle

import (
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// driveRollback drives ROLLBACK: one wave for each executed step run, newest first, over exactly
// the entities on which it was executed. The first wave that fails ends the rollback, unless the
// definition says to continue. If an execution completes otherwise, the rollback covers only its
// failed entities, and continues for all those whose waves did not fail.
func (d *decider) driveRollback() {
	if d.facts.Resolution == nil {
		d.need(Need{Kind: NeedResolution})
		return
	}
	if open := d.openStepRuns(); len(open) > 0 {
		d.followWave(open[0])
		return
	}
	remaining := slices.DeleteFunc(stepRunsToUndo(d.execution), func(r *workflow.StepRun) bool {
		return d.undoneInTry(r.Seq)
	})
	if d.execution.Undo != nil {
		remaining = d.remainingUndo()
	}
	switch failed := d.failedWave(); {
	case len(remaining) > 0:
		d.startWave(remaining[0])
	case d.execution.Undo != nil:
		d.endUndo()
	case failed != nil:
		_, why := FailureOf(failed, failed.Counts)
		d.failRollback(failed, why)
	case d.execution.RollbackTries > 0 && releasedUnsafe(d.execution):
		if o := d.outcomes(true); o != nil {
			d.endWithReleased(o)
		}
	case IsCancelled(d.execution):
		if d.execution.Result != nil && !d.recordOutcomes() { // an earlier end has reported what was left then
			return
		}
		d.execution.RolledBack = d.execution.Scope.Only == nil // otherwise other entities keep the work of an earlier try
		d.end(sm.EventRollbackCompleted, sm.ExecutionCancelled, nil)
	default:
		d.execution.RolledBack = d.execution.Scope.Only == nil
		d.endSafe(sm.EventRollbackCompleted, sm.ExecutionFailedSafe)
	}
}

// remainingUndo lists the step runs that the rollback of failed entities has yet to undo, newest
// first.
func (d *decider) remainingUndo() []*workflow.StepRun {
	var remaining []*workflow.StepRun
	for _, seq := range d.execution.Undo.StepRuns {
		if r := d.execution.StepRunBySeq(seq); r != nil && !d.undoneInTry(seq) {
			remaining = append(remaining, r)
		}
	}
	return remaining
}

// someUndone reports whether some entities of the step run have been undone separately.
func (d *decider) someUndone(seq int) bool {
	return slices.ContainsFunc(d.execution.StepRuns, func(r workflow.StepRun) bool {
		return r.Kind == workflow.JobRollback && r.Undoes == seq && r.Only != nil
	})
}

// allUndone reports whether waves of earlier tries have undone every job of the step run although
// none of the waves has completed: the engine may have given up on a wave whose jobs ended well
// later.
func (d *decider) allUndone(undo *workflow.StepRun) bool {
	undone := 0
	for i := range d.execution.StepRuns {
		if r := &d.execution.StepRuns[i]; r.Kind == workflow.JobRollback && r.Undoes == undo.Seq {
			undone += r.Counts.OK
		}
	}
	return undone >= undo.Counts.Executed()
}

// undoneInTry reports whether this try has a wave that undoes the step run, or an earlier wave that
// it continues has undone all of it.
func (d *decider) undoneInTry(seq int) bool {
	return wasCompleted(d.execution, seq) || slices.ContainsFunc(d.execution.StepRuns, func(r workflow.StepRun) bool {
		return r.Kind == workflow.JobRollback && r.Undoes == seq && r.Try == d.execution.Try
	})
}

// wasCompleted reports whether a wave of this rollback, or of one that it continues, has undone
// everything that it covered of the step run.
func wasCompleted(x *workflow.Execution, seq int) bool {
	return slices.ContainsFunc(x.StepRuns, func(r workflow.StepRun) bool {
		return IsLastRollback(x, &r) && r.Undoes == seq && r.Status == sm.StepCompleted
	})
}

// failRollback ends a failed rollback. It keeps the locks of the entities whose changes remain.
func (d *decider) failRollback(r *workflow.StepRun, why *workflow.Failure) {
	data := map[string]any{"step": r.Label, "entity": why.Entity, "because": why.Message}
	if labels := remainingLabels(d.execution); len(labels) > 1 && d.execution.Undo == nil {
		data["because"] = why.Message + "; what these steps have changed remains, or some of it: " + firstLabels(labels)
	}
	if isEntityNotHeld(why) {
		d.end(sm.EventRollbackFailed, sm.ExecutionFailedUnsafe, data)
		return
	}
	if o := d.outcomes(d.execution.Undo == nil); o != nil {
		d.endUnsafe(sm.EventRollbackFailed, o, data)
	}
}

// failedWave returns the first failed wave of this try, if the rollback continues after a failure;
// nil if there is none.
func (d *decider) failedWave() *workflow.StepRun {
	for i := range d.execution.StepRuns {
		if r := &d.execution.StepRuns[i]; r.Kind == workflow.JobRollback && r.Try == d.execution.Try && r.Status == sm.StepFailed {
			return r
		}
	}
	return nil
}

// startWave begins to undo one step run.
func (d *decider) startWave(undo *workflow.StepRun) {
	r := workflow.StepRun{
		Seq: d.execution.StepRunSeq + 1, Try: d.execution.Try, StepIndex: undo.StepIndex, Label: undo.Label, Ordinal: undo.Ordinal,
		Kind: workflow.JobRollback, Wave: 1, Undoes: undo.Seq, In: undo.In, Index: undo.Index,
		Status: sm.StepRunning, EnteredAt: d.now, DispatchedAt: d.now,
		// A rollback calls exactly the block that was executed, whatever the registry has now. It
		// is never pure, because undoing changes something.
		Block: undo.Block, Pool: undo.Pool, Idempotent: undo.Idempotent, Reversible: undo.Reversible, UndoHarmless: undo.UndoHarmless,
	}
	if c := undo.Compensation; c != nil {
		r.Block, r.Pool, r.Idempotent, r.Compensation = c.Block, c.Pool, c.Idempotent, c
	}
	for i := range d.execution.StepRuns {
		if d.execution.StepRuns[i].Kind == workflow.JobRollback && d.execution.StepRuns[i].Try == d.execution.Try {
			r.Wave++
		}
	}
	if r.Only = d.execution.Scope.Only; d.execution.Undo != nil {
		r.Only = &d.execution.Undo.Entities
	}
	if why := d.noRoomToRollBack(&r); why != nil {
		d.decision.LimitReached = true
		d.failRollback(&r, why)
		return
	}
	if c := undo.Compensation; c != nil && undo.Child != nil {
		d.startCompensation(r, c)
		return
	}
	plan := d.plan(NeedForPlan(&r))
	if plan == nil {
		return
	}
	r.Jobs = plan.Jobs
	if plan.Problem == nil && plan.Jobs == 0 && r.Only == nil && !d.someUndone(undo.Seq) && !d.allUndone(undo) {
		plan = &Plan{Problem: &workflow.Failure{
			Code: workflow.FailureChangesRemain, Step: r.Label, Message: fmt.Sprintf("step %q was executed, but what it did cannot be planned again: undo it by hand", r.Label),
		}}
	}
	if plan.Problem != nil {
		d.appendStepRun(r)
		d.execution.LastStepRun().Counts = workflow.Counts{NotExecuted: 1, Failure: plan.Problem}
		d.exitStepRun(d.execution.LastStepRun(), sm.StepFailed)
		d.failWave(d.execution.LastStepRun(), plan.Problem)
		return
	}
	n := &d.facts.Resolution.Program.Nodes[undo.StepIndex]
	retry := n.Retry
	if undo.Compensation != nil {
		retry = n.Compensate.Retry
	}
	d.cutPacks(&r, retry, n.Pace, d.facts.Resolution.Program.MaxInFlight(undo.StepIndex))
	d.appendStepRun(r)
	if r.Jobs == 0 {
		d.exitStepRun(d.execution.LastStepRun(), sm.StepCompleted) // it changed none of the entities
		return
	}
	d.decision.DispatchSeq = r.Seq
	d.waitUntil(d.now.Add(d.policy.PollInterval))
}

func (d *decider) followWave(r *workflow.StepRun) {
	if r.Child != nil {
		d.followCompensation(r)
		return
	}
	kind := NeedReport
	if r.Closing {
		kind = NeedClose
	}
	f := d.report(r, kind)
	switch {
	case f == nil:
	case f.Complete && f.Counts.OK == r.Jobs:
		d.recordResult(r, f)
		d.exitStepRun(r, sm.StepCompleted)
	case f.Complete:
		d.recordResult(r, f)
		d.exitStepRun(r, sm.StepFailed)
		_, why := FailureOf(r, f.Counts)
		d.failWave(r, why)
	case f.Unclaimed && !r.Closing:
		d.stopStepRun(r)
	default:
		d.waitUntil(d.nextCheckAt(r, f))
	}
}

// failWave ends the rollback at its first failure, unless the definition says to undo as much as
// possible.
func (d *decider) failWave(r *workflow.StepRun, why *workflow.Failure) {
	if d.config().RollbackContinue || d.execution.Undo != nil {
		return
	}
	d.failRollback(r, why)
}
