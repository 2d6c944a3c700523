package invariant

import (
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Keep notes what is known of one table now, and returns what sets it back to that.
// What devices have seen is never set back.
func (w *Watch) Keep(t sim.Table) (setBack func()) {
	switch t {
	case sim.Executions:
		kept := map[string]*run{}
		for id, r := range w.runs {
			c := *r
			c.events, c.asked, c.older = slices.Clone(r.events), maps.Clone(r.asked), true
			c.called, c.undone = deep(r.called), deep(r.undone)
			kept[id] = &c
		}
		return func() {
			w.runs, w.resting, w.rolling = kept, 0, nil
			for _, r := range kept {
				w.resting += count(Rests(r.x.State))
			}
		}
	case sim.Jobs:
		packs, calls := map[workflow.RunKey]map[workflow.PackKey]*workflow.Pack{}, map[string]int{}
		for key, all := range w.packs {
			packs[key] = maps.Clone(all)
		}
		for job, all := range w.calls {
			calls[job] = len(all)
		}
		return func() {
			w.packs = packs
			for job, all := range w.calls {
				w.forgotten[job] = w.forgotten[job] || len(all) > calls[job]
			}
		}
	case sim.Locked:
		locks := maps.Clone(w.locks)
		return func() { w.locks = locks }
	}
	return func() {}
}

func deep(of map[int]map[string]bool) map[int]map[string]bool {
	c := map[int]map[string]bool{}
	for n, all := range of {
		c[n] = maps.Clone(all)
	}
	return c
}

// Older reports whether a run is from before the tables were restored.
func (w *Watch) Older(id string) bool { return w.runs[id] != nil && w.runs[id].older }
