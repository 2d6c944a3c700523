package engine_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// undoing fails the undoing of entities in some steps until it is mended: "STEP" for all, or "STEP/ENTITY".
type undoing struct {
	steps  []string
	mended bool
}

func (u *undoing) script(c harness.BlockCall) *harness.Outcome {
	undoes := c.Kind == workflow.JobRollback
	if c.Step == "check" && !undoes || !u.mended && undoes && (slices.Contains(u.steps, c.Step) || slices.Contains(u.steps, c.Step+"/"+c.Entity)) {
		return &harness.Outcome{FailCode: "NO"}
	}
	return nil
}

// callsSince returns the calls after a number of them, as "STEP KIND ENTITY".
func callsSince(s *harness.Harness, since int) (calls []string) {
	for _, c := range s.BlockCalls[since:] {
		calls = append(calls, fmt.Sprintf("%s %s %s", c.Step, c.Kind, c.Entity))
	}
	return calls
}

// retryRollback tries the rollback of an execution again, runs it to its end, and returns its calls in their order.
func retryRollback(s *harness.Harness, id string, req views.RetryRequest) []string {
	s.Helper()
	since := len(s.BlockCalls)
	req.Rollback = true
	retry(s, id, req)
	settle(s)
	return callsSince(s, since)
}

func refusedRollback(s *harness.Harness, id, because string) {
	s.Helper()
	err := retryError(s, id, views.RetryRequest{Rollback: true})
	if !workflow.Is(err, workflow.CodeIllegalTransition) || !strings.Contains(err.Error(), because) {
		s.Errorf("%v, want %q", err, because)
	}
}

// A rollback whose block fails on one device is retried: for that device, and for all in the steps
// that it had not reached. What it had undone is left out.
func TestRetryRollback_UndoesTheRest(t *testing.T) {
	for name, c := range map[string]struct {
		fails  []string
		first  string // state after the first rollback
		again  []string
		config string
	}{
		"one device of the last step": {[]string{"two/d001"}, "", []string{"two ROLLBACK d001", "one ROLLBACK d000", "one ROLLBACK d001"}, ""},
		"the first step":              {[]string{"one"}, "", []string{"one ROLLBACK d000", "one ROLLBACK d001"}, ""},
		"one device of the first":     {[]string{"one/d000"}, "", []string{"one ROLLBACK d000"}, ""},
		"going on after failures":     {[]string{"two/d001", "one/d000"}, "", []string{"two ROLLBACK d001", "one ROLLBACK d000"}, "config: {rollback: {onFailure: continue}}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, 2)
			u := undoing{steps: c.fails}
			s.Script = u.script
			s.Publish("w", c.config+stepsYAML("one again device", "two once device", "check pure device"))
			id := s.Start("w", "d000", "d001")
			settle(s)
			if x := s.Load(id); x.State != sm.ExecutionFailedUnsafe || x.RolledBack {
				t.Fatalf("%s, rolled back %v", x.State, x.RolledBack)
			}
			// It fails once more, and says so.
			_ = retryRollback(s, id, views.RetryRequest{Reason: "try"})
			if x := s.Load(id); x.State != sm.ExecutionFailedUnsafe || x.RolledBack || x.Try != 2 {
				t.Fatalf("%s, rolled back %v, try %d", x.State, x.RolledBack, x.Try)
			}
			u.mended = true
			again := retryRollback(s, id, views.RetryRequest{Reason: "mended"})
			slices.SortStableFunc(again, func(a, b string) int { return -strings.Compare(a[:3], b[:3]) })
			x := s.Load(id)
			if x.State != sm.ExecutionFailedSafeAck || !x.RolledBack || !slices.Equal(again, c.again) {
				t.Errorf("%s, rolled back %v, %q", x.State, x.RolledBack, again)
			}
			if n := x.Result.Count[workflow.EntityFailedSafe]; n != 2 || x.Error.Step != "check" {
				t.Errorf("%v, %+v", x.Result.Count, x.Error)
			}
			refusedRollback(s, id, "nothing to undo")
			// A retry after that does everything again.
			u.steps, s.Script = nil, nil
			if got := retryToEnd(s, id, views.RetryRequest{}); len(got) != 6 || s.Load(id).State != sm.ExecutionCompletedAck {
				t.Errorf("%s %v", s.Load(id).State, got)
			}
		})
	}
}

