package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
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

// checkDeleted checks what must hold for an execution over two devices, the first of which somebody
// has tried to delete at any time. ended means that the execution had ended by then.
func checkDeleted(s *harness.Harness, n int, id string, ended bool, err error) {
	s.Helper()
	settle(s)
	x, exists := s.Load(id), loadEntity(s, "d000").ID != ""
	called := strings.Contains(strings.Join(s.CallsOf(id), " "), "d000")
	switch {
	case workflow.Is(err, workflow.CodeEntityLocked):
		if !exists || x.State != sm.ExecutionCompletedAck {
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

// An entity is deleted before each call that an execution over it makes. Either the deletion is
// refused, and the execution continues as if nobody had tried; or the entity is gone, and no block
// is called for it.
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
	kept := false // an execution has locked it in between
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
		kept = kept || n > 4 && workflow.Is(err, workflow.CodeEntityLocked)
		checkDeleted(s, n, id, false, err)
	}
	if !kept {
		t.Error("no execution has locked it in between")
	}
}

// A deletion makes some calls; then an execution over the entity makes some, and perhaps somebody
// imports the entity; then one of the next calls of the deletion fails. While the execution works
// on the entity, the entity exists with everything that it had. Repeating the deletion deletes it.
func TestDeleteEntity_SurvivesAFaultAtEveryCall(t *testing.T) {
	gone, refused, unmarked := 0, 0, 0
	for _, fault := range []faults.Fault{faults.None, faults.Throttled, faults.LostReply, faults.Repeated, faults.CrashBefore, faults.CrashAfter} {
		for made := range 8 {
			for at := 1; at < 9-made; at++ {
				for _, until := range []string{"", "registry.entities", "locks.take", "registry.entities again", "registry.write_entities"} {
					for _, imports := range []bool{false, true} {
						name := fmt.Sprintf("%v at %d after %d, execution until %q, import %t", fault, at, made, until, imports)
						s := newHarness(t, 2)
						s.Publish("w", stepsYAML("one again device"))
						ctx := context.Background()
						if _, err := s.Catalog.PatchEntity(ctx, harness.Caller, firstDevice, views.EntityPatch{Set: map[string]json.RawMessage{"by": json.RawMessage("1")}}); err != nil {
							t.Fatal(err)
						}
						var id string
						var err error
						remove := func() { _, err = s.Catalog.DeleteEntity(ctx, harness.Caller, firstDevice, nil) }
						deletion, execution := s.StartTask("deletion", remove), s.StartTask("execution", func() { id = s.Start("w", "d000", "d001"); settle(s) })
						if !runFor(deletion, made) {
							continue
						}
						call, again := strings.CutSuffix(until, " again")
						if until != "" && !execution.RunPast(call) || again && !execution.RunPast(call) {
							continue // only an execution that finds the mark writes the entity
						}
						if imports {
							if _, err := s.Catalog.ImportEntities(ctx, harness.Caller, strings.NewReader(`{"type":"device","id":"d000","attributes":{"site":"zrh"}}`), false); err != nil {
								t.Fatal(err)
							}
						}
						s.Faults = faults.At(at, fault)
						deletion.Finish()
						s.Faults = nil
						if until == "registry.write_entities" {
							unmarked++
						}
						e := loadEntity(s, "d000")
						had := strings.Contains(string(e.Attributes), `"by":1`)
						execution.Finish()
						called := strings.Contains(strings.Join(s.CallsOf(id), " "), "d000")
						switch x := s.Load(id); {
						case e.ID == "":
							gone++
							if called || x.State != sm.ExecutionFailedSafeAck {
								t.Errorf("%s: gone, and the execution is %s after %v", name, x.State, s.CallsOf(id))
							}
						case !had && !(imports && err == nil):
							t.Errorf("%s: it has only %s (%v)", name, e.Attributes, err)
						case !called || x.State != sm.ExecutionCompletedAck:
							t.Errorf("%s: it is there, and the execution is %s with %+v after %v", name, x.State, x.Error, s.CallsOf(id))
						case workflow.Is(err, workflow.CodeEntityLocked):
							refused++
						}
						if remove(); err != nil && !workflow.Is(err, workflow.CodeNotFound) || loadEntity(s, "d000").ID != "" {
							t.Errorf("%s: sent again: %v", name, err)
						}
					}
				}
			}
		}
	}
	if min(gone, refused, unmarked) < 5 {
		t.Errorf("%d are gone, %d refused, %d found the mark: the test does not see all of it", gone, refused, unmarked)
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

// The entities that a request names are read weakly consistent: an entity created a moment ago is
// found all the same, and one deleted a moment ago ends the execution.
func TestStart_FindsEntitiesThatAWeakReadDoesNotShow(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", stepsYAML("one again device"))
	s.Faults = func(c faults.Call) faults.Fault {
		if strings.HasSuffix(c.Name, "_weakly") {
			return faults.Stale
		}
		return faults.None
	}
	id := s.Start("w", "d000", "d001")
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)

	if _, err := s.Catalog.DeleteEntity(context.Background(), harness.Caller, firstDevice, nil); err != nil {
		t.Fatal(err)
	}
	id = s.Start("w", "d000", "d001")
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error.Code != workflow.FailureEntityNotFound || x.Error.Entity != "device/d000" {
		t.Errorf("it failed with %+v", x.Error)
	}
	if calls := s.CallsOf(id); len(calls) > 0 {
		t.Errorf("blocks were called: %v", calls)
	}
}
