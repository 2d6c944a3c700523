package oracle

import (
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// The laws about limits.
const (
	lawChildren = "no more children of a set are at work than its step says"
	lawLive     = "no more executions are live than their definition says"
	lawRate     = "executions begin no more often than their definition says"
	lawPaces    = "the jobs of a step begin no faster than its pace"
)

// staysLive reports whether an execution counts as live: from the time at which it has its locks
// until it has ended and, if it has failed or was cancelled, somebody has acknowledged that. An
// execution that is cancelled, or fails, before it has its locks never counts.
func (x *execution) staysLive(after *workflow.Execution) bool {
	if !HoldsLocks(after.State) || after.State == sm.ExecutionLocking || after.Unlocked {
		return false
	}
	return x.live || after.State != sm.ExecutionCancelling && after.State != sm.ExecutionError
}

// checkLimits judges a write of the state item of an execution whose definition has limits.
func (x *execution) checkLimits(before, after *workflow.Execution) {
	limits := x.program.definition.Limits
	if limits == nil {
		return
	}
	was := x.live
	if x.live = x.staysLive(after); limits.Live > 0 && !after.Probe && x.live && !was {
		live := 0
		for _, o := range x.sharingLimits() {
			if o.live && !o.x.Probe {
				live++
			}
		}
		if live > limits.Live {
			x.Failf(lawLive, "%s is %s, and %d are live of %s", after.ID, after.State, live, after.Workflow)
		}
	}
	if limits.Starts == 0 || after.Probe {
		return
	}
	if before.RateAt.IsZero() && !after.RateAt.IsZero() {
		var begin []time.Time
		for _, o := range x.sharingLimits() {
			if !o.x.RateAt.IsZero() {
				begin = append(begin, o.x.RateAt)
			}
		}
		slices.SortFunc(begin, time.Time.Compare)
		for from := range begin {
			for to := from; to < len(begin); to++ {
				took := begin[to].Sub(begin[from]) + 2*x.Skew + time.Millisecond
				if most := limits.Starts + int(took/limits.Each()); to-from+1 > most {
					x.Failf(lawRate, "%d executions of %s may begin within %s, and at most %d should", to-from+1, after.Workflow, took, most)
				}
			}
		}
	}
	for _, e := range after.Events {
		x.begunBy = x.begunBy || e.Sequence > before.Sequence && e.Actor != "" && sm.Event(e.Type) == sm.EventExecutionReady
	}
	if before.Epoch == 0 && after.Epoch > 0 && !x.begunBy && (after.RateAt.IsZero() || x.Now.Before(after.RateAt.Add(-2*x.Skew))) {
		x.Failf(lawRate, "%s begins at %s, and may from %s on", after.ID, x.Now, after.RateAt)
	}
}

// sharingLimits returns the executions that count for the limits of one, including itself.
func (x *execution) sharingLimits() (all []*execution) {
	for _, o := range x.executions {
		if o.program.definition == x.program.definition && !o.forgotten && (!x.program.definition.Limits.ByKey || o.request.Parameters["n"] == x.request.Parameters["n"]) {
			all = append(all, o)
		}
	}
	return all
}

// checkPace requires that the first attempt of a job begins no earlier than the pace of its step
// allows. Queues delay messages with a precision of about a second.
func (x *execution) checkPace(r *workflow.StepRun, index int) {
	n := x.program.find(r.Label)
	if n < 0 || x.program.nodes[n].Pace == 0 {
		return
	}
	if earliest := x.enteredAt[r.Seq].Add(time.Duration(index) * x.program.nodes[n].Pace); x.Now.Before(earliest.Add(-2*x.Skew - time.Second)) {
		x.Failf(lawPaces, "job %d of step run %d of %s begins at %s, and may from %s on", index, r.Seq, x.x.ID, x.Now, earliest)
	}
}

// checkChildren requires that no more children of a set, of which one was written, run at a time
// than its step says. A child that an operator retries may run in addition.
func (x *execution) checkChildren(child *workflow.Execution) {
	if child.Parent == nil || x.executions[child.Parent.Execution] == nil {
		return
	}
	parent := x.executions[child.Parent.Execution]
	r := parent.x.StepRunBySeq(child.Parent.StepRunSeq)
	if r == nil || parent.forgotten {
		return
	}
	most, atWork := parent.program.definition.ChildrenAtWork(r.Label), 0
	for _, o := range x.executions {
		if p := o.x.Parent; p != nil && p.Execution == parent.x.ID && p.StepRunSeq == r.Seq && o.x.Try <= 1 && !Terminal(o.x.State) {
			atWork++
		}
	}
	if most > 0 && atWork > most {
		x.Failf(lawChildren, "%d children of step run %d of %s are at work, and %d may be", atWork, r.Seq, parent.x.ID, most)
	}
}
