package lifecycle

import (
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// tied reports whether none of a run's jobs can begin any more, so that its locks may
// go. That is certain of every run but one that broke before its packs could be closed:
// they are closed now. It is false with an error if some are still at work, and without
// one if a fact is missing. Once the messages are too old to be worked on, it does not
// matter whether they can be closed.
func (d *decider) tied(c Command) (bool, error) {
	for i := range d.X.Runs {
		r := &d.X.Runs[i]
		if !loose(r) || !d.Now.Before(r.EpochTime.Add(d.P.MessageLife).Add(longestPack)) {
			continue
		}
		if d.F.Resolved == nil {
			d.Need(Need{Kind: NeedResolved})
			return false, nil
		}
		f := d.Report(r, NeedClosing)
		if f == nil {
			return false, nil
		}
		if !f.Complete {
			return false, &workflow.Error{
				Code:    workflow.CodeIllegalTransition,
				Message: fmt.Sprintf("cannot %s execution %s yet: jobs of step %q are still at work; ask again when they have stopped", c.Kind, d.X.ID, r.Label),
			}
		}
		d.Finish(r, f)
		d.Changed = true
	}
	return true, nil
}

// longestPack is how long a worker may be at one pack that it began in time.
const longestPack = 15 * time.Minute

// loose reports whether a visit was given up without knowing what became of its jobs,
// other than calls of acquire, which change nothing.
func loose(r *workflow.StepRun) bool {
	t := r.Tally
	return r.HasJobs() && r.Kind != workflow.JobAcquire && r.Status == sm.StepCancelled && t.Executed()+t.NotExecuted+t.Unsent == 0
}
