package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// verb asks an operator's verb of the engine.
func verb(s *stage.Stage, do func(ctx context.Context) (*workflow.Execution, error)) {
	s.Helper()
	s.Without(func() {
		if _, err := do(context.Background()); err != nil {
			s.Fatal(err)
		}
	})
}

// failsUntil lets a step fail for one entity until it is mended.
func failsUntil(step, entity string, mended *bool) func(stage.Call) *stage.Outcome {
	return func(c stage.Call) *stage.Outcome {
		if c.Step == step && c.Entity == entity && c.Kind == workflow.JobExecute && !*mended {
			return &stage.Outcome{Fail: "REFUSED"}
		}
		return nil
	}
}

// R25: a retry goes on at the step that failed, for those with whom it failed or
// did not begin, and later steps see what earlier tries have come to.
func TestR25RetryOfFailures(t *testing.T) {
	s := open(t, 3)
	s.Publish("w", `steps:
  - {label: one, functionBlock: p/pure:1, runOn: device}
  - {label: two, functionBlock: p/pure:1, runOn: device, condition: one.result != null}
  - {label: all, functionBlock: p/pure:1, runOn: global, parameters: {n: "${size(two.results)}"}}
`)
	mended := false
	s.Script = failsUntil("two", "d001", &mended)
	id := s.Start("w", stage.Names(3)...)
	settle(s)
	s.Ends(id, sm.ExecutionFailedSafeAck)
	mended = true
	before := len(s.CallsOf(id))
	verb(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, stage.Caller, id, views.RetryRequest{Reason: "mended"})
	})
	settle(s)
	x := s.Ends(id, sm.ExecutionCompletedAck)
	if diff := cmp.Diff([]string{"two EXECUTE d001", "two EXECUTE d002", "all EXECUTE"}, s.CallsOf(id)[before:]); diff != "" {
		t.Error(diff)
	}
	last := s.Called[len(s.Called)-1]
	if string(last.Parameters) != `{"n":3}` || x.Try != 2 {
		t.Errorf("try %d, the last step got %s", x.Try, last.Parameters)
	}
}

// What was rolled back is done again, from the first step that was, and what a
// failed retry has done is rolled back with the fences of its own locks.
func TestRetryAfterRollback(t *testing.T) {
	s := open(t, 2)
	s.Publish("w", `steps:
  - {label: one, functionBlock: p/once:1, runOn: device}
  - {label: two, functionBlock: p/pure:1, runOn: device}
`)
	mended := false
	s.Script = failsUntil("two", "d001", &mended)
	id := s.Start("w", stage.Names(2)...)
	settle(s)
	if x := s.Ends(id, sm.ExecutionFailedSafeAck); !x.RolledBack {
		t.Error("it was not rolled back")
	}
	again := func() {
		verb(s, func(ctx context.Context) (*workflow.Execution, error) {
			return s.Engine.Retry(ctx, stage.Caller, id, views.RetryRequest{Reason: "once more"})
		})
		settle(s)
	}
	again()
	if x := s.Ends(id, sm.ExecutionFailedSafeAck); !x.RolledBack || x.Try != 2 {
		t.Errorf("rolled back %v in try %d", x.RolledBack, x.Try)
	}
	mended = true
	again()
	s.Ends(id, sm.ExecutionCompletedAck)
	n := map[string]int{}
	for _, c := range s.CallsOf(id) {
		n[c]++
	}
	if n["one EXECUTE d000"] != 3 || n["one ROLLBACK d000"] != 2 {
		t.Errorf("calls %v", n)
	}
}

// A retry of a run that ended unsafely goes on under the locks that it has kept;
// should it be unlocked, it takes them anew.
func TestRetryOfUnsafe(t *testing.T) {
	s := open(t, 2)
	s.Publish("w", "steps: [{label: one, functionBlock: p/forever:1, runOn: device}]\n")
	s.Publish("other", "steps: [{label: one, functionBlock: p/pure:1, runOn: device}]\n")
	mended := false
	s.Script = failsUntil("one", "d001", &mended)
	id := s.Start("w", stage.Names(2)...)
	settle(s)
	s.Ends(id, sm.ExecutionFailedUnsafe)
	waiting := s.Start("other", "d000")
	s.Settle(10 * time.Minute)
	if x := s.Load(waiting); x.State != sm.ExecutionScheduled {
		t.Fatalf("the other is in %s", x.State)
	}
	verb(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, stage.Caller, id, views.RetryRequest{Reason: "once more"})
	})
	s.Settle(10 * time.Minute)
	x := s.Ends(id, sm.ExecutionFailedUnsafe)
	if x.Epoch != 1 || s.Load(waiting).State != sm.ExecutionScheduled {
		t.Errorf("epoch %d, the other is in %s", x.Epoch, s.Load(waiting).State)
	}
	verb(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Unlock(ctx, stage.Caller, id, "the other is urgent")
	})
	settle(s)
	s.Ends(id, sm.ExecutionFailedUnsafe)
	s.Ends(waiting, sm.ExecutionCompletedAck)
	if l := s.Locks(); len(l) > 0 {
		t.Errorf("still locked: %+v", l)
	}
	mended = true
	verb(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, stage.Caller, id, views.RetryRequest{Reason: "mended"})
	})
	settle(s)
	if x := s.Ends(id, sm.ExecutionCompletedAck); x.Epoch <= 2 {
		t.Errorf("epoch %d", x.Epoch)
	}
	want := []string{"one EXECUTE d000", "one EXECUTE d001", "one EXECUTE d001", "one EXECUTE d001"}
	if diff := cmp.Diff(want, s.CallsOf(id)); diff != "" {
		t.Error(diff)
	}
}

