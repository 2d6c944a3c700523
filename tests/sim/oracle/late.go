package oracle

import (
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// lawTimeout is the law about branches with a timeout.
const lawTimeout = "branches go on until they end or time out"

// checkTimeouts notes which steps have branches that have timed out, and requires that they do so
// after the timeout of their step, and that nothing is entered in them afterwards.
func (f *followed) checkTimeouts(before, after *workflow.Execution) {
	for i := range after.StepRuns {
		r := &after.StepRuns[i]
		s := f.definition.Find(r.Label)
		if s == nil || s.Parallel == nil || !r.Forward() {
			continue
		}
		if s.Parallel.Timeout == 0 {
			continue
		}
		due := r.EnteredAt.Add(s.Parallel.Timeout)
		f.checkEnteredInTime(before, after, r, due)
		if f.timedOut[r.Seq] || i < len(before.StepRuns) && before.StepRuns[i].Closing || !r.Closing {
			continue
		}
		own := r.Failure != nil && r.Failure.Code == workflow.FailureTimeout && r.Failure.Step == r.Label
		if f.timedOut[r.Seq] = own || r.Status == sm.StepCompleted; f.timedOut[r.Seq] && f.Now.Before(due.Add(-f.Skew)) {
			f.Failf(lawTimeout, "the branches of step run %d of %s, of step %s, have timed out at %s, and may go on until %s", r.Seq, after.ID, r.Label, f.Now, due)
		}
	}
}

// checkEnteredInTime requires that no step is entered in branches that have timed out.
func (f *followed) checkEnteredInTime(before, after *workflow.Execution, fork *workflow.StepRun, due time.Time) {
	for i := len(before.StepRuns); i < len(after.StepRuns); i++ {
		r := &after.StepRuns[i]
		if r.Forward() && in(after, r, fork) && r.EnteredAt.After(due.Add(2*f.Skew)) {
			f.Failf(lawTimeout, "%s enters step %s at %s in branches of step %s, which have timed out at %s", after.ID, r.Label, r.EnteredAt, fork.Label, due)
		}
	}
}

// in reports whether a step run was entered in a branch of another one.
func in(x *workflow.Execution, r, fork *workflow.StepRun) bool {
	for ; r != nil && r.In > 0; r = x.StepRunBySeq(r.In) {
		if r.In == fork.Seq {
			return true
		}
	}
	return false
}

// isLate reports whether the branches of a step have timed out, and one of them had not ended by
// then. The history says which; that has to fit when the last step in it ended.
func (f *followed) isLate(run *FlowRun, fork, branch, from int, over bool) bool {
	e := &run.Entered[fork]
	r, s := f.find(e.Label, e.Nth), f.definition.Find(e.Label)
	if r == nil || !f.timedOut[r.Seq] || f.retries.branches.fork == e.name() && f.retries.branches.index[branch] {
		return false
	}
	label := s.Parallel.Branches[branch].Label
	ended, last := f.ended[branchOf(r.Label, r.Ordinal, label)], r.EnteredAt
	for i := from; i < len(run.Entered); i++ {
		in := f.find(run.Entered[i].Label, run.Entered[i].Nth)
		if in == nil {
			continue
		}
		at := in.EndedAt
		if around := f.definition.Find(in.Label); around.IsContainer() || around.Parallel != nil {
			at = in.EnteredAt // it is over with the steps in it, whenever somebody sees that
		}
		if at.After(last) {
			last = at
		}
	}
	due := r.EnteredAt.Add(s.Parallel.Timeout)
	if !ended && over && last.Before(due.Add(-2*f.Skew)) || ended && last.After(due.Add(2*f.Skew)) {
		f.Failf(lawTimeout, "branch %s of step run %d of %s has ended: %v; its last step ended at %s, and it may go on until %s", label, r.Seq, f.x.ID, ended, last, due)
	}
	return !ended
}
