package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
)

// The laws about steps that have a job for each entity or item.
const (
	lawWaves = "each entity is executed in its wave, and each item once"
	lawTold  = "an entity is told as what was executed on it in its wave implies"
)

// flowWave is a wave of a rollout.
type flowWave struct {
	rollout  *defgen.FlowRollout
	entities []string

	last  bool            // the last one, which also gets the entities that were in none when the waves were made
	known map[string]bool // the entities that were in a wave
}

// flowStop is a rollout that has stopped.
type flowStop struct {
	why  *FlowFailure
	rest map[string]bool // the entities of the failed wave, and of those that never began
}

// AsksFor returns how long the block of a step asks to wait before it is called again, 0 if it does
// not.
func (o *Oracle) AsksFor(execution, step string) time.Duration {
	if x := o.executions[execution]; x != nil && x.followed != nil {
		if s := x.followed.definition.Find(step); s != nil {
			return s.Asks
		}
	}
	return 0
}

// plan records for whom the block of a step is called, and with which parameters.
func (r *FlowRun) plan(s *defgen.FlowStep, e *FlowEntry) {
	e.Call = true
	switch {
	case s.OnDevices:
		e.Entities = []string{}
		for _, id := range r.here() {
			if !r.Lost[id] && !r.keeps(e, id) {
				e.Entities = append(e.Entities, id)
			}
		}
	case s.Each != nil:
		e.Items = []any{}
		for number, item := range s.Each.Items {
			if !s.Each.Takes(item) {
				continue
			}
			if r.keeps(e, fmt.Sprint(number)) {
				continue
			}
			r.items = append(r.items, item)
			e.Items, e.Of = append(e.Items, r.value(s.Value)), append(e.Of, number)
			r.items = r.items[:len(r.items)-1]
		}
		return
	}
	e.Value = r.value(s.Value)
}

// keeps reports whether an entity or item is not called because it keeps what an earlier try did.
func (r *FlowRun) keeps(e *FlowEntry, key string) bool {
	k, kept := r.Keeps(r, e, e.at, key)
	if kept && e.Keep == nil {
		e.Keep = map[string]keptJob{}
	}
	if kept {
		e.Keep[key] = k
	}
	return kept
}

// here returns the entities with which steps are executed at present.
func (r *FlowRun) here() []string {
	if r.wave == nil {
		return r.Devices
	}
	var here []string
	for _, id := range r.Devices {
		if slices.Contains(r.wave.entities, id) || r.wave.last && !r.wave.known[id] {
			here = append(here, id)
		}
	}
	return here
}

// divide divides the entities that take part into the waves of a rollout.
func (r *FlowRun) divide(o *defgen.FlowRollout) (waves []*flowWave) {
	var all []string
	for _, id := range r.Devices {
		if !r.Lost[id] {
			all = append(all, id)
		}
	}
	add := func(ids []string) {
		if len(ids) > 0 {
			waves = append(waves, &flowWave{rollout: o, entities: ids})
		}
	}
	if o.Shares == nil {
		of := map[string][]string{}
		for _, id := range all {
			name := "a"
			if slices.Contains(o.By, id) {
				name = "b"
			}
			of[name] = append(of[name], id)
		}
		for _, name := range o.WaveNames("a", "b") {
			add(of[name])
		}
		return waves
	}
	had := 0
	for _, share := range o.Shares {
		n := share.Count
		if share.Percent > 0 {
			n = (len(all)*share.Percent + 99) / 100 // a part of an entity is one
		}
		if n = min(n, len(all)); n > had {
			add(all[had:n])
			had = n
		}
	}
	add(all[had:])
	return waves
}