// An operator may cut a delay short.
func TestResumeOfADelay(t *testing.T) {
	s := open(t, 0)
	s.Publish("w", "steps: [{label: one, functionBlock: p/pure:1, runOn: global, delay: 20h}]\n")
	id := s.Start("w")
	s.Settle(time.Hour)
	verb(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Resume(ctx, stage.Caller, id, "now")
	})
	s.Settle(time.Minute)
	x := s.Ends(id, sm.ExecutionCompletedAck)
	if x.EndedAt.Sub(x.CreatedAt) > 2*time.Hour {
		t.Error("it waited all the same")
	}
}

// N50: a cancel ends the runs that a run has started, unless it is told not to.
func TestN50Cascade(t *testing.T) {
	for name, test := range map[string]struct {
		cascade bool
		child   sm.ExecutionState
	}{"cascade": {true, sm.ExecutionCancelledAck}, "no cascade": {false, sm.ExecutionCompletedAck}} {
		t.Run(name, func(t *testing.T) {
			s := open(t, 1)
			s.Publish("sub", "steps: [{label: one, functionBlock: p/pure:1, runOn: global, delay: 1h}]\n")
			s.Publish("w", "steps: [{label: go, workflowReference: {workflow: p/sub, mode: dispatch}}]\n")
			id := s.Start("w")
			s.Settle(time.Minute)
			x := s.Load(id)
			if x.State != sm.ExecutionWaiting {
				t.Fatalf("in %s", x.State)
			}
			verb(s, func(ctx context.Context) (*workflow.Execution, error) {
				return s.Engine.Cancel(ctx, stage.Caller, id, views.CancelRequest{Reason: "enough", Cascade: &test.cascade})
			})
			settle(s)
			s.Ends(id, sm.ExecutionCancelledAck)
			s.Ends(x.Runs[0].Child.ID, test.child)
		})
	}
}

// R52: what takes longer than its timeout is closed, and ends the run.
func TestR52Timeouts(t *testing.T) {
	for name, source := range map[string]string{
		"of the run":  "config: {timeout: 10m}\nsteps: [{label: one, functionBlock: p/pure:1, runOn: global, delay: 1h}]\n",
		"of the step": "steps: [{label: one, functionBlock: p/nobody:1, runOn: global, stepTimeout: 10m}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, 0)
			s.Block(workflow.Block{Name: "nobody", Pure: true, Pool: "nowhere"})
			s.Publish("w", source)
			id := s.Start("w")
			settle(s)
			x := s.Ends(id, sm.ExecutionFailedSafeAck)
			if x.Cause != workflow.CauseTimeout || x.EndedAt.Sub(x.CreatedAt) > 15*time.Minute {
				t.Errorf("cause %s after %s", x.Cause, x.EndedAt.Sub(x.CreatedAt))
			}
		})
	}
}

// tries begins a new try of a run, and plays it to its end.
func tries(s *stage.Stage, id string, req views.RetryRequest) (calls []string) {
	s.Helper()
	before := len(s.CallsOf(id))
	verb(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, stage.Caller, id, req)
	})
	settle(s)
	return s.CallsOf(id)[before:]
}

