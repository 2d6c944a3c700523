package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

func devices(ids ...string) (keys []workflow.EntityKey) {
	for _, id := range ids {
		keys = append(keys, workflow.EntityKey{Type: "device", ID: id})
	}
	return keys
}

// newUnsafe makes an execution that ended unsafely and holds three devices: what it did to
// them cannot be undone, and d001 has failed after it.
func newUnsafe(t *testing.T) (s *harness.Harness, id string, mended *bool) {
	s = newHarness(t, 3)
	s.Publish("w", "steps: [{label: one, functionBlock: p/forever:1, runOn: device}, {label: two, functionBlock: p/pure:1, runOn: device}]\n")
	s.Publish("other", "steps: [{label: look, functionBlock: p/pure:1, runOn: device}]\n")
	mended = new(bool)
	s.Script = failUntil("two", "d001", mended)
	id = s.Start("w", harness.DeviceIDs(3)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	return s, id, mended
}

func acknowledge(s *harness.Harness, id string, ids ...string) {
	s.Helper()
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Acknowledge(ctx, harness.Caller, id, "seen", devices(ids...)...)
	})
}

// An operator acknowledges one entity after another. Each is free at once. An execution that waits
// for another one is woken, and sleeps again without requesting its locks.
func TestAcknowledge_ReleasesNamedEntities(t *testing.T) {
	s, id, _ := newUnsafe(t)
	first, second := s.Start("other", "d000"), s.Start("other", "d002")
	s.Drain()
	s.ExpectState(first, sm.ExecutionScheduled)
	before := s.ExpectState(second, sm.ExecutionScheduled)
	acknowledge(s, id, "d000")
	s.Drain()
	s.ExpectState(first, sm.ExecutionCompletedAck)
	x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
	if x.Kept == nil || !x.Kept.Equal(workflow.NewPlaces(2, 3)) || x.Narrowed != 2 {
		t.Errorf("it keeps %v, narrowed %d", x.Kept, x.Narrowed)
	}
	if y := s.ExpectState(second, sm.ExecutionScheduled); y.Epoch != before.Epoch || y.Conflicts != before.Conflicts {
		t.Errorf("the waiter of a kept device asked again: epoch %d, %d conflicts", y.Epoch, y.Conflicts)
	}
	if l := s.Locks(); len(l) != 2 || l[0].Entity.ID != "d001" || l[1].Entity.ID != "d002" || len(l[1].Waiting) != 1 {
		t.Errorf("locks %+v", l)
	}
	ctx := context.Background()
	if _, err := s.Engine.Acknowledge(ctx, harness.Caller, id, "", devices("d000")...); !workflow.Is(err, workflow.CodeIllegalTransition) {
		t.Errorf("released twice: %v", err)
	}
	if _, err := s.Engine.Acknowledge(ctx, harness.Caller, id, "", devices("d001", "d009")...); !workflow.Is(err, workflow.CodeInvalid) {
		t.Errorf("an entity of no execution: %v", err)
	}
	acknowledge(s, id, "d000", "d002") // one that has already been released does not matter
	s.Drain()
	s.ExpectState(second, sm.ExecutionCompletedAck)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	acknowledge(s, id, "d001")
	s.Drain()
	s.ExpectState(id, sm.ExecutionFailedUnsafeAck)
	events := s.History(id)
	if last := events[len(events)-1]; string(last.Data) != `{"entities":["device/d001"],"kept":0,"reason":"seen","released":1}` {
		t.Errorf("audited as %s", last.Data)
	}
	if l := s.Locks(); len(l) != 0 {
		t.Errorf("still locked: %+v", l)
	}
}

// A retry of an execution that has released some entities works on the others, under the locks that
// it still has. What others did to the released ones meanwhile stays.
func TestRetry_WorksOnKeptEntitiesOnly(t *testing.T) {
	s, id, mended := newUnsafe(t)
	acknowledge(s, id, "d000")
	next := s.Start("other", "d000")
	waiting := s.Start("other", "d002")
	s.Drain()
	s.ExpectState(next, sm.ExecutionCompletedAck)
	s.ExpectState(waiting, sm.ExecutionScheduled)
	*mended = true
	before := len(s.CallsOf(id))
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, harness.Caller, id, views.RetryRequest{Reason: "mended", Entities: views.RetryAll})
	})
	if x := s.Load(id); x.State != sm.ExecutionRunning || x.Epoch != 1 || x.Scope.Total() != 2 || x.Narrowed != 2 {
		t.Errorf("%s at epoch %d with %v, narrowed %d", x.State, x.Epoch, x.Scope.Counts, x.Narrowed)
	}
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if want := (map[workflow.EntityOutcome]int{workflow.EntityFailedUnsafe: 1}); x.Outcome() != workflow.OutcomePartial || cmp.Diff(want, x.Result.Count) != "" {
		t.Errorf("%s, %+v", x.Outcome(), x.Result)
	}
	s.ExpectState(waiting, sm.ExecutionCompletedAck)
	if diff := cmp.Diff([]string{"two EXECUTE d001", "two EXECUTE d002"}, s.CallsOf(id)[before:]); diff != "" {
		t.Error(diff)
	}
	s.CheckInvariants()
}

