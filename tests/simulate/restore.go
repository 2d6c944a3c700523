package simulate

import (
	"container/heap"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/tests/simulate/workload"
)

// tables are what is set back, each by itself.
var tables = [4]sim.Table{sim.Executions, sim.Jobs, sim.Locked, sim.Published}

// drilled is how far the restore of a play has come.
type drilled struct {
	kept    [4]bool
	setBack []func()
	over    bool
}

// drill is what comes next of the restore, if the play has one.
func (w *world) drill() (at time.Duration, do func()) {
	d := w.play.Drill
	if d == nil || w.drilled.over {
		return 0, nil
	}
	at, do = d.At, w.restore
	for i, table := range tables {
		if !w.drilled.kept[i] && d.To[i] <= at {
			at, do = d.To[i], func() {
				w.drilled.kept[i] = true
				w.drilled.setBack = append(w.drilled.setBack, w.Keep(table), w.watch.Keep(table))
			}
		}
	}
	return at, do
}

// restore does what the runbook says: everything is stopped, the queues are purged,
// the tables are set back, and the engine begins anew with a floor of tokens that is
// greater than any that was given out.
func (w *world) restore() {
	d := w.play.Drill
	w.drilled.over = true
	var stopped []*process
	for _, p := range w.running {
		if p.late = d.Late && p.worker >= 0 && begun(p.task.Before()); !p.late {
			p.task.Kill()
			stopped = append(stopped, p)
		}
	}
	w.running = slices.DeleteFunc(w.running, func(p *process) bool { return !p.late })
	heap.Init(&w.running)
	for _, do := range w.drilled.setBack {
		do()
	}
	if !d.Keep {
		w.Lifecycle().Purge()
		w.MakePool("default").Purge()
	}
	w.Engine.Policy.Floor = w.Now().Unix()
	w.watch.Floor = w.Engine.Policy.Floor
	left := w.States(stage.Caller.Tenant)
	gone := func(id string) bool { _, ok := left[id]; return !ok }
	w.runs = slices.DeleteFunc(w.runs, gone)
	maps.DeleteFunc(w.answered, func(_, id string) bool { return gone(id) || w.unbound(id) })
	if w.tell != nil {
		w.tell("THE TABLES ARE RESTORED to about %s; %d runs are left, messages kept: %v, late workers: %d", d.To[0], len(left), d.Keep, len(w.running))
	}
	for _, p := range stopped {
		if p.ended != nil {
			p.ended(p)
		}
	}
	w.unscheduleAgain()
}

// unbound reports whether the tables may have kept a run and forgotten the request
// that it was started by: it was made in the second within which they were set back.
func (w *world) unbound(id string) bool {
	seconds, nanos := uuid.MustParse(id).Time().UnixTime()
	return time.Unix(seconds, nanos).After(w.begin.Add(slices.Min(w.play.Drill.To[:]) - time.Second))
}

// begun reports whether a worker that stands before a call has begun its pack.
func begun(call string) bool {
	return strings.HasPrefix(call, "block.") || call == "packs.extend" || call == "packs.finish" || call == "packs.add_done" || strings.HasPrefix(call, "board.")
}

// unscheduleAgain lets operators switch schedules off once more: the tables may
// have forgotten that they did.
func (w *world) unscheduleAgain() {
	for _, a := range workload.Draw(w.play.Seed).Acts {
		if a.Kind == workload.Schedule && a.At <= w.elapsed() {
			a.Kind, a.At, a.N = workload.Unschedule, w.elapsed()+3*time.Minute, 100+a.N
			w.acts = append(w.acts, a)
		}
	}
	slices.SortStableFunc(w.acts, func(a, b workload.Act) int { return int(a.At - b.At) })
}
