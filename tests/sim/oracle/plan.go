package oracle

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
)

// plan holds the jobs of a step run.
type plan struct {
	jobs    map[int]planned // by index
	order   []string        // the entities of the jobs
	unmet   []string        // the entities for which an assertion is not true
	skipped int
	kept    int    // entities that keep what an earlier try did
	problem string // why there is no job at all
}

// planned is one job.
type planned struct {
	entity     string // ID, "" for a global job
	parameters map[string]any
	attributes map[string]any // nil for a global job
}

// part is how an entity takes part in a step run.
type part int

const (
	partNone    part = iota // it did not take part in the iteration before
	partSkipped             // it failed before, or the condition is not true
	partKept                // it keeps what an earlier try did
	partUnmet               // an assertion is not true of it
	partFails               // an assertion or a parameter fails the step
	partJob
)

// planOf returns the plan of a step run. For a step run of a pipeline it is what is known by now,
// until nothing in the pipeline can change any more.
func (x *execution) planOf(r *workflow.StepRun) *plan {
	if p := x.plans[r.Seq]; p != nil {
		return p
	}
	p := x.newPlan(r)
	if r.Pipeline == 0 || x.pipelineIsOver(r.Pipeline) {
		x.plans[r.Seq] = p
	}
	return p
}

// pipelineIsOver reports whether all step runs of a pipeline have ended, and nothing about them may
// still become known.
func (x *execution) pipelineIsOver(pipeline int) bool {
	return !slices.ContainsFunc(x.x.StepRuns, func(r workflow.StepRun) bool {
		return r.Pipeline == pipeline && (r.Open() || r.Status == sm.StepCancelled)
	})
}

func (x *execution) newPlan(r *workflow.StepRun) *plan {
	n := x.program.find(r.Label)
	p := &plan{jobs: map[int]planned{}}
	entities := []string{""}
	if b := x.program.block(n); b != nil && b.OnDevice {
		entities = x.tries[r.Try].entities
	}
	for position, id := range entities {
		job, part, why := x.partOf(r, n, id)
		switch part {
		case partSkipped:
			p.skipped++
		case partKept:
			p.kept++
		case partUnmet:
			p.unmet = append(p.unmet, id)
		case partFails:
			p.problem = why
		case partJob:
			index := len(p.order)
			if r.Pipeline > 0 {
				index = position
			}
			p.jobs[index] = job
			p.order = append(p.order, id)
		}
	}
	return p
}

// fate is what has become of an entity, or of the global job, in a step run that has ended.
type fate struct {
	part   part
	index  int
	code   code
	result any
	set    map[string]any
	broke  bool // it has answered BREAK
}

// failed reports whether the entity has failed there.
func (f *fate) failed() bool {
	return f.part == partUnmet || f.part == partJob && f.code.code != workflow.JobCodeOK
}

// ok reports whether its job ended OK.
func (f *fate) ok() bool { return f.part == partJob && f.code.code == workflow.JobCodeOK }

// fateOf returns what has become of an entity in a step run. In a pipeline, only entities that are
// over there may be asked for.
func (x *execution) fateOf(r *workflow.StepRun, id string) (f fate) {
	if x.program.block(x.program.find(r.Label)) == nil {
		return f
	}
	if r.Pipeline == 0 && r.Status == sm.StepFailed && r.Jobs == 0 {
		return f // an assertion failed the step for too many entities: nobody took part
	}
	p := x.planOf(r)
	if slices.Contains(p.unmet, id) {
		return fate{part: partUnmet}
	}
	for index, job := range p.jobs {
		if job.entity != id || p.problem != "" && r.Pipeline == 0 {
			continue
		}
		c, attempt := x.latest(r.Seq, index)
		f = fate{part: partJob, index: index, code: c}
		if c.code == workflow.JobCodeOK {
			if made := x.calls[workflow.JobID(x.x.ID, r.Seq, index, attempt)]; made != nil {
				f.result, f.set, f.broke = made.Result, made.Set, made.Answer == defgen.AnswerBreak
			}
		}
		return f
	}
	return f
}

// superseded reports whether a try up to the given one repeats the work of a step run.
func (x *execution) superseded(r *workflow.StepRun, by int) bool {
	b := x.program.block(x.program.find(r.Label))
	for number, t := range x.tries {
		if number > r.Try && number <= by && !t.rollsBack && x.spotOf(r).compare(t.begin) >= 0 && !(t.onlyFailed && b != nil && b.OnDevice) {
			return true
		}
	}
	return false
}

