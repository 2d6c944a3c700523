package harness

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/oracle"
)

// FamilyProblem describes what is wrong with a child: something happens to it although the step run
// that started it has ended, and had waited for it or had counted it as one that does not begin. It
// returns "" if nothing is wrong.
func FamilyProblem(parent, child *workflow.Execution) string {
	if parent == nil || child.Parent == nil {
		return ""
	}
	r := parent.StepRunBySeq(child.Parent.StepRunSeq)
	if r == nil || r.Open() || r.LetGo || parent.Cause == workflow.CauseInternal || parent.Cause == workflow.CauseRestored || child.Cause == workflow.CauseRestored {
		return ""
	}
	if !child.Awaited() {
		return forgottenProblem(r, child)
	}
	undecided := child.State == sm.ExecutionNew || child.State == sm.ExecutionReady && child.Try > 1
	neverBegan := oracle.NeverBegan(child)
	if undecided || neverBegan || oracle.Over(child) {
		return ""
	}
	return fmt.Sprintf("%s is in %s, but step run %d of %s, which waited for it, has ended", child.ID, child.State, r.Seq, parent.ID)
}

// forgottenProblem describes what is wrong with a child for which the step run did not wait.
func forgottenProblem(r *workflow.StepRun, child *workflow.Execution) string {
	if r.Child == nil || r.Status == sm.StepCompleted || r.Child.Started || r.Counts.OK > 0 || child.State == sm.ExecutionNew || oracle.NeverBegan(child) {
		return ""
	}
	return fmt.Sprintf("%s is in %s, but step run %d, which started it, has ended and says that nothing has begun", child.ID, child.State, r.Seq)
}

// FamilyObserver fails a test when [FamilyProblem] reports a problem. It implements sim.Observer.
type FamilyObserver struct {
	Fail       func(problem string)
	executions map[string]*workflow.Execution
}

// ExecutionWritten compares the execution with its parent and its children.
func (o *FamilyObserver) ExecutionWritten(_, x *workflow.Execution) {
	if o.executions == nil {
		o.executions = map[string]*workflow.Execution{}
	}
	o.executions[x.ID] = x
	if x.Parent != nil {
		o.compare(x.Parent.Execution, x.ID)
	}
	for _, child := range o.executions {
		if child.Parent != nil && child.Parent.Execution == x.ID {
			o.compare(x.ID, child.ID)
		}
	}
}

func (o *FamilyObserver) compare(parent, child string) {
	if problem := FamilyProblem(o.executions[parent], o.executions[child]); problem != "" {
		o.Fail(problem)
	}
}

// WaitersRemaining does nothing, like the methods below it.
func (o *FamilyObserver) WaitersRemaining(string, int) {}

// LockWritten does nothing.
func (o *FamilyObserver) LockWritten(_, _ workflow.Lock) {}

// PackWritten does nothing.
func (o *FamilyObserver) PackWritten(_, _ *workflow.Pack) {}

// EntityWritten does nothing.
func (o *FamilyObserver) EntityWritten(_, _ workflow.Entity) {}

// RowWritten does nothing.
func (o *FamilyObserver) RowWritten(string, workflow.Row) {}

// ScheduleWritten does nothing.
func (o *FamilyObserver) ScheduleWritten(_, _ spec.Schedule) {}
