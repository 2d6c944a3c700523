package lifecycle

import (
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// rollback drives ROLLBACK: one wave per executed run, the newest first, each
// over exactly the entities on which the run was executed. The first wave that
// fails stops the rest.
func (d *decider) rollback() {
	if d.f.Resolved == nil {
		d.need(Need{Kind: NeedResolved})
		return
	}
	if r := d.x.Run(); r.Open() {
		d.followWave(r)
		return
	}
	left := d.toUndo()
	if len(left) == 0 {
		to := sm.ExecutionFailedSafe
		if d.x.Cancellation != nil {
			to = sm.ExecutionCancelled
		}
		d.x.RolledBack = true
		d.end(sm.EventRollbackCompleted, to, nil)
		return
	}
	d.wave(left[0])
}

// wave begins the undoing of one run.
func (d *decider) wave(undo *workflow.StepRun) {
	need := Need{Kind: NeedPlan, Step: undo.Step, Undoes: undo.RunSeq}
	plan := d.f.Plans[need]
	if plan == nil {
		d.need(need)
		return
	}
	wave := 1
	for _, r := range d.x.Runs {
		if r.Kind == workflow.JobRollback {
			wave++
		}
	}
	r := d.newRun(undo.Step, &d.f.Resolved.Definition.Steps[undo.Step], workflow.JobRollback, plan)
	r.Visit, r.Undoes, r.Wave = undo.Visit, undo.RunSeq, wave
	// A rollback runs the very block that was executed, whatever the registry
	// says today, and asks nothing of a purity that undoing does not have.
	r.Block, r.Pool, r.Pure = undo.Block, undo.Pool, false
	d.open(r)
	d.out.Dispatch = true
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
		d.close(r, f, sm.StepCompleted)
	case f.Complete:
		d.close(r, f, sm.StepFailed)
		_, why := failureOf(r, f.Tally)
		d.end(sm.EventRollbackFailed, sm.ExecutionFailedUnsafe, map[string]any{"step": r.Label, "entity": why.Entity, "because": why.Message})
	case f.Silent && !r.Closing:
		d.stopRun(r)
	default:
		d.linger(r, f)
	}
}
