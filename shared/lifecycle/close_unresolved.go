package lifecycle

import (
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// closeUnresolved reports whether none of a run's jobs can begin any more, so that its locks may
// go, and counts what is found out about them. That is certain of every run but one
// that broke before its packs could be closed: they are closed now. It is false with an
// error if some are still at work or cannot be closed, and without one if a fact is
// missing. Once everybody's time for them is over, it does not matter whether they can
// be closed, unless somebody wants the run to be tried again, for which it has to be
// known what was done.
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
			closed = append(closed, map[string]any{"step": r.Label, "ok": t.OK, "failed": t.Failed, "unknown": t.Unknown, "notExecuted": t.NotExecuted})
			continue
		}
		giveUpAt := r.DispatchedAt.Add(d.policy.MessageLifetime).Add(time.Duration(max(1, r.PackSize)) * maxJobTime)
		if c.Kind != CommandRetry && d.now.After(giveUpAt) {
			continue
		}
		return nil, false, &workflow.Error{
			Code: workflow.CodeIllegalTransition, Message: fmt.Sprintf("cannot %s execution %s yet: %s", c.Kind, d.execution.ID, lockHoldReason(c, r, f, giveUpAt)),
		}
	}
	return closed, true, nil
}

// maxJobTime is how long a worker may be at one job, and at its pack besides.
const maxJobTime = 15 * time.Minute

// lockHoldReason is what keeps a run's locks from going.
func lockHoldReason(c Command, r *workflow.StepRun, f *Report, giveUpAt time.Time) string {
	until := ""
	if c.Kind != CommandRetry {
		until = ", at the latest at " + giveUpAt.Format(time.RFC3339)
	}
	if f.Problem != nil {
		return fmt.Sprintf("the jobs of step %q cannot be closed (%s); ask again when they can%s", r.Label, f.Problem.Message, until)
	}
	return fmt.Sprintf("jobs of step %q are still at work; ask again when they have stopped%s", r.Label, until)
}

// isUnresolved reports whether a visit was given up without knowing what became of its jobs,
// other than calls of acquire, which change nothing.
func isUnresolved(r *workflow.StepRun) bool {
	t := r.Counts
	return r.HasJobs() && r.Kind != workflow.JobAcquire && r.Status == sm.StepCancelled && t.Executed()+t.NotExecuted+t.Unsent == 0
}
