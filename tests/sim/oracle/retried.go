package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
)

// lawRetried is the law about what a new try of an execution does.
const lawRetried = "a try does again what failed or was undone, and nothing that stands"

// A new try continues with the list of steps that a reader of the definition has entered. The
// entries before the first one that failed or was undone stand. The entries behind them are made
// again, and each entity or item that ended OK in one of them keeps that, as long as nothing before
// it was done to the same entity again.

// retried is what new tries have left of an execution.
type retried struct {
	begins []flowTry
	prefix []int                         // Seq of the step runs that stood when the current try began
	kept   []map[string]keptJob          // entities and items not called in an entry, by number of the entry
	done   map[string]map[string]keptJob // who is done behind that, by place and by entity or item

	branches keptBranches   // that the present try does not execute again
	stand    []keptBranches // that earlier tries have not executed again, of steps that stood when the current try began

	doubts map[int]string // of step runs that an earlier try has left in doubt and a later one makes again: in which round; by Seq
}

// flowTry is a try, with the number of the entry with which it began.
type flowTry struct {
	at, number int
	devices    []string
	opens      []string // the surrounding steps, which it opens
	some       bool     // it is only about some of the entities
	failed     bool     // entities and items that are done keep that

	told map[int]workflow.EntityOutcome // by place: what was told of each entity before
}

// keptJob is a job that ended OK, and what it returned.
type keptJob struct{ seq, try, n int }

// place is the position of an entry, whichever try makes it.
func (e *FlowEntry) place() string { return e.Label + " " + e.Time }

// present returns the current try.
func (f *followed) present() *flowTry { return &f.retries.begins[len(f.retries.begins)-1] }

// tryAt returns the try that has made the entry with a number.
func (f *followed) tryAt(at int) *flowTry {
	for i := len(f.retries.begins) - 1; i > 0; i-- {
		if f.retries.begins[i].at <= at {
			return &f.retries.begins[i]
		}
	}
	return &f.retries.begins[0]
}

// runs returns the step runs of an execution, without those that a later try has made again, and
// without those that it has opened only to get to its beginning.
func (f *followed) runs(of *workflow.Execution, number int) (runs []*workflow.StepRun) {
	for _, seq := range slices.Concat(f.retries.prefix, f.retries.branches.runs) {
		runs = append(runs, of.StepRunBySeq(seq))
	}
	opened := len(f.present().opens)
	for i := range of.StepRuns {
		r := &of.StepRuns[i]
		if !r.Forward() || max(1, r.Try) != number {
			continue
		}
		if opened > 0 {
			opened--
			continue
		}
		runs = append(runs, r)
	}
	return runs
}

// keeps reports whether an entity or item is not called in an entry because it keeps what it did.
func (f *followed) keeps(run *FlowRun, e *FlowEntry, at int, key string) (keptJob, bool) {
	if b, in := f.retries.branches.entries[e.name()]; in {
		k, kept := b.keep[key]
		return k, kept
	}
	if t := f.present(); at < t.at {
		k, kept := f.retries.kept[at][key]
		return k, kept
	} else if !t.failed {
		return keptJob{}, false
	}
	k, kept := f.retries.done[e.place()][key]
	for i := f.present().at; i < at && kept; i++ {
		again := &run.Entered[i]
		kept = again.place() != e.place() && (run.isBeside(i) || f.retries.branches.keeps(again) || !slices.Contains(again.Entities, key))
	}
	return k, kept
}

