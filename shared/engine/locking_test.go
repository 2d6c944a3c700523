package engine_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/faults"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

func wakeup(s *harness.Harness, id string) {
	s.Helper()
	if err := s.Engine.Advance(context.Background(), workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: id}); err != nil {
		s.Error(err)
	}
}

// N27: B waits for a device that A holds, names A, and goes on unaided when A
// lets go, long before its alarm.
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
	if err != nil || v.Waiting == nil || v.Waiting.Kind != views.WaitLock || *v.Waiting.Blockers[0].HeldBy != a || *v.Waiting.Blockers[0].Entity != "device/d000" {
		t.Errorf("waiting %+v, %v", v.Waiting, err)
	}
	begin := s.Now()
	s.Drain()
	s.ExpectState(a, sm.ExecutionCompletedAck)
	s.ExpectState(b, sm.ExecutionCompletedAck)
	if s.Now() != begin {
		t.Error("it took an alarm")
	}
	s.CheckInvariants()
}

// N28: disjoint entities do not wait for each other.
func TestLocks_DisjointEntitiesDoNotWait(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", stepsYAML("one once device"))
	for _, d := range harness.DeviceIDs(2) {
		s.ExpectState(s.Start("w", d), sm.ExecutionRunning)
	}
	settle(s)
}

// N30: crossed orders, overlapping sets, messages twice and in any order: no two
// runs take turns on a device, and all end.
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

// The same with handlers that overlap, call by call.
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

