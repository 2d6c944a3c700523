package oracle

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
)

// lawFollowUps is the law about what the ends of executions start.
const lawFollowUps = "an end starts what its definition says, once, and tells it of that end"

// maxDepth is how many executions start each other in a row at most.
const maxDepth = 10

// end is one end of an execution at which its definition starts another.
type end struct {
	*defgen.FollowUp
	x        *workflow.Execution // as it was then
	sequence int64               // of the event
	try      int
	at       time.Time
	state    string
	started  string // the execution that it has started, "" for none
}

// followUps is what the oracle knows of ends. Of an execution that was restored it knows the ends that the
// tables have forgotten, too.
type followUps struct {
	ends  map[string][]*end // by execution
	tries map[string][]int64
	// publishing and published say when the definition that is not there at first was sent, and when it was
	// there for certain.
	publishing, published bool
}

// Publishing is called when somebody begins to publish the definition that is not there at first, Published when
// it is there.
func (o *Oracle) Publishing() { o.followUps.publishing = true }
func (o *Oracle) Published()  { o.followUps.published = true }

// checkEnds judges an execution that an end has started, and records the ends that a write adds.
func (x *execution) checkEnds(before, after *workflow.Execution) {
	f := &x.followUps
	f.tries[after.ID] = slices.DeleteFunc(f.tries[after.ID], func(at int64) bool { return at > before.Sequence })
	for i := range after.Events {
		e := &after.Events[i]
		switch kind := kindOfEnd(e); {
		case e.Sequence <= before.Sequence:
		case e.Type == "execution.retried" || e.Type == "execution.rewound":
			f.tries[after.ID] = append(f.tries[after.ID], e.Sequence)
		case kind == "" || after.Probe:
		case x.program.definition.Ends[kind] != nil:
			f.ends[after.ID] = append(f.ends[after.ID], &end{
				FollowUp: x.program.definition.Ends[kind], x: after, sequence: e.Sequence, try: len(f.tries[after.ID]) + 1, at: e.At, state: strings.TrimSuffix(e.To, "_ACK"),
			})
		}
	}
}

// kindOfEnd returns the kind of the end that an event is, "" for none. An execution may end and settle at once.
func kindOfEnd(e *workflow.Event) string {
	to := strings.TrimSuffix(e.To, "_ACK")
	if e.Layer != string(sm.LayerExecution) || e.From == e.To || e.Type != string(TerminalEvent(sm.ExecutionState(to))) {
		return ""
	}
	return endKinds[to]
}

// endKinds are the kinds of ends, as definitions name them, by the state.
var endKinds = map[string]string{"COMPLETED": "completed", "FAILED_SAFE": "failed", "FAILED_UNSAFE": "failed", "CANCELLED": "cancelled"}

// startedByEnd judges the first write of an execution that an end has started.
func (o *Oracle) startedByEnd(first *workflow.Execution) {
	got, _ := decode(first.Input.Parameters).(map[string]any)
	var of *end
	for _, e := range o.followUps.ends[first.FollowUpOf.Execution] {
		at, _ := got["endedAt"].(string)
		if t, err := time.Parse(time.RFC3339Nano, at); first.Input.Offloaded && workflow.FollowUpID(e.x.ID, e.at, e.try) == first.ID || err == nil && t.Equal(e.at) && got["try"] == float64(e.try) {
			of = e
		}
	}
	switch {
	case of == nil:
		o.Failf(lawFollowUps, "%s (%s) is started with %v, and %s has no such end", first.ID, first.Workflow, got, first.FollowUpOf.Execution)
		return
	case of.started != "" && of.started != first.ID:
		o.Failf(lawFollowUps, "%s is started by the end of try %d of %s, which has started %s", first.ID, of.try, of.x.ID, of.started)
	case first.Workflow.Name != of.Definition:
		o.Failf(lawFollowUps, "%s is %s, but the end of try %d of %s starts %s", first.ID, first.Workflow, of.try, of.x.ID, of.Definition)
	case first.CreatedBy != "~onEnd" || first.Key != "" || first.CorrelationID != of.x.CorrelationID || !maps.Equal(first.Labels, of.x.Labels) || first.FollowUpOf.Depth != depthOf(of.x)+1 || first.Probe:
		o.Failf(lawFollowUps, "%s is started by the end of %s as %+v", first.ID, of.x.ID, first)
	case !o.mayStart(of) && !o.isForgotten(of.x.ID):
		o.Failf(lawFollowUps, "%s (%s) is started by the end of try %d of %s, which cannot start it", first.ID, first.Workflow, of.try, of.x.ID)
	}
	if of.started = first.ID; first.Input.Offloaded {
		return
	}
	known := o.outdated(of) // what the execution has given, or failed with, may be gone
	want := map[string]any{"of": of.x.ID, "state": of.state, "try": float64(of.try), "endedAt": got["endedAt"], "key": of.x.Key, "n": nil, "code": nil, "output": nil}
	if parameters, _ := decode(of.x.Input.Parameters).(map[string]any); of.x.Input.Offloaded {
		want["n"] = got["n"]
	} else {
		want["n"] = parameters["n"]
	}
	if of.x.Error != nil && !(known && got["code"] == nil) {
		want["code"] = of.x.Error.Code
	}
	switch output := of.x.Output; {
	case known && got["output"] == nil || endKinds[of.state] != "completed":
	case output == nil:
		want["output"] = map[string]any{}
	case output.Stored != nil:
		want["output"] = got["output"]
	default:
		want["output"] = decode(output.Inline)
	}
	if !reflect.DeepEqual(got, want) {
		o.Failf(lawFollowUps, "%s is started by the end of try %d of %s with %v, want %v", first.ID, of.try, of.x.ID, got, want)
	}
}

// outdated reports whether the execution has been tried again since an end.
func (o *Oracle) outdated(e *end) bool {
	tries := o.followUps.tries[e.x.ID]
	return o.isForgotten(e.x.ID) || len(tries) > 0 && tries[len(tries)-1] > e.sequence
}

// mayStart reports whether an end can start an execution.
func (o *Oracle) mayStart(e *end) bool {
	return !e.Refused && depthOf(e.x) < maxDepth && (e.Definition != defgen.FollowsLater || o.followUps.publishing) && (!e.NeedsError || e.x.Error != nil)
}

// depthOf returns how many executions have started each other before this one.
func depthOf(x *workflow.Execution) int {
	switch {
	case x.Parent != nil:
		return x.Parent.Depth
	case x.FollowUpOf != nil:
		return x.FollowUpOf.Depth
	}
	return 0
}

// LastEnd returns the number of the last try of an execution if its end starts another, and that one; "" if it has started
// none.
func (o *Oracle) LastEnd(id string) (started string, ok bool) {
	all := o.followUps.ends[id]
	if len(all) == 0 || o.outdated(all[len(all)-1]) || !Terminal(o.executions[id].x.State) {
		return "", false
	}
	return all[len(all)-1].started, true
}

// CheckFollowUps requires, once nothing is left to happen, that every end has started what it can start.
func (o *Oracle) CheckFollowUps() {
	for _, id := range slices.Sorted(maps.Keys(o.followUps.ends)) {
		if o.isForgotten(id) { // the messages and the executions of its ends may be gone
			continue
		}
		for _, e := range o.followUps.ends[id] {
			must := o.mayStart(e) && (e.Definition != defgen.FollowsLater || o.followUps.published && !o.restored) && !(e.NeedsError && o.outdated(e))
			if must && e.started == "" {
				o.Failf(lawFollowUps, "the end of try %d of %s in %s has not started %s", e.try, id, e.state, e.Definition)
			}
		}
	}
}