// rollout executes the steps of a rollout wave by wave.
func (r *FlowRun) rollout(s *defgen.FlowStep) flowEnd {
	waves, known, rollout := r.divide(s.Rollout), map[string]bool{}, r.counts[s.Label]
	for i, w := range waves {
		w.known, w.last = known, i == len(waves)-1
		for _, id := range w.entities {
			known[id] = true
		}
	}
	begun := false
	stop := func(from int, why *FlowFailure) flowEnd {
		r.Stop = &flowStop{why, map[string]bool{}}
		for _, w := range waves[from:] {
			for _, id := range w.entities {
				r.Stop.rest[id] = true
			}
		}
		return flowEnd{next: "end"}
	}
	for i, w := range waves {
		r.Begin(len(r.Entered)-1, r) // who continues with which wave
		if r.wave = w; len(r.here()) == 0 {
			r.wave = nil
			continue // none of its entities takes part in this try
		}
		r.wave = nil
		if begun && s.Rollout.Between != nil {
			r.times = append(r.times, fmt.Sprintf("%s.%d:%d", s.Label, rollout, r.lastWave))
			end := r.step(s.Rollout.Between)
			r.times = r.times[:len(r.times)-1]
			switch {
			case end.failed == nil:
			case end.failed == pending || s.Rollout.RollbackAll:
				return end
			default:
				return stop(i, end.failed)
			}
			r.Begin(len(r.Entered)-1, r)
			if r.wave = w; len(r.here()) == 0 {
				r.wave = nil
				continue // none takes part in the try that continued behind the wave before
			}
			r.wave = nil
		}
		breakable := r.breakable
		begun, r.lastWave, r.wave, r.breakable = true, i, w, false
		r.times = append(r.times, fmt.Sprintf("%s.%d:%d", s.Label, rollout, i))
		end, wave := r.list(s.Inner), strings.Join(r.times, "/")
		r.times = r.times[:len(r.times)-1]
		r.wave, r.breakable = nil, breakable
		switch {
		case end.failed == nil:
		case end.failed == pending || s.Rollout.RollbackAll || end.failed.Whole || r.LeftInDoubt(wave):
			return end
		default:
			return stop(i, end.failed)
		}
	}
	return flowEnd{}
}

// limit returns how many of so many a share allows.
func limit(s defgen.FlowShare, of int) int {
	if s.Percent > 0 {
		return of * s.Percent / 100
	}
	return s.Count
}

// tolerates reports whether a step may continue although some of its jobs have failed.
func (r *FlowRun) tolerates(s *defgen.FlowStep, e *FlowEntry, failed int) bool {
	if s.Each != nil {
		return failed <= limit(s.Each.Tolerated, len(e.Items))
	}
	if !s.OnDevices {
		return failed == 0
	}
	tolerated, of := defgen.FlowShare{Count: r.tolerated}, len(r.Devices)
	group := r.group()
	if group != nil {
		tolerated, of = *group.rollout.Tolerated, len(group.entities)
	}
	if r.goesOn > 0 {
		return failed <= limit(tolerated, len(e.Entities))
	}
	return failed+r.failedIn[group] <= limit(tolerated, of)
}

// group returns the wave whose failures are counted separately, nil for none.
func (r *FlowRun) group() *flowWave {
	if r.wave == nil || r.wave.rollout.Tolerated == nil {
		return nil
	}
	return r.wave
}

// endsWell continues after a step run that has completed: those who failed in it take no part in
// what follows.
func (r *FlowRun) endsWell(s *defgen.FlowStep, e *FlowEntry, o *FlowOutcome) {
	r.Settle = append(r.Settle, *e)
	if o.Doubt && r.wave != nil || !r.tolerates(s, e, len(o.Lost)) {
		r.Wrong = fmt.Sprintf("step %s has completed the %d. time, but of %d jobs %d have failed, doubt %v: that is not tolerated", e.Label, e.Nth, e.Jobs(s), len(o.Lost), o.Doubt)
	}
	if !s.OnDevices || r.goesOn > 0 {
		return
	}
	for _, index := range o.Lost {
		if index < len(e.Entities) {
			r.Lost[e.Entities[index]], r.LostAt[e.Entities[index]] = true, e.at
		}
	}
	r.failedIn[r.group()] += len(o.Lost)
}

