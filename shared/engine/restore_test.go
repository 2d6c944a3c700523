package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// After the tables were restored, which a higher floor of tokens says, no run goes
// on that has not ended, wherever it stands: each is left to an operator, and a
// retry begins under locks that are taken anew.
func TestRunsDoNotGoOnAfterARestore(t *testing.T) {
	const floor = 1_800_000_000
	ctx := context.Background()
	definitions := map[string]string{
		"runs":   steps("one once device"),
		"waits":  "steps:\n  - {label: one, functionBlock: p/once:1, runOn: device}\n  - {label: two, delay: 10m, functionBlock: p/pure:1, runOn: device}\n",
		"undoes": steps("one once device", "two once device"),
		"queues": steps("one once device"),
	}
	s := open(t, 4)
	s.Script = func(c stage.Call) *stage.Outcome {
		if c.Step == "two" && c.Kind == workflow.JobExecute {
			return &stage.Outcome{Fail: "REFUSED"}
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
	calls := len(s.Called)
	for name, want := range map[string]sm.ExecutionState{
		"runs": sm.ExecutionRunning, "queues": sm.ExecutionScheduled, "waits": sm.ExecutionWaiting, "undoes": sm.ExecutionRollback,
	} {
		s.Ends(ids[name], want)
	}

	s.Engine.Policy.Floor = floor
	if _, err := s.Engine.Cancel(ctx, stage.Caller, ids["runs"], views.CancelRequest{}); !workflow.Is(err, workflow.CodeIllegalTransition) {
		t.Errorf("a cancel finds a run that goes on: %v", err)
	}
	s.Ends(ids["runs"], sm.ExecutionRunning) // the verb is refused, and has not moved it
	s.Settle(time.Hour)
	for name, id := range ids {
		x := s.Ends(id, sm.ExecutionFailedUnsafe)
		if x.Cause != workflow.CauseRestored || !strings.Contains(x.Reason, "restored") {
			t.Errorf("%s: %s, %s", name, x.Cause, x.Reason)
		}
	}
	if len(s.Called) != calls {
		t.Errorf("%+v is called afterwards", s.Called[calls:])
	}
	s.Judge()

	waits := s.Start("queues", devices["runs"]) // for who ended unsafely, and keeps its locks
	s.Ends(waits, sm.ExecutionScheduled)
	calls = len(s.Called)
	if _, err := s.Engine.Retry(ctx, stage.Caller, ids["runs"], views.RetryRequest{Reason: "looked at"}); err != nil {
		t.Fatal(err)
	}
	s.Drain() // no alarm: whoever lets go tells who waits
	s.Ends(ids["runs"], sm.ExecutionCompletedAck)
	s.Ends(waits, sm.ExecutionCompletedAck)
	for _, c := range s.Called[calls:] {
		if c.Fence < "1800000001" {
			t.Errorf("with a token from before, %+v", c)
		}
	}

	// An engine that has not been told of the restore leaves all that alone.
	s.Engine.Policy.Floor = 0
	if err := s.Engine.Look(ctx, workflow.Look{Tenant: stage.Caller.Tenant, Execution: ids["runs"]}); !workflow.Is(err, workflow.CodeUnavailable) {
		t.Errorf("an engine from before: %v", err)
	}
}

// What had ended stays as it was, and ends as it would have: nothing is to be done
// on devices any more.
func TestWhatHasEndedStaysAfterARestore(t *testing.T) {
	s := open(t, 1)
	s.Publish("w", steps("one once device"))
	id := s.Start("w", "d000")
	s.Settle(time.Hour)
	before := s.Load(id)
	s.Engine.Policy.Floor = 1_800_000_000
	if err := s.Engine.Look(context.Background(), workflow.Look{Tenant: stage.Caller.Tenant, Execution: id}); err != nil {
		t.Fatal(err)
	}
	if now := s.Load(id); now.Version != before.Version {
		t.Errorf("it is written: %+v", now)
	}
	next := s.Start("w", "d000")
	s.Settle(time.Hour)
	s.Ends(next, sm.ExecutionCompletedAck)
}
