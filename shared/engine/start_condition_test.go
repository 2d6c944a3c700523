package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

const gatedWorkflow = `
config:
  startWhen: {condition: 'entity("site", parameters.site).open == true', deadline: 10m}
steps:
  - {label: go, functionBlock: p/pure:1, runOn: global}
`

func putSite(t *testing.T, s *harness.Harness, open string) {
	t.Helper()
	e := workflow.Entity{Type: "site", ID: "b", Attributes: json.RawMessage(`{"open":` + open + `}`)}
	if _, err := s.Catalog.PutEntity(context.Background(), harness.Caller, e); err != nil {
		t.Fatal(err)
	}
}

func startGated(t *testing.T, s *harness.Harness) string {
	t.Helper()
	x, _, err := s.Engine.Start(context.Background(), harness.Caller, views.StartRequest{Workflow: "p/gated", Parameters: json.RawMessage(`{"site":"b"}`)})
	if err != nil {
		t.Fatal(err)
	}
	return x.ID
}

func loadExecution(t *testing.T, s *harness.Harness, id string) *workflow.Execution {
	t.Helper()
	x, err := s.Open().Store.Load(context.Background(), harness.Caller.Tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// N7: an execution waits for its condition, names it, and is woken by the write that
// makes it true, without a timer.
func TestStartWhen_WakesOnEntityWrite(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.Publish("gated", gatedWorkflow)
	putSite(t, s, "false")
	id := startGated(t, s)
	x := loadExecution(t, s, id)
	if x.State != sm.ExecutionBlockedWaiting || x.Wait == nil || x.Wait.Kind != workflow.WaitCondition || !strings.Contains(x.Wait.Condition, "entity(") {
		t.Fatalf("%s, waits for %+v", x.State, x.Wait)
	}
	began := s.Now()
	putSite(t, s, "true")
	s.RunUntilIdle(time.Hour)
	if x = loadExecution(t, s, id); x.State != sm.ExecutionCompletedAck {
		t.Errorf("%s: %s", x.State, x.Reason)
	}
	if waited := x.EndedAt.Sub(began); waited >= time.Minute {
		t.Errorf("it took a timer to wake the execution: %s", waited)
	}
}

// An update that another execution writes into the inventory wakes it too.
func TestStartWhen_WakesOnUpdateByAnotherExecution(t *testing.T) {
	s := newHarness(t, 1)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Entity == "" {
			return nil
		}
		return &harness.Outcome{SetAttributes: map[string]any{"open": true}}
	}
	s.Publish("opener", stepsYAML("open once device"))
	s.Publish("gated", `
config: {startWhen: {condition: 'entity("device", "d000").open == true', deadline: 10m}}
steps:
  - {label: go, functionBlock: p/pure:1, runOn: global}
`)
	closed := workflow.Entity{Type: "device", ID: "d000", Attributes: json.RawMessage(`{"open":false}`)}
	if _, err := s.Catalog.PutEntity(context.Background(), harness.Caller, closed); err != nil {
		t.Fatal(err)
	}
	id := s.Start("gated")
	if x := loadExecution(t, s, id); x.State != sm.ExecutionBlockedWaiting {
		t.Fatalf("%s: %s", x.State, x.Reason)
	}
	s.Start("opener", "d000")
	s.Drain() // no timer
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// A condition on an entity that does not exist is not true. The timer finds the entity
// once it exists.
func TestStartWhen_TimerFindsEntityCreatedLater(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.Publish("gated", gatedWorkflow)
	id := startGated(t, s)
	if x := loadExecution(t, s, id); x.State != sm.ExecutionBlockedWaiting {
		t.Fatalf("%s: %s", x.State, x.Reason)
	}
	putSite(t, s, "true")
	s.RunUntilIdle(time.Hour)
	if x := loadExecution(t, s, id); x.State != sm.ExecutionCompletedAck {
		t.Errorf("%s: %s", x.State, x.Reason)
	}
}

// N8: after its deadline the execution fails safely, and its reason names the condition.
func TestStartWhen_DeadlineFailsSafely(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.Publish("gated", gatedWorkflow)
	putSite(t, s, "false")
	id := startGated(t, s)
	s.RunUntilIdle(time.Hour)
	x := loadExecution(t, s, id)
	if x.State != sm.ExecutionFailedSafeAck || x.Cause != workflow.CauseTimeout || !strings.Contains(x.Reason, "entity(") {
		t.Errorf("%s, %s: %s", x.State, x.Cause, x.Reason)
	}
}

// What the start of an execution waits for holds for a retry, too, as long as the execution has not
// asked for locks.
func TestStartWhen_HoldsForARetry(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.Publish("gated", gatedWorkflow)
	putSite(t, s, "false")
	id := startGated(t, s)
	s.RunUntilIdle(time.Hour)
	retry := func() *workflow.Execution {
		x, err := s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{Reason: "again"})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	if x := retry(); x.State != sm.ExecutionBlockedWaiting || x.Wait == nil || x.Wait.Kind != workflow.WaitCondition {
		t.Errorf("%s, waits for %+v", x.State, x.Wait)
	}
	putSite(t, s, "true")
	s.RunUntilIdle(time.Hour)
	if x := loadExecution(t, s, id); x.State != sm.ExecutionCompletedAck {
		t.Errorf("%s: %s", x.State, x.Reason)
	}
}

// An execution whose time was over before its notBefore is tried again, and begins not before that.
func TestNotBefore_HoldsForARetry(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.Publish("later", "config: {timeout: 1h}\nsteps:\n  - {label: go, functionBlock: p/pure:1, runOn: global}\n")
	at := s.Now().Add(90 * time.Minute)
	x, _, err := s.Engine.Start(context.Background(), harness.Caller, views.StartRequest{Workflow: "p/later", NotBefore: at})
	if err != nil {
		t.Fatal(err)
	}
	s.RunUntilIdle(2 * time.Hour)
	if x = loadExecution(t, s, x.ID); x.State != sm.ExecutionFailedSafeAck || x.Cause != workflow.CauseTimeout || !s.Now().Before(at) {
		t.Fatalf("%s at %s: %s", x.State, s.Now(), x.Reason)
	}
	if x, err = s.Engine.Retry(context.Background(), harness.Caller, x.ID, views.RetryRequest{Reason: "again"}); err != nil {
		t.Fatal(err)
	}
	if x.State != sm.ExecutionBlockedWaiting || x.Wait == nil || !x.Wait.Until.Equal(at) || !x.DueAt.Equal(at) {
		t.Errorf("%s, waits for %+v, timer at %s; want %s", x.State, x.Wait, x.DueAt, at)
	}
	s.RunUntilIdle(2 * time.Hour)
	if x = loadExecution(t, s, x.ID); x.State != sm.ExecutionCompletedAck || x.StartedAt.Before(at) {
		t.Errorf("%s, started at %s: %s", x.State, x.StartedAt, x.Reason)
	}
}

// A condition that is true at once adds no watcher.
func TestStartWhen_TrueConditionAddsNoWatcher(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.Publish("gated", gatedWorkflow)
	putSite(t, s, "true")
	id := startGated(t, s)
	s.RunUntilIdle(time.Hour)
	if x := loadExecution(t, s, id); x.State != sm.ExecutionCompletedAck {
		t.Errorf("%s: %s", x.State, x.Reason)
	}
	watchers, err := s.Open().Registry.PutEntities(context.Background(), harness.Caller.Tenant, []workflow.Entity{{Type: "site", ID: "b"}})
	if err != nil || len(watchers) != 0 {
		t.Errorf("watchers %v, %v", watchers, err)
	}
}

// The later notBefore counts: of the request or of the definition.
func TestNotBefore_TakesLaterOfRequestAndDefinition(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.Publish("later", "config: {notBefore: '${parameters.at}'}\nsteps:\n  - {label: go, functionBlock: p/pure:1, runOn: global}\n")
	at := s.Now().Add(2 * time.Hour)
	for _, requested := range []time.Time{{}, s.Now().Add(time.Hour), s.Now().Add(3 * time.Hour)} {
		x, _, err := s.Engine.Start(context.Background(), harness.Caller, views.StartRequest{
			Workflow: "p/later", Parameters: json.RawMessage(`{"at":"` + at.Format(time.RFC3339) + `"}`), NotBefore: requested,
		})
		if err != nil {
			t.Fatal(err)
		}
		want := at
		if requested.After(at) {
			want = requested
		}
		if x.State != sm.ExecutionBlockedWaiting || !x.Wait.Until.Equal(want) || !x.DueAt.Equal(want) {
			t.Errorf("%s, waits for %+v, timer at %s; want %s", x.State, x.Wait, x.DueAt, want)
		}
	}
}

// If notBefore passes while the wait for it is being committed, the execution is woken
// at once, not at the next sweep.
func TestNotBefore_WakesAtOnceWhenPassedDuringCommit(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one pure device"))
	req := harness.NewStartRequest("w", "d000")
	req.NotBefore = s.Now().Add(time.Second)
	late := s.StartTask("late", func() { s.StartWith(req) })
	late.RunUntil("store.create")
	s.Advance(2 * time.Second)
	late.Finish()
	s.Drain() // no timer
	for id := range s.States(harness.Caller.Tenant) {
		s.ExpectState(id, sm.ExecutionCompletedAck)
	}
}