// A rollback keeps the entity that it could not undo. A retry then completes without the others:
// they stay undone, even the one whose job had an unknown outcome, and are reported as failed.
func TestRetry_CompletesWithoutWhatWasReleased(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("w", "steps:\n  - {label: first, functionBlock: p/harmless:1, runOn: device}\n  - {label: set, functionBlock: p/again:1, runOn: device}\n")
	mended, crashed := false, 0
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		switch call := fmt.Sprint(c.Step, " ", c.Kind, " ", c.Entity); {
		case call == "first EXECUTE d001" && crashed < 20:
			crashed++
			return &harness.Outcome{Crash: true}
		case call == "first ROLLBACK d002" && !mended:
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(3)...)
	s.RunFor(2 * time.Hour)
	x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
	if x.Kept == nil || x.Kept.String() != "3" || x.Result.Count[workflow.EntityFailedSafe] != 2 {
		t.Fatalf("keeps %v, %v", x.Kept, x.Result)
	}
	mended = true
	before := len(s.CallsOf(id))
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, harness.Caller, id, views.RetryRequest{Reason: "mended"})
	})
	settle(s)
	x = s.ExpectState(id, sm.ExecutionCompletedAck)
	if want := (map[workflow.EntityOutcome]int{workflow.EntityFailedSafe: 2}); x.Outcome() != workflow.OutcomePartial || cmp.Diff(want, x.Result.Count) != "" {
		t.Errorf("%s, %+v", x.Outcome(), x.Result)
	}
	if diff := cmp.Diff([]string{"first EXECUTE d002", "set EXECUTE d002"}, s.CallsOf(id)[before:]); diff != "" {
		t.Error(diff)
	}
}

// A retry of some entities does not write what the jobs of an earlier try want written to the
// others: they may have changed since they were released.
func TestRetry_UpdatesKeptEntitiesOnly(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", "steps: [{label: one, functionBlock: p/forever:1, runOn: device}]\n")
	mended := false
	fail := failUntil("one", "d001", &mended)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if o := fail(c); o != nil {
			return o
		}
		return &harness.Outcome{SetAttributes: map[string]any{"by": "w"}}
	}
	id := s.Start("w", harness.DeviceIDs(2)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	acknowledge(s, id, "d000")
	mended = true
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, harness.Caller, id, views.RetryRequest{Reason: "mended"})
	})
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	for _, key := range devices("d000", "d001") {
		e, err := s.Catalog.Entity(context.Background(), harness.Caller, key)
		if err != nil || strings.Contains(string(e.Attributes), `"by"`) != (key.ID == "d001") {
			t.Errorf("%s has %s, %v", key, e.Attributes, err)
		}
	}
}

// A place is the position in the list of requested locks, even if entities were left out because
// they were locked.
func TestAcknowledge_OfScopeWithGaps(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("w", "steps: [{label: one, functionBlock: p/forever:1, runOn: device}, {label: two, functionBlock: p/pure:1, runOn: device}]\nconfig: {onLocked: skip}\n")
	s.Publish("other", "steps: [{label: look, functionBlock: p/pure:1, runOn: device}]\n")
	s.Script = failCalls("two EXECUTE d000", "two EXECUTE d001")
	holder := s.Start("w", "d000")
	settle(s)
	s.ExpectState(holder, sm.ExecutionFailedUnsafe)
	id := s.Start("w", harness.DeviceIDs(3)...)
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedUnsafe); x.Scope.Total() != 2 || x.Schema != x.Needs() || x.Needs() != workflow.SchemaVersion {
		t.Fatalf("it has %d entities, schema %d", x.Scope.Total(), x.Schema)
	}
	acknowledge(s, id, "d001")
	one, two := s.Start("other", "d001"), s.Start("other", "d002")
	s.RunFor(2 * time.Minute)
	s.ExpectState(one, sm.ExecutionCompletedAck)
	s.ExpectState(two, sm.ExecutionScheduled)
	acknowledge(s, id, "d002")
	s.Drain()
	s.ExpectState(two, sm.ExecutionCompletedAck)
}

