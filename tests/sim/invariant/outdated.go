package invariant

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
	"github.com/lockstep-run/lockstep/tests/sim/oracle"
)

const invOutdated = "a try that is not forced uses no results of entities that others have changed since"

// holding records that an execution was granted the lock of an entity.
type holding struct {
	execution string
	exclusive bool
}

// grant is what an execution found when it got its locks.
type grant struct {
	try       int
	forced    bool
	changedBy map[workflow.EntityKey]string // who has changed entities since it held them last
}

// recordHolders records who holds which entity once an execution has all of its locks. It also
// records which of these entities others have held exclusively, and have changed something, since
// the execution held them last.
func (w *Checker) recordHolders(r *executionState, before, after *workflow.Execution) {
	if after.Scope.HeldEpoch == 0 || after.Scope.HeldEpoch == before.Scope.HeldEpoch || !gotLocks(before, after) {
		return
	}
	r.grant = grant{try: after.Try, forced: wasForced(r), changedBy: map[workflow.EntityKey]string{}}
	for key, l := range w.locks {
		if _, holds := oracle.HolderOf(l, after.ID, after.Epoch); !holds || key.IsSlot() {
			continue
		}
		all := w.held[key]
		own := -1
		for i := range all {
			if all[i].execution == after.ID {
				own = i
			}
		}
		for _, h := range all[own+1:] {
			if own >= 0 && h.exclusive && w.hasChanged(h.execution) {
				r.grant.changedBy[key] = h.execution
			}
		}
		w.held[key] = append(all, holding{after.ID, l.Owner == after.ID})
	}
}

// hasChanged reports whether an execution has executed a step that is not pure.
func (w *Checker) hasChanged(id string) bool {
	x := w.ExecutionByID(id)
	return x == nil || slices.ContainsFunc(x.StepRuns, func(r workflow.StepRun) bool { return r.HasJobs() && !r.Pure })
}

// checkOutdated judges a try that nobody has forced. It must not call a block for an entity that
// another execution has changed since, if it keeps the result of an earlier try for it: a job that
// ended OK, in a step run that neither another try nor this call makes again, and that no rollback
// has touched.
func (w *Checker) checkOutdated(r *executionState, c harness.BlockCall, seq int) {
	key := workflow.EntityKey{Type: "device", ID: c.Entity}
	by, called := r.grant.changedBy[key], r.x.StepRunBySeq(seq)
	if by == "" || r.grant.forced || w.MinFencingToken > 0 || called.Try < r.grant.try {
		return
	}
	for i := range r.x.StepRuns {
		o := &r.x.StepRuns[i]
		if o.Kind != workflow.JobExecute || o.Try >= r.grant.try || o.SupersededBy > 0 || w.wasMadeAgain(r, o, called) || w.wasTouched(r, o, key) {
			continue
		}
		for index, rec := range w.latestRecords(r.x, o) {
			if rec.Code == workflow.JobCodeOK && w.isJobOf(r.x, o, index, c.Entity) {
				w.Failf(invOutdated, "%s calls step %s for %s in try %d, and keeps the result of step run %d; %s has changed it since", r.x.ID, c.Step, key, r.x.Try, o.Seq, by)
			}
		}
	}
}

// wasMadeAgain reports whether the current try has executed the step of a step run again, or does
// so with a call. Whoever is called behind that has a job in it.
func (w *Checker) wasMadeAgain(r *executionState, o, called *workflow.StepRun) bool {
	return slices.ContainsFunc(r.x.StepRuns, func(a workflow.StepRun) bool {
		return a.Kind == workflow.JobExecute && a.Try >= r.grant.try && a.Seq <= called.Seq && a.StepIndex == o.StepIndex && r.x.SameRound(&a, o) && (a.Seq == called.Seq || a.Jobs > 0)
	})
}

// wasForced reports whether an operator has forced the last retry of an execution.
func wasForced(r *executionState) bool {
	for _, e := range slices.Backward(r.events) {
		if e.Type == string(sm.EventExecutionRetried) {
			return strings.Contains(string(e.Data), `"force":true`)
		}
	}
	return false
}

// isJobOf reports whether a job of a step run was called for an entity.
func (w *Checker) isJobOf(x *workflow.Execution, r *workflow.StepRun, index int, entity string) bool {
	for attempt := 1; ; attempt++ {
		calls := w.calls[workflow.JobID(x.ID, r.Seq, index, attempt)]
		if len(calls) == 0 {
			return false
		}
		if calls[0].Entity == entity {
			return true
		}
	}
}

// wasTouched reports whether a rollback of a step run was called for an entity.
func (w *Checker) wasTouched(r *executionState, o *workflow.StepRun, key workflow.EntityKey) bool {
	for i := range r.x.StepRuns {
		u := &r.x.StepRuns[i]
		if u.Undoes != o.Seq {
			continue
		}
		for job, calls := range w.calls {
			if strings.HasPrefix(job, fmt.Sprintf("%s.%d.", r.x.ID, u.Seq)) && len(calls) > 0 && calls[0].Entity == key.ID {
				return true
			}
		}
	}
	return false
}
