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
	entered  int            // the steps that it has entered
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
	for i := len(before.StepRuns); i < len(after.StepRuns); i++ {
		if r := &after.StepRuns[i]; r.Forward() && x.isEnteredByItself(r) {
			s.entered++
		}
	}
	if leave := len(s.named) + s.unnamed; s.entered > leave && !s.all {
		x.Failf(lawStepping, "%s has entered %d steps, the last one is %s, and operators have let it enter %d", after.ID, s.entered, after.LastStepRun().Label, leave)
	}
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
