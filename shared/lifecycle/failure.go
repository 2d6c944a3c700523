package lifecycle

import (
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// classify decides ERROR, once every pack of the failed run is final:
//
//   - nothing executed but pure blocks: FAILED_SAFE;
//   - every executed block that is not pure can be undone: ROLLBACK;
//   - otherwise FAILED_UNSAFE, naming what has to be looked at.
func (d *decider) classify() {
	if !d.closed() {
		return
	}
	switch v, why := d.verdict(d.config().Rollback); v {
	case untouched:
		d.end(sm.EventExecutionClassifiedSafe, sm.ExecutionFailedSafe, nil)
	case reversible:
		d.move(sm.EventRollbackStarted, sm.ExecutionRollback, "", nil)
	default:
		d.end(sm.EventExecutionClassifiedUnsafe, sm.ExecutionFailedUnsafe, map[string]any{"because": why})
	}
}

// closed reports whether no job of the run can start or change any more. Until
// then it keeps stopping what has not started. A run that never began a step has
// nothing to stop; any other needs its definition to decide what next.
func (d *decider) closed() bool {
	if d.x.Run() == nil {
		return true
	}
	if d.f.Resolved == nil {
		d.need(Need{Kind: NeedResolved})
		return false
	}
	status := sm.StepFailed
	if d.x.Cancellation != nil {
		status = sm.StepCancelled
	}
	at := time.Time{}
	for _, r := range d.open() {
		if r.Child != nil {
			if !d.closeChild(r, status) {
				return false
			}
			continue
		}
		f := d.report(r, NeedClosing)
		if f == nil {
			return false
		}
		if !f.Complete {
			look := d.nextLook(r, f)
			if at.IsZero() || look.Before(at) {
				at = look
			}
			continue
		}
		d.finish(r, f)
		if t := r.Tally; t.Failed+t.Unknown+t.NotExecuted == 0 {
			d.exit(r, sm.StepCompleted)
			continue
		}
		d.exit(r, status)
	}
	if len(d.open()) > 0 {
		d.wait(at)
		return false
	}
	for c := d.container(); c != nil; c = d.container() {
		d.exit(c, status)
	}
	return true
}

// verdict says what is left of what has been executed.
type verdict int

const (
	untouched    verdict = iota // nothing that is not pure was executed
	reversible                  // everything executed can be undone
	irreversible                // something cannot, or must not
)

// verdict judges all executed runs of blocks that are not pure.
func (d *decider) verdict(mode workflow.RollbackMode) (verdict, string) {
	left := d.toUndo()
	if forbidden(d.x.Error) {
		return irreversible, d.x.Error.Message
	}
	if len(left) == 0 {
		return untouched, ""
	}
	for _, r := range left {
		switch {
		case r.Child != nil:
			return irreversible, fmt.Sprintf("step %q started execution %s, whose changes stand", r.Label, r.Child.ID)
		case r.Tally.Unknown > 0 && !r.UndoHarmless:
			return irreversible, fmt.Sprintf("whether step %q changed %s is not known", r.Label, r.Tally.UnknownEntity)
		case !r.Reversible:
			return irreversible, fmt.Sprintf("step %q has no rollback", r.Label)
		}
	}
	if mode == workflow.RollbackNever {
		return irreversible, "rollback is switched off"
	}
	return reversible, ""
}

// toUndo lists the runs that changed something and have not been undone, the
// newest first: the waves of a rollback in their order.
func (d *decider) toUndo() []*workflow.StepRun {
	undone := map[int]bool{}
	for _, r := range d.x.Runs {
		if r.Kind == workflow.JobRollback {
			undone[r.Undoes] = true
		}
	}
	var left []*workflow.StepRun
	for i := len(d.x.Runs) - 1; i >= 0; i-- {
		r := &d.x.Runs[i]
		if (r.Kind == workflow.JobExecute || r.Child != nil) && !r.Pure && r.Tally.Executed() > 0 && !undone[r.RunSeq] {
			left = append(left, r)
		}
	}
	return left
}
