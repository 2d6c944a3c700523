package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// changedSaga runs sagaYAML until hotel has ended, lets another execution of a definition hold
// d001, and continues to the end.
func changedSaga(t *testing.T, other, onFailure string) (s *harness.Harness, id string) {
	t.Helper()
	s = newHarness(t, 3)
	s.Script = fails("charge")
	s.Publish("hotel", hotelYAML)
	s.Publish("leave", leaveYAML)
	s.Publish("other", other)
	s.Publish("w", strings.Replace(fmt.Sprintf(sagaYAML, onFailure), "  - {label: charge", "  - {label: rest, wait: {for: 1h}}\n  - {label: charge", 1))
	req := harness.NewStartRequest("w", "d000")
	req.Parameters = []byte(`{"who":"bob"}`)
	id = s.StartWith(req)
	s.RunFor(30 * time.Minute)
	if x := s.Load(id); x.State != sm.ExecutionWaiting {
		t.Fatal(x.State)
	}
	s.Start("other", "d001")
	s.RunFor(10 * time.Minute)
	settle(s)
	return s, id
}

// What another execution has changed since is not undone over it, unless an operator wants that.
func TestCompensation_OverwritesNothingOfOthers(t *testing.T) {
	s, id := changedSaga(t, "steps:\n  - {label: change, functionBlock: p/once:1, runOn: device}\n", "stop")
	x := s.Load(id)
	undo := s.Load(x.LastStepRun().Child.ID)
	if x.State != sm.ExecutionFailedUnsafe || undo.State != sm.ExecutionFailedSafeAck || undo.Cause != workflow.CauseOutdated || x.LastStepRun().Counts.Failure.Code != workflow.FailureOutdated {
		t.Fatalf("%s, %s %s, %+v", x.State, undo.State, undo.Cause, x.LastStepRun().Counts.Failure)
	}
	other := ""
	for i := range s.BlockCalls {
		if c := &s.BlockCalls[i]; c.Step == "leave" {
			t.Errorf("it is undone: %+v", c)
		} else if c.Step == "change" {
			other, _, _ = strings.Cut(c.Job, ".")
		}
	}
	if v := executionView(t, s, id); v.Remains == nil || !strings.Contains(*v.Remains, "device/d001") || !strings.Contains(*v.Remains, other) {
		t.Errorf("%v, want %s", v.Remains, other)
	}
	if got := retryRollback(s, id, views.RetryRequest{}); len(got) != 0 || s.Load(id).State != sm.ExecutionFailedUnsafe {
		t.Errorf("%q", got)
	}
	if got := retryRollback(s, id, views.RetryRequest{Force: true, Reason: "seen"}); !slices.Equal(got, []string{"leave EXECUTE d001", "flight ROLLBACK "}) || s.Load(id).State != sm.ExecutionFailedSafeAck {
		t.Errorf("%q, %s", got, s.Load(id).State)
	}
}

// One that has only looked at the entities, or has held others, is nothing to stop for.
func TestCompensation_OfWhatOthersHaveOnlySeen(t *testing.T) {
	for _, other := range []string{
		"steps:\n  - {label: look, functionBlock: p/pure:1, runOn: device}\n",
		"config: {lockMode: shared}\nsteps:\n  - {label: look, functionBlock: p/pure:1, runOn: device}\n",
	} {
		s, id := changedSaga(t, other, "stop")
		if x := s.Load(id); x.State != sm.ExecutionFailedSafeAck || !x.RolledBack {
			t.Errorf("%s, rolled back %v", x.State, x.RolledBack)
		}
	}
}

// Two steps of one saga that work on the same entity are undone one after another, and so is what
// an execution has partly undone before it failed.
func TestCompensation_OfTheSameEntityTwice(t *testing.T) {
	s := newHarness(t, 3)
	left := 0
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "leave" && c.Kind == workflow.JobExecute {
			left++
		}
		if c.Step == "charge" || c.Step == "leave" && c.Entity == "d002" && left < 3 {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	}
	s.Publish("hotel", hotelYAML)
	s.Publish("leave", "config: {failureTolerance: 50%, onEntityFailure: leave}\n"+strings.Replace(leaveYAML, "p/again", "p/once", 1))
	hotel := `  - {label: hotel%d, workflowReference: {workflow: p/hotel:1, mode: dispatch, executeOnParameters: {ids: ["d001", "d002"]}}, parameters: {who: bob},
     compensate: {workflow: p/leave:1, parameters: {room: x}}}
`
	s.Publish("w", "steps:\n"+fmt.Sprintf(hotel, 1)+fmt.Sprintf(hotel, 2)+"  - {label: charge, functionBlock: p/pure:1, runOn: global}\n")
	id := s.Start("w", "d000")
	settle(s)
	if x := s.Load(id); x.State != sm.ExecutionFailedUnsafe || left != 2 {
		t.Fatalf("%s %+v, left %d", x.State, x.Error, left)
	}
	if got := retryRollback(s, id, views.RetryRequest{}); len(got) != 4 {
		t.Errorf("%q", got)
	}
	if x := s.Load(id); x.State != sm.ExecutionFailedSafeAck || !x.RolledBack {
		t.Errorf("%s, rolled back %v: %+v", x.State, x.RolledBack, x.LastStepRun())
	}
}
