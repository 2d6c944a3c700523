package visits

import (
	"slices"

	"github.com/lockstep-run/lockstep/shared/lifecycle/draft"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Rollback drives ROLLBACK: one wave per executed run, the newest first, each
// over exactly the entities on which the run was executed. The first wave that
// fails stops the rest, unless the definition wants these to go on.
func (d *Visits) Rollback() {
	if d.F.Resolved == nil {
		d.Need(draft.Need{Kind: draft.NeedResolved})
		return
	}
	if open := d.Open(); len(open) > 0 {
		d.followWave(open[0])
		return
	}
	left := slices.DeleteFunc(d.ToUndo(), func(r *workflow.StepRun) bool { return d.undoing(r.RunSeq) != nil })
	switch failed := d.failedWave(); {
	case len(left) > 0:
		d.wave(left[0])
	case failed != nil:
		_, why := FailureOf(failed, failed.Tally)
		d.End(sm.EventRollbackFailed, sm.ExecutionFailedUnsafe, map[string]any{"step": failed.Label, "entity": why.Entity, "because": why.Message})
	default:
		to := sm.ExecutionFailedSafe
		if d.X.Cancellation != nil && d.X.Cancellation.Source != "timeout" {
			to = sm.ExecutionCancelled
		}
		d.X.RolledBack = true
		d.End(sm.EventRollbackCompleted, to, nil)
	}
}

// failedWave is the first wave of this try that failed, where the rest goes on
// all the same.
func (d *Visits) failedWave() *workflow.StepRun {
	for i := range d.X.Runs {
		if r := &d.X.Runs[i]; r.Kind == workflow.JobRollback && r.Try == d.X.Try && r.Status == sm.StepFailed {
			return r
		}
	}
	return nil
}

// wave begins the undoing of one run.
func (d *Visits) wave(undo *workflow.StepRun) {
	r := workflow.StepRun{
		RunSeq: d.X.RunSeq + 1, Try: d.X.Try, Step: undo.Step, Label: undo.Label, Visit: undo.Visit,
		Kind: workflow.JobRollback, Wave: 1, Undoes: undo.RunSeq,
		Status: sm.StepRunning, EnteredAt: d.Now, EpochTime: d.Now,
		// A rollback runs the very block that was executed, whatever the registry
		// says today, and asks nothing of a purity that undoing does not have.
		Block: undo.Block, Pool: undo.Pool, Idempotent: undo.Idempotent, Reversible: undo.Reversible, UndoHarmless: undo.UndoHarmless,
	}
	for i := range d.X.Runs {
		if d.X.Runs[i].Kind == workflow.JobRollback && d.X.Runs[i].Try == d.X.Try {
			r.Wave++
		}
	}
	plan := d.Plan(draft.PlanNeed(&r))
	if plan == nil {
		return
	}
	r.Jobs = plan.Jobs
	if plan.Problem != nil {
		d.Append(r)
		d.X.Run().Tally = workflow.Tally{NotExecuted: 1, Failure: plan.Problem}
		d.Exit(d.X.Run(), sm.StepFailed)
		d.failWave(d.X.Run(), plan.Problem)
		return
	}
	d.Cut(&r, d.F.Resolved.Program.Nodes[undo.Step].Retry)
	d.Append(r)
	d.Out.Dispatch = r.RunSeq
	d.Wait(d.Now.Add(d.P.Poll))
}

func (d *Visits) followWave(r *workflow.StepRun) {
	kind := draft.NeedReport
	if r.Closing {
		kind = draft.NeedClosing
	}
	f := d.Report(r, kind)
	switch {
	case f == nil:
	case f.Complete && f.Tally.OK == r.Jobs:
		d.Finish(r, f)
		d.Exit(r, sm.StepCompleted)
	case f.Complete:
		d.Finish(r, f)
		d.Exit(r, sm.StepFailed)
		_, why := FailureOf(r, f.Tally)
		d.failWave(r, why)
	case f.Silent && !r.Closing:
		d.stopRun(r)
	default:
		d.Wait(d.NextLook(r, f))
	}
}

// failWave stops the rollback at its first failure, unless the definition wants
// as much as possible to be undone.
func (d *Visits) failWave(r *workflow.StepRun, why *workflow.Failure) {
	if d.Config().RollbackContinue {
		return
	}
	d.End(sm.EventRollbackFailed, sm.ExecutionFailedUnsafe, map[string]any{"step": r.Label, "entity": why.Entity, "because": why.Message})
}
