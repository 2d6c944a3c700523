package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// advance delivers a wake-up for an execution.
func advance(s *harness.Harness, id string) {
	s.Helper()
	if err := s.Engine.Advance(context.Background(), workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: id}); err != nil {
		s.Error(err)
	}
}

// N27: B waits for a device that A holds, names A, and continues when A releases it,
// long before its timer.
func TestLocks_WaiterResumesOnRelease(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", stepsYAML("one once device"))
	a := s.Start("w", "d000")
	b := s.Start("w", "d001", "d000")
	x := s.ExpectState(b, sm.ExecutionScheduled)
	if x.BlockedBy == nil || x.BlockedBy.Execution != a || x.BlockedBy.Entity.ID != "d000" {
		t.Errorf("blocked by %+v", x.BlockedBy)
	}
	v, err := s.Query.Execution(context.Background(), harness.Caller, b)
	if err != nil || v.Waiting == nil || v.Waiting.Kind != workflow.WaitLock || *v.Waiting.Blockers[0].HeldBy != a || *v.Waiting.Blockers[0].Entity != "device/d000" {
		t.Errorf("waiting %+v, %v", v.Waiting, err)
	}
	begin := s.Now()
	s.Drain()
	s.ExpectState(a, sm.ExecutionCompletedAck)
	s.ExpectState(b, sm.ExecutionCompletedAck)
	if s.Now() != begin {
		t.Error("it took a timer")
	}
	s.CheckInvariants()
}

// N28: executions with disjoint entities do not wait for each other.
func TestLocks_DisjointEntitiesDoNotWait(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", stepsYAML("one once device"))
	for _, d := range harness.DeviceIDs(2) {
		s.ExpectState(s.Start("w", d), sm.ExecutionRunning)
	}
	settle(s)
}