// The undoing of items and of global steps is tried again, too.
func TestRetryRollback_OfItems(t *testing.T) {
	s := newHarness(t, 1)
	mended := false
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "check" && c.Kind == workflow.JobExecute || !mended && c.Kind == workflow.JobRollback && c.Step == "each" && strings.Contains(string(c.Parameters), "2") {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	}
	s.Publish("w", "steps:\n"+
		"  - {label: once, functionBlock: p/once:1, runOn: global}\n"+
		"  - {label: each, foreach: {items: \"${[1, 2, 3]}\"}, functionBlock: p/again:1, runOn: item, parameters: {n: \"${item}\"}}\n"+
		"  - {label: check, functionBlock: p/pure:1, runOn: global}\n")
	id := s.Start("w", "d000")
	settle(s)
	if x := s.Load(id); x.State != sm.ExecutionFailedUnsafe {
		t.Fatal(x.State)
	}
	mended = true
	got := retryRollback(s, id, views.RetryRequest{})
	if x := s.Load(id); x.State != sm.ExecutionFailedSafeAck || !x.RolledBack || !slices.Equal(got, []string{"each ROLLBACK ", "once ROLLBACK "}) {
		t.Errorf("%s, rolled back %v, %q", x.State, x.RolledBack, got)
	}
	if last := s.BlockCalls[len(s.BlockCalls)-2]; !strings.Contains(string(last.Parameters), "2") {
		t.Errorf("it undoes %s", last.Parameters)
	}
}

// An execution that undoes what another has done fails once. Another one is started in its place.
func TestRetryRollback_StartsAnotherExecution(t *testing.T) {
	s := newHarness(t, 2)
	s.Script = fails("charge", "leave")
	id := startSaga(t, s, "stop")
	settle(s)
	failed, hotel := s.Load(id).LastStepRun().Child.ID, s.Load(id).StepRuns[1].Child.ID
	f := executionView(t, s, id).FailedRollback
	if f == nil || f.Step != "hotel" || *f.Execution != failed || *f.State != sm.ExecutionFailedSafeAck || !slices.Equal(f.Entities, []string{"device/d001"}) || f.Obstacle != nil {
		t.Errorf("%+v", f)
	}
	if c := executionView(t, s, failed).Compensates; c == nil || c.Execution != hotel || c.Step != "hotel" {
		t.Errorf("%+v", c)
	}
	children, err := s.Query.Children(context.Background(), harness.Caller, id, "", workflow.Page{})
	if err != nil || len(children.Items) != 2 || children.Items[0].Compensates != nil || *children.Items[1].Compensates != hotel {
		t.Errorf("%+v, %v", children.Items, err)
	}
	if err := retryError(s, failed, views.RetryRequest{}); err == nil || !strings.Contains(err.Error(), "retry that one with rollback") {
		t.Errorf("%v", err)
	}
	s.Script = fails("charge")
	if got := retryRollback(s, id, views.RetryRequest{Reason: "mended"}); !slices.Equal(got, []string{"leave EXECUTE d001", "flight ROLLBACK "}) {
		t.Errorf("%q", got)
	}
	x := s.Load(id)
	if x.State != sm.ExecutionFailedSafeAck || !x.RolledBack || x.Error.Step != "charge" {
		t.Errorf("%s, rolled back %v, %+v", x.State, x.RolledBack, x.Error)
	}
	undo := x.StepRuns[len(x.StepRuns)-2].Child
	if undo == nil || undo.ID == failed || s.Load(undo.ID).State != sm.ExecutionCompletedAck {
		t.Errorf("%+v", undo)
	}
}

