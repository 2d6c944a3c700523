package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/query"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

func ratedYAML(rate string, steps ...string) string {
	return "parameters: {type: object}\nconfig: {rate: " + rate + "}\n" + stepsYAML(steps...)
}

// No more executions begin than the rate of their workflow allows. The others wait, show what for,
// and begin in the order in which they were started.
func TestStartRate_DelaysTheOthers(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", ratedYAML("2/1m", "one once global"))
	var ids []string
	begun := s.Now()
	for range 5 {
		ids = append(ids, s.StartWith(views.StartRequest{Workflow: "p/w", Parameters: []byte("{}")}))
		s.DrainWakeups()
	}
	settle(s)
	for n, id := range ids {
		x := s.ExpectState(id, sm.ExecutionCompletedAck)
		want := time.Duration(max(0, n-1)) * 30 * time.Second
		if after := x.StartedAt.Sub(begun); after < want || after > want+time.Second { // by the clock of the world
			t.Errorf("execution %d began after %s, want %s", n, after, want)
		}
		if waited := wasBlocked(x); waited != (want > 0) || waited && x.Schema != 2 || !x.RateAt.Equal(begun.Add(want)) {
			t.Errorf("execution %d, blocked: %v, until %s", n, waited, x.RateAt)
		}
	}
}

func wasBlocked(x *workflow.Execution) bool {
	return slices.ContainsFunc(x.Events, func(e workflow.Event) bool { return e.Type == string(sm.EventExecutionBlocked) })
}

// A waiting execution shows what it waits for. Executions share the rate with those of the same
// key, and a probe takes nothing of it.
func TestStartRate_IsByKeyAndShown(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", ratedYAML(`{limit: 1/1h, key: "${parameters.customer}"}`, "one once global"))
	start := func(parameters string, mode views.StartMode) string {
		id := s.StartWith(views.StartRequest{Workflow: "p/w", Parameters: []byte(parameters), Mode: mode})
		s.DrainWakeups()
		return id
	}
	probe := start(`{"customer":"a"}`, views.ModeProbe)
	a, b, second := start(`{"customer":"a"}`, ""), start(`{"customer":"b"}`, ""), start(`{"customer":"a"}`, "")
	for _, id := range []string{probe, a, b} {
		if x := s.Load(id); x.State == sm.ExecutionBlockedWaiting {
			t.Errorf("%s waits: %+v", id, x.Wait)
		}
	}
	v, err := query.New(s.Engine, 1).Execution(context.Background(), harness.Caller, second)
	if err != nil {
		t.Fatal(err)
	}
	if w := v.Waiting; w == nil || w.Kind != workflow.WaitTimer || w.Until == nil || w.Reason == nil || *w.Reason != "executions of the workflow may begin 1/1h" {
		t.Errorf("it says that it waits for %+v", w)
	}
	wrong := start(`{"customer":["a"]}`, "")
	if x := s.Load(wrong); x.Error == nil || x.Error.Code != workflow.CodeInvalid.OfFailure() || !strings.Contains(x.Error.Message, "rate.key") {
		t.Errorf("with a key that is none: %+v", x.Error)
	}
}

// With onLimit fail a request is refused and told when to come again. It takes nothing, binds
// nothing, and is accepted under the same idempotency key later. An execution that no request has
// started fails safely.
func TestStartRate_RefusesRequests(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", ratedYAML("{limit: 2/1m, onLimit: fail}", "one once global"))
	for n := range 2 {
		if _, _, err := s.Engine.Start(context.Background(), harness.Caller, views.StartRequest{Workflow: "p/w", Parameters: []byte("{}"), IdempotencyKey: fmt.Sprint(n)}); err != nil {
			t.Fatal(err)
		}
	}
	again := views.StartRequest{Workflow: "p/w", Parameters: []byte("{}"), IdempotencyKey: "third"}
	signalled := views.StartRequest{Workflow: "p/w", Parameters: []byte("{}"), Key: "k", Signal: &views.StartSignal{Name: "paid", Data: []byte("1")}, IdempotencyKey: "signal"}
	for range 3 {
		_, _, err := s.Engine.Start(context.Background(), harness.Caller, again)
		if !workflow.Is(err, workflow.CodeRateLimited) || err.(*workflow.Error).RetryAfter <= 0 || err.(*workflow.Error).RetryAfter > 30*time.Second { //nolint:errorlint // it is one
			t.Fatalf("the third start: %v", err)
		}
		if _, _, _, err := s.Engine.SignalWithStart(context.Background(), harness.Caller, signalled); !workflow.Is(err, workflow.CodeRateLimited) {
			t.Fatalf("a signal that starts: %v", err)
		}
	}
	if x, existed, err := s.Engine.Start(context.Background(), harness.Caller, views.StartRequest{Workflow: "p/w", Parameters: []byte("{}"), IdempotencyKey: "0"}); err != nil || !existed || x == nil {
		t.Errorf("a start that was made before: %v, %v", existed, err)
	}
	s.RunFor(30 * time.Second)
	if _, existed, err := s.Engine.Start(context.Background(), harness.Caller, again); err != nil || existed {
		t.Errorf("after its time: %v, %v", existed, err)
	}
	s.RunFor(30 * time.Second)
	signalled.Signal = &views.StartSignal{Name: "paid", Data: []byte("2")} // another request: nothing is bound to the key
	if _, started, existed, err := s.Engine.SignalWithStart(context.Background(), harness.Caller, signalled); err != nil || !started || existed {
		t.Errorf("a signal that starts, after its time: %v, %v, %v", started, existed, err)
	}
	s.Publish("parent", "steps:\n  - {label: child, workflowReference: {workflow: \"p/w:1\", mode: dispatch}}\n")
	parent := s.StartWith(views.StartRequest{Workflow: "p/parent"})
	settle(s)
	if x := s.ExpectState(parent, sm.ExecutionFailedSafeAck); x.Error == nil {
		t.Errorf("the parent: %+v", x)
	}
}

