package engine_test

import (
	"context"
	"fmt"
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

// expectKeyWait fails the test if the execution does not show that it waits for the owner of its key,
// and that one that it waits.
func expectKeyWait(s *harness.Harness, id, owner, reason string) {
	s.Helper()
	w := waitingView(s, id)
	if w == nil || w.Kind != workflow.WaitKey || w.Since.IsZero() || w.Reason == nil || !strings.Contains(*w.Reason, owner) || !strings.Contains(*w.Reason, reason) ||
		len(w.Blockers) != 1 || w.Blockers[0].HeldBy == nil || *w.Blockers[0].HeldBy != owner {
		s.Errorf("%s waits for %+v, want for the key of %s (%s)", id, w, owner, reason)
	}
	if w := waitingView(s, owner); w != nil && w.Kind == workflow.WaitKey {
		s.Errorf("the owner waits for its own key: %+v", w)
	}
}

// The same request is sent again while the first one is being answered: it is not refused because
// of the execution that it has started itself.
func TestKey_ARequestIsNotRefusedBecauseOfItself(t *testing.T) {
	for _, at := range []string{"registry.business_key", "registry.bind_idempotency_key"} {
		for _, again := range []bool{false, true} {
			s := newHarness(t, 1)
			s.Publish("w", keyedYAML)
			var old *workflow.Execution
			if again {
				old = mustStart(s, keyedRequest("k", ""))
				settle(s)
				s.ExpectState(old.ID, sm.ExecutionCompletedAck)
			}
			request := func() (*workflow.Execution, bool, error) {
				if again {
					return s.Engine.Rerun(context.Background(), harness.Caller, old.ID, views.RerunRequest{Entities: views.RerunEntities{Choice: views.RerunAll}, IdempotencyKey: "same"})
				}
				req := keyedRequest("k", "")
				req.IdempotencyKey = "same"
				return s.Engine.Start(context.Background(), harness.Caller, req)
			}
			var second *workflow.Execution
			var existed bool
			var err error
			task := s.StartTask("second", func() { second, existed, err = request() })
			if !task.RunUntil(at) {
				t.Fatalf("it does not come to %s", at)
			}
			first, _, firstErr := request()
			if firstErr != nil {
				t.Fatal(firstErr)
			}
			task.Finish()
			if err != nil || !existed || second.ID != first.ID {
				t.Errorf("%s, again %v: %v %v", at, again, existed, err)
			}
			settle(s)
			if s.ExpectState(first.ID, sm.ExecutionCompletedAck); again && !slices.Contains(s.Load(old.ID).RerunBy, first.ID) {
				t.Errorf("%s: the execution that is repeated names %v", at, s.Load(old.ID).RerunBy)
			}
		}
	}
}

// A request with another Idempotency-Key is refused.
func TestKey_AnotherRequestIsRefused(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", keyedYAML)
	req := keyedRequest("k", "")
	req.IdempotencyKey = "first"
	x := mustStart(s, req)
	req.IdempotencyKey = "second"
	if _, _, _, err := requestStart(s, req); !workflow.Is(err, workflow.CodeConflict) || !strings.Contains(err.Error(), x.ID) {
		t.Errorf("%v", err)
	}
}

// One that has failed is not tried again while another one has its key: nothing is changed, and
// it can be tried again after that one's end.
func TestKey_NoRetryWhileAnotherHasTheKey(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", strings.ReplaceAll(keyedYAML, "p/once", "p/forever"))
	watchKey(s, nil)
	old := mustStart(s, keyedRequest("k", "one"))
	s.Script = failCalls("after EXECUTE")
	settle(s)
	s.ExpectState(old.ID, sm.ExecutionFailedUnsafe)
	if _, err := s.Engine.Acknowledge(context.Background(), harness.Caller, old.ID, "checked"); err != nil {
		t.Fatal(err)
	}
	s.Script = nil
	owner := mustStart(s, keyedRequest("k", ""))
	s.Drain()
	before := s.Load(old.ID)
	_, err := s.Engine.Retry(context.Background(), harness.Caller, old.ID, views.RetryRequest{})
	if e := (*workflow.Error)(nil); !workflow.Is(err, workflow.CodeConflict) || !asError(err, &e) || len(e.Issues) != 1 || e.Issues[0].Code != "held" || e.Issues[0].Message != owner.ID {
		t.Errorf("a retry while another one has the key: %v", err)
	}
	s.Drain()
	if x := s.ExpectState(old.ID, sm.ExecutionFailedUnsafeAck); x.Version != before.Version {
		t.Errorf("it was changed: version %d, had %d", x.Version, before.Version)
	}
	if _, err := s.Engine.Retry(context.Background(), harness.Caller, owner.ID, views.RetryRequest{}); !workflow.Is(err, workflow.CodeIllegalTransition) {
		t.Errorf("a retry of the one that has it: %v", err)
	}
	settle(s)
	s.ExpectState(owner.ID, sm.ExecutionCompletedAck)
	if _, err := s.Engine.Retry(context.Background(), harness.Caller, old.ID, views.RetryRequest{}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(old.ID, sm.ExecutionCompletedAck)
}

// Another execution takes the key after a retry has checked it, and before the retried execution
// checks in. The retried one waits for the end of the other, with the signals that it got
// meanwhile.
func TestKey_ARetryThatLosesTheKeyWaits(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", keyedYAML)
	watchKey(s, nil)
	old := mustStart(s, keyedRequest("k", "one"))
	s.Script = failCalls("after EXECUTE")
	settle(s)
	s.ExpectState(old.ID, sm.ExecutionFailedSafeAck)
	s.Script = nil
	retry := s.StartTask("retry", func() {
		if _, err := s.Engine.Retry(context.Background(), harness.Caller, old.ID, views.RetryRequest{Entities: "all"}); err != nil {
			t.Error(err)
		}
	})
	retry.RunUntil("store.commit")
	owner := mustStart(s, keyedRequest("k", ""))
	s.Drain()
	s.ExpectState(owner.ID, sm.ExecutionWaiting)
	retry.Finish()
	if _, err := signal(s, old.ID, "shipped", "", "to the old one"); err != nil {
		t.Fatal(err)
	}
	s.RunFor(10 * time.Minute)
	s.ExpectState(owner.ID, sm.ExecutionWaiting)
	expectKeyWait(s, old.ID, owner.ID, "after its end")
	if x := s.ExpectState(old.ID, sm.ExecutionReady); x.Try != 2 || len(x.Signals) != 1 {
		t.Errorf("try %d, signals %v", x.Try, x.Signals)
	}
	if _, err := s.Engine.SignalKey(context.Background(), harness.Caller, "p/w", "k", "paid", nil, "k", ""); err != nil {
		t.Error(err)
	}
	settle(s)
	s.ExpectState(owner.ID, sm.ExecutionCompletedAck)
	s.ExpectState(old.ID, sm.ExecutionCompletedAck)
	expectSignalsKept(s, "one", "k", "to the old one")
}

// A retry of an execution that has not begun takes the key before it waits for its start, so that
// no other execution begins meanwhile. While another one has the key, it waits for that one, and
// others do not give way to it.
func TestKey_ARetryThatHasNotBegun(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "config: {startWhen: {condition: parameters.n > 1, deadline: 5m}}\n"+keyedYAML)
	watchKey(s, nil)
	request := func(n int) views.StartRequest {
		req := keyedRequest("k", "")
		req.Parameters = fmt.Appendf(nil, `{"n":%d}`, n)
		return req
	}
	old := mustStart(s, request(1))
	s.RunFor(10 * time.Minute)
	s.ExpectState(old.ID, sm.ExecutionFailedSafeAck)
	retry := func() *faults.Task {
		return s.StartTask("retry", func() {
			if _, err := s.Engine.Retry(context.Background(), harness.Caller, old.ID, views.RetryRequest{}); err != nil {
				t.Error(err)
			}
		})
	}
	retry().Finish()
	s.ExpectState(old.ID, sm.ExecutionBlockedWaiting)
	if _, _, _, err := requestStart(s, request(2)); !workflow.Is(err, workflow.CodeConflict) || !strings.Contains(err.Error(), old.ID) {
		t.Errorf("a start while the retry waits: %v", err)
	}
	s.RunFor(10 * time.Minute)
	s.ExpectState(old.ID, sm.ExecutionFailedSafeAck)
	second := retry()
	second.RunUntil("store.commit")
	owner := mustStart(s, request(2)) // at the same moment
	s.Drain()
	s.ExpectState(owner.ID, sm.ExecutionWaiting)
	second.Finish()
	if x := s.ExpectState(old.ID, sm.ExecutionValid); x.Try != 3 {
		t.Errorf("try %d", x.Try)
	}
	expectKeyWait(s, old.ID, owner.ID, "after its end")
	if _, err := s.Engine.SignalKey(context.Background(), harness.Caller, "p/w", "k", "paid", nil, "k", ""); err != nil {
		t.Error(err)
	}
	settle(s)
	s.ExpectState(owner.ID, sm.ExecutionCompletedAck)
	s.ExpectState(old.ID, sm.ExecutionFailedSafeAck)
}

// A retry takes the key only once others can see the retry: an execution that finds its own key
// must not find that it has ended.
func TestKey_ARetryIsThereBeforeItTakesItsKey(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", keyedYAML)
	watchKey(s, nil)
	old := mustStart(s, keyedRequest("k", "one"))
	s.Script = failCalls("after EXECUTE")
	settle(s)
	s.ExpectState(old.ID, sm.ExecutionFailedSafeAck)
	s.Script = nil
	retry := s.StartTask("retry", func() {
		if _, err := s.Engine.Retry(context.Background(), harness.Caller, old.ID, views.RetryRequest{}); err != nil {
			t.Error(err)
		}
	})
	retry.RunPast("registry.take_business_key")
	if _, _, _, err := requestStart(s, keyedRequest("k", "")); !workflow.Is(err, workflow.CodeConflict) || !strings.Contains(err.Error(), old.ID) {
		t.Errorf("a start once the retry has the key: %v", err)
	}
	retry.Finish()
	settle(s)
	s.ExpectState(old.ID, sm.ExecutionCompletedAck)
}

// An execution that is ending keeps its key until it has ended, and accepts no signals: their
// senders are refused at once, and an execution that waits for the key checks once.
func TestKey_SignalsWhileTheOwnerIsEnding(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "steps:\n  - {label: work, functionBlock: p/once:1, runOn: global}\n")
	var late *workflow.Execution
	starter := s.StartTask("late", func() { late, _, _, _ = requestStart(s, keyedRequest("k", "late")) })
	starter.RunUntil("store.create")
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		return &harness.Outcome{During: func() {
			s.Script = nil
			if _, err := s.Engine.SignalKey(context.Background(), harness.Caller, "p/w", "k", "paid", nil, "before", ""); err != nil {
				t.Error(err)
			}
			if _, err := s.Engine.Cancel(context.Background(), harness.Caller, c.Execution, views.CancelRequest{}); err != nil {
				t.Error(err)
			}
			state := string(s.ExpectState(c.Execution, sm.ExecutionCancelling).State)
			before := s.CallCount()
			_, err := s.Engine.SignalKey(context.Background(), harness.Caller, "p/w", "k", "paid", nil, "i", "")
			if calls := s.CallCount() - before; !workflow.Is(err, workflow.CodeIllegalTransition) || !strings.Contains(err.Error(), c.Execution) || !strings.Contains(err.Error(), state) || calls > 5 {
				t.Errorf("a signal by the key: %v, after %d calls", err, calls)
			}
			before = s.CallCount()
			_, _, _, err = requestStart(s, keyedRequest("k", "with start"))
			if calls := s.CallCount() - before; !workflow.Is(err, workflow.CodeIllegalTransition) || !strings.Contains(err.Error(), c.Execution) || !strings.Contains(err.Error(), state) || calls > 12 {
				t.Errorf("a start with a signal: %v, after %d calls", err, calls)
			}
			if receipt, err := s.Engine.SignalKey(context.Background(), harness.Caller, "p/w", "k", "paid", nil, "before", ""); err != nil || !receipt.Duplicate {
				t.Errorf("a signal that was accepted before: %v", err)
			}
			before = s.CallCount()
			starter.Finish()
			if calls := s.CallCount() - before; calls > 12 || late == nil || late.State != sm.ExecutionNew {
				t.Errorf("an execution that waits for the key: %d calls, %+v", calls, late)
			}
			expectKeyWait(s, late.ID, c.Execution, "cannot take the signals")
		}}
	}
	owner := mustStart(s, keyedRequest("k", ""))
	settle(s)
	s.ExpectState(owner.ID, sm.ExecutionCancelledAck)
	s.ExpectState(late.ID, sm.ExecutionCompletedAck)
	expectSignalsKept(s, "before", "late")
	if n := len(s.States(harness.Caller.Tenant)); n != 2 {
		t.Errorf("%d executions", n)
	}
}
