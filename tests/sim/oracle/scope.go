package oracle

import (
	"maps"
	"reflect"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
)

func deviceKey(id string) workflow.EntityKey { return workflow.EntityKey{Type: "device", ID: id} }

// currentTry returns the current try.
func (x *execution) currentTry() *try { return x.tries[x.x.Try] }

// locksTaken is called when the execution has all its locks: it has the entities that it holds.
func (x *execution) locksTaken() {
	t := x.currentTry()
	t.entities, t.attributes, t.told = nil, map[string]map[string]any{}, nil
	for key, l := range x.locks {
		if _, held := HolderOf(l, x.x.ID, x.x.Epoch); held && !key.IsSlot() {
			t.entities = append(t.entities, key.ID)
		}
	}
	slices.Sort(t.entities)
	if total := x.x.Scope.Total(); x.program.definition.SkipsLocked && len(t.entities) > total {
		if x.leaveOutUnused(t, total); x.unjudged {
			return
		}
	}
	t.locked = t.entities
	must, may := x.expectedScope(t)
	t.places = slices.Sorted(maps.Keys(may))
	for id := range must {
		if !slices.Contains(t.entities, id) && !x.program.definition.SkipsLocked {
			x.Failf(lawScope, "%s has no lock of %s, which it was asked to change; it has %v", x.x.ID, id, t.entities)
		}
	}
	if missing := len(must) - len(t.entities); x.program.definition.SkipsLocked && x.x.DroppedCount < missing {
		x.Failf(lawScope, "%s has %v and says that it left out %d of %v", x.x.ID, t.entities, x.x.DroppedCount, t.places)
	}
	for _, id := range t.entities {
		if !may[id] {
			x.Failf(lawScope, "%s has locked %s, which nobody asked for; it may have %v", x.x.ID, id, t.places)
		}
		x.readAttributes(t, id)
	}
	if len(must) != len(may) { // which ones had places depends on the exact time of the lookup
		t.places = nil
		if x.x.DroppedCount == 0 {
			t.places = slices.Clone(t.entities)
		}
	}
}

// leaveOutUnused leaves out entities whose lock the execution has by accident: two handlers took
// locks at the same time, and the first to commit left out an entity that was free when the other
// came to it.
func (x *execution) leaveOutUnused(t *try, total int) {
	used := map[string]bool{}
	for _, e := range x.x.Scope.Inline {
		used[e.Key.ID] = true
	}
	t.entities = slices.DeleteFunc(t.entities, func(id string) bool { return !used[id] })
	x.unjudged = x.unjudged || len(t.entities) != total
}

// readAttributes sets the attributes that the execution has read of an entity under its lock: those
// of one of the versions since it began to lock. If there are several, the state item says which.
func (x *execution) readAttributes(t *try, id string) {
	possible := x.versions[id][t.since[id]:]
	at := slices.IndexFunc(x.x.Scope.Inline, func(e workflow.ScopeEntity) bool { return e.Key.ID == id })
	switch {
	case len(possible) == 1 && at < 0:
		t.attributes[id] = possible[0]
		return
	case at < 0:
		x.unjudged = true
		return
	}
	t.attributes[id], _ = decode(x.x.Scope.Inline[at].Attributes).(map[string]any)
	if !slices.ContainsFunc(possible, func(v map[string]any) bool { return reflect.DeepEqual(v, t.attributes[id]) }) {
		x.Failf(lawParameters, "%s has read %v of %s, which had %v since it began to lock", x.x.ID, t.attributes[id], id, possible)
	}
}

// expectedScope returns the entities that the execution must have, and those that it may have,
// because an entity may have started or stopped matching a query meanwhile.
func (x *execution) expectedScope(t *try) (must, may map[string]bool) {
	must, may = map[string]bool{}, map[string]bool{}
	for _, id := range x.request.Devices {
		must[id], may[id] = true, true
	}
	for _, a := range x.program.acquires {
		switch {
		case a.Block:
			for _, id := range x.acquired() {
				must[id], may[id] = true, true
			}
		case a.Group != "":
			for id := range x.versions {
				if slices.Contains(x.Groups(id), a.Group) {
					must[id], may[id] = true, true
				}
			}
		case a.Select != nil:
			for id, versions := range x.versions {
				matches := 0
				for _, v := range versions[t.since[id]:] {
					if is, _ := a.Select.True(entityValues(id, v)); is {
						matches++
					}
				}
				if matches > 0 {
					may[id] = true
				}
				if matches == len(versions)-t.since[id] {
					must[id] = true
				}
			}
		}
	}
	return must, may
}

