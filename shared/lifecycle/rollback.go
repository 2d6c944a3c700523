package lifecycle

import (
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// rollback drives ROLLBACK: one wave per executed run, the newest first, each
// over exactly the entities on which the run was executed. The first wave that
// fails stops the rest, unless the definition wants these to go on.
func (d *decider) rollback() {
	if d.f.Resolved == nil {
		d.need(Need{Kind: NeedResolved})
		return
	}
	if open := d.open(); len(open) > 0 {
		d.followWave(open[0])
		return
	}
	left := d.toUndo()
	switch failed := d.failedWave(); {
	case len(left) > 0:
		d.wave(left[0])
	case failed != nil:
		_, why := failureOf(failed, failed.Tally)
		d.end(sm.EventRollbackFailed, sm.ExecutionFailedUnsafe, map[string]any{"step": failed.Label, "entity": why.Entity, "because": why.Message})
	default:
		to := sm.ExecutionFailedSafe
		if d.x.Cancellation != nil && d.x.Cancellation.Source != "timeout" {
			to = sm.ExecutionCancelled
		}
		d.x.RolledBack = true
		d.end(sm.EventRollbackCompleted, to, nil)
	}
}

// failedWave is the first wave of this try that failed, where the rest goes on
// all the same.
func (d *decider) failedWave() *workflow.StepRun {
	for i := range d.x.Runs {
		if r := &d.x.Runs[i]; r.Kind == workflow.JobRollback && r.Try == d.x.Try && r.Status == sm.StepFailed {
			return r
		}
	}
	return nil
}

// wave begins the undoing of one run.
func (d *decider) wave(undo *workflow.StepRun) {
	r := workflow.StepRun{
		RunSeq: d.x.RunSeq + 1, Try: d.x.Try, Step: undo.Step, Label: undo.Label, Visit: undo.Visit,
		Kind: workflow.JobRollback, Wave: 1, Undoes: undo.RunSeq,
		Status: sm.StepRunning, EnteredAt: d.now, EpochTime: d.now,
		// A rollback runs the very block that was executed, whatever the registry
		// says today, and asks nothing of a purity that undoing does not have.
		Block: undo.Block, Pool: undo.Pool, Idempotent: undo.Idempotent, Reversible: undo.Reversible, UndoHarmless: undo.UndoHarmless,
	}
	for i := range d.x.Runs {
		if d.x.Runs[i].Kind == workflow.JobRollback && d.x.Runs[i].Try == d.x.Try {
			r.Wave++
		}
	}
	plan := d.plan(PlanNeed(&r))
	if plan == nil {
		return
	}
	r.Jobs = plan.Jobs
	if plan.Problem != nil {
		d.append(r)
		d.x.Run().Tally = workflow.Tally{NotExecuted: 1, Failure: plan.Problem}
		d.exit(d.x.Run(), sm.StepFailed)
		d.failWave(d.x.Run(), plan.Problem)
		return
	}
	d.cut(&r, d.f.Resolved.Program.Nodes[undo.Step].Retry)
	d.append(r)
	d.out.Dispatch = r.RunSeq
	d.wait(d.now.Add(d.p.Poll))
}

func (d *decider) followWave(r *workflow.StepRun) {
	kind := NeedReport
	if r.Closing {
		kind = NeedClosing
	}
	f := d.report(r, kind)
	switch {
	case f == nil:
	case f.Complete && f.Tally.OK == r.Jobs:
		d.finish(r, f)
		d.exit(r, sm.StepCompleted)
	case f.Complete:
		d.finish(r, f)
		d.exit(r, sm.StepFailed)
		_, why := failureOf(r, f.Tally)
		d.failWave(r, why)
	case f.Silent && !r.Closing:
		d.stopRun(r)
	default:
		d.wait(d.nextLook(r, f))
	}
}

// failWave stops the rollback at its first failure, unless the definition wants
// as much as possible to be undone.
func (d *decider) failWave(r *workflow.StepRun, why *workflow.Failure) {
	if d.config().RollbackContinue {
		return
	}
	d.end(sm.EventRollbackFailed, sm.ExecutionFailedUnsafe, map[string]any{"step": r.Label, "entity": why.Entity, "because": why.Message})
}
