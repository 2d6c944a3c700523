package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/engine/query"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// What an execution reports to have left behind, and who has to look at it.
type told struct {
	Outcomes map[workflow.EntityOutcome]int
	Failed   []string // the entities that are named
	Kept     int
}

func tellOf(s *harness.Harness, id string) (v views.ExecutionView, t told) {
	s.Helper()
	s.WithoutFaults(func() {
		var err error
		if v, err = query.New(s.Engine, 10).Execution(context.Background(), harness.Caller, id); err != nil {
			s.Fatal(err)
		}
	})
	t.Outcomes = v.EntityOutcomes
	for _, f := range v.FailedEntities {
		t.Failed = append(t.Failed, fmt.Sprintf("%s %s at %s", f.Entity, f.Outcome, f.Step))
	}
	if v.Kept != nil {
		t.Kept = *v.Kept
	}
	return v, t
}

// A retry takes its locks anew, and ends before it has them. Whatever ends it, what the previous
// try left behind is still left, and the same entities are reported. It holds nothing, and may be
// acknowledged, retried and rerun as after the previous end.
func TestRetry_BeforeItsLocksEndsAsTheTryBefore(t *testing.T) {
	for name, test := range map[string]struct {
		config string
		end    func(s *harness.Harness, id string) // ends the retry
		state  sm.ExecutionState
		cause  workflow.Cause
	}{
		"its locks are not free in time": {"", func(s *harness.Harness, _ string) { s.RunFor(2 * time.Hour) }, sm.ExecutionFailedUnsafe, workflow.CauseLockTimeout},
		"its time is over":               {"timeout: 10m", func(s *harness.Harness, _ string) { s.RunFor(20 * time.Minute) }, sm.ExecutionFailedUnsafe, workflow.CauseTimeout},
		"it does not wait for locks":     {"onLocked: fail", func(s *harness.Harness, _ string) { s.Drain() }, sm.ExecutionFailedUnsafe, workflow.CauseLockTimeout},
		"it is cancelled": {"", func(s *harness.Harness, id string) {
			mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
				return s.Engine.Cancel(ctx, harness.Caller, id, views.CancelRequest{Reason: "enough"})
			})
			s.Drain()
		}, sm.ExecutionCancelled, workflow.CauseCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, 3)
			mended := false
			s.Script = failUntil("two", "d001", &mended)
			config := ""
			if test.config != "" {
				config = "config: {" + test.config + "}\n"
			}
			s.Publish("w", config+stepsYAML("one forever device", "two pure device"))
			s.Publish("slow", "steps: [{label: ask, wait: {signal: {name: go, deadline: 5h}}}, {label: look, functionBlock: p/pure:1, runOn: device}]\n")
			s.Publish("other", changeOnly)
			id := s.Start("w", "d000", "d001")
			settle(s)
			s.ExpectState(id, sm.ExecutionFailedUnsafe)
			_, first := tellOf(s, id)
			want := told{Outcomes: map[workflow.EntityOutcome]int{workflow.EntityFailedUnsafe: 2}, Failed: []string{"device/d000 FAILED_UNSAFE at one", "device/d001 FAILED_UNSAFE at two"}, Kept: 2}
			if diff := cmp.Diff(want, first); diff != "" {
				t.Fatal(diff)
			}
			acknowledge(s, id)
			slow := s.Start("slow", "d001")
			s.Drain()
			s.ExpectState(slow, sm.ExecutionWaiting)
			retry(s, id, views.RetryRequest{})
			s.Drain()
			test.end(s, id)
			x := s.ExpectState(id, test.state)
			if x.Cause != test.cause {
				t.Errorf("it ended with %s: %s", x.Cause, x.Reason)
			}
			v, again := tellOf(s, id)
			want.Kept = 0
			if diff := cmp.Diff(want, again); diff != "" {
				t.Error(diff)
			}
			if test.state == sm.ExecutionFailedUnsafe && (v.Remains == nil || v.Waiting == nil || v.Waiting.Kind != workflow.WaitAcknowledge || v.Waiting.Reason == nil) {
				t.Errorf("what remains: %v; it waits for %+v", v.Remains, v.Waiting)
			}
			free := s.Start("other", "d000")
			s.Drain()
			s.ExpectState(free, sm.ExecutionCompletedAck)
			acknowledge(s, id)
			if _, last := tellOf(s, id); last.Outcomes[workflow.EntityFailedUnsafe] != 2 {
				t.Errorf("once it is acknowledged: %+v", last)
			}
			s.WithoutFaults(func() {
				if _, err := s.Engine.Signal(s.Context(), harness.Caller, slow, "go", nil, "", ""); err != nil {
					t.Fatal(err)
				}
			})
			settle(s)
			mended = true
			if test.state == sm.ExecutionCancelled {
				return
			}
			retry(s, id, views.RetryRequest{Force: true})
			settle(s)
			s.ExpectState(id, sm.ExecutionCompletedAck)
		})
	}
}

// What was undone before a retry that never got its locks is still to be executed again.
func TestRetry_AfterOneWithoutLocksRepeatsWhatWasUndone(t *testing.T) {
	s := newHarness(t, 3)
	mended := false
	s.Script = failUntil("three", "d001", &mended)
	s.Publish("w", stepsYAML("one again device", "two again device", "three pure device"))
	s.Publish("slow", "steps: [{label: ask, wait: {signal: {name: go, deadline: 5h}}}, {label: look, functionBlock: p/pure:1, runOn: device}]\n")
	id := s.Start("w", "d000", "d001")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	refused := retryError(s, id, views.RetryRequest{From: "three"})
	if !workflow.Is(refused, workflow.CodeInvalid) {
		t.Fatalf("at first: %v", refused)
	}
	s.Start("slow", "d001")
	s.Drain()
	retry(s, id, views.RetryRequest{})
	s.RunFor(2 * time.Hour)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if err := retryError(s, id, views.RetryRequest{From: "three"}); err == nil || err.Error() != refused.Error() {
		t.Errorf("after a try without locks: %v, and at first: %v", err, refused)
	}
}

// Everything was undone before the retry, so nothing is left after it either. The entities that
// failed are reported.
func TestRetry_BeforeItsLocksStaysSafe(t *testing.T) {
	s := newHarness(t, 3)
	mended := false
	s.Script = failUntil("two", "d001", &mended)
	s.Publish("w", stepsYAML("one again device", "two pure device"))
	s.Publish("slow", "steps: [{label: ask, wait: {signal: {name: go, deadline: 5h}}}, {label: look, functionBlock: p/pure:1, runOn: device}]\n")
	id := s.Start("w", "d000", "d001")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	_, first := tellOf(s, id)
	s.Start("slow", "d001")
	s.Drain()
	retry(s, id, views.RetryRequest{})
	s.RunFor(2 * time.Hour)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if _, again := tellOf(s, id); !cmp.Equal(first, again) {
		t.Error(cmp.Diff(first, again))
	}
}