// undone reports whether a rollback of an earlier try was executed for a job.
func (x *execution) undone(r *workflow.StepRun, id string, try int) bool {
	if r.Try >= try {
		return false
	}
	for i := range x.x.StepRuns {
		u := &x.x.StepRuns[i]
		if u.Kind == workflow.JobRollback && u.Undoes == r.Seq && u.Try < try && x.undoExecuted(u, id) {
			return true
		}
	}
	return false
}

// undoExecuted reports whether the block was called to undo what was done to an entity.
func (x *execution) undoExecuted(u *workflow.StepRun, id string) bool {
	for index := range x.records[u.Seq] {
		c, attempt := x.latest(u.Seq, index)
		if !c.executed() {
			continue
		}
		entity := ""
		if made := x.calls[workflow.JobID(x.x.ID, u.Seq, index, attempt)]; made != nil {
			entity = made.Entity
		} else if entity, c.unsent = x.undoneAt(u, index); c.unsent {
			x.unjudged = true // its worker died before the call, and the number alone does not tell for whom it was
		}
		if entity == id {
			return true
		}
	}
	return false
}

// undoneAt returns the entity of a rollback's job whose block was not called, although it may have
// been. It is known if everything that was executed is undone.
func (x *execution) undoneAt(u *workflow.StepRun, index int) (id string, unknown bool) {
	undoes := x.x.StepRunBySeq(u.Undoes)
	p := x.planOf(undoes)
	var executed []string
	for _, at := range slices.Sorted(maps.Keys(p.jobs)) {
		if c, _ := x.latest(undoes.Seq, at); c.executed() {
			executed = append(executed, p.jobs[at].entity)
		}
	}
	if len(executed) != u.Jobs {
		return "", true
	}
	return executed[index], false
}

// sees reports whether a step run sees the results of an earlier one.
func (x *execution) sees(r, o *workflow.StepRun) bool {
	if !o.Forward() || o.Seq >= r.Seq {
		return false
	}
	at, other := x.program.find(r.Label), x.program.find(o.Label)
	encloses := other < at && at < x.program.nodes[other].end
	return !encloses && !x.superseded(o, r.Try) && (o.Try == r.Try || x.spotOf(o).compare(x.spotOf(r)) <= 0) && !x.isPending(r, o)
}

// isPending reports whether a new try was to do again what a step run of an earlier one did, and has not come
// there before another step run: it may pass that step this time.
func (x *execution) isPending(r, o *workflow.StepRun) bool {
	again := 0 // the last try that was to
	for number, t := range x.tries {
		if number > o.Try && number <= r.Try && !t.rollsBack && x.spotOf(o).compare(t.begin) >= 0 {
			again = max(again, number)
		}
	}
	if again == 0 || x.samePlace(r, o) {
		return false
	}
	return !slices.ContainsFunc(x.x.StepRuns, func(c workflow.StepRun) bool {
		return c.Forward() && again <= c.Try && c.Seq < r.Seq && x.samePlace(&c, o)
	})
}

// samePlace reports whether two step runs are of one step, in the same repetition of each step around it.
func (x *execution) samePlace(a, b *workflow.StepRun) bool {
	if a.Label != b.Label {
		return false
	}
	one, other := x.pathOf(a), x.pathOf(b)
	return slices.Equal(one[:len(one)-1], other[:len(other)-1])
}

// past is what the earlier step runs have made of an entity.
type past struct {
	attributes map[string]any
	excluded   bool
	kept       bool // what it did in this step in an earlier try stands
	repeats    bool // it took part in the iteration before, or keeps what it did there
}