// It is refused if no rollback has begun, if the locks were released, and for a child whose parent
// has ended.
func TestRetryRollback_IsRefused(t *testing.T) {
	s := newHarness(t, 4)
	u := undoing{steps: []string{"one"}}
	s.Script = u.script
	s.Publish("w", stepsYAML("one again device", "check pure device"))
	s.Publish("never", "config: {rollback: never}\n"+stepsYAML("one again device", "check pure device"))
	s.Publish("parent", "steps:\n  - {label: go, workflowReference: {workflow: p/w:1, mode: dispatch, executeOnParameters: {ids: [\"d002\"]}}}\n")
	unlocked, acknowledged, parent := s.Start("w", "d000"), s.Start("w", "d001"), s.Start("parent", "d003")
	settle(s)
	ctx := context.Background()
	if _, err := s.Engine.Unlock(ctx, harness.Caller, unlocked, "needed"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Engine.Acknowledge(ctx, harness.Caller, acknowledged, "seen"); err != nil {
		t.Fatal(err)
	}
	settle(s)
	u.mended = true
	refusedRollback(s, unlocked, "it has released its locks")
	refusedRollback(s, acknowledged, "its end was acknowledged")
	child := ""
	for id := range s.States(harness.Caller.Tenant) {
		if x := s.Load(id); x.Parent != nil {
			child = id
		}
	}
	if f := executionView(t, s, child).FailedRollback; f == nil || f.Execution != nil || f.Obstacle == nil {
		t.Errorf("%+v", f)
	}
	if f := executionView(t, s, parent).FailedRollback; f != nil {
		t.Errorf("%+v", f)
	}
	refusedRollback(s, child, "nothing of it happens after that")
	refusedRollback(s, parent, "it has not begun to roll back")
	if _, err := s.Engine.Acknowledge(ctx, harness.Caller, child, "seen"); err != nil {
		t.Fatal(err)
	}
	never := s.Start("never", "d002")
	settle(s)
	refusedRollback(s, never, "it has not begun to roll back")
	for _, req := range []views.RetryRequest{{Rollback: true, From: "one"}, {Rollback: true, Entities: views.RetryAll}} {
		if err := retryError(s, unlocked, req); !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("%v", err)
		}
	}
}

// What a later try has executed was not to be rolled back: the rollback that had failed before it is over.
func TestRetryRollback_OfTheLastTryOnly(t *testing.T) {
	s := newHarness(t, 3)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Entity == "d001" && (c.Step == "check" || c.Kind == workflow.JobRollback) {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	}
	s.Publish("w", "config: {failureTolerance: 1}\n"+stepsYAML("one again device", "check pure device"))
	id := s.Start("w", "d000", "d001", "d002")
	settle(s)
	if x := s.Load(id); x.State != sm.ExecutionFailedUnsafe || x.Undo == nil {
		t.Fatalf("%s %+v", x.State, x.Undo)
	}
	if got := retryRollback(s, id, views.RetryRequest{}); !slices.Equal(got, []string{"one ROLLBACK d001"}) {
		t.Errorf("%q", got)
	}
	if got := retryToEnd(s, id, views.RetryRequest{}); len(got) == 0 || s.Load(id).State != sm.ExecutionFailedUnsafe || s.Load(id).Undo != nil {
		t.Fatalf("%q, %s", got, s.Load(id).State)
	}
	refusedRollback(s, id, "it has not begun to roll back what it has executed last")
	if f := executionView(t, s, id).FailedRollback; f != nil {
		t.Errorf("%+v", f)
	}
}

// A retry that goes forward after a rollback was tried again begins with the first step that either has undone.
func TestRetryRollback_AndForward(t *testing.T) {
	s := newHarness(t, 1)
	u := undoing{steps: []string{"one"}}
	s.Script = u.script
	s.Publish("w", stepsYAML("zero again device", "one again device", "two again device", "check pure device"))
	id := s.Start("w", "d000")
	settle(s)
	_ = retryRollback(s, id, views.RetryRequest{})
	s.Script = nil
	got := retryToEnd(s, id, views.RetryRequest{})
	if x := s.Load(id); x.State != sm.ExecutionCompletedAck || !slices.Equal(got, []string{"one EXECUTE d000", "two EXECUTE d000", "check EXECUTE d000"}) {
		t.Errorf("%s %q", x.State, got)
	}
}

// The failure to undo one global step says nothing about another: both are undone.
func TestRetryRollback_OfGlobalStepsInAWave(t *testing.T) {
	mended := false
	s, id := rolledOut(t, 2, `steps:
  - {label: all, rollout: {batches: [2]}, workflow: {steps: [{label: one, functionBlock: p/again:1, runOn: global}, {label: note, functionBlock: p/again:1, runOn: global}, {label: two, functionBlock: p/pure:1, runOn: device}]}}
`, func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "two" || !mended && c.Step == "note" && c.Kind == workflow.JobRollback {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	})
	settle(s)
	expectSteps(t, s, id, "one | note | two 0 | ~note | ~one")
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	mended = true
	if got := retryRollback(s, id, views.RetryRequest{}); !slices.Equal(got, []string{"note ROLLBACK "}) {
		t.Errorf("%q", got)
	}
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// The engine gave up on a rollback whose jobs had all ended OK: nothing of that step is left, and
// the next step is undone.
func TestRetryRollback_GoesOnAfterTheEngineGaveUp(t *testing.T) {
	s := newHarness(t, 2)
	healthy := faults.Plan(func(faults.Call) faults.Fault { return faults.None })
	s.Faults = healthy
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Kind == workflow.JobRollback && c.Step == "two" {
			s.Faults = faults.Every(faults.Broken, "packs.shard_packs", "packs.lane_packs", "packs.pack", "packs.done_set")
		}
		if c.Step == "check" {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	}
	s.Publish("w", stepsYAML("one again device", "two again device", "check pure device"))
	id := s.Start("w", "d000", "d001")
	s.RunFor(5 * time.Hour)
	if x := s.ExpectState(id, sm.ExecutionFailedUnsafe); x.Cause != workflow.CauseInternal || callsByStep(s, id) != "one 0,1 | two 0,1 | check 0 | ~two 0,1" {
		t.Fatalf("%s, %s", x.Cause, callsByStep(s, id))
	}
	s.Faults = healthy
	if got := retryRollback(s, id, views.RetryRequest{}); !slices.Equal(got, []string{"one ROLLBACK d000", "one ROLLBACK d001"}) {
		t.Errorf("%q", got)
	}
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); !x.RolledBack {
		t.Error("not rolled back")
	}
}