// fails returns the failure of a failed step run.
func (r *FlowRun) fails(s *defgen.FlowStep, e *FlowEntry, o *FlowOutcome) *FlowFailure {
	why := failureIn(e.Label, o.Code)
	if s.Block == "" {
		return why
	}
	r.Settle = append(r.Settle, *e)
	ofJobs := slices.Contains(defgen.FlowCodes, o.Code)
	if why.Doubt = o.Doubt && r.wave != nil; ofJobs && !why.Doubt && r.tolerates(s, e, len(o.Lost)) {
		r.Wrong = fmt.Sprintf("step %s has failed the %d. time with %s, but of %d jobs only %d have failed: that is tolerated", e.Label, e.Nth, o.Code, e.Jobs(s), len(o.Lost))
	}
	why.Whole, why.at = why.Doubt && !s.OnDevices, e.at
	for _, index := range o.Lost {
		if index < len(e.Entities) && r.goesOn == 0 {
			why.who = append(why.who, e.Entities[index])
		}
	}
	return why
}

// resultsOf returns the results of the items of a step.
func resultsOf(each *defgen.FlowEach, e *FlowEntry, o *FlowOutcome) []any {
	all, index := []any{}, 0
	for number, item := range each.Items {
		if k, kept := e.Keep[fmt.Sprint(number)]; kept {
			all = append(all, map[string]any{"n": int64(k.n)})
			continue
		}
		if !each.Takes(item) {
			all = append(all, nil)
			continue
		}
		if n, ok := o.Values[index]; ok {
			all = append(all, map[string]any{"n": int64(n)})
		} else {
			all = append(all, nil)
		}
		index++
	}
	return all
}

// checkJobs requires that each step run has the jobs that it has to have.
func (f *followed) checkJobs(run *FlowRun) {
	for i := range run.Entered {
		e := &run.Entered[i]
		s := f.definition.Find(e.Label)
		if r := f.find(e.Label, e.Nth); r != nil && e.Call && r.Jobs != e.Jobs(s) && !(r.Jobs == 0 && r.Status == sm.StepFailed) {
			f.Failf(lawWaves, "step run %d of %s, of step %s, has %d jobs, want %d, for %q %v", r.Seq, f.x.ID, r.Label, r.Jobs, e.Jobs(s), e.Entities, e.Items)
		}
	}
	if run.Wrong != "" {
		f.Failf(lawWaves, "%s: %s", f.x.ID, run.Wrong)
	}
}

// checkTakesPart requires that a block is called only for those who take part.
func (f *followed) checkTakesPart(e *FlowEntry, c Call) {
	_, index, _ := parseJob(c.Job)
	switch {
	case e.Entities != nil && (index >= len(e.Entities) || e.Entities[index] != c.Entity):
		f.Failf(lawWaves, "job %s of step %s is called for %q, and it is the turn of %q", c.Job, c.Step, c.Entity, e.Entities)
	case e.Items != nil && index >= len(e.Items):
		f.Failf(lawWaves, "job %s of step %s is called, and the step has %d items", c.Job, c.Step, len(e.Items))
	}
}

// forgetWaves forgets who is in which wave of the rollouts with which a new try does not continue:
// the try begins with them, or before them, and divides the entities anew.
func (f *followed) forgetWaves(before, after *workflow.Execution) {
	for _, e := range after.Events {
		data, _ := decode(e.Data).(map[string]any)
		if e.Sequence <= before.Sequence || data["try"] != float64(after.Try) {
			continue
		}
		label, _ := data["from"].(string)
		if to, back := data["to"].(string); back {
			label = to
		}
		maps.DeleteFunc(f.wave, func(key string, _ int) bool {
			name, _, _ := strings.Cut(key, " ")
			return name == label || !f.definition.Find(name).Contains(label)
		})
	}
}

