package oracle

import (
	"cmp"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
)

// lawEnds is the law about executions that need a person.
const lawEnds = "an execution ends unsafe only where something is left that a person has to look at"

// Ends counts how later tries have ended that came to the end of their definition, or left something unsafe.
type Ends struct {
	Later  int // that began after another try
	Judged int // of these, those whose end and entities were judged
}

// countEnd counts the end of a later try, and whether it was judged since so many were.
func (x *execution) countEnd(before, after *workflow.Execution, judged int) {
	completes, fails := endsAs(after)
	if Terminal(before.State) || after.Try < 2 || after.State != sm.ExecutionFailedUnsafe && after.State != sm.ExecutionCompleted && after.State != sm.ExecutionCompletedAck || !completes && !fails {
		return
	}
	if x.Ends.Later++; x.ends > judged {
		x.Ends.Judged++
	}
}

// trace is what the jobs of all tries have done to an entity.
type trace struct {
	took    bool // one was executed, or has failed
	changed bool // one was executed that is not pure
	left    bool // and was not undone
	doubt   bool // and whether, or how far, it was executed is not known
	unknown bool // for whom something was undone is not known
}

// add adds the job of a step run.
func (t *trace) add(x *execution, r *workflow.StepRun, c code, block, id string) {
	if t.took = t.took || c.executed() || c.code == workflow.JobCodeFail; !c.executed() || block == "pure" {
		return
	}
	undone, known := x.undoneWell(r, id)
	t.changed, t.unknown = true, t.unknown || !known
	t.left, t.doubt = t.left || !undone, t.doubt || !undone && c.inDoubt(block)
}

// undoneWell reports whether a rollback in any try has undone what a step run did to an entity. known is false
// if the worker of one died before it called the block.
func (x *execution) undoneWell(r *workflow.StepRun, id string) (undone, known bool) {
	known = true
	for i := range x.x.StepRuns {
		u := &x.x.StepRuns[i]
		if u.Kind != workflow.JobRollback || u.Undoes != r.Seq {
			continue
		}
		for index := range x.records[u.Seq] {
			c, attempt := x.latest(u.Seq, index)
			made := x.calls[workflow.JobID(x.x.ID, u.Seq, index, attempt)]
			known = known && (made != nil || !c.executed())
			undone = undone || made != nil && made.Entity == id && c.code == workflow.JobCodeOK
		}
	}
	return undone, known
}

// checkUnsafe requires that something is left that a person has to look at, when an execution ends in
// FAILED_UNSAFE: a job was executed that is not pure, and has not been undone, in whatever try.
func (x *execution) checkUnsafe(before, after *workflow.Execution) {
	if Terminal(before.State) || after.State != sm.ExecutionFailedUnsafe || after.Cause == workflow.CauseRestored || after.Cause == workflow.CauseInternal || after.MinFencingToken > 0 {
		return
	}
	if x.notHeld = x.notHeld || stoppedAtUpdate(after); x.notHeld {
		return // nothing says what a person has to look at
	}
	for i := range after.StepRuns {
		if x.isLeft(&after.StepRuns[i]) {
			return
		}
	}
	x.Failf(lawEnds, "%s has ended in %s with %+v, and nothing of what it has executed is left", after.ID, after.State, after.Error)
}

// stoppedAtUpdate reports whether an execution was stopped because a job has asked for an update of an entity that is not
// the execution's. Nothing is told of its entities then.
func stoppedAtUpdate(x *workflow.Execution) bool {
	return x.Error != nil && x.Error.Code == workflow.FailureEntityNotHeld
}

// endsAs reports whether a write ends a try that has come to the end of its definition, and whether it ends one that
// fails as a whole; neither for a try that ends before it has its locks, which ends as the one before did.
func endsAs(after *workflow.Execution) (completes, fails bool) {
	for _, e := range after.Events {
		if !Terminal(sm.ExecutionState(e.To)) || Terminal(sm.ExecutionState(e.From)) {
			continue
		}
		switch e.From {
		case "RUNNING", "WAITING":
			completes, fails = true, false
		case "ROLLBACK":
			completes, fails = after.Undo != nil, after.Undo == nil
		default:
			completes, fails = false, e.From == "ERROR"
		}
	}
	return completes, fails
}

// isLeft reports whether a step run has changed something that is not undone. What steps have changed that call no
// block is not looked at.
func (x *execution) isLeft(r *workflow.StepRun) bool {
	if !r.Forward() {
		return false
	}
	block := x.blockOf(r)
	if block == "" {
		return r.Child != nil || r.Jobs > 0 || r.Kind != ""
	}
	left := 0
	for index := range x.records[r.Seq] {
		if c, _ := x.latest(r.Seq, index); c.executed() && block != "pure" {
			left++
		}
	}
	for i := range x.x.StepRuns {
		u := &x.x.StepRuns[i]
		if u.Kind != workflow.JobRollback || u.Undoes != r.Seq {
			continue
		}
		for index := range x.records[u.Seq] {
			if c, _ := x.latest(u.Seq, index); c.code == workflow.JobCodeOK {
				left--
			}
		}
	}
	return left > 0
}