// N30: overlapping sets in crossed orders, with messages twice and in any order: all
// executions end, and no two interleave on a device.
func TestLocks_CrossedOrdersAllEnd(t *testing.T) {
	s := newHarness(t, 4)
	s.Publish("w", stepsYAML("one once device", "two again device"))
	for seed := range uint64(40) {
		s.Reset(seed)
		s.QueueFaults.Shuffle, s.QueueFaults.DuplicateOneIn = true, 2
		var ids []string
		for i := range 5 {
			pick := harness.DeviceIDs(4)
			slices.Reverse(pick[:1+s.IntN(4)])
			id := s.Start("w", pick[i%3:]...)
			ids = append(ids, id)
			for range s.IntN(6) {
				s.Deliver()
			}
		}
		settle(s)
		for _, id := range ids {
			s.ExpectState(id, sm.ExecutionCompletedAck)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// The same with handlers that interleave, call by call.
func TestLocks_InterleavedHandlersAllEnd(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("w", stepsYAML("one once device"))
	for seed := range uint64(40) {
		s.Reset(seed)
		s.QueueFaults.Shuffle = true
		ids := make([]string, 4)
		start := func(i int, devices ...string) func() { return func() { ids[i] = s.Start("w", devices...) } }
		s.Interleave(
			s.StartTask("0", start(0, "d000", "d001")), s.StartTask("1", start(1, "d001", "d002")),
			s.StartTask("2", start(2, "d002", "d000")), s.StartTask("3", start(3, "d001")),
		)
		settle(s)
		for _, id := range ids {
			s.ExpectState(id, sm.ExecutionCompletedAck)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// N31: an expired owner writes late. Its token is lower than the current one, and it no
// longer holds the lock.
func TestLocks_FenceExpiredOwner(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one once device"))
	id := s.Start("w", "d000")
	late := s.StartTask("late worker", func() { s.Deliver() })
	late.RunUntil("packs.finish")
	s.RunFor(5 * time.Minute) // its lease expires; the outcome of its job is unknown
	x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
	if x.Cause != workflow.CauseWorkerCrash {
		t.Errorf("cause %s", x.Cause)
	}
	if _, err := s.Engine.Acknowledge(context.Background(), harness.Caller, id, "seen"); err != nil {
		t.Fatal(err)
	}
	next := s.Start("w", "d000")
	s.Drain()
	s.ExpectState(next, sm.ExecutionCompletedAck)
	before := s.Load(id)
	late.Finish()
	settle(s)
	if after := s.Load(id); after.Version != before.Version {
		t.Error("the late worker changed the execution")
	}
	if jobs := s.Jobs(id); jobs[0].State != sm.JobUnknown || jobs[0].Result != nil {
		t.Errorf("the late worker's result was taken: %+v", jobs[0])
	} else if why := jobs[0].Error; why == nil || why.Code != workflow.FailureWorkerCrash || !strings.Contains(string(why.Details), `"worker":"`+*jobs[0].Worker+`"`) || !strings.Contains(string(why.Details), `"lease":"2`) {
		t.Errorf("%+v", why)
	}
	first, second := s.BlockCalls[0], s.BlockCalls[1]
	if first.Fence >= second.Fence {
		t.Errorf("fence %s, then %s", first.Fence, second.Fence)
	}
}

// N32: FAILED_UNSAFE keeps its locks until an operator acknowledges it.
func TestLocks_FailedUnsafeKeepsThemUntilAcknowledged(t *testing.T) {
	s := newHarness(t, 1)
	s.Script = failCalls("two EXECUTE d000")
	s.Publish("w", stepsYAML("one forever device", "two pure device"))
	a := s.Start("w", "d000")
	s.Drain()
	s.ExpectState(a, sm.ExecutionFailedUnsafe)
	b := s.Start("w", "d000")
	s.RunFor(10 * time.Minute)
	s.ExpectState(b, sm.ExecutionScheduled)
	if l := s.Locks(); len(l) != 1 || *l[0].HeldBy != a || len(l[0].Waiting) != 1 || l[0].Waiting[0].Execution != b {
		t.Errorf("locks %+v", l)
	}
	if _, err := s.Engine.Acknowledge(context.Background(), workflow.Caller{Tenant: "acme", Actor: "bob"}, a, "checked"); err != nil {
		t.Fatal(err)
	}
	s.ExpectState(a, sm.ExecutionFailedUnsafeAck)
	events := s.History(a)
	if last := events[len(events)-1]; last.Actor != "bob" || last.Type != "execution.acknowledged" || string(last.Data) != `{"reason":"checked"}` {
		t.Errorf("audited as %+v", last)
	}
	if _, err := s.Engine.Acknowledge(context.Background(), harness.Caller, a, "again"); !workflow.Is(err, workflow.CodeIllegalTransition) {
		t.Errorf("acknowledged twice: %v", err)
	}
	s.Script = nil
	s.Drain()
	s.ExpectState(b, sm.ExecutionCompletedAck)
	s.CheckInvariants()
}

// N33: an execution that has ended and settled holds no locks.
func TestLocks_EndedExecutionsHoldNone(t *testing.T) {
	s := newHarness(t, 2)
	s.Script = failCalls("one EXECUTE d001")
	s.Publish("w", stepsYAML("one pure device"))
	good, bad := s.Start("w", "d000"), s.Start("w", "d001")
	if len(s.Locks()) != 2 {
		t.Errorf("locks %+v", s.Locks())
	}
	settle(s)
	s.ExpectState(good, sm.ExecutionCompletedAck)
	s.ExpectState(bad, sm.ExecutionFailedSafeAck)
	if l := s.Locks(); len(l) != 0 {
		t.Errorf("locks %+v", l)
	}
}

// N34: an empty scope fails the execution if the definition sets assertNotEmpty.
func TestDiscover_EmptyScopeFailsWhenAsserted(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "assertNotEmpty: true\nacquire: [{type: device, groups: [none]}]\n"+stepsYAML("one pure device"))
	id := s.Start("w")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if slices.Contains(s.ExecutionStates(id), "LOCKING") {
		t.Error("the execution entered LOCKING")
	}
}

// A starter whose selection matches nothing learns so before anything is locked, unless the
// definition allows an empty scope.
func TestDiscover_NothingSelected(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one pure device"))
	s.Publish("v", "assertNotEmpty: false\n"+stepsYAML("one pure device"))
	for name, want := range map[string]sm.ExecutionState{"w": sm.ExecutionFailedSafeAck, "v": sm.ExecutionCompletedAck} {
		for _, sel := range []workflow.Selector{{Groups: []string{"none"}}, {Type: "device", IDs: []string{}}, {Groups: []string{}}} {
			req := harness.NewStartRequest(name)
			req.ExecuteOnParameters = &sel
			id := s.StartWith(req)
			s.Drain()
			x := s.ExpectState(id, want)
			if refused := x.Error != nil && x.Error.Code == workflow.FailureNothingSelected; refused != (name == "w") || refused && slices.Contains(s.ExecutionStates(id), "LOCKING") {
				t.Errorf("%s over %+v failed with %+v; its states were %v", name, sel, x.Error, s.ExecutionStates(id))
			}
			if _, _, err := s.Engine.Rerun(context.Background(), harness.Caller, id, views.RerunRequest{Entities: views.RerunEntities{Choice: views.RerunAll}}); err != nil {
				t.Errorf("%s over %+v is not repeated: %v", name, sel, err)
			}
		}
	}
}

// The lock timeout ends a waiting execution safely.
func TestLocks_WaitDeadlineFailsSafely(t *testing.T) {
	s := newHarness(t, 1)
	s.Script = failCalls("one EXECUTE d000")
	s.Publish("w", stepsYAML("one forever device"))
	a, b := s.Start("w", "d000"), s.Start("w", "d000")
	s.RunFor(59 * time.Minute)
	s.ExpectState(a, sm.ExecutionFailedUnsafe)
	s.ExpectState(b, sm.ExecutionScheduled)
	s.RunFor(3 * time.Minute)
	if x := s.ExpectState(b, sm.ExecutionFailedSafeAck); x.Cause != workflow.CauseLockTimeout || x.Error.Entity != "device/d000" {
		t.Errorf("cause %s, error %+v", x.Cause, x.Error)
	}
}

// Mistake 2 of the lock protocol: an own commit fails because a waiter has registered.
// The commit must succeed without a reload.
func TestLocks_WaiterRegistrationDoesNotFailCommit(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one pure device"))
	a := s.Start("w", "d000")
	s.Deliver() // the worker has finished; its wake-up is queued
	ending := s.StartTask("ending", func() { s.Deliver() })
	ending.RunUntil("store.commit")
	b := s.Start("w", "d000")
	s.ExpectState(b, sm.ExecutionScheduled)
	ending.Step()
	if ending.NextCall() != "sender.send_wakeups" {
		t.Errorf("after the commit comes %q", ending.NextCall())
	}
	ending.Finish()
	s.ExpectState(a, sm.ExecutionCompletedAck)
	s.Drain()
	s.ExpectState(b, sm.ExecutionCompletedAck)
}

// Mistake 3: a handler that loses its commit stops. The winner crashed right after its
// commit, and no message is left: only the loser can continue.
func TestAdvance_ContinuesAfterLostCommit(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one pure device"))
	a, b := s.Start("w", "d000"), s.Start("w", "d000")
	for s.Load(a).State != sm.ExecutionCompletedAck {
		s.Deliver()
	}
	s.LifecycleQueue().Purge()
	loser, winner := s.StartTask("loser", func() { advance(s, b) }), s.StartTask("winner", func() { advance(s, b) })
	loser.RunUntil("store.commit")
	winner.RunPast("store.commit")
	winner.Kill()
	s.ExpectState(b, sm.ExecutionLocking)
	loser.Finish()
	begin := s.Now()
	s.Drain()
	s.ExpectState(b, sm.ExecutionCompletedAck)
	if s.Now() != begin {
		t.Error("it took a timer")
	}
}

// Mistake 9: an epoch that does not grow. An execution would take a lock that it took and released
// for its own when it locks again, while another execution that read it as free in between is about
// to take it: two holders.
func TestLocks_EachLockingHasItsOwnEpoch(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", stepsYAML("one again device"))
	ids := map[string]string{}
	start := func(name string, devices ...string) *faults.Task {
		return s.StartTask(name, func() { ids[name] = s.Start("w", devices...) })
	}
	x := start("x", "d000", "d001")
	x.RunPast("locks.take") // d000 is x's
	x.RunUntil("locks.take")
	z := start("z", "d001")
	z.Finish()
	x.Finish() // it is blocked by z and releases d000
	s.ExpectState(ids["x"], sm.ExecutionScheduled)
	y := start("y", "d000")
	y.RunUntil("locks.take") // it has read d000 as free
	for s.Load(ids["x"]).State != sm.ExecutionRunning {
		if !s.Deliver() {
			t.Fatal("x does not run again")
		}
	}
	y.Finish()
	if b := s.ExpectState(ids["y"], sm.ExecutionScheduled).BlockedBy; b == nil || b.Execution != ids["x"] {
		t.Errorf("y is blocked by %+v", b)
	}
	settle(s)
}

// Mistake 5: entering LOCKING while the blocker is still live.
func TestLocks_StaysScheduledWhileBlockerIsLive(t *testing.T) {
	s := newHarness(t, 1)
	s.Script = failCalls("one EXECUTE d000")
	s.Publish("w", stepsYAML("one forever device"))
	s.Start("w", "d000")
	s.Drain()
	b := s.Start("w", "d000")
	before := s.Load(b)
	for range 5 {
		advance(s, b)
	}
	s.RunFor(20 * time.Minute)
	if after := s.Load(b); after.State != sm.ExecutionScheduled || after.Epoch != before.Epoch || after.Sequence != before.Sequence {
		t.Errorf("the execution continued: %v", s.ExecutionStates(b))
	}
}

// Mistake 12: the late effects of a stale handler. It sends the packs of a step run that
// has been closed meanwhile; no worker can claim them.
func TestAdvance_StaleDispatchCannotBeClaimed(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("w", stepsYAML("one once device"))
	var id string
	late := s.StartTask("late", func() { id = s.Start("w", harness.DeviceIDs(3)...) })
	late.RunUntil("sender.send_packs")
	for executionID := range s.States(harness.Caller.Tenant) {
		id = executionID
	}
	if _, err := s.Engine.Cancel(context.Background(), harness.Caller, id, views.CancelRequest{}); err != nil {
		t.Fatal(err)
	}
	late.Finish()
	settle(s)
	s.ExpectState(id, sm.ExecutionCancelledAck)
	if len(s.BlockCalls) != 0 {
		t.Errorf("called %v", s.BlockCalls)
	}
}

// A lost wake-up is only a delay: the waiter's timer covers it.
func TestLocks_TimerCoversLostWakeup(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one pure device"))
	a, b := s.Start("w", "d000"), s.Start("w", "d000")
	for s.Load(a).State != sm.ExecutionCompletedAck {
		s.Deliver()
	}
	s.LifecycleQueue().Purge()
	s.ExpectState(b, sm.ExecutionScheduled)
	s.RunFor(2 * time.Minute)
	s.ExpectState(b, sm.ExecutionCompletedAck)
}

// With onLocked: fail an execution does not wait for locks.
func TestOnLocked_FailDoesNotWait(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "config: {onLocked: fail}\n"+stepsYAML("one pure device"))
	a, b := s.Start("w", "d000"), s.Start("w", "d000")
	if x := s.ExpectState(b, sm.ExecutionFailedSafeAck); x.Cause != workflow.CauseLockTimeout || x.Error.Code != workflow.CodeEntityLocked.OfFailure() {
		t.Errorf("cause %s, error %+v", x.Cause, x.Error)
	}
	settle(s)
	s.ExpectState(a, sm.ExecutionCompletedAck)
}

// A rollback gets the result of the job's latest attempt that has one. A job is rolled
// back if any attempt was executed.
func TestForRollback_UsesLatestAttemptWithResult(t *testing.T) {
	pack := func(attempt int, code workflow.JobCode, result string) *workflow.Pack {
		rec := workflow.JobRecord{Index: 0, Code: code}
		if result != "" {
			rec.Result = []byte(result)
		}
		return &workflow.Pack{Key: workflow.PackKey{Attempt: attempt}, State: workflow.PackFinished, Jobs: []workflow.JobRecord{rec}}
	}
	planned := plan.JobPlan{Jobs: []workflow.JobInput{{Index: 0}}}
	for name, test := range map[string]struct {
		packs []*workflow.Pack
		want  string
		jobs  int
	}{
		"one attempt":                    {[]*workflow.Pack{pack(1, workflow.JobCodeOK, `1`)}, `1`, 1},
		"both have results":              {[]*workflow.Pack{pack(2, workflow.JobCodeOK, `2`), pack(1, workflow.JobCodeFail, `1`)}, `2`, 1},
		"the later has no result":        {[]*workflow.Pack{pack(1, workflow.JobCodeFail, `1`), pack(2, workflow.JobCodeUnknown, ``)}, `1`, 1},
		"the later was not executed":     {[]*workflow.Pack{pack(1, workflow.JobCodeFail, `1`), pack(2, workflow.JobCodeNotExecuted, ``)}, `1`, 1},
		"none was executed":              {[]*workflow.Pack{pack(1, workflow.JobCodeNotExecuted, ``)}, ``, 0},
		"executed, but without a result": {[]*workflow.Pack{pack(1, workflow.JobCodeUnknown, ``)}, ``, 1},
	} {
		got := plan.ForRollback(planned, test.packs, nil)
		if len(got.Jobs) != test.jobs || (test.jobs > 0 && string(got.Jobs[0].Result) != test.want) {
			t.Errorf("%s: rollback jobs %+v", name, got.Jobs)
		}
	}
}

// A handler takes all locks, plans the first step under them, and loses its commit to
// another handler of the same execution, which releases the locks. The plan that it
// then makes under the locks of the next epoch carries their tokens, not the old ones.
func TestPlan_NotReusedAcrossEpochs(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one once device", "two once device"))
	a := s.Start("w", "d000")
	var b string
	first := s.StartTask("first", func() { b = s.Start("w", "d000") })
	first.RunUntil("store.commit") // b is blocked by a, and is about to release
	for s.Load(a).State != sm.ExecutionCompletedAck {
		s.Deliver()
	}
	for id, state := range s.States(harness.Caller.Tenant) {
		if state == sm.ExecutionLocking {
			b = id
		}
	}
	second := s.StartTask("second", func() { advance(s, b) })
	second.RunUntil("store.commit") // it holds all locks, and is about to commit that
	first.Finish()
	if x := s.Load(b); x.State != sm.ExecutionScheduled || x.Epoch != 1 {
		t.Fatalf("after the first handler: state %s, epoch %d", x.State, x.Epoch)
	}
	second.Finish()
	settle(s)
	if x := s.ExpectState(b, sm.ExecutionCompletedAck); x.Epoch != 2 {
		t.Fatalf("epoch %d, want 2", x.Epoch)
	}
	tokens := map[string]bool{}
	for _, c := range s.BlockCalls {
		if c.Execution == b {
			token, _, _ := strings.Cut(c.Fence, "-")
			tokens[token] = true
		}
	}
	if len(tokens) != 1 {
		t.Errorf("the jobs of one epoch carry the tokens %v", tokens)
	}
}

// dispatchWorkflow is a definition that locks its devices and then dispatches a child
// for some devices.
func dispatchWorkflow(child string, devices string) string {
	return stepsYAML("one once device") + fmt.Sprintf("  - label: then\n    workflowReference: {workflow: p/%s, mode: dispatch, executeOnParameters: {ids: [%s], type: device}}\n", child, devices)
}

// children returns the child executions of an execution.
func children(s *harness.Harness, id string) (all []*workflow.Execution) {
	for other := range s.States(harness.Caller.Tenant) {
		if x := s.Load(other); x.Parent != nil && x.Parent.Execution == id {
			all = append(all, x)
		}
	}
	return all
}

// A child that needs what its parent holds would wait for the execution that waits for
// it. It ends at once, long before the lock timeout.
func TestDeadlock_EndsChildWaitingForParent(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("child", stepsYAML("two once device"))
	s.Publish("parent", dispatchWorkflow("child", "d000"))
	begin := s.Now()
	parent := s.Start("parent", "d000", "d001")
	settle(s)
	childExecutions := children(s, parent)
	if len(childExecutions) != 1 {
		t.Fatalf("%d children; the states of the parent are %v", len(childExecutions), s.ExecutionStates(parent))
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

// Two parents each hold what the other's child needs: one of the children ends, which
// breaks the cycle.
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
		t.Error("no child ended with LOCK_DEADLOCK")
	}
}

// A child that needs an entity that its parent does not hold completes. It has the age of its root.
func TestDeadlock_IgnoresChildOfAnotherEntity(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("child", stepsYAML("two once device"))
	s.Publish("parent", dispatchWorkflow("child", "d001"))
	parent := s.Start("parent", "d000")
	settle(s)
	s.ExpectState(parent, sm.ExecutionCompletedAck)
	for _, child := range children(s, parent) {
		if s.ExpectState(child.ID, sm.ExecutionCompletedAck); child.Root() != parent {
			t.Errorf("the age of the child is %s", child.Root())
		}
	}
}
