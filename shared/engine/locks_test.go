package engine_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

func look(s *stage.Stage, id string) {
	s.Helper()
	if err := s.Engine.Look(context.Background(), workflow.Look{Tenant: stage.Caller.Tenant, Execution: id}); err != nil {
		s.Error(err)
	}
}

// N27: B waits for a device that A holds, names A, and goes on unaided when A
// lets go, long before its alarm.
func TestN27WaitsAndResumes(t *testing.T) {
	s := open(t, 2)
	s.Publish("w", steps("one once device"))
	a := s.Start("w", "d000")
	b := s.Start("w", "d001", "d000")
	x := s.Ends(b, sm.ExecutionScheduled)
	if x.BlockedBy == nil || x.BlockedBy.Execution != a || x.BlockedBy.Entity.ID != "d000" {
		t.Errorf("blocked by %+v", x.BlockedBy)
	}
	v, err := s.View.Execution(context.Background(), stage.Caller, b)
	if err != nil || v.Waiting == nil || v.Waiting.Kind != views.WaitLock || *v.Waiting.For[0].HeldBy != a || *v.Waiting.For[0].Entity != "device/d000" {
		t.Errorf("waiting %+v, %v", v.Waiting, err)
	}
	begin := s.Now()
	s.Drain()
	s.Ends(a, sm.ExecutionCompletedAck)
	s.Ends(b, sm.ExecutionCompletedAck)
	if s.Now() != begin {
		t.Error("it took an alarm")
	}
	s.Judge()
}

// N28: disjoint entities do not wait for each other.
func TestN28Disjoint(t *testing.T) {
	s := open(t, 2)
	s.Publish("w", steps("one once device"))
	for _, d := range stage.Names(2) {
		s.Ends(s.Start("w", d), sm.ExecutionRunning)
	}
	settle(s)
}