// Rolling back a retry of some entities undoes what an earlier try did to them, and leaves the
// released ones as they are.
func TestRetry_RollsBackKeptEntitiesOnly(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("w", `steps:
  - {label: one, functionBlock: p/once:1, runOn: device}
  - {label: two, delay: 1h, functionBlock: p/pure:1, runOn: device}
`)
	s.Script = failCalls("two EXECUTE d001")
	id := s.Start("w", harness.DeviceIDs(3)...)
	s.Drain()
	x := s.ExpectState(id, sm.ExecutionWaiting)
	kept := workflow.NewPlaces(2, 3)
	next := x.Clone() // as if an unexpected error had ended it
	next.State, next.Kept, next.Narrowed, next.Wait, next.DueAt = sm.ExecutionFailedUnsafe, &kept, 1, nil, time.Time{}
	next.Error, next.Version, next.Commit = &workflow.Failure{Code: "INTERNAL", Message: "no", Step: "two"}, x.Version+1, "by hand"
	if _, ok, err := s.Open().Store.Commit(context.Background(), x.Version, next, workflow.CommitOptions{}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	before := len(s.CallsOf(id))
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, harness.Caller, id, views.RetryRequest{Reason: "mended"})
	})
	s.RunFor(2 * time.Hour)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.RolledBack {
		t.Error("all of it is said to be rolled back")
	}
	calls := s.CallsOf(id)[before:]
	slices.Sort(calls)
	want := []string{"one ROLLBACK d001", "one ROLLBACK d002", "two EXECUTE d001"}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Error(diff)
	}
}

// An unlock of all entities one after the other is an unlock: a retry acquires all locks again.
func TestUnlock_ReleasesNamedEntities(t *testing.T) {
	s, id, mended := newUnsafe(t)
	unlock := func(ids ...string) error {
		_, err := s.Engine.Unlock(context.Background(), harness.Caller, id, "needed", devices(ids...)...)
		return err
	}
	waiting := s.Start("other", "d001")
	s.Drain()
	if err := unlock("d000", "d002"); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	s.ExpectState(waiting, sm.ExecutionScheduled)
	if err := unlock("d001"); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	s.ExpectState(waiting, sm.ExecutionCompletedAck)
	x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
	if x.Kept == nil || x.Kept.Len() != 0 || x.Epoch != 2 {
		t.Errorf("it keeps %v at epoch %d", x.Kept, x.Epoch)
	}
	for _, err := range []error{unlock("d001"), unlock()} {
		if !workflow.Is(err, workflow.CodeIllegalTransition) {
			t.Errorf("unlocked again: %v", err)
		}
	}
	*mended = true
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, harness.Caller, id, views.RetryRequest{Reason: "mended", Entities: views.RetryAll})
	})
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.Epoch != 3 || x.Kept != nil || x.Narrowed != 0 || x.Scope.Total() != 3 {
		t.Errorf("epoch %d, keeps %v, %v", x.Epoch, x.Kept, x.Scope.Counts)
	}
}

// After an unlock of everything that it kept, nothing that it kept decides about a retry.
func TestUnlock_AllAfterSome(t *testing.T) {
	s, id, mended := newUnsafe(t)
	acknowledge(s, id, "d000")
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Unlock(ctx, harness.Caller, id, "needed")
	})
	*mended = true
	mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, harness.Caller, id, views.RetryRequest{Entities: views.RetryAll})
	})
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.Epoch != 3 || x.Scope.Total() != 3 {
		t.Errorf("epoch %d, %v", x.Epoch, x.Scope.Counts)
	}
}

