package engine_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// longIDs returns n long ids of devices.
func longIDs(n int) (ids []string) {
	for i := range n {
		id := fmt.Sprintf("%05d.", i)
		ids = append(ids, id+strings.Repeat("x", 60-len(id)))
	}
	return ids
}

// wantOfPlace is what becomes of an entity, by its place, in the executions of the test below.
func wantOfPlace(place int) workflow.EntityOutcome {
	switch place % 4 {
	case 1:
		return workflow.EntityFailedSafe
	case 3:
		return workflow.EntityFailedUnsafe
	}
	return workflow.EntitySucceeded
}

// Of 10,000 entities with long ids, every second one fails, some of them unsafely. What
// became of each is told, although the sets do not fit into the state item: in lists, to a rerun, and
// to an operator who acknowledges some of them and retries the others.
func TestOutcome_OfTenThousandEntities(t *testing.T) {
	const devices = 10_000
	ids := longIDs(devices)
	o := harness.Options()
	o.Policy.PackSize, o.Policy.MinPackedJobs, o.Policy.Retention = 100, 100, retention
	s := harness.New(t, 1, o)
	harness.MeasureItems(s.World)
	s.RegisterBlocks()
	for part := range slices.Chunk(ids, 2000) {
		s.ImportDevices(part...)
	}
	s.Publish("w", "config: {failureTolerance: 100%}\nsteps:\n  - {label: a, functionBlock: p/pure:1, runOn: device}\n  - {label: b, functionBlock: p/forever:1, runOn: device}\n")
	mended := false
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		number, err := strconv.Atoi(c.Entity[:5])
		if err != nil {
			t.Error(err)
		}
		if want := wantOfPlace(number + 1); !mended && (c.Step == "a" && want == workflow.EntityFailedSafe || c.Step == "b" && want == workflow.EntityFailedUnsafe) {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	id := s.StartWith(views.StartRequest{Workflow: "p/w", ExecuteOnParameters: &workflow.Selector{Type: "device", Groups: []string{"all"}}})
	settle(s)
	x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
	if !x.Result.Unread() || x.Kept == nil || x.Kept.Len() != devices/4 {
		t.Fatalf("stored apart: %t, kept %v", x.Result.Unread(), x.Kept.Len())
	}
	if x.ItemBytes > 20<<10 {
		t.Errorf("the state item has %d bytes", x.ItemBytes)
	}
	if _, known := x.EntityOutcome(1); known {
		t.Error("an outcome is told that was not read")
	}

	// A page of a list reads the outcomes once.
	reads, pages := 0, 0
	s.Faults = func(c faults.Call) faults.Fault {
		if c.Name == "packs.load_payload" {
			reads++
		}
		return faults.None
	}
	told := map[string]workflow.EntityOutcome{}
	for p := (workflow.Page{Limit: workflow.MaxPageSize}); ; pages++ {
		list, err := s.Query.Failures(t.Context(), harness.Caller, views.FailureFilter{}, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list.Items {
			told[f.Entity] = f.Outcome
		}
		if p.Token = list.NextToken; p.Token == "" {
			break
		}
	}
	if reads > 2*(pages+1) {
		t.Errorf("%d pages have read the outcomes %d times", pages+1, reads)
	}
	s.Faults = nil
	for i, device := range ids {
		want := wantOfPlace(i + 1)
		if got, listed := told["device/"+device]; listed != (want != workflow.EntitySucceeded) || listed && got != want {
			t.Fatalf("entity %d: listed as %q, want %s", i+1, got, want)
		}
	}
	for place := range 4 {
		of, err := s.Query.EntityExecutions(t.Context(), harness.Caller, workflow.EntityKey{Type: "device", ID: ids[place]})
		if err != nil || len(of) != 1 || of[0].EntityOutcome == nil || *of[0].EntityOutcome != wantOfPlace(place+1) {
			t.Errorf("executions of entity %d: %+v, %v", place+1, of, err)
		}
	}

	again, err := rerun(s, id, chosen(views.RerunFailed))
	if err != nil {
		t.Fatal(err)
	}
	s.Drain()
	if n := s.ExpectState(again, sm.ExecutionScheduled).Scope.Total(); n != devices/2 {
		t.Errorf("a rerun of those that failed is over %d", n)
	}

	// The operator releases two; the retry works on the others, and all keep their outcomes.
	acknowledge(s, id, ids[2], ids[6])
	mended = true
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{}); err != nil {
		t.Fatal(err)
	}
	s.RunUntilIdle(time.Hour)
	x = s.Load(id)
	if want := (map[workflow.EntityOutcome]int{workflow.EntityFailedSafe: devices / 4, workflow.EntityFailedUnsafe: 2}); fmt.Sprint(x.Result.Count) != fmt.Sprint(want) || x.Outcome() != workflow.OutcomePartial {
		t.Errorf("after the retry %s: %v", x.Outcome(), x.Result.Count)
	}
	for place, want := range map[int]workflow.EntityOutcome{1: workflow.EntityFailedSafe, 2: workflow.EntitySucceeded, 3: workflow.EntityFailedUnsafe, 7: workflow.EntityFailedUnsafe, 11: workflow.EntitySucceeded} {
		of, err := s.Query.EntityExecutions(t.Context(), harness.Caller, workflow.EntityKey{Type: "device", ID: ids[place-1]})
		if err != nil || *of[len(of)-1].EntityOutcome != want {
			t.Errorf("after the retry, executions of entity %d: %+v, %v", place, of[len(of)-1], err)
		}
	}
	want, discarded := 1, 0 // the outcomes, and each shard of packs
	for _, r := range x.StepRuns {
		want += r.Shards()
	}
	s.Faults = func(c faults.Call) faults.Fault {
		if c.Name == "packs.discard" {
			discarded++
		}
		return faults.None
	}
	s.RunFor(retention + day)
	assertDiscarded(s, id)
	for _, r := range s.Load(again).StepRuns {
		want += r.Shards()
	}
	if want++; discarded != want {
		t.Errorf("%d parts were discarded, want %d", discarded, want)
	}
}

// gappedScope starts an execution of a definition over 7,000 devices with onLocked: skip. Another one
// holds most of them for an hour. So the scope has few entities, whose places are far apart, and a set
// of them all does not fit into the state item. It returns the execution, and the ids of its devices.
func gappedScope(s *harness.Harness, steps string) (id string, taken []string) {
	ids := longIDs(7000)
	for part := range slices.Chunk(ids, 2000) {
		s.ImportDevices(part...)
	}
	s.Publish("holds", "steps: [{label: wait, wait: {for: 1h}}]\n")
	s.Publish("w", "config: {onLocked: skip, failureTolerance: 100%}\nsteps: ["+steps+"]\n")
	var held []string
	for i, id := range ids {
		if i%30 == 0 {
			taken = append(taken, id)
		} else {
			held = append(held, id)
		}
	}
	s.Start("holds", held...)
	s.Drain()
	return s.StartWith(views.StartRequest{Workflow: "p/w", ExecuteOnParameters: &workflow.Selector{Type: "device", Groups: []string{"all"}}}), taken
}

// Sets of outcomes can be large although the scope is small: places have gaps where entities were left
// out. At the end of the retention they are deleted, also those of an earlier try.
func TestOutcome_SetsOfAScopeWithGapsAreDeleted(t *testing.T) {
	for name, retry := range map[string]bool{"one try": false, "two tries": true} {
		t.Run(name, func(t *testing.T) {
			s := newRetentionHarness(t, 0)
			mended := false
			s.Script = func(harness.BlockCall) *harness.Outcome {
				if mended {
					return nil
				}
				return &harness.Outcome{FailCode: "REFUSED"}
			}
			id, taken := gappedScope(s, "{label: a, functionBlock: p/pure:1, runOn: device, failureTolerance: 0}")
			s.RunFor(10 * time.Minute)
			x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
			if x.Result.Stored == nil || x.Scope.Total() != len(taken) {
				t.Fatalf("%d entities, stored apart: %t", x.Scope.Total(), x.Result.Stored != nil)
			}
			if mended = retry; retry {
				if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{}); err != nil {
					t.Fatal(err)
				}
				s.RunFor(10 * time.Minute)
				if x = s.ExpectState(id, sm.ExecutionCompletedAck); x.Result != nil {
					t.Fatalf("after the retry: %+v", x.Result)
				}
			}
			s.RunFor(retention + day)
			assertDiscarded(s, id)
			expireAll(s)
			if left := s.Remaining(); len(left) > 0 {
				t.Errorf("it has left %v", left)
			}
		})
	}
}