// begin is called when a try of a followed execution begins.
func (f *followed) begin(before, after *workflow.Execution) {
	last := f.present().number
	t := flowTry{number: after.Try, told: toldOf(before, f.retries.begins[0].devices)}
	inPlace, rewound, asked := false, false, ""
	var told []string // which branches it keeps
	for _, e := range after.Events {
		data, _ := decode(e.Data).(map[string]any)
		if e.Sequence <= before.Sequence || data["try"] != float64(after.Try) {
			continue
		}
		t.failed, inPlace = data["entities"] == "failed", e.To == string(sm.ExecutionRunning)
		rewound = sm.Event(e.Type) == sm.EventExecutionRewound
		told = textsOf(data["kept"])
		if asked, _ = data["from"].(string); rewound {
			asked, _ = data["to"].(string)
		}
	}
	all := f.retries.begins[0].devices
	t.devices = all
	if inPlace {
		t.devices, t.some = f.present().devices, f.present().some
		if before.Kept != nil {
			t.some, t.devices = true, nil
			for i, id := range all {
				if before.Kept.Contains(i + 1) {
					t.devices = append(t.devices, id)
				}
			}
		}
	}
	entered := 0
	for i := range after.StepRuns {
		if r := &after.StepRuns[i]; r.Forward() && max(1, r.Try) == last {
			entered++
		}
	}
	nothing := entered <= len(f.present().opens) // except the steps around its beginning
	run := f.followTo(after, last)
	ok := true
	switch {
	case rewound:
		t.at = slices.IndexFunc(run.Entered, func(e FlowEntry) bool { return e.Label == asked })
		ok = t.at >= 0 && f.find(asked, 1) != nil
	case nothing && last > 1:
		t.at, t.opens = f.present().at, f.present().opens
	default:
		t.at, ok = f.beginning(run, &t, last)
	}
	if f.over = f.over || !ok; f.over {
		return
	}
	if !nothing || last == 1 || rewound {
		if t.at < len(run.Entered) {
			t.opens = defgen.Around(f.definition.Steps, run.Entered[t.at].Label)
		}
	}
	if t.at < len(run.Entered) && asked != "" && run.Entered[t.at].Label != asked {
		f.Failf(lawRetried, "try %d of %s begins with step %s, want %s %q, of %d entered", after.Try, after.ID, asked, run.Entered[t.at].Label, run.Entered[t.at].Time, len(run.Entered))
		f.over = true
		return
	}
	kept, known := map[int]bool{}, true
	if !rewound {
		kept, known = f.branchesToKeep(after, run, &t, nothing && last > 1, told)
	}
	if f.over = f.over || !known; f.over {
		return
	}
	f.cut(after, run, t, kept)
}

// cut keeps what stands of an execution when a try begins, and records who is done with what comes
// then.
func (f *followed) cut(x *workflow.Execution, run *FlowRun, t flowTry, branches map[int]bool) {
	next := retried{done: map[string]map[string]keptJob{}, branches: f.keptBranches(run, t.at, branches), stand: f.retries.standing(run, t.at), doubts: map[int]string{}}
	maps.Copy(next.doubts, f.retries.doubts)
	called := map[string]bool{} // by the last try
	for i := f.present().at; i < len(run.Entered); i++ {
		if f.retries.branches.keeps(&run.Entered[i]) {
			continue
		}
		for _, id := range run.Entered[i].Entities {
			called[id] = called[id] || f.find(run.Entered[i].Label, run.Entered[i].Nth) != nil
		}
	}
	entered := map[string]bool{}
	for i := range run.Entered {
		e := &run.Entered[i]
		r := f.find(e.Label, e.Nth)
		entered[e.place()] = entered[e.place()] || i >= f.present().at && r != nil
		if i < t.at {
			next.prefix, next.kept = append(next.prefix, r.Seq), append(next.kept, e.Keep)
			continue
		}
		if r == nil || next.branches.keeps(e) {
			continue
		}
		if s := f.definition.Find(e.Label); s != nil && s.Block != "" && !s.OnDevices {
			var o FlowOutcome
			if f.lost(r, s, &o); o.Doubt {
				next.doubts[r.Seq] = e.Time
			}
		}
		place := next.at(e.place())
		maps.Copy(place, e.Keep)
		for index := range max(len(e.Entities), len(e.Of)) {
			key := ""
			if index < len(e.Of) {
				key = fmt.Sprint(e.Of[index])
			} else {
				key = e.Entities[index]
			}
			delete(place, key)
			if c, attempt := f.latest(r.Seq, index); c.code == workflow.JobCodeOK && index < r.Jobs {
				made := f.calls[workflow.JobID(f.x.ID, r.Seq, index, attempt)]
				result, _ := made.Result.(map[string]any)
				n, _ := result["n"].(float64)
				place[key] = keptJob{r.Seq, max(1, r.Try), int(n)}
			}
		}
	}
	for place, keys := range f.retries.done { // where the last try did not get to
		for key, k := range keys {
			if _, isDone := next.at(place)[key]; !entered[place] && !isDone && !called[key] {
				next.at(place)[key] = k
			}
		}
	}
	begin := ""
	if t.at < len(run.Entered) {
		begin = run.Entered[t.at].Time
	}
	for place, keys := range next.done {
		_, time, _ := strings.Cut(place, " ")
		for key, k := range keys {
			if touched, known := f.undone(x, k.seq, key, 0); touched || !known {
				f.over = f.over || !known && t.failed
				delete(keys, key)
			}
		}
		if !t.failed || !goesOnWith(time, begin) || f.laterTime(time, begin) {
			delete(next.done, place)
		}
	}
	next.begins = append(next.begins, f.retries.begins...)
	for len(next.begins) > 1 && next.begins[len(next.begins)-1].at >= t.at {
		next.begins = next.begins[:len(next.begins)-1]
	}
	next.begins = append(next.begins, t)
	f.retries = next
}

