package lifecycle

import (
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Where a retry begins follows from the path of the execution: its step runs in the order in which
// somebody would execute the definition, reading it once from the beginning. A try cuts the path
// where it begins, and continues from there. A retry begins with the first step run on the path
// that did not end well, or of which something was undone.

// KeptJobs says, by number, which step runs concern the entities that an execution still holds:
// those in which one of these entities has failed, and those that have undone something for one.
type KeptJobs struct{ In map[int]bool }

// path is the path of the execution.
func (d *decider) path() []*workflow.StepRun {
	return Path(d.execution, d.facts.Resolution.Program)
}

// Path returns the path of an execution, in order.
func Path(x *workflow.Execution, p *spec.Program) (path []*workflow.StepRun) {
	try := 0
	var cut []*workflow.StepRun
	for i := range x.StepRuns {
		r := &x.StepRuns[i]
		if !r.Forward() {
			continue
		}
		if r.Try > try {
			at := standing(x, p, path, try, r.Try)
			path, cut, try = path[:at:at], path[at:], r.Try
		}
		path = append(path, r)
		for _, o := range cut {
			if x.KeptIn(o, r) {
				path = append(path, o)
			}
		}
	}
	return path
}

// standing returns how many step runs of a path still stand when a try continues: those before the
// first one that the try repeats. If the try begins with a step that was next anyway, all stand; a
// surrounding step run may then have been opened only to get there. last is the previous try that
// entered a step. Tries between last and try did not enter a step; step runs superseded by them are
// repeated by this try instead.
func standing(x *workflow.Execution, p *spec.Program, path []*workflow.StepRun, last, try int) int {
	begin := beginOf(x, p, try)
	again := func(o *workflow.StepRun) bool { return last < o.SupersededBy && o.SupersededBy <= try }
	for i := len(begin) - 1; i >= 0; i-- {
		place := PlaceOf(x, p, begin[i])
		same := func(o *workflow.StepRun) bool {
			return o.StepIndex == begin[i].StepIndex && PlaceOf(x, p, o) == place
		}
		at := slices.IndexFunc(path, func(o *workflow.StepRun) bool { return again(o) && same(o) })
		if at < 0 {
			at = slices.IndexFunc(path, same)
		}
		switch {
		case at < 0:
		case i < len(begin)-1 && at+1 < len(path) && p.Encloses(path[at].StepIndex, path[at+1].StepIndex) && !again(path[at+1]):
			return len(path)
		default:
			return at
		}
	}
	return len(path)
}

// beginOf returns the step runs with which a try has begun, the innermost last: to begin inside
// nested steps, it opens each surrounding step. It returns none if the try has executed nothing.
func beginOf(x *workflow.Execution, p *spec.Program, try int) (begin []*workflow.StepRun) {
	for i := range x.StepRuns {
		r := &x.StepRuns[i]
		if !r.Forward() || r.Try != try {
			continue
		}
		n := &p.Nodes[r.StepIndex]
		if len(begin) > 0 && !p.Encloses(begin[len(begin)-1].StepIndex, r.StepIndex) {
			return begin
		}
		begin = append(begin, r)
		again := n.IsContainer() && n.Parallel == nil && (n.Loop == nil && n.Rollout == nil || r.Continues > 0)
		if !again || r.Status == sm.StepSkipped {
			return begin // it begins with this step, or with the whole of it
		}
	}
	if len(begin) > 0 && begin[len(begin)-1].Failure != nil {
		return begin // it failed before anything in it was entered
	}
	return nil // it has only opened steps
}

// beginning returns where a retry begins that names no step. resume is the step run in a loop or
// rollout with which it continues; nil outside of them, or if it begins with a whole one.
func (d *decider) beginning(p *spec.Program, to sm.ExecutionState) (from int, resume *workflow.StepRun) {
	x := d.execution
	if len(beginOf(x, p, x.LastForwardTry())) == 0 {
		return x.PC, x.StepRunBySeq(x.ResumeSeq) // begin where the failed try was meant to begin
	}
	if first := d.firstToRepeat(to); first != nil {
		if d.outermostLoop(p, first.StepIndex) < 0 {
			return first.StepIndex, nil
		}
		return first.StepIndex, first
	}
	if from = min(x.PC, len(p.Nodes)-1); d.reachedEnd() && x.Error != nil && p.IndexOf(x.Error.Step) >= 0 {
		from = p.IndexOf(x.Error.Step) // a doubt remains where the definition continued after a failure
	}
	if loop := d.outermostLoop(p, from); loop >= 0 {
		return loop, nil // the round is unknown
	}
	return p.OutsideBranches(from), nil
}

// outermostLoop returns the outermost loop or rollout around a node; -1 for none.
func (d *decider) outermostLoop(p *spec.Program, node int) int {
	outermost := -1
	for at := p.Nodes[node].Parent; at >= 0; at = p.Nodes[at].Parent {
		if p.Nodes[at].Loop != nil || p.Nodes[at].Rollout != nil {
			outermost = at
		}
	}
	return outermost
}

// firstToRepeat returns the first step run on the path that must be executed again, because it did
// not end well or something of it was undone; nil if there is none. If the execution came to its
// end although entities failed on the way, it also considers step runs in which such an entity
// failed.
//
// Only tries since the last one that covered all entities of the new try are decisive: each of them
// began with the first step run that had to be repeated. What a later try has executed, it has
// executed only for some entities.
func (d *decider) firstToRepeat(to sm.ExecutionState) *workflow.StepRun {
	path, since, came := d.path(), d.lastTryForAll(to), d.reachedEnd()
	for _, r := range path {
		forSome := r.Try > since && !(d.node(r).IsContainer() && d.node(r).Parallel == nil)
		if forSome || r.Try >= since && d.endedInFailure(r) || d.wasUndone(r, since, workflow.Counts.Executed) || came && d.hasExcluded(r) {
			return d.outsideBranches(r)
		}
	}
	passed := func(r *workflow.StepRun) bool { // the definition has continued after it
		return came && d.node(r).OnEntities() && (canBeInDoubt(r) || d.failedBranch(r)) && r.Counts.Failed+r.Counts.Unknown+r.Unmet > 0 && d.concernsKept(r)
	}
	if at := slices.IndexFunc(path, passed); at >= 0 {
		return d.outsideBranches(path[at])
	}
	return nil
}

// reachedEnd reports whether the last try has no step left to enter.
func (d *decider) reachedEnd() bool { return d.execution.PC >= len(d.facts.Resolution.Program.Nodes) }

// lastTryForAll returns the last try that covered all entities of the new one: the last try, if it
// was restricted to the same entities or more. Tries that only rolled back, or executed nothing,
// belong to the try before them.
func (d *decider) lastTryForAll(to sm.ExecutionState) int {
	x := d.execution
	last := d.lastTryWithSteps(x.LastForwardTry())
	if to == sm.ExecutionRunning || x.Scope.Only == nil {
		return max(1, last)
	}
	for try := d.lastTryWithSteps(min(last, x.Try-1)); try > 0; try = d.lastTryWithSteps(try - 1) {
		if x.PastScopes[try].Only == nil {
			return try
		}
	}
	return 0
}

// lastTryWithSteps returns the last try, at or before the given one, that entered a step; 0 if
// there is none.
func (d *decider) lastTryWithSteps(try int) int {
	for try > 0 && !slices.ContainsFunc(d.execution.StepRuns, func(r workflow.StepRun) bool { return r.Forward() && r.Try == try }) {
		try--
	}
	return try
}

// endedInFailure reports whether a step run did not complete for a reason of its own, and nothing
// handles that. A failure in a branch counts as a failure of the step that has the branches.
func (d *decider) endedInFailure(r *workflow.StepRun) bool {
	p, n := d.facts.Resolution.Program, d.node(r)
	if r.Status != sm.StepFailed && r.Status != sm.StepCancelled || r.Handled > 0 || p.InBranch(r.StepIndex) || p.ContinuesOnError(r.StepIndex) && d.continuedAfter(r) {
		return false
	}
	return !n.IsContainer() || n.Parallel != nil || r.Failure != nil
}

// continuedAfter reports whether the execution has continued after the failure of a step run. After a
// doubt in a wave, for example, it has not, whatever the definition says.
func (d *decider) continuedAfter(r *workflow.StepRun) bool {
	if d.reachedEnd() && d.execution.StoppedRollout() == nil {
		return true
	}
	return slices.ContainsFunc(d.execution.StepRuns, func(o workflow.StepRun) bool {
		return o.Forward() && o.Try == r.Try && o.Seq > r.Seq && (o.Pipeline == 0 || o.Pipeline != r.Pipeline)
	})
}

// wasUndone reports whether a rollback since a try has undone work of a step run, or work that it
// builds on. jobs selects the jobs of a rollback that count. Rollbacks that concern only released
// entities do not matter to this try.
func (d *decider) wasUndone(r *workflow.StepRun, since int, jobs func(workflow.Counts) int) bool {
	return slices.ContainsFunc(d.execution.StepRuns, func(u workflow.StepRun) bool {
		if u.Kind != workflow.JobRollback || u.StepIndex != r.StepIndex || u.Try < since || jobs(u.Counts) == 0 || !d.concernsKept(&u) {
			return false
		}
		undone := d.execution.StepRunBySeq(u.Undoes)
		return undone != nil && undone.Seq <= r.Seq && d.execution.SameRound(undone, r)
	})
}

// hasExcluded reports whether entities have failed in a step run and take no part in what followed.
func (d *decider) hasExcluded(r *workflow.StepRun) bool {
	p, failed := d.facts.Resolution.Program, r.Counts.Unknown
	if !p.ContinuesOnError(r.StepIndex) {
		failed += r.Counts.Failed + r.Unmet
	}
	return failed > 0 && r.Status == sm.StepCompleted && d.node(r).OnEntities() && !p.InBranch(r.StepIndex) && d.concernsKept(r)
}

// failedBranch reports whether a step run has failed its branch, and nothing handles that.
func (d *decider) failedBranch(r *workflow.StepRun) bool {
	p := d.facts.Resolution.Program
	return r.Status == sm.StepFailed && p.InBranch(r.StepIndex) && r.Handled == 0 && !p.ContinuesOnError(r.StepIndex)
}

// concernsKept reports whether a step run concerns entities of the new try.
func (d *decider) concernsKept(r *workflow.StepRun) bool {
	return d.facts.KeptJobs == nil || !d.node(r).OnEntities() || d.facts.KeptJobs.In[r.Seq]
}

// outsideBranches returns the outermost step run with branches around a step run, or the step run
// itself if there is none. Branches are executed again as a whole.
func (d *decider) outsideBranches(r *workflow.StepRun) *workflow.StepRun {
	outside := r
	for r != nil && r.In > 0 {
		if r = d.execution.StepRunBySeq(r.In); r != nil && d.node(r).Parallel != nil {
			outside = r
		}
	}
	first := d.execution.FirstOfBranches(outside.Seq)
	for _, o := range d.path() { // of a branch that was kept, it is the one that keeps it
		if o.StepIndex == outside.StepIndex && d.execution.FirstOfBranches(o.Seq) == first {
			outside = o
		}
	}
	return outside
}

// beginningAt returns where a retry begins that names a step. Inside a loop or rollout it continues
// with the last run of the step at or before the first that must be executed again, or with the
// whole loop if there is none.
func (d *decider) beginningAt(p *spec.Program, label string, to sm.ExecutionState) (from int, resume *workflow.StepRun, err error) {
	if from, err = stepNamed(p, label, "from", "begin at"); err != nil {
		return from, nil, err
	}
	path, since := d.path(), d.lastTryForAll(to)
	at := slices.IndexFunc(path, func(r *workflow.StepRun) bool { return r.StepIndex == from })
	if at < 0 {
		return from, nil, invalidRequest("from", fmt.Sprintf("step %q has not been reached: the last step reached is %q", label, p.Nodes[d.lastReachedStep()].Label))
	}
	for _, r := range path[:at] {
		switch {
		case d.wasUndone(r, since, func(c workflow.Counts) int { return c.OK }):
			return from, nil, invalidRequest("from", fmt.Sprintf("step %q was rolled back and has to be executed again: begin at or before it", r.Label))
		case r.Try >= since && d.endedInFailure(r):
			return from, nil, invalidRequest("from", fmt.Sprintf("step %q failed and has to be executed again: begin at or before it", r.Label))
		}
	}
	from, resume = d.lastRunOf(p, from, d.firstToRepeat(to))
	return from, resume, nil
}

// lastRunOf returns the last run of a step in a loop or rollout on the path, at or before limit.
// Outside of loops, or if there is no such run, resume is nil, and the retry begins with the step
// or with the whole loop.
func (d *decider) lastRunOf(p *spec.Program, at int, limit *workflow.StepRun) (from int, resume *workflow.StepRun) {
	loop := d.outermostLoop(p, at)
	if loop < 0 {
		return at, nil
	}
	for _, r := range d.path() {
		if r.StepIndex == at && limit != nil {
			resume = r
		}
		if r == limit {
			break
		}
	}
	if resume == nil {
		return loop, nil
	}
	return at, resume
}

// keepsResults reports whether a step run, in a retry of the failed entities, keeps the results of
// earlier tries for the same step and round, because it repeats them. If the try has gone back, to
// a step before its beginning or to one of its own steps, that step is executed for all entities.
func (d *decider) keepsResults(r *workflow.StepRun) bool {
	x := d.execution
	if !x.OnlyFailed || !d.inLoopOf(r, x.StepRunBySeq(x.ResumeSeq)) {
		return false
	}
	program := d.facts.Resolution.Program
	at, entered := PlaceOf(x, program, r), x.StepRuns
	x.StepRuns = append(slices.Clone(entered), *r)
	path, cut, last := d.path(), 0, 0
	x.StepRuns = entered
	for i := range x.StepRuns {
		o := &x.StepRuns[i]
		if !o.Forward() || o.StepIndex != r.StepIndex || o.Iteration != r.Iteration || PlaceOf(x, program, o) != at {
			continue
		}
		if o.Try == x.Try {
			return false
		}
		if slices.ContainsFunc(path, func(p *workflow.StepRun) bool { return p.Seq == o.Seq }) {
			last = o.Seq
		} else if o.SupersededBy == 0 {
			cut = o.Seq
		}
	}
	return last == 0 || cut > last // what stands may build on an earlier one
}

// repetitionToBegin returns the repetition in which the try continues, for a step around the one
// with which it begins. That is the repetition of the first step run that it repeats, or the last
// one if it begins with a step that was next anyway.
func (d *decider) repetitionToBegin(around int) int {
	before, p := *d.execution, d.facts.Resolution.Program
	before.StepRuns = slices.DeleteFunc(slices.Clone(before.StepRuns), func(r workflow.StepRun) bool { return r.Try == before.Try })
	begin := before.StepRunBySeq(before.ResumeSeq)
	if path := Path(&before, p); begin == nil {
		begin = &workflow.StepRun{Seq: before.StepRunSeq + 1}
		if at := slices.IndexFunc(path, func(r *workflow.StepRun) bool { return r.StepIndex == d.cursor().PC }); at >= 0 {
			begin = path[at]
		}
	}
	return max(1, before.RepetitionAround(around, begin))
}

// Place is the position of a step run: its step, the loop and round, and the repetition of each
// surrounding step.
type Place struct {
	step, loop, time int
	repetitions      string
}

// PlaceOf returns the place of a step run of an execution, or of one that is entered next.
func PlaceOf(x *workflow.Execution, p *spec.Program, r *workflow.StepRun) Place {
	at := Place{step: r.StepIndex}
	at.loop, at.time = x.RoundOf(r)
	for node := p.Nodes[r.StepIndex].Parent; node >= 0; node = p.Nodes[node].Parent {
		if p.Nodes[node].Repeat != nil {
			at.repetitions += fmt.Sprint(x.RepetitionAround(node, r), ".")
		}
	}
	return at
}
