package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// A higher MinFencingToken means that the tables were restored. Then no unfinished execution
// continues, whatever its state: each ends FAILED_UNSAFE for an operator, and a retry begins under
// new locks.
func TestRestore_FailsUnfinishedExecutionsUnsafe(t *testing.T) {
	const minToken = 1_800_000_000
	ctx := context.Background()
	definitions := map[string]string{
		"running": stepsYAML("one once device"),
		"waiting": "steps:\n  - {label: one, functionBlock: p/once:1, runOn: device}\n  - {label: two, delay: 10m, functionBlock: p/pure:1, runOn: device}\n",
		"undoing": stepsYAML("one once device", "two once device"),
		"queued":  stepsYAML("one once device"),
	}
	s := newHarness(t, 4)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "two" && c.Kind == workflow.JobExecute {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	for name, text := range definitions {
		s.Publish(name, text)
	}
	ids, devices := map[string]string{}, map[string]string{"running": "d000", "queued": "d000", "waiting": "d001", "undoing": "d002"}
	ids["waiting"] = s.Start("waiting", "d001")
	ids["undoing"] = s.Start("undoing", "d002")
	for s.Load(ids["undoing"]).State != sm.ExecutionRollback || s.Load(ids["waiting"]).State != sm.ExecutionWaiting {
		if !s.Deliver() {
			t.Fatal("the rollback does not start")
		}
	}
	ids["running"] = s.Start("running", devices["running"])
	ids["queued"] = s.Start("queued", devices["queued"])
	calls := len(s.BlockCalls)
	for name, want := range map[string]sm.ExecutionState{
		"running": sm.ExecutionRunning, "queued": sm.ExecutionScheduled, "waiting": sm.ExecutionWaiting, "undoing": sm.ExecutionRollback,
	} {
		s.ExpectState(ids[name], want)
	}

	s.Engine.Policy.MinFencingToken = minToken
	if _, err := s.Engine.Cancel(ctx, harness.Caller, ids["running"], views.CancelRequest{}); !workflow.Is(err, workflow.CodeIllegalTransition) {
		t.Errorf("cancel after the restore: %v", err)
	}
	s.ExpectState(ids["running"], sm.ExecutionRunning) // the refused command has not changed it
	s.RunUntilIdle(time.Hour)
	for name, id := range ids {
		x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
		if x.Cause != workflow.CauseRestored || !strings.Contains(x.Reason, "restored") {
			t.Errorf("%s: %s, %s", name, x.Cause, x.Reason)
		}
		kept := 1
		if name == "queued" {
			kept = 0
		}
		expectKept(t, s, id, kept)
	}
	if len(s.BlockCalls) != calls {
		t.Errorf("calls after the restore: %+v", s.BlockCalls[calls:])
	}
	s.CheckInvariants()

	waits := s.Start("queued", devices["running"]) // for an execution that ended unsafely and keeps its locks
	s.ExpectState(waits, sm.ExecutionScheduled)
	calls = len(s.BlockCalls)
	if _, err := s.Engine.Retry(ctx, harness.Caller, ids["running"], views.RetryRequest{Reason: "checked"}); err != nil {
		t.Fatal(err)
	}
	s.Drain() // no timer: releasing the locks wakes the waiter
	s.ExpectState(ids["running"], sm.ExecutionCompletedAck)
	s.ExpectState(waits, sm.ExecutionCompletedAck)
	for _, c := range s.BlockCalls[calls:] {
		if c.Fence < "1800000001" {
			t.Errorf("a call with a token from before the restore: %+v", c)
		}
	}

	// An engine that does not know of the restore changes nothing.
	s.Engine.Policy.MinFencingToken = 0
	if err := s.Engine.Advance(ctx, workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: ids["running"]}); !workflow.Is(err, workflow.CodeUnavailable) {
		t.Errorf("an engine that does not know of the restore: %v", err)
	}
}

// expectKept requires that an ended execution says of how many entities it keeps the locks, and
// that they are listed as held by it.
func expectKept(t *testing.T, s *harness.Harness, id string, want int) {
	t.Helper()
	v, err := s.Query.Execution(t.Context(), harness.Caller, id)
	if err != nil {
		t.Fatal(err)
	}
	if v.Kept == nil || *v.Kept != want {
		t.Errorf("%s says that it keeps %v entities, and keeps %d", id, v.Kept, want)
	}
	locks, err := s.Query.Locks(t.Context(), harness.Caller, workflow.Page{})
	if err != nil {
		t.Fatal(err)
	}
	held := 0
	for _, l := range locks.Items {
		if l.HeldBy != nil && *l.HeldBy == id {
			held++
		}
	}
	if held != want {
		t.Errorf("%s is listed with %d locks, and keeps %d", id, held, want)
	}
}

