package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// stopStepRun forbids a step run to start more jobs. The flag is committed before any pack is
// closed, and before a child is read for the last time.
func (d *decider) stopStepRun(r *workflow.StepRun) {
	r.Closing, r.LetGo = true, r.LetGo || d.detaches(r)
	d.changed = true
	d.commitFirst()
}

// stopAll stops every open step run.
func (d *decider) stopAll() {
	for _, r := range d.openStepRuns() {
		d.stopStepRun(r)
	}
}

// closeOpenSteps reports whether no job of the execution can start or change any more. Until then
// it closes the open step runs. An execution that never entered a step has nothing to close; any
// other needs its definition to decide what is next.
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
	if !d.closePipelines(d.openStepRuns()) {
		return false
	}
	for _, r := range d.openStepRuns() {
		if r.Child != nil { // all are told of it, before the end of the first
			end := d.closeChild
			if r.IsSet() {
				end = d.closeChildren
			}
			if ended := end(r, status); d.decision.Need != nil {
				return false
			} else if checkAt := d.now.Add(d.policy.PollInterval); !ended && (at.IsZero() || checkAt.Before(at)) {
				at = checkAt
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
		if d.endedWell(r) && f.Wait == nil { // a block that asks to wait is not finished
			d.exitStepRun(r, sm.StepCompleted)
			continue
		}
		d.exitStepRun(r, status)
	}
	if len(d.openStepRuns()) > 0 {
		d.waitUntil(at)
		return false
	}
	for _, r := range d.waitingStepRuns() {
		d.exitStepRun(r, status)
	}
	for c := d.openContainer(); c != nil; c = d.openContainer() {
		d.exitStepRun(c, status)
	}
	if len(d.execution.Threads) > 0 {
		d.execution.Threads, d.changed = nil, true
	}
	return true
}

// closePipelines closes the jobs of step runs that share their lanes, the last step run first. So a lane whose
// jobs have been closed in one of them is closed in those that follow, and no handler that does not know
// of this yet continues it there. It reports whether it knows how far each has come.
func (d *decider) closePipelines(open []*workflow.StepRun) bool {
	for _, r := range slices.Backward(open) {
		if r.Pipeline > 0 && r.Closing && d.report(r, NeedClose) == nil {
			return false
		}
	}
	return true
}

// endedWell reports whether a stopped step run has completed all its work.
func (d *decider) endedWell(r *workflow.StepRun) bool {
	t := r.Counts
	return t.Failed+t.Unknown+t.NotExecuted == 0 && (r.Wait == nil || r.Value != nil)
}

// closeUnresolved reports whether none of the execution's jobs can start any more, so that its
// locks may be released. closed lists what has become known about their step runs.
//
// This holds for every execution except one that broke before its packs could be closed; its packs
// are closed now. The result is false with an error if some jobs are still running or cannot be
// closed, and false without one if a fact is missing. After giveUpAt every worker has run out of
// time, so it no longer matters whether the packs can be closed, except for a retry, which needs to
// know what was done.
func (d *decider) closeUnresolved(c Command) (closed []any, ok bool, err error) {
	for i := range d.execution.StepRuns {
		r := &d.execution.StepRuns[i]
		if !isUnresolved(r) {
			continue
		}
		f := d.report(r, NeedClose)
		if f == nil {
			return nil, false, nil
		}
		if f.Complete {
			d.recordResult(r, f)
			t := r.Counts
			if len(closed) == workflow.MaxNamed {
				continue // the execution's own step runs have all of them
			}
			closed = append(closed, map[string]any{"step": r.Label, "ok": t.OK, "failed": t.Failed, "unknown": t.Unknown, "notExecuted": t.NotExecuted})
			continue
		}
		giveUpAt := r.DispatchedAt.Add(d.policy.MessageLifetime).Add(time.Duration(max(1, r.PackSize)) * maxJobTime)
		if c.Kind != CommandRetry && d.now.After(giveUpAt) {
			continue
		}
		return nil, false, &workflow.Error{
			Code: workflow.CodeIllegalTransition, Message: fmt.Sprintf("cannot %s execution %s yet: %s", c.Kind, d.execution.ID, unresolvedReason(c, r, f, giveUpAt)),
		}
	}
	return closed, true, nil
}

// maxJobTime is how long a worker may work on one job, the work on its pack included.
const maxJobTime = 15 * time.Minute

// unresolvedReason returns why the locks cannot be released yet, and when to try again.
func unresolvedReason(c Command, r *workflow.StepRun, f *Report, giveUpAt time.Time) string {
	until := ""
	if c.Kind != CommandRetry {
		until = ", at the latest at " + giveUpAt.Format(time.RFC3339)
	}
	if f.Problem != nil {
		return fmt.Sprintf("the jobs of step %q cannot be closed (%s); try again when they can be closed%s", r.Label, f.Problem.Message, until)
	}
	return fmt.Sprintf("jobs of step %q are still running; try again when they have stopped%s", r.Label, until)
}

// isUnresolved reports whether a step run was given up without knowing what its jobs did. Acquire
// calls do not count, because they change nothing.
func isUnresolved(r *workflow.StepRun) bool {
	t := r.Counts
	return r.HasJobs() && r.Kind != workflow.JobAcquire && r.Status == sm.StepCancelled && t.Executed()+t.NotExecuted+t.Unsent == 0
}