// Tries that have only rolled back lie between the try for all and one for those that are still held. A retry for all
// executes again what the first of them has undone.
func TestRetryRollback_AndForwardForSomeThenForAll(t *testing.T) {
	s := newHarness(t, 3)
	healthy, unclaimed := faults.Plan(func(faults.Call) faults.Fault { return faults.None }), faults.Every(faults.Broken, "packs.claim")
	s.Faults = healthy
	fails := true
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Kind == workflow.JobRollback && c.Step == "one" {
			s.Faults = unclaimed // the other pack
		}
		if c.Step == "check" && fails {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	}
	s.Publish("w", stepsYAML("one again device", "two again device", "check pure device"))
	id := s.Start("w", "d000", "d001", "d002")
	s.RunFor(5 * time.Hour)
	if x := s.ExpectState(id, sm.ExecutionFailedUnsafe); x.Kept.String() != "3" {
		t.Fatal(x.Kept)
	}
	retry(s, id, views.RetryRequest{Rollback: true})
	s.RunFor(5 * time.Hour)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	s.Faults = healthy
	since := len(s.BlockCalls)
	retry(s, id, views.RetryRequest{})
	s.RunFor(5 * time.Hour)
	if got := callsSince(s, since); !slices.Equal(got, []string{"two EXECUTE d002", "check EXECUTE d002"}) {
		t.Fatalf("%q", got)
	}
	if _, err := s.Engine.Acknowledge(s.Context(), harness.Caller, id, "seen"); err != nil {
		t.Fatal(err)
	}
	fails = false
	got := retryToEnd(s, id, views.RetryRequest{})
	want := []string{"one EXECUTE d000", "one EXECUTE d001", "two EXECUTE d000", "two EXECUTE d001", "check EXECUTE d000", "check EXECUTE d001", "check EXECUTE d002"}
	if s.ExpectState(id, sm.ExecutionCompletedAck); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// Two entities could not be undone in an execution that otherwise completes, and an operator has
// released one. What was done to that one remains, even when the other is undone: the execution
// does not complete.
func TestRetryRollback_OfFailedEntitiesAfterARelease(t *testing.T) {
	s := newHarness(t, 4)
	mended := false
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if (c.Entity == "d001" || c.Entity == "d002") && (c.Step == "check" || !mended && c.Kind == workflow.JobRollback) {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	}
	s.Publish("w", "config: {failureTolerance: 2}\n"+stepsYAML("one again device", "check pure device"))
	id := s.Start("w", "d000", "d001", "d002", "d003")
	settle(s)
	if _, err := s.Engine.Acknowledge(s.Context(), harness.Caller, id, "seen", workflow.EntityKey{Type: "device", ID: "d001"}); err != nil {
		t.Fatal(err)
	}
	mended = true
	if got := retryRollback(s, id, views.RetryRequest{}); !slices.Equal(got, []string{"one ROLLBACK d002"}) {
		t.Errorf("%q", got)
	}
	x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
	if n := x.Result.Count; n[workflow.EntityFailedSafe] != 1 || n[workflow.EntityFailedUnsafe] != 1 || len(s.Locks()) != 0 {
		t.Errorf("%v, locks %v", n, s.Locks())
	}
	refusedRollback(s, id, "nothing of it is left to undo")
}

// A cancelled execution ends as cancelled, reports for its entities what is true then, and no
// longer that its rollback has failed. What an operator had released is not undone, so with that it
// ends as unsafe.
func TestRetryRollback_OfACancelledExecution(t *testing.T) {
	for release, want := range map[bool]sm.ExecutionState{false: sm.ExecutionCancelledAck, true: sm.ExecutionFailedUnsafe} {
		s := newHarness(t, 3)
		id, mended := "", false
		cancel := func() {
			_, _ = s.Engine.Cancel(s.Context(), harness.Caller, id, views.CancelRequest{Reason: "no more"})
		}
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			if c.Step == "check" {
				return &harness.Outcome{During: cancel}
			}
			if !mended && c.Kind == workflow.JobRollback && c.Entity != "d000" {
				return &harness.Outcome{FailCode: "NO"}
			}
			return nil
		}
		s.Publish("w", stepsYAML("one again device", "check pure device"))
		id = s.Start("w", "d000", "d001", "d002")
		settle(s)
		if x := s.ExpectState(id, sm.ExecutionFailedUnsafe); x.Result.Count[workflow.EntityFailedUnsafe] != 2 || x.Error == nil {
			t.Fatalf("%+v, %+v", x.Result, x.Error)
		}
		if release {
			if _, err := s.Engine.Acknowledge(s.Context(), harness.Caller, id, "seen", workflow.EntityKey{Type: "device", ID: "d001"}); err != nil {
				t.Fatal(err)
			}
		}
		mended = true
		_ = retryRollback(s, id, views.RetryRequest{})
		x := s.ExpectState(id, want)
		if n := x.Result.Count; release != (n[workflow.EntityFailedUnsafe] == 1) || release == (n[workflow.EntityFailedSafe] == 3) || len(s.Locks()) != 0 {
			t.Errorf("%v, locks %v", n, s.Locks())
		}
		if !release && (!x.RolledBack || x.Error != nil || x.Cause != workflow.CauseCancelled || x.Reason != "no more") {
			t.Errorf("rolled back %v, %s, %q, %+v", x.RolledBack, x.Cause, x.Reason, x.Error)
		}
	}
}

