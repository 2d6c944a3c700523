package invariant

import (
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim"
)

// Snapshot notes what is known of one table now, and returns what sets it back to that.
// What devices have seen is never set back.
func (w *Checker) Snapshot(t sim.Table) (restore func()) {
	switch t {
	case sim.ExecutionsTable:
		kept := map[string]*executionState{}
		for id, r := range w.executions {
			c := *r
			c.events, c.reservationSeen, c.predatesRestore = slices.Clone(r.events), maps.Clone(r.reservationSeen), true
			c.executedJobs, c.undoneJobs = cloneNested(r.executedJobs), cloneNested(r.undoneJobs)
			kept[id] = &c
		}
		return func() {
			w.executions, w.awaitingOperator, w.newRollbacks = kept, 0, nil
			for _, r := range kept {
				w.awaitingOperator += boolToInt(AwaitsOperator(r.x.State))
			}
		}
	case sim.JobsTable:
		packs, calls := map[workflow.StepRunKey]map[workflow.PackKey]*workflow.Pack{}, map[string]int{}
		for key, all := range w.packs {
			packs[key] = maps.Clone(all)
		}
		for job, all := range w.calls {
			calls[job] = len(all)
		}
		return func() {
			w.packs = packs
			for job, all := range w.calls {
				w.forgottenJobs[job] = w.forgottenJobs[job] || len(all) > calls[job]
			}
		}
	case sim.LocksTable:
		locks := maps.Clone(w.locks)
		return func() { w.locks = locks }
	}
	return func() {}
}

func cloneNested(of map[int]map[string]bool) map[int]map[string]bool {
	c := map[int]map[string]bool{}
	for n, all := range of {
		c[n] = maps.Clone(all)
	}
	return c
}

// PredatesRestore reports whether a run is from before the tables were restored.
func (w *Checker) PredatesRestore(id string) bool {
	return w.executions[id] != nil && w.executions[id].predatesRestore
}
