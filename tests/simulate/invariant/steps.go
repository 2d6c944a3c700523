package invariant

import (
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// The laws of step runs.
const (
	lawSteps    = "a step's next step is created once, after it"
	lawEnded    = "what has ended stays as it is"
	lawLost     = "no job is lost"
	lawRollback = "rollback is exactly the reverse of what was executed"
	lawUpdates  = "updates are applied before the locks are released"
)

// steps holds the step runs of a commit against those before it.
func (w *Watch) steps(before, after *workflow.Execution) {
	id := after.ID
	if len(after.Runs) < len(before.Runs) {
		w.Break(lawSteps, "%s: %d step runs became %d", id, len(before.Runs), len(after.Runs))
		return
	}
	for i := range before.Runs {
		old, now := &before.Runs[i], &after.Runs[i]
		if identity(old) != identity(now) || old.Jobs != now.Jobs || old.PackSize != now.PackSize {
			w.Break(lawSteps, "%s: step run %+v became %+v", id, *old, *now)
		}
		switch {
		case old.Status != sm.StepRunning && (now.Status != old.Status || tally(now) != tally(old)):
			w.Break(lawEnded, "%s: step run %d was %s with %s, and is %s with %s", id, old.RunSeq, old.Status, tally(old), now.Status, tally(now))
		case old.Status == sm.StepRunning && now.Status != sm.StepRunning:
			w.exited(after, now)
		case old.Closing && !now.Closing:
			w.Break(lawEnded, "%s: step run %d is not closing any more", id, old.RunSeq)
		}
	}
	for i := len(before.Runs); i < len(after.Runs); i++ {
		w.entered(after, i)
	}
}

type runIdentity struct {
	seq, try, step, visit, undoes, wave int
	kind                                workflow.JobKind
}

func identity(r *workflow.StepRun) runIdentity {
	return runIdentity{r.RunSeq, r.Try, r.Step, r.Visit, r.Undoes, r.Wave, r.Kind}
}

// entered wants a new step run to be new, and to come after all before it.
func (w *Watch) entered(after *workflow.Execution, i int) {
	id, now := after.ID, &after.Runs[i]
	if now.RunSeq > after.RunSeq || i > 0 && now.RunSeq <= after.Runs[i-1].RunSeq {
		w.Break(lawSteps, "%s: step run %d comes after step run %d, and the counter is %d", id, now.RunSeq, after.Runs[max(0, i-1)].RunSeq, after.RunSeq)
	}
	for j := range i {
		old := &after.Runs[j]
		one, other := identity(old), identity(now)
		if one.seq, other.seq = 0, 0; one == other && now.Kind != workflow.JobAcquire {
			w.Break(lawSteps, "%s: step %s is visited twice: %+v, %+v", id, now.Label, *old, *now)
		}
		working := old.Open() && (old.HasJobs() || old.Child != nil) && (now.HasJobs() || now.Child != nil)
		if working && (old.Stretch == 0 || old.Stretch != now.Stretch) {
			w.Break(lawSteps, "%s: step run %d of %s begins while step run %d of %s is open", id, now.RunSeq, now.Label, old.RunSeq, old.Label)
		}
		if now.Kind == workflow.JobRollback && old.Kind == workflow.JobRollback && old.Try == now.Try && old.Undoes <= now.Undoes {
			w.Break(lawRollback, "%s: step run %d is undone after step run %d", id, now.Undoes, old.Undoes)
		}
	}
	if now.Kind == workflow.JobRollback && now.Status == sm.StepRunning {
		executed := 0
		for _, rec := range w.latest(after, after.RunOf(now.Undoes)) {
			executed += count(rec.Executed())
		}
		if executed != now.Jobs {
			w.Break(lawRollback, "%s: %d jobs of step run %d were executed, %d are undone", id, executed, now.Undoes, now.Jobs)
		}
	}
}

// latest is what came of each job of a step run, by its packs: a later attempt
// counts, unless it was not executed.
func (w *Watch) latest(x *workflow.Execution, r *workflow.StepRun) map[int]workflow.JobRecord {
	packs := slices.Collect(maps.Values(w.packs[keyOf(x, r)]))
	slices.SortFunc(packs, func(a, b *workflow.Pack) int { return a.Key.Attempt - b.Key.Attempt })
	latest := map[int]workflow.JobRecord{}
	for _, p := range packs {
		for _, rec := range p.Jobs {
			if old, ok := latest[rec.Index]; ok && old.Executed() && !rec.Executed() {
				continue
			}
			latest[rec.Index] = rec
		}
	}
	return latest
}

func keyOf(x *workflow.Execution, r *workflow.StepRun) workflow.RunKey {
	return workflow.RunKey{Tenant: x.Tenant, Execution: x.ID, Visit: r.Visit, RunSeq: r.RunSeq}
}

// exited wants every job of a step run that has ended to be accounted for.
func (w *Watch) exited(x *workflow.Execution, now *workflow.StepRun) {
	if now.Kind == "" || now.Jobs == 0 {
		return
	}
	if now.Kind == workflow.JobAcquire && now.Status != sm.StepCompleted {
		return // given up by a run that ends before it has run: it changes nothing
	}
	for _, p := range w.packs[keyOf(x, now)] {
		if !p.Final() {
			w.Break(lawLost, "%s: step run %d has ended %s, and pack %s is %s", x.ID, now.RunSeq, now.Status, p.Key, p.State)
		}
	}
	var t workflow.Tally
	latest := w.latest(x, now)
	for i := range now.Jobs {
		rec, ok := latest[i]
		switch {
		case !ok && now.Stretch > 0:
			continue // skipped
		case !ok:
			w.Break(lawLost, "%s: step run %d has ended %s, and of job %d nothing is known", x.ID, now.RunSeq, now.Status, i)
		case rec.Code == workflow.CodeOK:
			t.OK++
		case rec.Code == workflow.CodeFail:
			t.Failed++
		case rec.Code == workflow.CodeUnknown:
			t.Unknown++
		default:
			t.NotExecuted++
		}
	}
	if n := now.Tally; n.OK != t.OK || n.Failed != t.Failed || n.Unknown != t.Unknown || n.NotExecuted != t.NotExecuted {
		w.Break(lawLost, "%s: step run %d has ended with %s; its packs say ok %d failed %d unknown %d not executed %d", x.ID, now.RunSeq, tally(now), t.OK, t.Failed, t.Unknown, t.NotExecuted)
	}
	if now.Status == sm.StepCompleted && now.Kind == workflow.JobExecute && now.Stretch == 0 && t.NotExecuted > 0 {
		w.Break(lawLost, "%s: step run %d has completed, and %d jobs were not executed", x.ID, now.RunSeq, t.NotExecuted)
	}
}

// ended holds the end of a run against what its devices have seen.
func (w *Watch) ended(r *run, before, after *workflow.Execution) {
	switch after.State {
	case sm.ExecutionFailedSafe:
		w.allUndone(r, after)
	case sm.ExecutionCancelledAck:
		if before.State == sm.ExecutionCancelled && after.Events[len(after.Events)-1].Type == string(sm.EventExecutionSettled) {
			w.allUndone(r, after) // by itself, without anybody having looked
		}
	case sm.ExecutionCompletedAck:
		w.updated(after)
	}
	if sm.Terminal(after.State) {
		for i := range after.Runs {
			if r := &after.Runs[i]; r.Open() {
				w.Break(lawEnded, "%s has ended in %s, and step run %d is open", after.ID, after.State, r.RunSeq)
			}
		}
	}
}

// allUndone wants everything that a device was told to do, other than by pure
// blocks, to have been undone.
func (w *Watch) allUndone(r *run, x *workflow.Execution) {
	for seq := range r.called {
		var undo *workflow.StepRun
		for i := range x.Runs {
			if u := &x.Runs[i]; u.Kind == workflow.JobRollback && u.Undoes == seq {
				undo = u
			}
		}
		if undo == nil || undo.Status != sm.StepCompleted {
			w.Break(lawRollback, "%s ended in %s, and step run %d, whose block was called, is not undone", x.ID, x.State, seq)
			return
		}
		for entity := range r.called[seq] {
			if !r.undone[seq][entity] {
				w.Break(lawRollback, "%s ended in %s, and what step run %d did to %q is not undone", x.ID, x.State, seq, entity)
			}
		}
	}
}

// updated wants the updates that the jobs of a completed run have asked for to
// stand in the inventory, under the run's tokens.
func (w *Watch) updated(x *workflow.Execution) {
	if w.Older(x.ID) {
		return // its packs may have been set back less
	}
	for i := range x.Runs {
		r := &x.Runs[i]
		if !r.Forward() || r.Kind == "" || r.Superseded != 0 || r.Jobs == 0 {
			continue
		}
		asks := false
		for _, rec := range w.latest(x, r) {
			asks = asks || rec.Code == workflow.CodeOK && len(rec.Updates) > 0
		}
		if asks && !x.Applied {
			w.Break(lawUpdates, "%s has ended, and what step run %d asks for is not applied", x.ID, r.RunSeq)
		}
	}
}