func (x *execution) pastOf(r *workflow.StepRun, n int, id string) past {
	t := x.tries[r.Try]
	p := past{attributes: t.attributes[id]}
	failedAt, leftOutAt := map[int]bool{}, map[int]bool{}
	keptBefore, keptSince, keptBeforeSince := false, 0, 0
	path := x.pathOf(r)
	previous := slices.Clone(path)
	previous[len(previous)-1]--
	for i := range x.x.StepRuns {
		o := &x.x.StepRuns[i]
		if !x.sees(r, o) {
			continue
		}
		at := x.program.find(o.Label)
		own := at == n
		f := x.fateOf(o, id)
		tookPart := f.part == partJob || f.part == partUnmet
		if own && o.Try == r.Try && slices.Equal(x.pathOf(o), previous) {
			p.repeats = tookPart && !f.broke || x.program.block(at) == nil
		}
		undone := x.undone(o, id, r.Try)
		ok := f.ok() && !undone
		switch {
		case own && t.onlyFailed && o.Try < r.Try && slices.Equal(x.pathOf(o)[:len(path)-1], path[:len(path)-1]):
			switch again := x.pathOf(o); {
			case slices.Equal(again, path):
				p.kept = ok || p.kept && !tookPart && !undone
				if ok {
					keptSince = o.Try
				}
			case slices.Equal(again, previous):
				keptBefore = ok && !f.broke || keptBefore && !tookPart && !undone
				if ok {
					keptBeforeSince = o.Try
				}
			}
		default:
			if ok {
				delete(failedAt, at)
				delete(leftOutAt, at)
			}
			switch {
			case !f.failed() || x.program.handler(at) >= 0:
			case f.part == partJob && !f.code.executed() && f.code.code != workflow.JobCodeFail && o.Try < r.Try:
				leftOutAt[at] = true
			default:
				failedAt[at] = true
			}
		}
		if again := tookPart && t.onlyFailed && (o.Try == r.Try || at < n); again { // what follows depends on it
			p.kept = p.kept && keptSince >= o.Try
			keptBefore = keptBefore && keptBeforeSince >= o.Try
		}
		if ok && len(f.set) > 0 {
			if p.attributes = maps.Clone(p.attributes); p.attributes == nil {
				p.attributes = map[string]any{}
			}
			maps.Copy(p.attributes, f.set)
		}
	}
	p.excluded = len(failedAt) > 0
	if len(leftOutAt) > 0 {
		x.unjudged = true // nothing says whether those not called take part in what follows
	}
	p.repeats = p.repeats || keptBefore
	return p
}

// pathOf returns which repetition a step run is: of each surrounding step, and of its own.
func (x *execution) pathOf(r *workflow.StepRun) []int {
	path := []int{r.Iteration}
	for n := x.program.nodes[x.program.find(r.Label)].parent; n >= 0; n = x.program.nodes[n].parent {
		iteration := 0
		for i := range x.x.StepRuns {
			if o := &x.x.StepRuns[i]; o.Forward() && o.Seq < r.Seq && o.Label == x.program.nodes[n].label {
				iteration = o.Iteration
			}
		}
		path = append([]int{iteration}, path...)
	}
	return path
}

// spot is the position of a step run: the surrounding steps, outermost first, and its own, with the
// repetition of each.
type spot []struct{ node, repetition int }

func (x *execution) spotOf(r *workflow.StepRun) spot {
	return x.spotAt(x.program.find(r.Label), x.pathOf(r))
}

func (x *execution) spotAt(n int, path []int) spot {
	s := make(spot, len(path))
	for depth := len(path) - 1; depth >= 0; depth-- {
		s[depth].node, s[depth].repetition = n, path[depth]
		n = x.program.nodes[n].parent
	}
	return s
}

// compare is negative if the definition reaches s before o, and 0 if both are the same, whichever
// repetition of the step itself.
func (s spot) compare(o spot) int {
	for depth := range min(len(s), len(o)) {
		if by := cmp.Compare(s[depth].node, o[depth].node); by != 0 {
			return by
		}
		if by := cmp.Compare(s[depth].repetition, o[depth].repetition); by != 0 && depth+1 < max(len(s), len(o)) {
			return by
		}
	}
	return cmp.Compare(len(s), len(o))
}

// opensAgain reports whether a try opens a step run only to get to its beginning.
func (x *execution) opensAgain(r *workflow.StepRun) bool {
	at, begin := x.spotOf(r), x.tries[r.Try].begin
	return len(at) < len(begin) && slices.Equal(at, begin[:len(at)])
}

