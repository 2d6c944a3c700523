package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// After the tables were restored, which a higher floor of tokens says, no run goes
// on that has not ended, wherever it stands: each is left to an operator, and a
// retry begins under locks that are taken anew.
func TestRestore_FailsUnfinishedExecutionsUnsafe(t *testing.T) {
	const floor = 1_800_000_000
	ctx := context.Background()
	definitions := map[string]string{
		"runs":   stepsYAML("one once device"),
		"waits":  "steps:\n  - {label: one, functionBlock: p/once:1, runOn: device}\n  - {label: two, delay: 10m, functionBlock: p/pure:1, runOn: device}\n",
		"undoes": stepsYAML("one once device", "two once device"),
		"queues": stepsYAML("one once device"),
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
	ids, devices := map[string]string{}, map[string]string{"runs": "d000", "queues": "d000", "waits": "d001", "undoes": "d002"}
	ids["waits"] = s.Start("waits", "d001")
	ids["undoes"] = s.Start("undoes", "d002")
	for s.Load(ids["undoes"]).State != sm.ExecutionRollback || s.Load(ids["waits"]).State != sm.ExecutionWaiting {
		if !s.Deliver() {
			t.Fatal("it is not rolled back")
		}
	}
	ids["runs"] = s.Start("runs", devices["runs"])
	ids["queues"] = s.Start("queues", devices["queues"])
	calls := len(s.BlockCalls)
	for name, want := range map[string]sm.ExecutionState{
		"runs": sm.ExecutionRunning, "queues": sm.ExecutionScheduled, "waits": sm.ExecutionWaiting, "undoes": sm.ExecutionRollback,
	} {
		s.ExpectState(ids[name], want)
	}

	s.Engine.Policy.MinFencingToken = floor
	if _, err := s.Engine.Cancel(ctx, harness.Caller, ids["runs"], views.CancelRequest{}); !workflow.Is(err, workflow.CodeIllegalTransition) {
		t.Errorf("a cancel finds a run that goes on: %v", err)
	}
	s.ExpectState(ids["runs"], sm.ExecutionRunning) // the verb is refused, and has not moved it
	s.RunUntilIdle(time.Hour)
	for name, id := range ids {
		x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
		if x.Cause != workflow.CauseRestored || !strings.Contains(x.Reason, "restored") {
			t.Errorf("%s: %s, %s", name, x.Cause, x.Reason)
		}
	}
	if len(s.BlockCalls) != calls {
		t.Errorf("%+v is called afterwards", s.BlockCalls[calls:])
	}
	s.CheckInvariants()

	waits := s.Start("queues", devices["runs"]) // for who ended unsafely, and keeps its locks
	s.ExpectState(waits, sm.ExecutionScheduled)
	calls = len(s.BlockCalls)
	if _, err := s.Engine.Retry(ctx, harness.Caller, ids["runs"], views.RetryRequest{Reason: "looked at"}); err != nil {
		t.Fatal(err)
	}
	s.Drain() // no alarm: whoever lets go tells who waits
	s.ExpectState(ids["runs"], sm.ExecutionCompletedAck)
	s.ExpectState(waits, sm.ExecutionCompletedAck)
	for _, c := range s.BlockCalls[calls:] {
		if c.Fence < "1800000001" {
			t.Errorf("with a token from before, %+v", c)
		}
	}

	// An engine that has not been told of the restore leaves all that alone.
	s.Engine.Policy.MinFencingToken = 0
	if err := s.Engine.Advance(ctx, workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: ids["runs"]}); !workflow.Is(err, workflow.CodeUnavailable) {
		t.Errorf("an engine from before: %v", err)
	}
}

// What had ended stays as it was, and ends as it would have: nothing is to be done
// on devices any more.
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
		t.Errorf("it is written: %+v", now)
	}
	next := s.Start("w", "d000")
	s.RunUntilIdle(time.Hour)
	s.ExpectState(next, sm.ExecutionCompletedAck)
}