// While the rate is free, an execution begins with its start, even if time passes during the
// decision.
func TestStartRate_DelaysNobodyWhileItIsFree(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", ratedYAML("1000/1m", "one once global"))
	var passed time.Duration
	s.Clock = func() time.Time { passed += time.Millisecond; return s.Now().Add(passed) }
	x := s.Load(s.StartWith(views.StartRequest{Workflow: "p/w", Parameters: []byte("{}")}))
	if x.State != sm.ExecutionRunning || wasBlocked(x) {
		t.Errorf("%s, %+v", x.State, x.Wait)
	}
}

// Those that have waited for the rate and then for their condition do not begin all at once.
func TestStartRate_IsTakenAgainAfterTheCondition(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "parameters: {type: object}\nconfig: {rate: 1/1m, startWhen: \"entity('device', 'd000').name == 'go'\"}\n"+stepsYAML("one once global"))
	rename := func(name string) {
		e := workflow.Entity{Type: "device", ID: "d000", Groups: []string{"all"}, Attributes: []byte(`{"name":"` + name + `"}`)}
		if _, err := s.Catalog.PutEntity(context.Background(), harness.Caller, e); err != nil {
			t.Fatal(err)
		}
		s.DrainWakeups()
	}
	rename("go")
	var ids []string
	for range 5 {
		ids = append(ids, s.StartWith(views.StartRequest{Workflow: "p/w", Parameters: []byte("{}")}))
	}
	s.DrainWakeups()
	rename("stop")
	s.RunFor(20 * time.Minute)
	rename("go")
	settle(s)
	var begun []time.Time
	for _, id := range ids {
		begun = append(begun, s.ExpectState(id, sm.ExecutionCompletedAck).StartedAt)
	}
	slices.SortFunc(begun, time.Time.Compare)
	for i := 1; i < len(begun); i++ {
		if pause := begun[i].Sub(begun[i-1]); pause < time.Minute {
			t.Errorf("execution %d began %s after the one before", i, pause)
		}
	}
}

// An execution with a later start time takes from the rate when it begins, not when it is
// requested. If several would begin at one moment, the rate lets the first begin.
func TestStartRate_OfLaterStartsIsTakenLater(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", ratedYAML("{limit: 1/1m, onLimit: fail}", "one once global"))
	at, states := s.Now().Add(time.Hour), map[sm.ExecutionState]int{}
	var ids []string
	for range 3 {
		ids = append(ids, s.StartWith(views.StartRequest{Workflow: "p/w", Parameters: []byte("{}"), NotBefore: at}))
		s.RunFor(time.Minute)
	}
	settle(s)
	for _, id := range ids {
		x := s.Load(id)
		states[x.State]++
		if x.State == sm.ExecutionFailedSafeAck && (x.Cause != workflow.CauseLimit || x.Error.Code != workflow.FailureLimit || !strings.Contains(x.Error.Message, "may begin 1/1m")) {
			t.Errorf("it failed by %s: %+v", x.Cause, x.Error)
		}
	}
	if states[sm.ExecutionCompletedAck] != 1 || states[sm.ExecutionFailedSafeAck] != 2 {
		t.Errorf("%v", states)
	}
}

// A version with another rate does not wait for what the one before has left.
func TestStartRate_BeginsAnewWithAnotherRate(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", ratedYAML("1/24h", "one once global"))
	s.StartWith(views.StartRequest{Workflow: "p/w", Parameters: []byte("{}")})
	s.DrainWakeups()
	if _, _, err := s.Catalog.Publish(context.Background(), harness.Caller, []byte("package: p\nname: w\nversion: 1.1.0\nseedEntity: device\n"+ratedYAML("1000/1m", "one once global")), false); err != nil {
		t.Fatal(err)
	}
	id := s.StartWith(views.StartRequest{Workflow: "p/w", Parameters: []byte("{}")})
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.StartedAt.Sub(x.CreatedAt) > time.Minute {
		t.Errorf("it waited %s", x.StartedAt.Sub(x.CreatedAt))
	}
}

// A start that its rate may hold back reads neither entities nor locks ahead: they would be read again when it begins.
func TestStartRate_ReadsNothingAhead(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.ImportDevices(harness.DeviceIDs(2)...)
	s.Publish("w", ratedYAML("1/1h", "one pure device"))
	start := func() (calls []string) {
		s.Faults = func(c faults.Call) faults.Fault {
			calls = append(calls, c.Name)
			return faults.None
		}
		s.StartWith(views.StartRequest{Workflow: "p/w", Parameters: []byte("{}"), ExecuteOnParameters: &workflow.Selector{Type: "device", IDs: harness.DeviceIDs(2)}})
		s.Faults = nil
		return calls
	}
	if calls := start(); !slices.ContainsFunc(calls, isLockCall) {
		t.Fatalf("the first one begins at once: %v", calls)
	}
	s.Drain()
	if calls := start(); slices.ContainsFunc(calls, isLockCall) || slices.Contains(calls, "registry.entities_weakly") {
		t.Errorf("the second one waits for the rate, and reads %v", calls)
	}
}

func isLockCall(name string) bool { return strings.HasPrefix(name, "locks.") }
