package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// dispatching is a definition that works on the devices it is started with and
// then has another work on some.
func dispatching(child string, devices string) string {
	return steps("one once device") + fmt.Sprintf("  - label: then\n    workflowReference: {workflow: p/%s, mode: dispatch, executeOnParameters: {ids: [%s], type: device}}\n", child, devices)
}

// children are the runs that a run has started.
func children(s *stage.Stage, id string) (all []*workflow.Execution) {
	for other := range s.States(stage.Caller.Tenant) {
		if x := s.Load(other); x.Parent != nil && x.Parent.Execution == id {
			all = append(all, x)
		}
	}
	return all
}

// A child that wants what its parent holds would wait for the run that waits for
// it: it ends at once, long before the deadline of waiting for locks.
func TestChildWaitsForItsParent(t *testing.T) {
	s := open(t, 2)
	s.Publish("child", steps("two once device"))
	s.Publish("parent", dispatching("child", "d000"))
	begin := s.Now()
	parent := s.Start("parent", "d000", "d001")
	settle(s)
	found := children(s, parent)
	if len(found) != 1 {
		t.Fatalf("it has started %d runs; it went %v", len(found), s.Moves(parent))
	}
	if x := s.Ends(found[0].ID, sm.ExecutionFailedSafeAck); x.Cause != workflow.CauseLockDeadlock || x.Error.Entity != "device/d000" {
		t.Errorf("cause %s, %+v", x.Cause, x.Error)
	}
	if x := s.Load(parent); !sm.Terminal(x.State) || x.Cause != workflow.CauseChildFailed {
		t.Errorf("the parent is in %s: %s, %+v", x.State, x.Cause, x.Error)
	}
	if waited := s.Load(found[0].ID).EndedAt.Sub(begin); waited > time.Minute {
		t.Errorf("it took %s", waited)
	}
}

// Two parents, each holding what the other's child wants: one of the children
// ends, and with it the circle.
func TestTwoFamilies(t *testing.T) {
	s := open(t, 2)
	s.Publish("child", steps("two once device"))
	s.Publish("first", dispatching("child", "d001"))
	s.Publish("second", dispatching("child", "d000"))
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
func TestChildOfAnotherEntity(t *testing.T) {
	s := open(t, 2)
	s.Publish("child", steps("two once device"))
	s.Publish("parent", dispatching("child", "d001"))
	parent := s.Start("parent", "d000")
	settle(s)
	s.Ends(parent, sm.ExecutionCompletedAck)
	for _, child := range children(s, parent) {
		if s.Ends(child.ID, sm.ExecutionCompletedAck); child.Age() != parent {
			t.Errorf("the child is as old as %s", child.Age())
		}
	}
}
