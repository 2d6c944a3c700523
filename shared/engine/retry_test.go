package engine_test

import (
	"context"
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
