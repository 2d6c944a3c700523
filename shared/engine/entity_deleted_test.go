package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/faults"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

var firstDevice = workflow.EntityKey{Type: "device", ID: "d000"}

// runFor makes the first n calls of a task, and reports whether it is not over then.
func runFor(task *faults.Task, n int) bool {
	for range n {
		if task.Done() {
			return false
		}
		task.Step()
	}
	return !task.Done()
}

// checkDeleted checks what must hold of an execution over two devices, the first of which
// somebody has tried to delete at any time. ended says whether the execution had ended then.
func checkDeleted(s *harness.Harness, n int, id string, ended bool, err error) {
	s.Helper()
	settle(s)
	x, exists := s.Load(id), loadEntity(s, "d000").ID != ""
	called := strings.Contains(strings.Join(s.CallsOf(id), " "), "d000")
	switch {
	case workflow.Is(err, workflow.CodeEntityLocked):
		// It may be a moment in which the execution did not find the entity that was brought back.
		if failed := x.State == sm.ExecutionFailedSafeAck && !called; !exists || !failed && x.State != sm.ExecutionCompletedAck {
			s.Errorf("call %d: refused, but the entity is there: %t, and the execution %s %+v", n, exists, x.State, x.Error)
		}
		if !strings.Contains(err.Error(), id) {
			s.Errorf("call %d: the refusal does not name the execution: %v", n, err)
		}
	case err != nil:
		s.Errorf("call %d: %v", n, err)
	case exists:
		s.Errorf("call %d: the entity is still there", n)
	case ended && x.State == sm.ExecutionCompletedAck && called:
	case x.State != sm.ExecutionFailedSafeAck || x.Error.Code != workflow.FailureEntityNotFound || x.Error.Entity != "device/d000" || called:
		s.Errorf("call %d: deleted, and the execution is %s with %+v after %v", n, x.State, x.Error, s.CallsOf(id))
	}
	if locks := s.Locks(); len(locks) > 0 {
		s.Errorf("call %d: locks are left: %+v", n, locks)
	}
}

// An entity is deleted in front of each call that an execution over it makes: either the
// deletion is refused, and the execution goes on as if nobody had tried; or the entity is gone,
// and no block is called for it.
func TestDeleteEntity_AtAnyTimeOfAnExecution(t *testing.T) {
	refused, gone := 0, 0
	for n := 0; ; n++ {
		s := newHarness(t, 2)
		s.Publish("w", stepsYAML("one again device"))
		var id string
		execution := s.StartTask("execution", func() { id = s.Start("w", "d000", "d001"); settle(s) })
		if !runFor(execution, n) {
			break
		}
		ended := false
		for _, state := range s.States(harness.Caller.Tenant) {
			ended = ended || state == sm.ExecutionCompleted || state == sm.ExecutionCompletedAck
		}
		_, err := s.Catalog.DeleteEntity(context.Background(), harness.Caller, firstDevice, nil)
		execution.Finish()
		if workflow.Is(err, workflow.CodeEntityLocked) {
			refused++
		} else {
			gone++
		}
		checkDeleted(s, n, id, ended, err)
	}
	if refused < 5 || gone < 5 {
		t.Errorf("%d deletions were refused, %d made: the test sees only one of them", refused, gone)
	}
}

// An execution begins in front of each call that a deletion makes.
func TestDeleteEntity_WhileAnExecutionBegins(t *testing.T) {
	brought := false
	for n := 0; ; n++ {
		s := newHarness(t, 2)
		s.Publish("w", stepsYAML("one again device"))
		var err error
		deletion := s.StartTask("deletion", func() {
			_, err = s.Catalog.DeleteEntity(context.Background(), harness.Caller, firstDevice, nil)
		})
		if !runFor(deletion, n) {
			break
		}
		id := s.Start("w", "d000", "d001")
		deletion.Finish()
		version := loadEntity(s, "d000").Version
		brought = brought || version > 2
		checkDeleted(s, n, id, false, err)
	}
	if !brought {
		t.Error("no entity was brought back: no execution has locked it in between")
	}
}

// Whoever waits for a condition on an entity is woken by its deletion.
func TestDeleteEntity_WakesWatchers(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", "config: {startWhen: 'entity(\"device\", \"d000\").name == \"x\"'}\n"+stepsYAML("one pure device"))
	id := s.Start("w", "d001")
	s.Drain()
	before := s.Load(id).State
	ctx := context.Background()
	if _, err := s.Catalog.DeleteEntity(ctx, harness.Caller, firstDevice, nil); err != nil || before != sm.ExecutionBlockedWaiting {
		t.Fatal(before, err)
	}
	woken := false
	for s.Deliver() {
		woken = true
	}
	if !woken {
		t.Error("nobody was woken")
	}
}
