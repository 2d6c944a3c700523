package lifecycle

import (
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// tied reports whether none of a run's jobs can begin any more, so that its locks may
// go, and counts what is found out about them. That is certain of every run but one
// that broke before its packs could be closed: they are closed now. It is false with an
// error if some are still at work or cannot be closed, and without one if a fact is
// missing. Once everybody's time for them is over, it does not matter whether they can
// be closed, unless somebody wants the run to be tried again, for which it has to be
// known what was done.
func (d *decider) tied(c Command) (found []any, ok bool, err error) {
	for i := range d.X.Runs {
		r := &d.X.Runs[i]
		if !loose(r) {
			continue
		}
		f := d.Report(r, NeedClosing)
		if f == nil {
			return nil, false, nil
		}
		if f.Complete {
			d.Finish(r, f)
			t := r.Tally
			found = append(found, map[string]any{"step": r.Label, "ok": t.OK, "failed": t.Failed, "unknown": t.Unknown, "notExecuted": t.NotExecuted})
			continue
		}
		over := r.EpochTime.Add(d.P.MessageLife).Add(time.Duration(max(1, r.PackSize)) * longestJob)
		if c.Kind != CommandRetry && d.Now.After(over) {
			continue
		}
		return nil, false, &workflow.Error{
			Code: workflow.CodeIllegalTransition, Message: fmt.Sprintf("cannot %s execution %s yet: %s", c.Kind, d.X.ID, hold(c, r, f, over)),
		}
	}
	return found, true, nil
}

// longestJob is how long a worker may be at one job, and at its pack besides.
const longestJob = 15 * time.Minute

// hold is what keeps a run's locks from going.
func hold(c Command, r *workflow.StepRun, f *Report, over time.Time) string {
	until := ""
	if c.Kind != CommandRetry {
		until = ", at the latest at " + over.Format(time.RFC3339)
	}
	if f.Problem != nil {
		return fmt.Sprintf("the jobs of step %q cannot be closed (%s); ask again when they can%s", r.Label, f.Problem.Message, until)
	}
	return fmt.Sprintf("jobs of step %q are still at work; ask again when they have stopped%s", r.Label, until)
}

// loose reports whether a visit was given up without knowing what became of its jobs,
// other than calls of acquire, which change nothing.
func loose(r *workflow.StepRun) bool {
	t := r.Tally
	return r.HasJobs() && r.Kind != workflow.JobAcquire && r.Status == sm.StepCancelled && t.Executed()+t.NotExecuted+t.Unsent == 0
}