// N31: an expired owner writes late. Its token is lower than the present one,
// and the lock is not its own any more.
func TestLocks_FenceExpiredOwner(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one once device"))
	id := s.Start("w", "d000")
	late := s.StartTask("late worker", func() { s.Deliver() })
	late.RunUntil("packs.finish")
	s.RunFor(5 * time.Minute) // its lease ends; what it started is not known
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
		t.Error("the late worker changed the run")
	}
	if jobs := s.Jobs(id); jobs[0].State != sm.JobUnknown || jobs[0].Result != nil {
		t.Errorf("the late worker's result stands: %+v", jobs[0])
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
	if _, err := s.Engine.Acknowledge(context.Background(), workflow.Caller{Tenant: "acme", Actor: "bob"}, a, "looked"); err != nil {
		t.Fatal(err)
	}
	s.ExpectState(a, sm.ExecutionFailedUnsafeAck)
	events := s.History(a)
	if last := events[len(events)-1]; last.Actor != "bob" || last.Type != "execution.acknowledged" || string(last.Data) != `{"reason":"looked"}` {
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

// N33: what has ended and settled holds nothing.
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

// N34: nothing matches what must not be empty.
func TestDiscover_EmptyScopeFailsWhenAsserted(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "assertNotEmpty: true\nacquire: [{type: device, groups: [none]}]\n"+stepsYAML("one pure device"))
	id := s.Start("w")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if slices.Contains(s.ExecutionStates(id), "LOCKING") {
		t.Error("it has locked")
	}
}

// The deadline of a wait ends it, safely.
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

// Mistake 2 of the lock protocol: own transitions that fail because somebody
// has registered. The commit stands at once, without another look.
func TestLocks_WaiterRegistrationDoesNotFailCommit(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one pure device"))
	a := s.Start("w", "d000")
	s.Deliver() // the worker has finished; its look waits
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

// Mistake 3: a handler that loses its own commit stops. The winner died right
// after its commit, and no message is left: only the loser can go on.
func TestAdvance_ContinuesAfterLostCommit(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one pure device"))
	a, b := s.Start("w", "d000"), s.Start("w", "d000")
	for s.Load(a).State != sm.ExecutionCompletedAck {
		s.Deliver()
	}
	s.LifecycleQueue().Purge()
	loser, winner := s.StartTask("loser", func() { wakeup(s, b) }), s.StartTask("winner", func() { wakeup(s, b) })
	loser.RunUntil("store.commit")
	winner.RunPast("store.commit")
	winner.Kill()
	s.ExpectState(b, sm.ExecutionLocking)
	loser.Finish()
	begin := s.Now()
	s.Drain()
	s.ExpectState(b, sm.ExecutionCompletedAck)
	if s.Now() != begin {
		t.Error("it took an alarm")
	}
}

// Mistake 9: an epoch that does not grow. What a run has taken and released would
// look like its own when it comes back, while somebody who has read it as free in
// between is about to take it: two holders.
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
	x.Finish() // it meets z and lets go of d000
	s.ExpectState(ids["x"], sm.ExecutionScheduled)
	y := start("y", "d000")
	y.RunUntil("locks.take") // it has read d000 as free
	for s.Load(ids["x"]).State != sm.ExecutionRunning {
		if !s.Deliver() {
			t.Fatal("x does not come back")
		}
	}
	y.Finish()
	if b := s.ExpectState(ids["y"], sm.ExecutionScheduled).BlockedBy; b == nil || b.Execution != ids["x"] {
		t.Errorf("y is blocked by %+v", b)
	}
	settle(s)
}

// Mistake 5: entering LOCKING while what blocks the run is still live.
func TestLocks_StaysScheduledWhileBlockerIsLive(t *testing.T) {
	s := newHarness(t, 1)
	s.Script = failCalls("one EXECUTE d000")
	s.Publish("w", stepsYAML("one forever device"))
	s.Start("w", "d000")
	s.Drain()
	b := s.Start("w", "d000")
	before := s.Load(b)
	for range 5 {
		wakeup(s, b)
	}
	s.RunFor(20 * time.Minute)
	if after := s.Load(b); after.State != sm.ExecutionScheduled || after.Epoch != before.Epoch || after.Sequence != before.Sequence {
		t.Errorf("it went on: %v", s.ExecutionStates(b))
	}
}

// Mistake 12: a stale handler's business writes. It sends the jobs of a step
// that has been closed meanwhile; nobody can claim them.
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

// A lost wake-up is only a delay: the waiter's alarm covers it.
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

// onLocked: fail does not wait.
func TestOnLocked_FailDoesNotWait(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "config: {onLocked: fail}\n"+stepsYAML("one pure device"))
	a, b := s.Start("w", "d000"), s.Start("w", "d000")
	if x := s.ExpectState(b, sm.ExecutionFailedSafeAck); x.Cause != workflow.CauseLockTimeout || x.Error.Code != string(workflow.CodeEntityLocked) {
		t.Errorf("cause %s, error %+v", x.Cause, x.Error)
	}
	settle(s)
	s.ExpectState(a, sm.ExecutionCompletedAck)
}

// A rollback undoes a job with the result of its latest attempt that has one,
// and what an earlier attempt did stands when a later one was never executed.
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
		"the only one":         {[]*workflow.Pack{pack(1, workflow.JobCodeOK, `1`)}, `1`, 1},
		"the later one":        {[]*workflow.Pack{pack(2, workflow.JobCodeOK, `2`), pack(1, workflow.JobCodeFail, `1`)}, `2`, 1},
		"the later has none":   {[]*workflow.Pack{pack(1, workflow.JobCodeFail, `1`), pack(2, workflow.JobCodeUnknown, ``)}, `1`, 1},
		"the later never ran":  {[]*workflow.Pack{pack(1, workflow.JobCodeFail, `1`), pack(2, workflow.JobCodeNotExecuted, ``)}, `1`, 1},
		"none was executed":    {[]*workflow.Pack{pack(1, workflow.JobCodeNotExecuted, ``)}, ``, 0},
		"executed, no results": {[]*workflow.Pack{pack(1, workflow.JobCodeUnknown, ``)}, ``, 1},
	} {
		got := plan.ForRollback(planned, test.packs, nil)
		if len(got.Jobs) != test.jobs || (test.jobs > 0 && string(got.Jobs[0].Result) != test.want) {
			t.Errorf("%s: undoes %+v", name, got.Jobs)
		}
	}
}