// An execution that had ended unsafely before the restore keeps its locks after it. It says so
// after its next write, too, and that a retry does not continue under them.
func TestRestore_UnsafeEndKeepsItsLocks(t *testing.T) {
	s := newHarness(t, 3)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Kind == workflow.JobRollback || c.Step == "two" {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	s.Publish("w", stepsYAML("one again device", "two pure device"))
	id := s.Start("w", "d000", "d001", "d002")
	s.RunUntilIdle(time.Hour)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	expectKept(t, s, id, 3)
	for n, device := range []string{"d000", "d001"} {
		s.Engine.Policy.MinFencingToken += 1_800_000_000
		expectKept(t, s, id, 3-n)
		acknowledge(s, id, device)
		expectKept(t, s, id, 2-n)
	}
	v, err := s.Query.Execution(t.Context(), harness.Caller, id)
	if err != nil {
		t.Fatal(err)
	}
	if w := v.Waiting; w == nil || w.Reason == nil || !strings.Contains(*w.Reason, "a retry takes all of them anew") {
		t.Errorf("it waits: %+v", w)
	}
	if f := v.FailedRollback; f == nil || f.Obstacle == nil || !strings.Contains(*f.Obstacle, "the tables were restored since it took its locks") {
		t.Errorf("its rollback: %+v", f)
	}
}

// An execution that had ended before the restore stays as it is: there is nothing left
// to do on devices.
func TestRestore_LeavesEndedExecutions(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one once device"))
	id := s.Start("w", "d000")
	s.RunUntilIdle(time.Hour)
	before := s.Load(id)
	s.Engine.Policy.MinFencingToken = 1_800_000_000
	if err := s.Engine.Advance(context.Background(), workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: id}); err != nil {
		t.Fatal(err)
	}
	if now := s.Load(id); now.Version != before.Version {
		t.Errorf("the execution was written: %+v", now)
	}
	next := s.Start("w", "d000")
	s.RunUntilIdle(time.Hour)
	s.ExpectState(next, sm.ExecutionCompletedAck)
}

// The tables were restored to different moments, so that the records of jobs are lost that were
// executed. They are not said to be cancelled: what became of them is unknown.
func TestRestore_JobsWithoutRecordsAreUnknown(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", stepsYAML("one once device"))
	restoreJobs := s.Snapshot(sim.JobsTable)
	id := s.Start("w", "d000", "d001")
	s.RunUntilIdle(time.Hour)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	restoreJobs()
	states := map[sm.JobState]int{}
	for _, j := range s.Jobs(id) {
		states[j.State]++
	}
	if len(s.BlockCalls) != 2 || len(states) != 1 || states[sm.JobUnknown] != 2 {
		t.Errorf("%d jobs were executed, and are listed as %v", len(s.BlockCalls), states)
	}
}

// The tables were restored to different moments: the state of an execution knows of a rollback, but
// the outcomes of the jobs that it undoes are lost. A retry could not know what has still to be
// undone, and is refused, forced or not.
func TestRestore_RetryIsRefusedWhereWhatWasDoneIsLost(t *testing.T) {
	s := newHarness(t, 1)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "two" && c.Kind == workflow.JobExecute {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	s.Publish("w", stepsYAML("one again device", "two again device"))
	id := s.Start("w", "d000")
	for s.Load(id).State != sm.ExecutionRunning {
		if !s.Deliver() {
			t.Fatal("the first step is not entered")
		}
	}
	restoreJobs := s.Snapshot(sim.JobsTable)
	for s.Load(id).State != sm.ExecutionRollback {
		if !s.Deliver() {
			t.Fatal("the rollback does not start")
		}
	}
	restoreJobs()
	s.LifecycleQueue().Purge()
	s.PoolQueue("default").Purge()
	s.Engine.Policy.MinFencingToken = 1_800_000_000
	s.RunUntilIdle(time.Hour)
	before := s.ExpectState(id, sm.ExecutionFailedUnsafe)
	for _, force := range []bool{false, true} {
		_, err := s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{Reason: "checked", Force: force})
		if !workflow.Is(err, workflow.CodeIllegalTransition) || !strings.Contains(err.Error(), `"two"`) {
			t.Errorf("force %t: %v", force, err)
		}
	}
	if x := s.Load(id); x.Version != before.Version {
		t.Errorf("the refused retry has changed it: version %d is %s", x.Version, x.State)
	}
}

// A start that is repeated creates the execution that a restore has lost a second time, with the
// same id. A lock that still names the first life, and that another execution has read as free and
// prepared for itself, is not the second one's own.
func TestRestore_ALostExecutionThatStartsAgainHoldsNothing(t *testing.T) {
	const minToken = 1_800_000_000
	ctx := context.Background()
	for _, mode := range []string{"exclusive", "shared"} {
		s := newHarness(t, 1)
		s.Publish("w", "config: {lockMode: "+mode+"}\n"+stepsYAML("one pure device"))
		restore := s.Snapshot(sim.ExecutionsTable)
		req := harness.NewStartRequest("w", "d000")
		req.IdempotencyKey = "k"
		first, _, err := s.Engine.Start(ctx, harness.Caller, req)
		if err != nil {
			t.Fatal(err)
		}
		restore()
		s.LifecycleQueue().Purge()
		s.PoolQueue("default").Purge()
		device := workflow.EntityKey{Type: "device", ID: "d000"}
		read := func() workflow.Lock {
			locks, err := s.Open().Locks.Read(ctx, harness.Caller.Tenant, []workflow.EntityKey{device}, true)
			if err != nil {
				t.Fatal(err)
			}
			return locks[device]
		}
		if _, ok := read().HolderOf(first.ID, first.Epoch); !ok {
			t.Fatalf("%s: the lock does not name the execution: %+v", mode, read())
		}
		s.Engine.Policy.MinFencingToken = minToken
		if ok, err := s.Open().Locks.RaiseRevision(ctx, harness.Caller.Tenant, device, minToken, read().Revision); !ok || err != nil {
			t.Fatal(ok, err)
		}
		again, _, err := s.Engine.Start(ctx, harness.Caller, req)
		if err != nil {
			t.Fatal(err)
		}
		if again.ID != first.ID {
			t.Fatalf("%s: the repetition started %s instead of %s", mode, again.ID, first.ID)
		}
		if held, ok := read().HolderOf(again.ID, again.Epoch); !ok || held.Token <= minToken {
			t.Errorf("%s: the lock is held with the token %d of before the restore", mode, held.Token)
		}
		s.RunUntilIdle(time.Hour)
		s.ExpectState(again.ID, sm.ExecutionCompletedAck)
	}
}