// calledInWave requires that an entity stays in its wave in every try that continues with the
// rollout, whatever was undone in between. It does not judge a rollout that was entered twice in
// one try, because those who failed in between take no part in the second one.
func (f *followed) calledInWave(r *workflow.StepRun, c Call) {
	if f.waits.over || r == nil || c.Kind != workflow.JobExecute || c.Entity == "" {
		return
	}
	for r.In > 0 {
		around := f.x.StepRunBySeq(r.In)
		s := f.definition.Find(around.Label)
		if s == nil || s.Rollout == nil {
			r = around
			continue
		}
		tries := map[int]int{}
		for i := range f.x.StepRuns {
			if o := &f.x.StepRuns[i]; o.Label == s.Label && o.Forward() {
				if tries[o.Try]++; tries[o.Try] > 1 {
					return
				}
			}
		}
		key := s.Label + " " + c.Entity
		if first, known := f.wave[key]; known && first != r.Index {
			f.Failf(lawWaves, "job %s of step %s is called for %s in wave %d of %s, and was in wave %d", c.Job, c.Step, c.Entity, r.Index+1, s.Label, first+1)
		}
		f.wave[key] = r.Index
		return
	}
}

// lost returns which jobs of a step run have failed, what the others returned, and whether one of
// them has an unknown outcome.
func (f *followed) lost(r *workflow.StepRun, s *defgen.FlowStep, o *FlowOutcome) {
	o.Values = map[int]int{}
	for index := range r.Jobs {
		c, attempt := f.latest(r.Seq, index)
		switch c.code {
		case workflow.JobCodeOK:
			if made := f.calls[workflow.JobID(f.x.ID, r.Seq, index, attempt)]; made != nil {
				result, _ := made.Result.(map[string]any)
				n, _ := result["n"].(float64)
				o.Values[index], o.N, o.Answer = int(n), int(n), made.Answer
			}
		case workflow.JobCodeFail:
			o.Lost = append(o.Lost, index)
			o.Doubt = o.Doubt || c.inDoubt(s.Block)
		case workflow.JobCodeUnknown:
			o.Lost = append(o.Lost, index)
			o.Doubt = o.Doubt || s.Block != "pure"
		}
	}
}

// inDoubt reports whether a block that must not be repeated has an unknown outcome.
func (c code) inDoubt(block string) bool {
	unknown := c.code == workflow.JobCodeUnknown || doubtful[c.failed]
	return c.executed() && unknown && block != "pure" && block != "again"
}

// traceOf returns what all tries have done to an entity.
func (f *followed) traceOf(id string) (t trace) {
	for i := range f.x.StepRuns {
		r := &f.x.StepRuns[i]
		if index := slices.Index(f.who[r.Seq], id); index >= 0 && r.Kind == workflow.JobExecute {
			c, _ := f.latest(r.Seq, index)
			t.add(f.execution, r, c, f.blockOf(r), id)
		}
	}
	return t
}

// inDoubt reports whether the outcome of a job of an entity is not known, in a step run that stands.
func (f *followed) inDoubt(run *FlowRun, id string) bool {
	settled := map[int]bool{} // step runs
	for i := range run.Settle {
		e := &run.Settle[i]
		r := f.find(e.Label, e.Nth)
		settled[r.Seq] = true
		if index := slices.Index(e.Entities, id); index >= 0 {
			if c, _ := f.latest(r.Seq, index); c.inDoubt(f.blockOf(r)) {
				return true
			}
		}
	}
	for i := range run.Entered { // also where a branch was closed before all had their turn
		e := &run.Entered[i]
		index, r := slices.Index(e.Entities, id), f.find(e.Label, e.Nth)
		if index < 0 || r == nil || settled[r.Seq] {
			continue
		}
		if c, _ := f.latest(r.Seq, index); c.inDoubt(f.blockOf(r)) || c.code == workflow.JobCodeUnknown && f.blockOf(r) != "pure" {
			return true
		}
	}
	return false
}