// expireAll deletes everything that may be deleted by now.
func expireAll(s *harness.Harness) {
	for more := true; more; _, more = s.Expire(func(int) int { return 0 }) {
	}
}

// Whether the stored outcomes can be read matters only to those who need them: an operator can always
// acknowledge and unlock. Outcomes that are missing are an error for those who act on them, and not taken
// for none; a list tells the other executions, and the entities that this one names.
func TestOutcome_UnreadableSetsKeepNobodyFromAcknowledging(t *testing.T) {
	for _, missing := range []bool{false, true} {
		s := newHarness(t, 0)
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			if c.Step == "b" {
				return &harness.Outcome{FailCode: "REFUSED"}
			}
			return nil
		}
		id, taken := gappedScope(s, "{label: a, functionBlock: p/forever:1, runOn: device}, {label: b, functionBlock: p/pure:1, runOn: device}")
		s.RunFor(10 * time.Minute)
		if x := s.ExpectState(id, sm.ExecutionFailedUnsafe); x.Result.Stored == nil || x.Kept.Len() != len(taken) {
			t.Fatalf("kept %v, stored apart: %t", x.Kept, x.Result.Stored != nil)
		}
		s.ImportDevices("other")
		s.Publish("f", "steps: [{label: b, functionBlock: p/pure:1, runOn: device}]\n")
		other := s.Start("f", "other")
		s.RunFor(10 * time.Minute)
		s.ExpectState(other, sm.ExecutionFailedSafeAck)
		if missing {
			if err := s.Open().Packs.Discard(t.Context(), workflow.ValueKey(harness.Caller.Tenant, id).StepRunKey(), 0, s.Now()); err != nil {
				t.Fatal(err)
			}
			expireAll(s)
		} else {
			s.Faults = func(c faults.Call) faults.Fault {
				if c.Name == "packs.load_payload" {
					return faults.Broken
				}
				return faults.None
			}
		}
		_, retried := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{})
		_, again := rerun(s, id, chosen(views.RerunFailed))
		for what, err := range map[string]error{"retry": retried, "rerun": again} {
			if err == nil || missing && !strings.Contains(err.Error(), "are missing") {
				t.Errorf("missing: %t: %s: %v", missing, what, err)
			}
		}
		list, listed := s.Query.Failures(t.Context(), harness.Caller, views.FailureFilter{}, workflow.Page{Limit: workflow.MaxPageSize})
		history, told := s.Query.EntityExecutions(t.Context(), harness.Caller, workflow.EntityKey{Type: "device", ID: taken[0]})
		if (listed == nil) != missing || (told == nil) != missing {
			t.Errorf("missing: %t: failures: %v, executions of an entity: %v", missing, listed, told)
		}
		x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
		if named := len(x.Result.Named); missing && (len(list.Items) != 1+named+len(x.Dropped) || named == 0 || list.Items[0].Execution != other || !slices.Equal(list.Skipped, []string{id}) || len(history) != 1 || history[0].EntityOutcome != nil) {
			t.Errorf("failures: %d, of which the execution names %d, without %v; executions of an entity: %+v", len(list.Items), named, list.Skipped, history)
		}
		if _, err := rerun(s, id, chosen(views.RerunAll)); err != nil {
			t.Errorf("missing: %t: a rerun of all: %v", missing, err)
		}
		acknowledge(s, id, taken[0])
		if _, err := s.Engine.Unlock(t.Context(), harness.Caller, id, "looked", workflow.EntityKey{Type: "device", ID: taken[1]}); err != nil {
			t.Error(err)
		}
		if x := s.ExpectState(id, sm.ExecutionFailedUnsafe); x.Kept.Len() != len(taken)-2 {
			t.Errorf("missing: %t: it keeps %d of %d", missing, x.Kept.Len(), len(taken))
		}
		acknowledge(s, id)
		s.ExpectState(id, sm.ExecutionFailedUnsafeAck)
	}
}

