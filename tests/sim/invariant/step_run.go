package invariant

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/oracle"
)

// The invariants of step runs.
const (
	invStepRunOrder    = "a step run is created once, after its predecessor"
	invEndedImmutable  = "an ended step run never changes"
	invNoJobLost       = "no job is lost"
	invRollbackReverse = "a rollback undoes exactly what was executed, in reverse"
	invSafe            = "an execution is told as safe only if nothing remains of what it has executed"
	invEntitiesTold    = "an entity is told as safe only if nothing remains of what was executed on it"
	invUpdatesApplied  = "updates are applied before the locks are released"
)

// checkStepRuns compares the step runs of a commit with those of the commit before.
func (w *Checker) checkStepRuns(before, after *workflow.Execution) {
	id := after.ID
	if len(after.StepRuns) < len(before.StepRuns) {
		w.Failf(invStepRunOrder, "%s: %d step runs became %d", id, len(before.StepRuns), len(after.StepRuns))
		return
	}
	for i := range before.StepRuns {
		old, now := &before.StepRuns[i], &after.StepRuns[i]
		if identity(old) != identity(now) || old.Jobs != now.Jobs || old.PackSize != now.PackSize {
			w.Failf(invStepRunOrder, "%s: step run %+v became %+v", id, *old, *now)
		}
		switch {
		case before.Cause == workflow.CauseInternal && before.State == sm.ExecutionFailedUnsafe:
			// An operator has made it find out what its jobs have done; that was impossible when it
			// was broken.
		case old.Status != sm.StepRunning && (now.Status != old.Status || formatCounts(now) != formatCounts(old)):
			w.Failf(invEndedImmutable, "%s: step run %d was %s with %s, but is now %s with %s", id, old.Seq, old.Status, formatCounts(old), now.Status, formatCounts(now))
		case old.Status == sm.StepRunning && now.Status != sm.StepRunning:
			w.checkEndedStepRun(after, now)
		case old.Closing && !now.Closing:
			w.Failf(invEndedImmutable, "%s: step run %d is no longer closing", id, old.Seq)
		}
	}
	for i := len(before.StepRuns); i < len(after.StepRuns); i++ {
		w.checkNewStepRun(after, i)
	}
}

type stepRunIdentity struct {
	seq, try, step, ordinal, undoes, wave int
	kind                                  workflow.JobKind
}

func identity(r *workflow.StepRun) stepRunIdentity {
	return stepRunIdentity{r.Seq, r.Try, r.StepIndex, r.Ordinal, r.Undoes, r.Wave, r.Kind}
}

// checkNewStepRun requires that a new step run was not created before and that its
// predecessors have ended.
func (w *Checker) checkNewStepRun(after *workflow.Execution, i int) {
	id, now := after.ID, &after.StepRuns[i]
	if now.Seq > after.StepRunSeq || i > 0 && now.Seq <= after.StepRuns[i-1].Seq {
		w.Failf(invStepRunOrder, "%s: step run %d follows step run %d, and the counter is %d", id, now.Seq, after.StepRuns[max(0, i-1)].Seq, after.StepRunSeq)
	}
	for j := range i {
		old := &after.StepRuns[j]
		one, other := identity(old), identity(now)
		if one.seq, other.seq = 0, 0; one == other && now.Kind != workflow.JobAcquire {
			w.Failf(invStepRunOrder, "%s: step %s has two equal step runs: %+v, %+v", id, now.Label, *old, *now)
		}
		working := old.Open() && (old.HasJobs() || old.Child != nil) && (now.HasJobs() || now.Child != nil)
		if working && (old.Pipeline == 0 || old.Pipeline != now.Pipeline) && !sideBySide(after, old, now) {
			w.Failf(invStepRunOrder, "%s: step run %d of %s begins while step run %d of %s is open", id, now.Seq, now.Label, old.Seq, old.Label)
		}
		if now.Kind == workflow.JobRollback && old.Kind == workflow.JobRollback && old.Try == now.Try && old.Undoes <= now.Undoes {
			w.Failf(invRollbackReverse, "%s: step run %d is undone after step run %d", id, now.Undoes, old.Undoes)
		}
	}
	if now.Kind == workflow.JobRollback && now.Status == sm.StepRunning {
		executed := 0
		for _, rec := range w.latestRecords(after, after.StepRunBySeq(now.Undoes)) {
			executed += boolToInt(oracle.Executed(rec))
		}
		for j := range i { // a rollback that is tried again leaves out what it has undone
			if old := &after.StepRuns[j]; old.Undoes == now.Undoes && old.Try < now.Try {
				executed -= old.Counts.OK
			}
		}
		some := after.Scope.Only != nil || slices.ContainsFunc(after.StepRuns, func(u workflow.StepRun) bool { return u.Undoes == now.Undoes && u.Only != nil })
		if executed != now.Jobs && !some || now.Jobs > executed {
			w.Failf(invRollbackReverse, "%s: %d jobs of step run %d were executed, but %d are undone", id, executed, now.Undoes, now.Jobs)
		}
	}
}

