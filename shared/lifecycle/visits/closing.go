package visits

import (
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle/draft"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Closed reports whether no job of the run can start or change any more. Until
// then it keeps stopping what has not started. A run that never began a step has
// nothing to stop; any other needs its definition to decide what next.
func (d *Visits) Closed() bool {
	if d.X.Run() == nil {
		return true
	}
	if d.F.Resolved == nil {
		d.Need(draft.Need{Kind: draft.NeedResolved})
		return false
	}
	status := sm.StepFailed
	if d.X.Cancellation != nil {
		status = sm.StepCancelled
	}
	at := time.Time{}
	for _, r := range d.Open() {
		if r.Child != nil {
			if !d.closeChild(r, status) {
				return false
			}
			continue
		}
		f := d.Report(r, draft.NeedClosing)
		if f == nil {
			return false
		}
		if !f.Complete {
			look := d.NextLook(r, f)
			if at.IsZero() || look.Before(at) {
				at = look
			}
			continue
		}
		d.Finish(r, f)
		if t := r.Tally; t.Failed+t.Unknown+t.NotExecuted == 0 {
			d.Exit(r, sm.StepCompleted)
			continue
		}
		d.Exit(r, status)
	}
	if len(d.Open()) > 0 {
		d.Wait(at)
		return false
	}
	for c := d.container(); c != nil; c = d.container() {
		d.Exit(c, status)
	}
	return true
}

// Verdict says what is left of what has been executed.
type Verdict int

// The verdicts, from the best to the worst.
const (
	Untouched    Verdict = iota // nothing that is not pure was executed
	Reversible                  // everything executed can be undone
	Irreversible                // something cannot, or must not
)

// Judge judges all executed runs of blocks that are not pure.
func (d *Visits) Judge(mode workflow.RollbackMode) (Verdict, string) {
	left := d.ToUndo()
	if Forbidden(d.X.Error) {
		return Irreversible, d.X.Error.Message
	}
	if len(left) == 0 {
		return Untouched, ""
	}
	for _, r := range left {
		switch {
		case d.undoing(r.RunSeq) != nil:
			return Irreversible, fmt.Sprintf("the rollback of step %q has failed", r.Label)
		case r.Child != nil:
			return Irreversible, fmt.Sprintf("step %q started execution %s, whose changes stand", r.Label, r.Child.ID)
		case r.Tally.Unknown > 0 && !r.UndoHarmless:
			return Irreversible, fmt.Sprintf("whether step %q changed %s is not known", r.Label, r.Tally.UnknownEntity)
		case !r.Reversible:
			return Irreversible, fmt.Sprintf("step %q has no rollback", r.Label)
		}
	}
	if mode == workflow.RollbackNever {
		return Irreversible, "rollback is switched off"
	}
	return Reversible, ""
}

// ToUndo lists the runs that changed something and have not been undone, the
// newest first. A rollback that failed has not undone its run.
func (d *Visits) ToUndo() []*workflow.StepRun {
	var left []*workflow.StepRun
	for i := len(d.X.Runs) - 1; i >= 0; i-- {
		r := &d.X.Runs[i]
		if (r.Kind != workflow.JobExecute && r.Child == nil) || r.Pure || r.Tally.Executed() == 0 {
			continue
		}
		if u := d.undoing(r.RunSeq); u == nil || u.Status != sm.StepCompleted {
			left = append(left, r)
		}
	}
	return left
}

// undoing is the last rollback of a run, nil if there is none.
func (d *Visits) undoing(runSeq int) *workflow.StepRun {
	for i := len(d.X.Runs) - 1; i >= 0; i-- {
		if r := &d.X.Runs[i]; r.Kind == workflow.JobRollback && r.Undoes == runSeq {
			return r
		}
	}
	return nil
}

// Updates reports whether some job asks for updates of entities.
func (d *Visits) Updates() bool {
	for i := range d.X.Runs {
		if r := &d.X.Runs[i]; r.Updates && r.Forward() && r.Superseded == 0 {
			return true
		}
	}
	return false
}