func (r *retried) at(place string) map[string]keptJob {
	if r.done[place] == nil {
		r.done[place] = map[string]keptJob{}
	}
	return r.done[place]
}

// goesOnWith reports whether a try that begins in a round continues with the innermost loop of
// another round.
func goesOnWith(time, begin string) bool {
	if time == "" {
		return true
	}
	loop := time[:strings.LastIndex(time, ":")+1]
	return strings.HasPrefix(begin, loop)
}

// since is the first try that says what a new one has to do again.
func (f *followed) since(t *flowTry, last int) int {
	if t.some {
		return last
	}
	for i := len(f.retries.begins) - 1; i > 0 && f.retries.begins[i].some; i-- {
		last = f.retries.begins[i-1].number
	}
	return last
}

// beginning returns the number of the entry with which a retry has to begin; ok is false if nothing
// says so.
func (f *followed) beginning(run *FlowRun, t *flowTry, last int) (at int, ok bool) {
	since := f.since(t, last)
	f.endWhereItWasEnded(run)
	at = len(run.Entered)
	came, next := run.Failed == nil && !run.Pending, false
	if !came || run.Stop != nil {
		at = len(run.Entered) - 1
		next = f.find(run.Entered[at].Label, run.Entered[at].Nth) == nil // it was to be entered next
		if s := f.failedLoop(run); s != "" {
			for at, next = len(run.Entered)-1, false; run.Entered[at].Label != s; {
				at--
			}
		}
	}
	for _, b := range f.retries.begins {
		if b.number > since {
			at = min(at, b.at)
		}
	}
	for i := 0; i < at; i++ {
		e := &run.Entered[i]
		r := f.find(e.Label, e.Nth)
		if r == nil {
			return at, false
		}
		s := f.definition.Find(e.Label)
		switch {
		case s == nil || s.Block == "":
			continue
		case s.OnDevices:
			for _, id := range t.devices {
				seq := r.Seq
				if k, kept := e.Keep[id]; kept {
					seq = k.seq
				}
				touched, known := f.undone(f.x, seq, id, since)
				if !known {
					return at, false
				}
				index := slices.Index(e.Entities, id)
				if touched || came && index >= 0 && run.LostAt[id] == i && run.Lost[id] {
					at = i
					continue
				}
				if c, _ := f.latest(r.Seq, max(index, 0)); came && index >= 0 && (c.code == workflow.JobCodeUnknown || c.inDoubt(s.Block)) {
					return at, false // the definition continued after an unknown outcome
				}
			}
		default:
			touched := f.anyUndone(f.x, r.Seq, since)
			for _, k := range e.Keep {
				touched = touched || f.anyUndone(f.x, k.seq, since)
			}
			if touched {
				at = i
			}
		}
	}
	if at == len(run.Entered) {
		return at, false
	}
	if next && at == len(run.Entered)-1 {
		for _, around := range defgen.Around(f.definition.Steps, run.Entered[at].Label) {
			if s := f.definition.Find(around); s.Loops || s.Rollout != nil { // nothing says which round it was to be
				return slices.IndexFunc(run.Entered, func(o FlowEntry) bool { return o.Label == around }), true
			}
		}
	}
	if around := defgen.OutermostParallel(f.definition.Steps, run.Entered[at].Label); around != "" {
		for run.Entered[at].Label != around {
			at--
		}
	}
	for run.Entered[at].Again {
		at--
	}
	if e := &run.Entered[at]; e.Time == "" {
		at = slices.IndexFunc(run.Entered, func(o FlowEntry) bool { return o.Label == e.Label })
	}
	return at, true
}