// N30: crossed orders, overlapping sets, messages twice and in any order: no two
// runs take turns on a device, and all end.
func TestN30CrossedOrders(t *testing.T) {
	s := open(t, 4)
	s.Publish("w", steps("one once device", "two again device"))
	for seed := range uint64(40) {
		s.Sequel(seed)
		s.Deliveries.Shuffle, s.Deliveries.Duplicate = true, 2
		var ids []string
		for i := range 5 {
			pick := stage.Names(4)
			slices.Reverse(pick[:1+s.Draw(4)])
			id := s.Start("w", pick[i%3:]...)
			ids = append(ids, id)
			for range s.Draw(6) {
				s.Deliver()
			}
		}
		settle(s)
		for _, id := range ids {
			s.Ends(id, sm.ExecutionCompletedAck)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// The same with handlers that overlap, call by call.
func TestN30OverlappingHandlers(t *testing.T) {
	s := open(t, 3)
	s.Publish("w", steps("one once device"))
	for seed := range uint64(40) {
		s.Sequel(seed)
		s.Deliveries.Shuffle = true
		ids := make([]string, 4)
		start := func(i int, devices ...string) func() { return func() { ids[i] = s.Start("w", devices...) } }
		s.Interleave(
			s.Task("0", start(0, "d000", "d001")), s.Task("1", start(1, "d001", "d002")),
			s.Task("2", start(2, "d002", "d000")), s.Task("3", start(3, "d001")),
		)
		settle(s)
		for _, id := range ids {
			s.Ends(id, sm.ExecutionCompletedAck)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// N31: an expired owner writes late. Its token is lower than the present one,
// and the lock is not its own any more.
func TestN31LateOwner(t *testing.T) {
	s := open(t, 1)
	s.Publish("w", steps("one once device"))
	id := s.Start("w", "d000")
	late := s.Task("late worker", func() { s.Deliver() })
	late.Until("packs.finish")
	s.Tick(5 * time.Minute) // its lease ends; what it started is not known
	x := s.Ends(id, sm.ExecutionFailedUnsafe)
	if x.Cause != workflow.CauseWorkerCrash {
		t.Errorf("cause %s", x.Cause)
	}
	if _, err := s.Engine.Acknowledge(context.Background(), stage.Caller, id, "seen"); err != nil {
		t.Fatal(err)
	}
	next := s.Start("w", "d000")
	s.Drain()
	s.Ends(next, sm.ExecutionCompletedAck)
	before := s.Load(id)
	late.Finish()
	settle(s)
	if after := s.Load(id); after.Version != before.Version {
		t.Error("the late worker changed the run")
	}
	if jobs := s.Jobs(id); jobs[0].State != sm.JobUnknown || jobs[0].Result != nil {
		t.Errorf("the late worker's result stands: %+v", jobs[0])
	}
	first, second := s.Called[0], s.Called[1]
	if first.Fence >= second.Fence {
		t.Errorf("fence %s, then %s", first.Fence, second.Fence)
	}
}

// N32: FAILED_UNSAFE keeps its locks until an operator acknowledges it.
func TestN32UnsafeKeepsItsLocks(t *testing.T) {
	s := open(t, 1)
	s.Script = failing("two EXECUTE d000")
	s.Publish("w", steps("one forever device", "two pure device"))
	a := s.Start("w", "d000")
	s.Drain()
	s.Ends(a, sm.ExecutionFailedUnsafe)
	b := s.Start("w", "d000")
	s.Tick(10 * time.Minute)
	s.Ends(b, sm.ExecutionScheduled)
	if l := s.Locks(); len(l) != 1 || *l[0].HeldBy != a || len(l[0].Waiting) != 1 || l[0].Waiting[0].Execution != b {
		t.Errorf("locks %+v", l)
	}
	if _, err := s.Engine.Acknowledge(context.Background(), workflow.Caller{Tenant: "acme", Actor: "bob"}, a, "looked"); err != nil {
		t.Fatal(err)
	}
	s.Ends(a, sm.ExecutionFailedUnsafeAck)
	events := s.History(a)
	if last := events[len(events)-1]; last.Actor != "bob" || last.Type != "execution.acknowledged" || string(last.Data) != `{"reason":"looked"}` {
		t.Errorf("audited as %+v", last)
	}
	if _, err := s.Engine.Acknowledge(context.Background(), stage.Caller, a, "again"); !workflow.Is(err, workflow.CodeIllegalTransition) {
		t.Errorf("acknowledged twice: %v", err)
	}
	s.Script = nil
	s.Drain()
	s.Ends(b, sm.ExecutionCompletedAck)
	s.Judge()
}

// N33: what has ended and settled holds nothing.
func TestN33SettledRunsHoldNothing(t *testing.T) {
	s := open(t, 2)
	s.Script = failing("one EXECUTE d001")
	s.Publish("w", steps("one pure device"))
	good, bad := s.Start("w", "d000"), s.Start("w", "d001")
	if len(s.Locks()) != 2 {
		t.Errorf("locks %+v", s.Locks())
	}
	settle(s)
	s.Ends(good, sm.ExecutionCompletedAck)
	s.Ends(bad, sm.ExecutionFailedSafeAck)
	if l := s.Locks(); len(l) != 0 {
		t.Errorf("locks %+v", l)
	}
}

// N34: nothing matches what must not be empty.
func TestN34AssertNotEmpty(t *testing.T) {
	s := open(t, 1)
	s.Publish("w", "assertNotEmpty: true\nacquire: [{type: device, groups: [none]}]\n"+steps("one pure device"))
	id := s.Start("w")
	settle(s)
	s.Ends(id, sm.ExecutionFailedSafeAck)
	if slices.Contains(s.Moves(id), "LOCKING") {
		t.Error("it has locked")
	}
}

// The deadline of a wait ends it, safely.
func TestLockDeadline(t *testing.T) {
	s := open(t, 1)
	s.Script = failing("one EXECUTE d000")
	s.Publish("w", steps("one forever device"))
	a, b := s.Start("w", "d000"), s.Start("w", "d000")
	s.Tick(59 * time.Minute)
	s.Ends(a, sm.ExecutionFailedUnsafe)
	s.Ends(b, sm.ExecutionScheduled)
	s.Tick(3 * time.Minute)
	if x := s.Ends(b, sm.ExecutionFailedSafeAck); x.Cause != workflow.CauseLockTimeout || x.Error.Entity != "device/d000" {
		t.Errorf("cause %s, error %+v", x.Cause, x.Error)
	}
}

// Mistake 2 of the lock protocol: own transitions that fail because somebody
// has registered. The commit stands at once, without another look.
func TestMistake02RegistrationsDoNotDisturb(t *testing.T) {
	s := open(t, 1)
	s.Publish("w", steps("one pure device"))
	a := s.Start("w", "d000")
	s.Deliver() // the worker has finished; its look waits
	ending := s.Task("ending", func() { s.Deliver() })
	ending.Until("store.commit")
	b := s.Start("w", "d000")
	s.Ends(b, sm.ExecutionScheduled)
	ending.Step()
	if ending.Before() != "board.notify" {
		t.Errorf("after the commit comes %q", ending.Before())
	}
	ending.Finish()
	s.Ends(a, sm.ExecutionCompletedAck)
	s.Drain()
	s.Ends(b, sm.ExecutionCompletedAck)
}

// Mistake 3: a handler that loses its own commit stops. The winner died right
// after its commit, and no message is left: only the loser can go on.
func TestMistake03LoserGoesOn(t *testing.T) {
	s := open(t, 1)
	s.Publish("w", steps("one pure device"))
	a, b := s.Start("w", "d000"), s.Start("w", "d000")
	for s.Load(a).State != sm.ExecutionCompletedAck {
		s.Deliver()
	}
	s.Lifecycle().Purge()
	loser, winner := s.Task("loser", func() { look(s, b) }), s.Task("winner", func() { look(s, b) })
	loser.Until("store.commit")
	winner.Past("store.commit")
	winner.Kill()
	s.Ends(b, sm.ExecutionLocking)
	loser.Finish()
	begin := s.Now()
	s.Drain()
	s.Ends(b, sm.ExecutionCompletedAck)
	if s.Now() != begin {
		t.Error("it took an alarm")
	}
}

// Mistake 9: an epoch that does not grow. What a run has taken and released would
// look like its own when it comes back, while somebody who has read it as free in
// between is about to take it: two holders.
func TestMistake09EveryLockingHasItsOwnEpoch(t *testing.T) {
	s := open(t, 2)
	s.Publish("w", steps("one again device"))
	ids := map[string]string{}
	start := func(name string, devices ...string) *fate.Task {
		return s.Task(name, func() { ids[name] = s.Start("w", devices...) })
	}
	x := start("x", "d000", "d001")
	x.Past("locks.take") // d000 is x's
	x.Until("locks.take")
	z := start("z", "d001")
	z.Finish()
	x.Finish() // it meets z and lets go of d000
	s.Ends(ids["x"], sm.ExecutionScheduled)
	y := start("y", "d000")
	y.Until("locks.take") // it has read d000 as free
	for s.Load(ids["x"]).State != sm.ExecutionRunning {
		if !s.Deliver() {
			t.Fatal("x does not come back")
		}
	}
	y.Finish()
	if b := s.Ends(ids["y"], sm.ExecutionScheduled).BlockedBy; b == nil || b.Execution != ids["x"] {
		t.Errorf("y is blocked by %+v", b)
	}
	settle(s)
}

// Mistake 5: entering LOCKING while what blocks the run is still live.
func TestMistake05StaysBlocked(t *testing.T) {
	s := open(t, 1)
	s.Script = failing("one EXECUTE d000")
	s.Publish("w", steps("one forever device"))
	s.Start("w", "d000")
	s.Drain()
	b := s.Start("w", "d000")
	before := s.Load(b)
	for range 5 {
		look(s, b)
	}
	s.Tick(20 * time.Minute)
	if after := s.Load(b); after.State != sm.ExecutionScheduled || after.Epoch != before.Epoch || after.Sequence != before.Sequence {
		t.Errorf("it went on: %v", s.Moves(b))
	}
}

// Mistake 12: a stale handler's business writes. It sends the jobs of a step
// that has been closed meanwhile; nobody can claim them.
func TestMistake12StaleDispatch(t *testing.T) {
	s := open(t, 3)
	s.Publish("w", steps("one once device"))
	var id string
	late := s.Task("late", func() { id = s.Start("w", stage.Names(3)...) })
	late.Until("board.offer")
	for run := range s.States(stage.Caller.Tenant) {
		id = run
	}
	if _, err := s.Engine.Cancel(context.Background(), stage.Caller, id, views.CancelRequest{}); err != nil {
		t.Fatal(err)
	}
	late.Finish()
	settle(s)
	s.Ends(id, sm.ExecutionCancelledAck)
	if len(s.Called) != 0 {
		t.Errorf("called %v", s.Called)
	}
}

// A lost wake-up is only a delay: the waiter's alarm covers it.
func TestLostWakeUp(t *testing.T) {
	s := open(t, 1)
	s.Publish("w", steps("one pure device"))
	a, b := s.Start("w", "d000"), s.Start("w", "d000")
	for s.Load(a).State != sm.ExecutionCompletedAck {
		s.Deliver()
	}
	s.Lifecycle().Purge()
	s.Ends(b, sm.ExecutionScheduled)
	s.Tick(2 * time.Minute)
	s.Ends(b, sm.ExecutionCompletedAck)
}

// onLocked: fail does not wait.
func TestOnLockedFail(t *testing.T) {
	s := open(t, 1)
	s.Publish("w", "config: {onLocked: fail}\n"+steps("one pure device"))
	a, b := s.Start("w", "d000"), s.Start("w", "d000")
	if x := s.Ends(b, sm.ExecutionFailedSafeAck); x.Cause != workflow.CauseLockTimeout || x.Error.Code != string(workflow.CodeEntityLocked) {
		t.Errorf("cause %s, error %+v", x.Cause, x.Error)
	}
	settle(s)
	s.Ends(a, sm.ExecutionCompletedAck)
}

// A rollback undoes a job with the result of its latest attempt that has one,
// and what an earlier attempt did stands when a later one was never executed.
func TestLatestAttemptThatHasAResult(t *testing.T) {
	pack := func(attempt int, code workflow.JobCode, result string) *workflow.Pack {
		rec := workflow.JobRecord{Index: 0, Code: code}
		if result != "" {
			rec.Result = []byte(result)
		}
		return &workflow.Pack{Key: workflow.PackKey{Attempt: attempt}, State: workflow.PackFinished, Jobs: []workflow.JobRecord{rec}}
	}
	planned := plan.Planned{Jobs: []workflow.JobInput{{Index: 0}}}
	for name, test := range map[string]struct {
		packs []*workflow.Pack
		want  string
		jobs  int
	}{
		"the only one":         {[]*workflow.Pack{pack(1, workflow.CodeOK, `1`)}, `1`, 1},
		"the later one":        {[]*workflow.Pack{pack(2, workflow.CodeOK, `2`), pack(1, workflow.CodeFail, `1`)}, `2`, 1},
		"the later has none":   {[]*workflow.Pack{pack(1, workflow.CodeFail, `1`), pack(2, workflow.CodeUnknown, ``)}, `1`, 1},
		"the later never ran":  {[]*workflow.Pack{pack(1, workflow.CodeFail, `1`), pack(2, workflow.CodeNotExecuted, ``)}, `1`, 1},
		"none was executed":    {[]*workflow.Pack{pack(1, workflow.CodeNotExecuted, ``)}, ``, 0},
		"executed, no results": {[]*workflow.Pack{pack(1, workflow.CodeUnknown, ``)}, ``, 1},
	} {
		got := plan.Undo(planned, test.packs, nil)
		if len(got.Jobs) != test.jobs || (test.jobs > 0 && string(got.Jobs[0].Result) != test.want) {
			t.Errorf("%s: undoes %+v", name, got.Jobs)
		}
	}
}
