package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// dispatchWorkflow is a definition that works on the devices it is started with and
// then has another work on some.
func dispatchWorkflow(child string, devices string) string {
	return stepsYAML("one once device") + fmt.Sprintf("  - label: then\n    workflowReference: {workflow: p/%s, mode: dispatch, executeOnParameters: {ids: [%s], type: device}}\n", child, devices)
}

// children are the runs that a run has started.
func children(s *harness.Harness, id string) (all []*workflow.Execution) {
	for other := range s.States(harness.Caller.Tenant) {
		if x := s.Load(other); x.Parent != nil && x.Parent.Execution == id {
			all = append(all, x)
		}
	}
	return all
}

// A child that wants what its parent holds would wait for the run that waits for
// it: it ends at once, long before the deadline of waiting for locks.
func TestDeadlock_EndsChildWaitingForParent(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("child", stepsYAML("two once device"))
	s.Publish("parent", dispatchWorkflow("child", "d000"))
	begin := s.Now()
	parent := s.Start("parent", "d000", "d001")
	settle(s)
	childExecutions := children(s, parent)
	if len(childExecutions) != 1 {
		t.Fatalf("it has started %d runs; it went %v", len(childExecutions), s.ExecutionStates(parent))
	}
	if x := s.ExpectState(childExecutions[0].ID, sm.ExecutionFailedSafeAck); x.Cause != workflow.CauseLockDeadlock || x.Error.Entity != "device/d000" {
		t.Errorf("cause %s, %+v", x.Cause, x.Error)
	}
	if x := s.Load(parent); !sm.Terminal(x.State) || x.Cause != workflow.CauseChildFailed {
		t.Errorf("the parent is in %s: %s, %+v", x.State, x.Cause, x.Error)
	}
	if waited := s.Load(childExecutions[0].ID).EndedAt.Sub(begin); waited > time.Minute {
		t.Errorf("it took %s", waited)
	}
}

// Two parents, each holding what the other's child wants: one of the children
// ends, and with it the circle.
func TestDeadlock_BreaksCycleAcrossTwoParents(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("child", stepsYAML("two once device"))
	s.Publish("first", dispatchWorkflow("child", "d001"))
	s.Publish("second", dispatchWorkflow("child", "d000"))
	begin := s.Now()
	a, b := s.Start("first", "d000"), s.Start("second", "d001")
	settle(s)
	deadlocks := 0
	for _, id := range []string{a, b} {
		x := s.Load(id)
		if !sm.Terminal(x.State) || x.EndedAt.Sub(begin) > 10*time.Minute {
			t.Errorf("%s is in %s, ended %s", id, x.State, x.EndedAt)
		}
		for _, child := range children(s, id) {
			if child.Cause == workflow.CauseLockDeadlock {
				deadlocks++
			}
		}
	}
	if deadlocks == 0 {
		t.Error("no child has met itself")
	}
}

// A child that wants something else than its parent holds is none of this, and
// is as old as its root.
func TestDeadlock_IgnoresChildOfAnotherEntity(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("child", stepsYAML("two once device"))
	s.Publish("parent", dispatchWorkflow("child", "d001"))
	parent := s.Start("parent", "d000")
	settle(s)
	s.ExpectState(parent, sm.ExecutionCompletedAck)
	for _, child := range children(s, parent) {
		if s.ExpectState(child.ID, sm.ExecutionCompletedAck); child.Age() != parent {
			t.Errorf("the child is as old as %s", child.Age())
		}
	}
}