// sideBySide reports whether two step runs are in different branches of one step run.
func sideBySide(x *workflow.Execution, a, b *workflow.StepRun) bool {
	for at := a; at != nil && at.In > 0; at = x.StepRunBySeq(at.In) {
		for other := b; other != nil && other.In > 0; other = x.StepRunBySeq(other.In) {
			if around := x.StepRunBySeq(at.In); at.In == other.In && at.Index != other.Index && around != nil && around.Times == 0 {
				return true
			}
		}
	}
	return false
}

// latestRecords returns the outcome of each job of a step run from its packs. The last
// attempt counts, unless it was not executed.
func (w *Checker) latestRecords(x *workflow.Execution, r *workflow.StepRun) map[int]workflow.JobRecord {
	packs := slices.Collect(maps.Values(w.packs[stepRunKey(x, r)]))
	slices.SortFunc(packs, func(a, b *workflow.Pack) int { return a.Key.Attempt - b.Key.Attempt })
	latest := map[int]workflow.JobRecord{}
	for _, p := range packs {
		for _, rec := range p.Jobs {
			if old, ok := latest[rec.Index]; ok && oracle.Executed(old) && !oracle.Executed(rec) {
				continue
			}
			latest[rec.Index] = rec
		}
	}
	return latest
}

func stepRunKey(x *workflow.Execution, r *workflow.StepRun) workflow.StepRunKey {
	return workflow.StepRunKey{Tenant: x.Tenant, Execution: x.ID, Ordinal: r.Ordinal, Seq: r.Seq}
}

// checkEndedStepRun requires that the outcome of every job of an ended step run is counted.
func (w *Checker) checkEndedStepRun(x *workflow.Execution, now *workflow.StepRun) {
	if now.Kind == "" || now.Jobs == 0 {
		return
	}
	if x.Cause == workflow.CauseInternal && x.State == sm.ExecutionFailedUnsafe {
		return // it was broken because its packs could not be read or written: a person looks at all of its entities
	}
	if now.Kind == workflow.JobAcquire && now.Status != sm.StepCompleted {
		return // abandoned by an execution that ends before it; it changes nothing
	}
	for _, p := range w.packs[stepRunKey(x, now)] {
		if !oracle.Final(p) {
			w.Failf(invNoJobLost, "%s: step run %d has ended %s, but pack %s is %s", x.ID, now.Seq, now.Status, p.Key, p.State)
		}
	}
	var t workflow.Counts
	latest := w.latestRecords(x, now)
	for i := range now.Jobs {
		rec, ok := latest[i]
		switch {
		case !ok && now.Pipeline > 0:
			continue // skipped
		case !ok:
			w.Failf(invNoJobLost, "%s: step run %d has ended %s, but job %d has no record", x.ID, now.Seq, now.Status, i)
		case rec.Code == workflow.JobCodeOK:
			t.OK++
		case rec.Code == workflow.JobCodeFail:
			t.Failed++
		case rec.Code == workflow.JobCodeUnknown:
			t.Unknown++
		default:
			t.NotExecuted++
		}
	}
	if n := now.Counts; n.OK != t.OK || n.Failed != t.Failed || n.Unknown != t.Unknown || n.NotExecuted != t.NotExecuted {
		w.Failf(invNoJobLost, "%s: step run %d has ended with %s; its packs have ok %d failed %d unknown %d not executed %d", x.ID, now.Seq, formatCounts(now), t.OK, t.Failed, t.Unknown, t.NotExecuted)
	}
	if now.Status == sm.StepCompleted && now.Kind == workflow.JobExecute && now.Pipeline == 0 && t.NotExecuted > 0 {
		w.Failf(invNoJobLost, "%s: step run %d has completed, but %d jobs were not executed", x.ID, now.Seq, t.NotExecuted)
	}
}