// leftInDoubt reports whether an earlier try has left a step of a wave in doubt that has no entities, and nothing has
// undone it: then the wave cannot be undone by itself, and a failure in it is one of the execution.
func (f *followed) leftInDoubt(wave string) bool {
	for seq, time := range f.retries.doubts {
		undone := slices.ContainsFunc(f.x.StepRuns, func(u workflow.StepRun) bool {
			return u.Kind == workflow.JobRollback && u.Undoes == seq && u.Status == sm.StepCompleted
		})
		if !undone && (time == wave || strings.HasPrefix(time, wave+"/")) {
			return true
		}
	}
	return false
}

// endWhereItWasEnded cuts what was followed behind the first step that the try has not entered: steps that only set
// variables are followed without anybody executing them. Then the execution has not come to its end: a limit, for
// example, has ended it before that step.
func (f *followed) endWhereItWasEnded(run *FlowRun) {
	at := slices.IndexFunc(run.Entered, func(e FlowEntry) bool { return f.find(e.Label, e.Nth) == nil })
	if at < 0 || f.branches[run.Entered[at].Label] != "" || run.Failed != nil && at == len(run.Entered)-1 {
		return
	}
	run.Entered, run.Failed, run.Stop, run.Pending = run.Entered[:at+1], nil, nil, true
}

// anyUndone reports whether a rollback since a try has called a block for a job of a step run.
func (f *followed) anyUndone(x *workflow.Execution, seq, since int) bool {
	for i := range x.StepRuns {
		u := &x.StepRuns[i]
		if u.Kind != workflow.JobRollback || u.Undoes != seq || max(1, u.Try) < since {
			continue
		}
		for index := range f.records[u.Seq] {
			if c, _ := f.latest(u.Seq, index); c.executed() {
				return true
			}
		}
	}
	return false
}

// undone reports whether a rollback since a try has called a block for what a step run did to an
// entity or item. known is false if its worker died before the call, or if the item is unknown.
func (f *followed) undone(x *workflow.Execution, seq int, key string, since int) (touched, known bool) {
	r := x.StepRunBySeq(seq)
	if s := f.definition.Find(r.Label); s == nil || !s.OnDevices {
		return false, !f.anyUndone(x, seq, since)
	}
	for i := range x.StepRuns {
		u := &x.StepRuns[i]
		if u.Kind != workflow.JobRollback || u.Undoes != seq || max(1, u.Try) < since {
			continue
		}
		for index := range f.records[u.Seq] {
			c, attempt := f.latest(u.Seq, index)
			if !c.executed() {
				continue
			}
			made := f.calls[workflow.JobID(x.ID, u.Seq, index, attempt)]
			if made == nil {
				return false, false
			}
			touched = touched || made.Entity == key
		}
	}
	return touched, true
}