// A retry that locks its entities again does what it says without the outcomes of the last end.
func TestOutcome_MissingSetsDoNotKeepAnEndFromBeingRetried(t *testing.T) {
	s := newHarness(t, 0)
	mended := false
	s.Script = func(harness.BlockCall) *harness.Outcome {
		if mended {
			return nil
		}
		return &harness.Outcome{FailCode: "REFUSED"}
	}
	id, _ := gappedScope(s, "{label: a, functionBlock: p/pure:1, runOn: device, failureTolerance: 0}")
	s.RunFor(10 * time.Minute)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Result.Stored == nil {
		t.Fatal("the outcomes are in the state item")
	}
	mended = true
	if err := s.Open().Packs.Discard(t.Context(), workflow.ValueKey(harness.Caller.Tenant, id).StepRunKey(), 0, s.Now()); err != nil {
		t.Fatal(err)
	}
	expireAll(s)
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{}); err != nil {
		t.Fatal(err)
	}
	s.RunFor(6 * time.Hour)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// The updates of entities that have failed are not written, also if the handler that has stored their
// outcomes has crashed.
func TestOutcome_StoredSetsAreReadForUpdates(t *testing.T) {
	s := newHarness(t, 0)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "b" && !strings.HasPrefix(c.Entity, "00000.") {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return &harness.Outcome{SetAttributes: map[string]any{"by": "w"}}
	}
	stored, crashed := false, false
	s.Faults = func(c faults.Call) faults.Fault {
		stored = stored || c.Name == "packs.save_payload"
		if stored && !crashed && c.Name == "store.commit" {
			crashed = true
			return faults.CrashAfter
		}
		return faults.None
	}
	id, taken := gappedScope(s, "{label: a, functionBlock: p/pure:1, runOn: device}, {label: b, functionBlock: p/pure:1, runOn: device}")
	s.RunFor(30 * time.Minute)
	if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.Result.Stored == nil || !crashed || x.Outcome() != workflow.OutcomePartial {
		t.Fatalf("crashed: %t, %s, %+v", crashed, x.Outcome(), x.Result)
	}
	for i, device := range taken[:3] {
		e, err := s.Catalog.Entity(t.Context(), harness.Caller, workflow.EntityKey{Type: "device", ID: device})
		if err != nil || strings.Contains(string(e.Attributes), `"by"`) != (i == 0) {
			t.Errorf("entity %d has %s, %v", i, e.Attributes, err)
		}
	}
}