// However handlers die and messages are lost, a rollback that is tried again undoes what is left, and calls
// nothing that was undone before.
func TestRetryRollback_UnderRandomFaults(t *testing.T) {
	safe := 0
	for seed := range uint64(150) {
		s := harness.New(t, seed, harness.Options())
		s.RegisterBlocks()
		s.ImportDevices(harness.DeviceIDs(3)...)
		random := rand.New(rand.NewPCG(seed, 13))
		u := undoing{steps: []string{[]string{"one/d001", "two/d000", "one"}[seed%3]}}
		s.Script = u.script
		s.Publish("w", stepsYAML("one again device", "two again device", "check pure device"))
		id := s.Start("w", "d000", "d001", "d002")
		settle(s)
		u.mended = true
		undone := map[string]bool{}
		x := s.Load(id)
		if x.State != sm.ExecutionFailedUnsafe {
			t.Fatalf("seed %d: %s", seed, x.State)
		}
		for _, c := range s.BlockCalls {
			if c.Kind == workflow.JobRollback && !slices.Contains(u.steps, c.Step) && !slices.Contains(u.steps, c.Step+"/"+c.Entity) {
				undone[c.Step+c.Entity] = true
			}
		}
		since := len(s.BlockCalls)
		s.Faults = faults.Randomly(random, 30, faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated)
		for range 5 {
			faults.CatchCrash(func() {
				_, _ = s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{Rollback: true})
			})
			s.RunFor(time.Hour)
		}
		s.Faults = nil
		settle(s)
		if x = s.Load(id); x.State == sm.ExecutionFailedUnsafe {
			_ = retryRollback(s, id, views.RetryRequest{})
			x = s.Load(id)
		}
		left := map[string]bool{}
		for _, c := range s.BlockCalls[since:] {
			if undone[c.Step+c.Entity] {
				t.Errorf("seed %d: %s of %s is undone twice", seed, c.Step, c.Entity)
			}
			left[c.Step+c.Entity] = true
		}
		if x.RolledBack {
			safe++
			if all := len(undone) + len(left); all != 6 || x.State != sm.ExecutionFailedSafeAck {
				t.Errorf("seed %d: %s with %v and %v", seed, x.State, slices.Sorted(maps.Keys(undone)), slices.Sorted(maps.Keys(left)))
			}
		}
	}
	if safe < 140 {
		t.Errorf("%d rolled back", safe)
	}
}
