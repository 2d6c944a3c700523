package harness

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// blockTraits is what the oracle knows of a block.
type blockTraits struct{ pure, reversible, harmless bool }

var traitsByBlock = map[string]blockTraits{
	"pure": {pure: true}, "again": {reversible: true}, "once": {reversible: true},
	"harmless": {reversible: true, harmless: true}, "forever": {},
}

// CheckOutcome says how a run must have ended, from nothing but what became of its
// jobs, and holds the rollback against what was executed. blocks are the names
// of the steps' blocks by label, handled the steps whose failure the run survives;
// tolerance is how many entities may fail in one visit that is no failure then.
func (s *Harness) CheckOutcome(id string, blocks map[string]string, handled map[string]bool, tolerance int) {
	s.Helper()
	x := s.Load(id)
	if !sm.Terminal(x.State) {
		s.Errorf("%s has not ended: %s", id, x.State)
		return
	}
	jobs := s.Jobs(id)
	executed, undone, failures := map[string][]string{}, map[string][]string{}, map[string]int{}
	var executionOrder, rollbackOrder []string // labels by first execution, and by first rollback
	unknown, irreversible, rollbackFailed, failed := false, false, false, false
	for _, j := range latestAttempts(jobs) {
		entity, tolerated := "", 0
		if j.Entity != nil {
			entity, tolerated = j.Entity.ID, tolerance
		}
		n := traitsByBlock[blocks[j.Step]]
		stepRun := fmt.Sprintf("%s#%d", j.Step, j.StepRunOrdinal)
		switch {
		case j.Kind == workflow.JobRollback:
			undone[stepRun] = append(undone[stepRun], entity)
			if !slices.Contains(rollbackOrder, stepRun) {
				rollbackOrder = append(rollbackOrder, stepRun)
			}
			rollbackFailed = rollbackFailed || j.State != sm.JobCompleted
		case j.State == sm.JobCancelled:
			failed = failed || !handled[j.Step]
		default:
			if j.State != sm.JobCompleted {
				failures[stepRun]++
				failed = failed || failures[stepRun] > tolerated && !handled[j.Step]
			}
			if n.pure {
				continue
			}
			executed[stepRun] = append(executed[stepRun], entity)
			if !slices.Contains(executionOrder, stepRun) {
				executionOrder = append(executionOrder, stepRun)
			}
			unknown = unknown || (j.State == sm.JobUnknown && !n.harmless)
			irreversible = irreversible || !n.reversible
		}
	}
	ended := strings.TrimSuffix(string(x.State), "_ACK")
	want, rolledBack := "FAILED_SAFE", false
	switch {
	case x.Cancellation != nil:
		want = "CANCELLED"
	case !failed && x.Cause == "":
		want = "COMPLETED"
	}
	if want != "COMPLETED" {
		switch {
		case len(executed) == 0:
		case unknown || irreversible:
			if want != "CANCELLED" {
				want = "FAILED_UNSAFE"
			}
		case rollbackFailed:
			want = "FAILED_UNSAFE"
		default:
			rolledBack = true
		}
	}
	if x.Cause == workflow.CauseStepFailed && !failed {
		s.Errorf("%s says that a step has failed (%s), and none has: %s", id, x.Reason, describeJobs(jobs))
	}
	if ended != want || x.RolledBack != rolledBack {
		s.Errorf("%s ended %s, rolled back %v; the oracle says %s, %v; jobs %s", id, x.State, x.RolledBack, want, rolledBack, describeJobs(jobs))
	}
	if !rolledBack && !rollbackFailed && len(undone) > 0 {
		s.Errorf("%s undid something: %s", id, describeJobs(jobs))
	}
	slices.Reverse(executionOrder)
	if rolledBack && !slices.Equal(executionOrder, rollbackOrder) {
		s.Errorf("%s undid %v, want %v", id, rollbackOrder, executionOrder)
	}
	for step, entities := range undone {
		if !slices.Equal(entities, executed[step]) {
			s.Errorf("%s undid visit %s on %v, it was executed on %v", id, step, entities, executed[step])
		}
	}
}

// latestAttempts leaves out jobs that were replaced by a later attempt that was
// executed.
func latestAttempts(jobs []workflow.Job) (latest []workflow.Job) {
	for i, j := range jobs {
		if j.ReplacedBy != nil && jobs[i+1].State != sm.JobCancelled {
			continue
		}
		if j.Replaces != nil && j.State == sm.JobCancelled {
			continue // what its predecessor did stands
		}
		latest = append(latest, j)
	}
	return latest
}

func describeJobs(jobs []workflow.Job) string {
	var b strings.Builder
	for _, j := range jobs {
		entity := "-"
		if j.Entity != nil {
			entity = j.Entity.ID
		}
		fmt.Fprintf(&b, "%s %s %s/%d %s; ", j.Step, j.Kind, entity, j.Attempt, j.State)
	}
	return b.String()
}