// checkEndedExecution compares the end of an execution with the calls of its devices.
func (w *Checker) checkEndedExecution(r *executionState, before, after *workflow.Execution) {
	for _, e := range after.Events { // a commit may contain several transitions
		if e.Sequence <= before.Sequence || e.Layer != string(sm.LayerExecution) {
			continue
		}
		switch sm.ExecutionState(e.To) {
		case sm.ExecutionFailedSafe:
			w.checkAllUndone(r, after, sm.ExecutionFailedSafe)
		case sm.ExecutionCancelledAck:
			if e.Type == string(sm.EventExecutionSettled) {
				w.checkAllUndone(r, after, sm.ExecutionCancelled) // acknowledged by the engine, not by an operator
			}
		}
	}
	if after.State == sm.ExecutionCompletedAck {
		w.checkUpdatesApplied(after)
	}
	w.checkEntities(r, before, after)
	if oracle.Terminal(after.State) {
		for i := range after.StepRuns {
			if r := &after.StepRuns[i]; r.Open() {
				w.Failf(invEndedImmutable, "%s has ended in %s, but step run %d is open", after.ID, after.State, r.Seq)
			}
		}
	}
}

// checkAllUndone requires that every call of a device has been undone, in whatever try, except
// calls of pure blocks and calls for entities that an operator has released.
func (w *Checker) checkAllUndone(r *executionState, x *workflow.Execution, end sm.ExecutionState) {
	if w.PredatesRestore(x.ID) {
		return
	}
	const global = ""
	mine := map[string]bool{global: true} // the entities of the last try, if it was only about some; large scopes are not known here
	for i := range x.Scope.Inline {
		e := &x.Scope.Inline[i]
		mine[e.Key.ID] = x.Scope.Only != nil && x.Scope.Only.Contains(cmp.Or(e.Place, i+1))
	}
	for seq := range r.executedJobs {
		for entity := range r.executedJobs[seq] {
			if !r.undoneJobs[seq][entity] && (x.Scope.Only == nil || mine[entity]) {
				w.Failf(invSafe, "%s ended in %s, but what step run %d did to %q is not undone", x.ID, end, seq, entity)
			}
		}
	}
}

// checkEntities requires that an entity is reported as safe only if nothing remains of what was
// executed on it, and that an entity of which something remains is kept when the whole execution
// fails. It looks at the calls that the devices have seen, and only at scopes small enough to be in
// the state item.
func (w *Checker) checkEntities(r *executionState, before, after *workflow.Execution) {
	if oracle.Terminal(before.State) || !oracle.Terminal(after.State) || w.PredatesRestore(after.ID) {
		return
	}
	from := sm.ExecutionState(after.Events[len(after.Events)-1].From) // a commit may contain several transitions
	wholeFails := from == sm.ExecutionError || from == sm.ExecutionRollback && after.Undo == nil
	for i := range after.Scope.Inline {
		e := &after.Scope.Inline[i]
		place := cmp.Or(e.Place, i+1)
		if only := after.Scope.Only; only != nil && !only.Contains(place) {
			continue
		}
		remains := 0
		for seq, entities := range r.executedJobs {
			if entities[e.Key.ID] && !r.undoneJobs[seq][e.Key.ID] {
				remains = seq
			}
		}
		outcome, known := after.EntityOutcome(place)
		if !known {
			continue
		}
		kept := after.Kept == nil || after.Kept.Contains(place)
		switch {
		case remains == 0:
		case outcome == workflow.EntityFailedSafe || outcome == workflow.EntitySkipped:
			w.Failf(invEntitiesTold, "%s tells %s as %s, but what step run %d did to it remains", after.ID, e.Key, outcome, remains)
		case after.State == sm.ExecutionFailedUnsafe && wholeFails && !kept:
			w.Failf(invEntitiesTold, "%s ended in %s and released %s, but what step run %d did to it remains", after.ID, after.State, e.Key, remains)
		case outcome == workflow.EntityFailedUnsafe && !kept:
			w.Failf(invEntitiesTold, "%s released %s, which it tells as %s", after.ID, e.Key, outcome)
		}
	}
}

// checkUpdatesApplied requires that a completed execution has applied the updates that its jobs
// return.
func (w *Checker) checkUpdatesApplied(x *workflow.Execution) {
	if w.PredatesRestore(x.ID) || x.Probe || x.LockMode == workflow.LockShared {
		return // its packs may have been restored to a later time; probes and executions that share their locks apply none
	}
	for i := range x.StepRuns {
		r := &x.StepRuns[i]
		if !r.Forward() || r.Kind == "" || r.SupersededBy != 0 || r.Jobs == 0 {
			continue
		}
		hasUpdates := false
		for _, rec := range w.latestRecords(x, r) {
			hasUpdates = hasUpdates || rec.Code == workflow.JobCodeOK && len(rec.Updates) > 0
		}
		if hasUpdates && !x.UpdatesApplied {
			w.Failf(invUpdatesApplied, "%s has ended, but the updates of step run %d are not applied", x.ID, r.Seq)
		}
	}
}