// An execution that waits for another one, which ends unsafely, learns that it waits for an
// operator. Its reservations are void from then on, and others can take what it had reserved.
func TestLocks_ReservationsAreVoidWhileAnOperatorIsAwaited(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", "steps: [{label: one, functionBlock: p/forever:1, runOn: device}]\n")
	s.Publish("other", "steps: [{label: look, functionBlock: p/pure:1, runOn: device}]\n")
	s.Script = failCalls("one EXECUTE d001")
	unsafe := s.Start("w", "d001")
	settle(s)
	s.ExpectState(unsafe, sm.ExecutionFailedUnsafe)
	s.Script = nil
	first := s.Start("w", "d000") // its job is not delivered yet
	s.DrainWakeups()
	second, both := s.Start("w", "d000"), s.Start("other", "d000", "d001")
	s.DrainWakeups()
	s.DrainPacks()
	s.DrainWakeups() // the second has d000 now: both has met it twice, and reserves it
	s.RunFor(2 * time.Minute)
	s.ExpectState(first, sm.ExecutionCompletedAck)
	s.ExpectState(second, sm.ExecutionCompletedAck)
	x := s.ExpectState(both, sm.ExecutionScheduled)
	if x.BlockedBy == nil || x.BlockedBy.Execution != unsafe || !x.BlockedBy.NeedsPerson {
		t.Fatalf("blocked by %+v", x.BlockedBy)
	}
	keys := devices("d000")
	if items, err := s.Open().Locks.Read(context.Background(), harness.Caller.Tenant, keys, true); err != nil || items[keys[0]].Reserver != both {
		t.Fatalf("not reserved: %+v, %v", items, err)
	}
	one := s.Start("other", "d000")
	s.RunFor(2 * time.Minute)
	s.ExpectState(one, sm.ExecutionCompletedAck)
}

// Once the holder is retried, it waits for nobody: executions that wait for it no longer show that,
// and their reservations count again.
func TestLocks_ReservationsCountAgainAfterRetryOfHolder(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", "steps: [{label: one, functionBlock: p/forever:1, runOn: device}]\n")
	s.Publish("other", "steps: [{label: look, functionBlock: p/pure:1, runOn: device}]\n")
	s.Script = failCalls("one EXECUTE d001")
	unsafe := s.Start("w", "d001")
	settle(s)
	s.ExpectState(unsafe, sm.ExecutionFailedUnsafe)
	s.Script = nil
	both := s.Start("other", "d000", "d001")
	s.DrainWakeups()
	if x := s.ExpectState(both, sm.ExecutionScheduled); x.BlockedBy == nil || !x.BlockedBy.NeedsPerson || x.OwnerStatus().Reserves() {
		t.Fatalf("blocked by %+v", x.BlockedBy)
	}
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, unsafe, views.RetryRequest{Reason: "mended", Entities: views.RetryAll}); err != nil {
		t.Fatal(err)
	}
	s.DrainWakeups() // the job of the retry is not delivered yet
	for range 5 {    // it looks at its timer
		s.Advance(time.Minute)
		s.Sweep()
		s.DrainWakeups()
	}
	x := s.ExpectState(both, sm.ExecutionScheduled)
	if x.BlockedBy == nil || x.BlockedBy.Execution != unsafe || x.BlockedBy.NeedsPerson || !x.OwnerStatus().Reserves() {
		t.Errorf("blocked by %+v after the retry", x.BlockedBy)
	}
	settle(s)
	s.ExpectState(unsafe, sm.ExecutionCompletedAck)
	s.ExpectState(both, sm.ExecutionCompletedAck)
}

// What has finally failed of an execution that was retried for the entities it kept has the failures of the
// others too.
func TestJobs_FailedBeforeANarrowedRetry(t *testing.T) {
	for _, entities := range []views.RetryEntities{views.RetryAll, views.RetryFailed} {
		s := newHarness(t, 3)
		s.Publish("w", "steps: [{label: one, functionBlock: p/forever:1, runOn: device}, {label: two, functionBlock: p/pure:1, runOn: device}]\n")
		mended := map[string]bool{}
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			if c.Step == "two" && !mended[c.Entity] {
				return &harness.Outcome{FailCode: "NO"}
			}
			return nil
		}
		id := s.Start("w", harness.DeviceIDs(3)...)
		settle(s)
		s.ExpectState(id, sm.ExecutionFailedUnsafe)
		failed := func() (list []string) {
			for page := (workflow.Page{}); ; {
				jobs, err := s.Query.Jobs(context.Background(), harness.Caller, id, views.JobFilter{FinallyFailed: true}, page)
				if err != nil {
					t.Fatal(err)
				}
				for _, j := range jobs.Items {
					list = append(list, j.Entity.ID)
				}
				if page.Token = jobs.NextToken; page.Token == "" {
					return list
				}
			}
		}
		for _, c := range []struct {
			release, mend string
			want          []string
		}{{"d000", "d001", []string{"d000", "d002"}}, {"d001", "d002", []string{"d000"}}} {
			acknowledge(s, id, c.release)
			mended[c.mend] = true
			mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
				return s.Engine.Retry(ctx, harness.Caller, id, views.RetryRequest{Entities: entities})
			})
			settle(s)
			if got := failed(); !slices.Equal(got, c.want) {
				t.Errorf("%s: after the release of %s: %v, want %v", entities, c.release, got, c.want)
			}
		}
		s.ExpectState(id, sm.ExecutionCompletedAck)
	}
}