// A rollback that is retried ends also if the stored outcomes are lost meanwhile, as they may be after a restore, and
// the execution can be acknowledged then.
func TestOutcome_MissingSetsDoNotKeepARollbackFromEnding(t *testing.T) {
	s := newHarness(t, 0)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "b" || c.Kind == workflow.JobRollback {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	id, _ := gappedScope(s, "{label: a, functionBlock: p/again:1, runOn: device}, {label: b, functionBlock: p/pure:1, runOn: device, failureTolerance: 0}")
	s.RunFor(10 * time.Minute)
	if x := s.ExpectState(id, sm.ExecutionFailedUnsafe); x.Result.Stored == nil {
		t.Fatalf("the outcomes are not stored apart: %+v", x.Result.Count)
	}
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Rollback: true}); err != nil {
		t.Fatal(err)
	}
	if x := s.Load(id); x.State != sm.ExecutionRollback {
		t.Fatalf("it is in %s", x.State)
	}
	if err := s.Open().Packs.Discard(t.Context(), workflow.ValueKey(harness.Caller.Tenant, id).StepRunKey(), 0, s.Now()); err != nil {
		t.Fatal(err)
	}
	expireAll(s)
	s.RunFor(6 * time.Hour)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	acknowledge(s, id)
	s.ExpectState(id, sm.ExecutionFailedUnsafeAck)
}