// entityValues returns what an expression sees that reads only one entity.
func entityValues(id string, attributes map[string]any) defgen.Values {
	all := maps.Clone(attributes)
	if all == nil {
		all = map[string]any{}
	}
	all["id"], all["type"] = id, "device"
	return defgen.Values{Entity: all}
}

// acquired returns the entities that blocks have acquired in this try.
func (x *execution) acquired() (ids []string) {
	for i := range x.x.StepRuns {
		r := &x.x.StepRuns[i]
		if r.Kind != workflow.JobAcquire || r.Try != x.x.Try {
			continue
		}
		_, attempt := x.latest(r.Seq, 0)
		if c := x.calls[workflow.JobID(x.x.ID, r.Seq, 0, attempt)]; c != nil {
			ids = append(ids, c.Acquired...)
		}
	}
	return ids
}

// startedByParent sets what a step of another execution has started this one with; ok is false if
// that is unknown.
func (x *execution) startedByParent(p *workflow.Parent) (ok bool) {
	parent := x.executions[p.Execution]
	if parent == nil || parent.unjudged {
		return false
	}
	r := parent.x.StepRunBySeq(p.StepRunSeq)
	if r == nil {
		return false
	}
	n := parent.program.find(r.Label)
	ref, isReference := parent.program.nodes[n].Body.(*defgen.Reference)
	if !isReference {
		x.Failf(lawOrder, "%s was started by step %s of %s, which starts none", x.x.ID, r.Label, p.Execution)
		return false
	}
	job, planned := parent.planOf(r).jobs[0]
	if !planned {
		x.Failf(lawTakesPart, "%s was started by step %s of %s, which has no part to play", x.x.ID, r.Label, p.Execution)
		return false
	}
	x.request = Request{Devices: []string{ref.Device}, Parameters: job.parameters}
	if got := decode(x.x.Input.Parameters); !x.x.Input.Offloaded && !sameParameters(got, job.parameters) {
		x.Failf(lawParameters, "%s was started by step %s of %s with %v, want %v", x.x.ID, r.Label, p.Execution, got, job.parameters)
	}
	return true
}

// followTries follows the beginnings of tries.
func (x *execution) followTries(before, after *workflow.Execution) {
	if after.Try != before.Try && before.Try > 0 {
		x.beginTry(before, after)
	}
	if after.State != before.State && after.State == "LOCKING" {
		// Anything read under the locks is at least as new as this.
		t := x.currentTry()
		lookedUp := t.since
		t.since = x.present()
		if len(x.program.acquires) > 0 {
			t.since = lookedUp
		}
	}
}

// beginTry begins a try as its event says. A try in place is about the entities that are kept.
func (x *execution) beginTry(before, after *workflow.Execution) {
	t := &try{since: x.presentAt(x.KnownSince)}
	for _, e := range after.Events {
		data, _ := decode(e.Data).(map[string]any)
		if e.Sequence <= before.Sequence || data["try"] != float64(after.Try) {
			continue
		}
		label, _ := data["from"].(string)
		if to, back := data["to"].(string); back {
			label = to // it was rewound, under its locks
		}
		t.from, t.onlyFailed = x.program.find(label), data["entities"] == "failed"
	}
	old := x.tries[before.Try]
	if t.rollsBack = triesRollback(before, after); !t.rollsBack {
		x.x = before
		t.begin = x.beginsAt(t.from, before.StepRuns)
	} else if old != nil {
		t.from, t.onlyFailed, t.begin = old.from, old.onlyFailed, old.begin
	}
	x.x, x.tries[after.Try] = after, t
	if old == nil {
		x.unjudged = true
		return
	}
	if after.Scope.HeldEpoch == after.Epoch && after.Epoch == before.Epoch && after.State != "READY" {
		t.places = old.places // those kept before, because the same write may end the try and keep fewer
		if t.places == nil && before.Kept != nil {
			x.unjudged = true
			return
		}
		t.attributes, t.locked, t.told = old.attributes, old.locked, toldOf(before, t.places)
		for _, id := range old.entities {
			if before.Kept == nil || before.Kept.Contains(slices.Index(t.places, id)+1) {
				t.entities = append(t.entities, id)
			}
		}
	}
	if !t.rollsBack {
		x.flow.beginTry(x, t)
	}
}

// triesRollback reports whether a commit begins a try that executes no step, but undoes what is
// left after a failed rollback.
func triesRollback(before, after *workflow.Execution) bool {
	for _, e := range after.Events {
		if e.Sequence > before.Sequence && sm.Event(e.Type) == sm.EventExecutionRetried {
			return e.To == string(sm.ExecutionRollback)
		}
	}
	return false
}