// checkTold requires that the right outcome is reported for each entity of an execution that has
// reached its end, or whose rollout has stopped, or that fails as a whole. unsafe means that a person
// has to look at one. known is false if that cannot be determined.
func (f *followed) checkTold(run *FlowRun) (unsafe, known bool) {
	x, t := f.x, f.present()
	known = true
	for i, id := range f.retries.begins[0].devices {
		if !slices.Contains(t.devices, id) {
			if was := t.told[i+1]; told(x, i+1) != was {
				f.Failf(lawTold, "%s tells %s as %s, which was %s before a try that is not about it", x.ID, id, told(x, i+1), was)
			}
			continue
		}
		did := f.traceOf(id)
		if did.unknown {
			known = false
			continue
		}
		failed, rest := run.Lost[id] || f.inDoubt(run, id) || f.failedInClosed(run, id), run.Stop != nil && (run.Stop.rest[id] || run.Lost[id])
		failed = failed || rest && f.failedLast(run, id)
		want := workflow.EntitySucceeded
		switch {
		case run.Failed != nil && did.left:
			want = workflow.EntityFailedUnsafe
		case run.Failed != nil:
			want = workflow.EntityFailedSafe
		case !did.took && !failed && !rest && !f.definition.OnDevices(), x.Probe:
		case !did.took || !failed && rest && !did.changed:
			want = workflow.EntitySkipped
		case !failed && !rest:
		case did.left:
			want = workflow.EntityFailedUnsafe
		default:
			want = workflow.EntityFailedSafe
		}
		unsafe = unsafe || want == workflow.EntityFailedUnsafe
		if got := told(x, i+1); got != want {
			f.Failf(lawTold, "%s tells %s as %s, want %s: %+v, it failed %v, its wave failed or never began %v, the execution fails %v", x.ID, id, got, want, did, failed, rest, run.Failed)
		}
	}
	return unsafe, known
}

// checkUnsafeEnd requires that an execution that has come to its end is unsafe if somebody has to look at one of its
// entities, and only then.
func (f *followed) checkUnsafeEnd(unsafe bool) {
	x := f.x
	explained := unsafe || undoFails(x, f.present().number) || max(1, x.Try) != f.present().number
	if is := x.State == sm.ExecutionFailedUnsafe; is && !explained || unsafe && !is {
		f.Failf(lawEnds, "try %d of %s has come to the end of its definition and ended in %s, and has entities to look at %v", x.Try, x.ID, x.State, unsafe)
	}
}

// failedInClosed reports whether a job of an entity had failed when its branch was closed, and
// neither that failure nor one of the branches is handled.
func (f *followed) failedInClosed(run *FlowRun, id string) bool {
	settled := map[int]bool{} // step runs
	for i := range run.Settle {
		settled[f.find(run.Settle[i].Label, run.Settle[i].Nth).Seq] = true
	}
	for i := range run.Entered {
		e := &run.Entered[i]
		index, r := slices.Index(e.Entities, id), f.find(e.Label, e.Nth)
		handled := slices.ContainsFunc(run.handled, func(s flowSpan) bool { return s.from <= i && i < s.to })
		if index < 0 || r == nil || settled[r.Seq] || handled || f.definition.GoesOn(e.Label) {
			continue
		}
		if c, _ := f.latest(r.Seq, index); c.code == workflow.JobCodeFail {
			return true
		}
	}
	return false
}

// failedLast reports whether a job of an entity has failed in the step run that failed its wave.
func (f *followed) failedLast(run *FlowRun, id string) bool {
	for i := len(run.Settle) - 1; i >= 0; i-- {
		if e := &run.Settle[i]; e.Label == run.Stop.why.Step {
			index := slices.Index(e.Entities, id)
			c, _ := f.latest(f.find(e.Label, e.Nth).Seq, max(index, 0))
			return index >= 0 && (c.code == workflow.JobCodeFail || c.code == workflow.JobCodeUnknown)
		}
	}
	return false
}