// beginsAt returns where a try begins that begins with a step: where the step was entered first, as
// far as that stands, or was to be entered next.
func (x *execution) beginsAt(n int, stepRuns []workflow.StepRun) (begin spot) {
	executed := map[int]bool{} // tries that did more than to open steps
	for i := range stepRuns {
		r := &stepRuns[i]
		executed[r.Try] = executed[r.Try] || r.Forward() && x.program.find(r.Label) >= x.tries[r.Try].from
	}
	last := workflow.StepRun{Seq: math.MaxInt, Label: x.program.nodes[n].label}
	begin = x.spotAt(n, x.pathOf(&last))
	found := false
	for i := range stepRuns {
		r := &stepRuns[i]
		if !r.Forward() || x.program.find(r.Label) != n {
			continue
		}
		at := x.spotOf(r)
		cut := false
		for number, t := range x.tries {
			cut = cut || number > r.Try && executed[number] && at.compare(t.begin) >= 0
		}
		if !cut && (!found || at.compare(begin) < 0) {
			begin, found = at, true
		}
	}
	return begin
}

// partOf returns how an entity, or with "" the one global job, takes part in a step run.
func (x *execution) partOf(r *workflow.StepRun, n int, id string) (job planned, p part, why string) {
	step := &x.program.nodes[n]
	before := x.pastOf(r, n, id)
	onDevice := id != ""
	v := x.values(r, n, id, before.attributes)
	iteration := r.Iteration > 1 && !x.opensAgain(r)
	switch {
	case iteration && (!before.repeats || x.program.contains(n) && x.allHaveLeft(r, n)):
		return job, partNone, ""
	case onDevice && (before.excluded || x.hasLeft(r, n, id)):
		return job, partSkipped, ""
	case onDevice && before.kept:
		return job, partKept, ""
	}
	if iteration && step.Repeat.While != nil {
		again, ok := step.Repeat.While.True(v)
		switch {
		case !ok:
			return job, partFails, "while has no value"
		case !again:
			return job, partNone, ""
		}
	}
	if r.Iteration <= 1 && step.Condition != nil {
		if is, _ := step.Condition.True(v); !is {
			return job, partSkipped, ""
		}
	}
	if step.Assert != nil {
		is, ok := step.Assert.True(v)
		switch {
		case is && ok:
		case ok && step.Assert.OfEntity && onDevice && !(r.Pipeline > 0 && step.tolerance == 0):
			return job, partUnmet, ""
		default:
			return job, partFails, "an assertion is not true"
		}
	}
	job = planned{entity: id, parameters: map[string]any{}}
	for i := range step.Parameters {
		value, ok := step.Parameters[i].Value(v)
		if !ok {
			return job, partFails, "parameter " + step.Parameters[i].Name + " has no value"
		}
		job.parameters[step.Parameters[i].Name] = value
	}
	if onDevice {
		job.attributes = before.attributes
	}
	return job, partJob, ""
}

// values returns what the expressions of a step run see.
func (x *execution) values(r *workflow.StepRun, n int, id string, attributes map[string]any) defgen.Values {
	v := defgen.Values{Parameters: x.parametersFor(r, n)}
	if id != "" {
		v.Entity = entityValues(id, attributes).Entity
	}
	prefix := x.program.nodes[n].prefix
	v.Result = func(label string) (any, bool) {
		key := id
		if b := x.program.block(x.program.find(prefix + label)); b != nil && !b.OnDevice {
			key = ""
		}
		return x.resultOf(r, prefix+label, key)
	}
	v.Results = func(label string) map[string]any {
		all := map[string]any{}
		for _, id := range x.tries[r.Try].locked {
			if result, ok := x.resultOf(r, prefix+label, id); ok {
				all[id] = result
			}
		}
		return all
	}
	return v
}

// resultOf returns the last result of a step that a step run sees.
func (x *execution) resultOf(r *workflow.StepRun, label, id string) (result any, ok bool) {
	for i := range x.x.StepRuns {
		o := &x.x.StepRuns[i]
		if o.Label != label || !x.sees(r, o) {
			continue
		}
		if f := x.fateOf(o, id); f.ok() && !x.undone(o, id, r.Try) {
			result, ok = f.result, true
		}
	}
	return result, ok
}

// parametersFor returns the parameters of the definition that a step belongs to: the execution's,
// or those that the surrounding step passes on.
func (x *execution) parametersFor(r *workflow.StepRun, n int) map[string]any {
	outer := x.program.nodes[n].embeddedBy
	if outer < 0 {
		return x.request.Parameters
	}
	for i := len(x.x.StepRuns) - 1; i >= 0; i-- {
		if o := &x.x.StepRuns[i]; o.Label == x.program.nodes[outer].label && o.Forward() && o.Seq < r.Seq && o.Try <= r.Try {
			return x.planOf(o).jobs[0].parameters
		}
	}
	return nil
}