// What was rolled back is not kept, whoever asks for the failed ones alone: a run
// that completes has done everything it says.
func TestR25NothingUndoneIsKept(t *testing.T) {
	s := open(t, 3)
	s.Publish("w", `steps: [{label: one, functionBlock: p/once:1, runOn: device}, {label: two, functionBlock: p/pure:1, runOn: device}]`)
	mended := false
	s.Script = failsUntil("one", "d001", &mended)
	id := s.Start("w", stage.Names(3)...)
	settle(s)
	if x := s.Ends(id, sm.ExecutionFailedSafeAck); !x.RolledBack {
		t.Error("it was not rolled back")
	}
	mended = true
	got := tries(s, id, views.RetryRequest{Reason: "mended", From: "one", Entities: "failed"})
	s.Ends(id, sm.ExecutionCompletedAck)
	want := []string{"one EXECUTE d000", "one EXECUTE d001", "one EXECUTE d002", "two EXECUTE d000", "two EXECUTE d001", "two EXECUTE d002"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	s.Without(func() {
		if x, err := s.View.Execution(t.Context(), stage.Caller, id); err != nil || x.Progress.Jobs.Total != 6 || x.Progress.Jobs.Completed != 6 {
			t.Errorf("%+v %v", x.Progress.Jobs, err)
		}
	})
}

// A rollback that failed in the middle has undone some of it: those are done
// again, and so is the one of which nobody knows.
func TestR25HalfUndone(t *testing.T) {
	s := open(t, 3)
	s.Publish("w", `steps: [{label: one, functionBlock: p/once:1, runOn: device}, {label: two, functionBlock: p/pure:1, runOn: device}]`)
	mended := false
	s.Script = func(c stage.Call) *stage.Outcome {
		if !mended && (c.Step == "two" && c.Entity == "d002" || c.Kind == workflow.JobRollback && c.Entity == "d001") {
			return &stage.Outcome{Fail: "REFUSED"}
		}
		return nil
	}
	id := s.Start("w", stage.Names(3)...)
	settle(s)
	s.Ends(id, sm.ExecutionFailedUnsafe)
	mended = true
	got := tries(s, id, views.RetryRequest{Reason: "mended"})
	s.Ends(id, sm.ExecutionCompletedAck)
	undone := map[string]bool{}
	for _, c := range s.CallsOf(id) {
		if kind, entity, ok := strings.Cut(strings.TrimPrefix(c, "one "), " "); ok && kind == "ROLLBACK" {
			undone[entity] = true
		}
	}
	for entity := range undone {
		if !slices.Contains(got, "one EXECUTE "+entity) {
			t.Errorf("%s was rolled back and not done again: %v", entity, got)
		}
	}
	if len(undone) != 3 {
		t.Errorf("rolled back: %v", undone)
	}
	for _, entity := range stage.Names(3) {
		if !slices.Contains(got, "two EXECUTE "+entity) {
			t.Errorf("what followed was not done again for %s: %v", entity, got)
		}
	}
}

// What has come to OK is kept in every step from the one on that is named.
func TestR25SuccessesAreKept(t *testing.T) {
	s := open(t, 3)
	s.Publish("w", `steps:
  - {label: one, functionBlock: p/pure:1, runOn: device}
  - {label: two, functionBlock: p/forever:1, runOn: device}
  - {label: all, functionBlock: p/pure:1, runOn: global, parameters: {n: "${size(two.results)}"}}
`)
	mended := false
	s.Script = failsUntil("two", "d002", &mended)
	id := s.Start("w", stage.Names(3)...)
	settle(s)
	s.Ends(id, sm.ExecutionFailedUnsafe)
	mended = true
	got := tries(s, id, views.RetryRequest{Reason: "mended", From: "one", Entities: "failed"})
	s.Ends(id, sm.ExecutionCompletedAck)
	if diff := cmp.Diff([]string{"two EXECUTE d002", "all EXECUTE"}, got); diff != "" {
		t.Error(diff)
	}
	if last := s.Called[len(s.Called)-1]; string(last.Parameters) != `{"n":3}` {
		t.Errorf("the last step got %s", last.Parameters)
	}
	var states []sm.StepState
	for _, r := range s.Load(id).Runs {
		if r.Try == 2 {
			states = append(states, r.Status)
		}
	}
	if diff := cmp.Diff([]sm.StepState{sm.StepCompleted, sm.StepCompleted, sm.StepCompleted}, states); diff != "" {
		t.Error(diff)
	}
}

// Nobody goes on from behind what was rolled back.
func TestRetryBehindARollback(t *testing.T) {
	s := open(t, 1)
	s.Publish("w", `steps: [{label: one, functionBlock: p/once:1, runOn: device}, {label: two, functionBlock: p/pure:1, runOn: device}]`)
	mended := false
	s.Script = failsUntil("two", "d000", &mended)
	id := s.Start("w", "d000")
	settle(s)
	s.Ends(id, sm.ExecutionFailedSafeAck)
	s.Without(func() {
		_, err := s.Engine.Retry(t.Context(), stage.Caller, id, views.RetryRequest{Reason: "on", From: "two"})
		if !workflow.Is(err, workflow.CodeInvalid) || !strings.Contains(err.Error(), `"one" was rolled back`) {
			t.Error(err)
		}
	})
}
