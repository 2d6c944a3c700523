package oracle

import (
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
)

// lawStepping is the law about executions that are held, or stepped through.
const lawStepping = "an execution that is held begins, and one that is stepped through goes on, only as an operator says"

// stepping is what operators have let an execution do that was started with hold, or in step mode.
type stepping struct {
	released bool           // it may begin
	all      bool           // it may enter all steps
	named    map[int64]bool // the waits, by the event with which each began, that requests have named
	unnamed  int            // the requests that have named none
	leave    bool           // it may enter one more step in this try
}

// NextSent is called before an operator lets an execution go on. sequence is the event with which
// its wait in front of a step has begun, 0 for the wait that is open.
func (o *Oracle) NextSent(id string, sequence int64, all bool) {
	x := o.executions[id]
	if x == nil {
		return
	}
	s := &x.stepping
	if s.released, s.all = true, s.all || all; sequence == 0 {
		s.unnamed++
		return
	}
	if s.named == nil {
		s.named = map[int64]bool{}
	}
	s.named[sequence] = true
}

// Released is called before an operator lets an execution begin that was held.
func (o *Oracle) Released(id string) {
	if x := o.executions[id]; x != nil {
		x.stepping.released = true
	}
}

// checkStepping judges the steps that a write enters, and whether the execution may begin.
func (x *execution) checkStepping(before, after *workflow.Execution) {
	s := &x.stepping
	if x.request.Hold && !s.released && (after.Epoch > 0 || len(after.StepRuns) > 0) {
		x.Failf(lawStepping, "%s is held, and is in %s at epoch %d with %d step runs", after.ID, after.State, after.Epoch, len(after.StepRuns))
	}
	if !x.request.Stepping {
		return
	}
	if after.Try != before.Try {
		s.leave = false
	}
	if s.leave = s.leave || x.wasLetGoOn(before, after); s.all {
		return
	}
	for i := len(before.StepRuns); i < len(after.StepRuns); i++ {
		if r := &after.StepRuns[i]; r.Forward() && x.isEnteredByItself(r) {
			if !s.leave {
				x.Failf(lawStepping, "%s has entered step %s as step run %d, and no operator has let it", after.ID, r.Label, r.Seq)
			}
			s.leave = false
		}
	}
}

// wasLetGoOn reports whether a write ends a wait in front of a step because an operator has asked for
// that, or a step for which somebody has given the last answer together with that request.
func (x *execution) wasLetGoOn(before, after *workflow.Execution) bool {
	s := &x.stepping
	if w := before.Wait; w != nil && w.Kind == workflow.WaitStep {
		for _, e := range after.Events {
			if e.Sequence <= before.Sequence || sm.Event(e.Type) != sm.EventExecutionResumed || e.Actor == "" {
				continue
			}
			if s.named[w.Event] {
				return true
			}
			s.unnamed--
			return s.unnamed >= 0
		}
	}
	if x.waits == nil {
		return false
	}
	if x.waits.over {
		s.all = true // nothing is known of answers any more
	}
	for i := range before.StepRuns {
		r := &after.StepRuns[i]
		for n := len(before.StepRuns[i].Answers); n < len(r.Answers); n++ {
			sent := x.waits.sent[r.Answers[n].Key]
			if decided, _ := decision(x.followed.definition.Find(r.Label).Ask, r.Answers[:n+1]); sent == nil || !sent.Next || !decided {
				continue
			}
			s.all = s.all || sent.All
			return x.followed.branches[r.Label] == "" // what follows in a branch needs no leave
		}
	}
	return false
}

// isEnteredByItself reports whether a new step run needs an operator's leave: it is of a step that
// does something itself, for somebody, and in no branch. Branches are entered together. A step that fails in the
// write that enters it, because a step that it requires was not executed, has done nothing, whoever handles that.
// Neither has one that starts several executions, if all of them stand from an earlier try.
func (x *execution) isEnteredByItself(r *workflow.StepRun) bool {
	if r.Jobs == 0 && (r.Kind != "" || slices.Contains([]sm.StepState{sm.StepFailed, sm.StepCaseHandled, sm.StepSkipped}, r.Status)) {
		return false
	}
	if x.followed == nil {
		n := x.program.find(r.Label)
		if n < 0 || x.program.contains(n) {
			return false
		}
		_, starts := x.program.nodes[n].Body.(*defgen.ChildSet)
		return r.Jobs > 0 || !starts
	}
	s := x.followed.definition.Find(r.Label)
	return s != nil && !s.IsContainer() && x.followed.branches[r.Label] == ""
}
