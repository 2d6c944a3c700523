package simulator

import (
	"container/heap"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// tables are the tables, which are restored one by one.
var tables = [4]sim.Table{sim.ExecutionsTable, sim.JobsTable, sim.LocksTable, sim.RegistryTable}

// restoreProgress is the progress of a restore.
type restoreProgress struct {
	captured      [4]bool
	restoreTables []func()
	done          bool
}

// nextRestoreStep returns the next step of the restore, if the scenario has one.
func (w *simulation) nextRestoreStep() (at time.Duration, do func()) {
	d := w.scenario.RestoreDrill
	if d == nil || w.restoreProgress.done {
		return 0, nil
	}
	at, do = d.At, w.restoreTables
	for i, table := range tables {
		if !w.restoreProgress.captured[i] && d.RestoreTo[i] <= at {
			at, do = d.RestoreTo[i], func() {
				w.restoreProgress.captured[i] = true
				w.restoreProgress.restoreTables = append(w.restoreProgress.restoreTables, w.Snapshot(table), w.checker.Snapshot(table))
			}
		}
	}
	return at, do
}

// restoreTables follows the runbook: it stops all processes, purges the queues, restores the
// tables, and continues with a minimum fencing token greater than any token before.
func (w *simulation) restoreTables() {
	d := w.scenario.RestoreDrill
	w.restoreProgress.done = true
	var stopped []*process
	for _, p := range w.running {
		if p.outlivedRestore = d.LateWorkers && p.worker >= 0 && hasBegunPack(p.task.NextCall()); !p.outlivedRestore {
			p.task.Kill()
			stopped = append(stopped, p)
		}
	}
	w.running = slices.DeleteFunc(w.running, func(p *process) bool { return !p.outlivedRestore })
	heap.Init(&w.running)
	for _, do := range w.restoreProgress.restoreTables {
		do()
	}
	w.plans.Forget(w.presentAttributes())
	if !d.KeepMessages {
		w.LifecycleQueue().Purge()
		w.PoolQueue("default").Purge()
		w.purgeEnds()
	}
	w.Engine.Policy.MinFencingToken = w.Now().Unix()
	w.checker.MinFencingToken = w.Engine.Policy.MinFencingToken
	remaining := w.States(harness.Caller.Tenant)
	isGone := func(id string) bool { _, ok := remaining[id]; return !ok }
	w.executions = slices.DeleteFunc(w.executions, isGone)
	maps.DeleteFunc(w.executionByRequest, func(_, id string) bool { return isGone(id) || w.bindingMayBeLost(id) })
	if w.trace != nil {
		w.trace("THE TABLES ARE RESTORED to about %s; %d executions remain, messages kept: %v, late workers: %d", d.RestoreTo[0], len(remaining), d.KeepMessages, len(w.running))
	}
	for _, p := range stopped {
		if p.onEnd != nil {
			p.onEnd(p)
		}
	}
	w.repeatUnschedules()
}

// bindingMayBeLost reports whether the restored tables may have an execution but not the
// idempotency key of its request, because it was started in the second to which they were restored.
func (w *simulation) bindingMayBeLost(id string) bool {
	seconds, nanos := uuid.MustParse(id).Time().UnixTime()
	return time.Unix(seconds, nanos).After(w.startedAt.Add(slices.Min(w.scenario.RestoreDrill.RestoreTo[:]) - time.Second))
}

// hasBegunPack reports whether a worker that is paused before a call has begun its pack.
func hasBegunPack(call string) bool {
	return strings.HasPrefix(call, "block.") || call == "packs.extend" || call == "packs.finish" || call == "packs.add_done" || strings.HasPrefix(call, "sender.")
}

// repeatUnschedules removes schedules again, because the restored tables may still have them.
func (w *simulation) repeatUnschedules() {
	for _, a := range newScenario(w.scenario.Seed).Actions {
		if a.Kind == actionSchedule && a.At <= w.elapsed() {
			a.Kind, a.At, a.Number = actionUnschedule, w.elapsed()+3*time.Minute, 100+a.Number
			w.actions = append(w.actions, a)
		}
	}
	slices.SortStableFunc(w.actions, func(a, b action) int { return int(a.At - b.At) })
}