// blockOf returns the name of the block that a step run calls, "" for none.
func (x *execution) blockOf(r *workflow.StepRun) string {
	if x.followed != nil {
		if s := x.followed.definition.Find(r.Label); s != nil {
			return s.Block
		}
		return ""
	}
	if n := x.program.find(r.Label); n >= 0 {
		if b := x.program.block(n); b != nil {
			return b.Name
		}
	}
	return ""
}

// undoFails reports whether a rollback has not ended well since the last try that executed steps.
func undoFails(x *workflow.Execution, since int) bool {
	return slices.ContainsFunc(x.StepRuns, func(r workflow.StepRun) bool {
		return r.Kind == workflow.JobRollback && max(1, r.Try) >= since && r.Status != sm.StepCompleted
	})
}

// traceOf returns what all tries have done to an entity.
func (x *execution) traceOf(id string) (t trace) {
	for i := range x.x.StepRuns {
		r := &x.x.StepRuns[i]
		if n := x.program.find(r.Label); r.Kind != workflow.JobExecute || n < 0 || x.program.block(n) == nil || !x.program.block(n).OnDevice {
			continue
		}
		switch f := x.fateOf(r, id); f.part {
		case partUnmet:
			t.took = true
		case partJob:
			t.add(x, r, f.code, x.blockOf(r), id)
		}
	}
	return t
}

// checkTold requires that what is told of each entity follows from what all tries did to it, and from how its jobs have
// ended that no later try has made again. It also requires that an execution that has come to the end of its
// definition ends unsafe if that is told of one of them, and only then.
func (x *execution) checkTold() {
	t := x.currentTry()
	completes, fails := endsAs(x.x)
	if completes {
		x.checkComplete()
	}
	if x.x.Probe || !completes && !fails || stoppedAtUpdate(x.x) {
		return
	}
	if x.unjudged || t == nil {
		return
	}
	unsafe, judged := false, true
	for _, id := range t.entities {
		place := x.placeOf(t, id)
		did := x.traceOf(id)
		if x.unjudged || did.unknown || place == 0 {
			judged = false
			continue
		}
		failed, _ := x.failure(id)
		want := x.wantTold(did, failed, fails)
		unsafe = unsafe || want == workflow.EntityFailedUnsafe
		if got := told(x.x, place); got != want {
			x.Failf(lawTold, "%s tells %s as %s, want %s: it failed %v, the execution failed %v, %+v", x.x.ID, id, got, want, failed, fails, did)
		}
	}
	for i, id := range t.places {
		if was, known := t.told[i+1]; known && !slices.Contains(t.entities, id) && told(x.x, i+1) != was {
			x.Failf(lawTold, "%s tells %s as %s, which was %s before a try that is not about it", x.x.ID, id, told(x.x, i+1), was)
		}
	}
	if !judged {
		return
	}
	if x.ends++; fails {
		return
	}
	explained := unsafe || undoFails(x.x, x.lastForward()) || t.rollsBack
	if isUnsafe := x.x.State == sm.ExecutionFailedUnsafe; isUnsafe && !explained || unsafe && !isUnsafe {
		x.Failf(lawEnds, "try %d of %s has come to the end of its definition and ended in %s, and has entities to look at %v", x.x.Try, x.x.ID, x.x.State, unsafe)
	}
}

// wantTold returns the outcome of an entity.
func (x *execution) wantTold(did trace, failed, fails bool) workflow.EntityOutcome {
	onDevices := slices.ContainsFunc(x.program.nodes, func(n node) bool {
		b, ok := n.Body.(*defgen.Block)
		return ok && b.OnDevice
	})
	switch {
	case fails && did.left:
		return workflow.EntityFailedUnsafe
	case fails:
		return workflow.EntityFailedSafe
	case !did.took && onDevices:
		return workflow.EntitySkipped
	case !failed:
		return workflow.EntitySucceeded
	case !did.left:
		return workflow.EntityFailedSafe
	case x.program.definition.LeavesFailed && !did.doubt:
		return workflow.EntityLeft
	}
	return workflow.EntityFailedUnsafe
}

// placeOf returns the place of an entity, 0 if it is not known.
func (x *execution) placeOf(t *try, id string) int {
	if t.places != nil {
		return slices.Index(t.places, id) + 1
	}
	for i := range x.x.Scope.Inline {
		if e := &x.x.Scope.Inline[i]; e.Key.ID == id {
			return cmp.Or(e.Place, i+1)
		}
	}
	return 0
}

// lastForward returns the number of the last try that executed steps.
func (x *execution) lastForward() int {
	n := x.x.Try
	for n > 1 && x.tries[n] != nil && x.tries[n].rollsBack {
		n--
	}
	return n
}

// toldOf returns what was told of each entity, by place.
func toldOf(x *workflow.Execution, entities []string) map[int]workflow.EntityOutcome {
	all := map[int]workflow.EntityOutcome{}
	for i := range entities {
		if all[i+1] = told(x, i+1); x.Result == nil {
			all[i+1] = workflow.EntityFailedUnsafe // nothing is known of any
		}
	}
	return all
}
