package engine_test

import (
	"context"
	"encoding/json"
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

// keyedYAML waits for a signal and then executes a step.
const keyedYAML = `steps:
  - {label: paid, wait: {signal: {name: paid, deadline: 24h, onTimeout: {next: after}}}}
  - {label: after, functionBlock: p/once:1, runOn: global}
`

func keyedRequest(key, signalID string) views.StartRequest {
	req := harness.NewStartRequest("w")
	req.Key = key
	if signalID != "" {
		req.Signal = &views.StartSignal{Name: "paid", Data: json.RawMessage(`{"n":1}`), ID: signalID}
	}
	return req
}

// requestStart makes one request.
func requestStart(s *harness.Harness, req views.StartRequest) (x *workflow.Execution, started, existed bool, err error) {
	if req.Signal != nil {
		return s.Engine.SignalWithStart(context.Background(), harness.Caller, req)
	}
	x, existed, err = s.Engine.Start(context.Background(), harness.Caller, req)
	return x, !existed, existed, err
}

func mustStart(s *harness.Harness, req views.StartRequest) *workflow.Execution {
	s.Helper()
	x, _, _, err := requestStart(s, req)
	if err != nil {
		s.Fatal(err)
	}
	return x
}

// pastCheckIn reports whether an execution in that state has its key and has not ended.
func pastCheckIn(state sm.ExecutionState) bool { return !sm.Terminal(state) && !sm.ChecksIn(state) }

// expectOneLive fails the test if two executions of the tenant are past their check-in. All have
// the same key.
func expectOneLive(s *harness.Harness) {
	var live []string
	for id, state := range s.States(harness.Caller.Tenant) {
		if pastCheckIn(state) {
			live = append(live, id+" "+string(state))
		}
	}
	if len(live) > 1 {
		s.Errorf("live with one key: %v", live)
	}
}

// watchKey checks at every call that only one execution is live, and then injects what the plan
// says.
func watchKey(s *harness.Harness, plan faults.Plan) {
	s.Faults = func(c faults.Call) faults.Fault {
		expectOneLive(s)
		if plan == nil {
			return faults.None
		}
		return plan(c)
	}
}

// A start with onKey use answers with the execution that has the key, starts one while none has it,
// and is the same request again under its idempotency key.
func TestKey_UsesItsHolder(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", keyedYAML)
	req := keyedRequest("order-7", "")
	req.OnKey = views.OnKeyUse
	first := mustStart(s, req)
	req.IdempotencyKey = "k"
	for i := range 3 {
		x, _, existed, err := requestStart(s, req)
		if err != nil || x.ID != first.ID || existed != (i > 0) {
			t.Errorf("%v, existed %v, %v", x, existed, err)
		}
	}
	s.Drain()
	if _, err := s.Engine.SignalKey(context.Background(), harness.Caller, "p/w", "order-7", "paid", nil, "s", ""); err != nil {
		t.Error(err)
	}
	settle(s)
	s.ExpectState(first.ID, sm.ExecutionCompletedAck)
	if x, _, existed, err := requestStart(s, req); err != nil || x.ID != first.ID || !existed {
		t.Errorf("the same request after its end: %v, existed %v, %v", x, existed, err)
	}
	req.IdempotencyKey = ""
	if x := mustStart(s, req); x.ID == first.ID {
		t.Error("the key was free")
	}
	for path, change := range map[string]func(*views.StartRequest){
		"onKey":  func(r *views.StartRequest) { r.OnKey = "wait" },
		"key":    func(r *views.StartRequest) { r.Key = "" },
		"signal": func(r *views.StartRequest) { r.OnKey = views.OnKeySignal },
	} {
		wrong := req
		change(&wrong)
		if _, _, _, err := requestStart(s, wrong); !workflow.Is(err, workflow.CodeInvalid) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	both := keyedRequest("order-7", "s2")
	both.OnKey = views.OnKeyUse
	if _, _, _, err := requestStart(s, both); !workflow.Is(err, workflow.CodeInvalid) {
		t.Errorf("use and a signal: %v", err)
	}
	both.OnKey = views.OnKeySignal
	if x, started, _, err := requestStart(s, both); err != nil || started || x.ID == first.ID {
		t.Errorf("signal and a signal: %v", err)
	}
}

func TestKey_IsHeldUntilTheEnd(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", keyedYAML)
	s.Publish("v", keyedYAML)
	req := keyedRequest("order-7", "")
	req.IdempotencyKey = "first"
	x := mustStart(s, req)
	if x.Key != "order-7" || x.Schema != 2 || s.ExecutionStates(x.ID)[0] != "NEW" {
		t.Errorf("%+v", x)
	}
	_, _, _, err := requestStart(s, keyedRequest("order-7", ""))
	if e := (*workflow.Error)(nil); !workflow.Is(err, workflow.CodeConflict) || !strings.Contains(err.Error(), x.ID) || !asError(err, &e) || len(e.Issues) != 1 || e.Issues[0].Message != x.ID {
		t.Errorf("a start while it is held: %v", err)
	}
	if again, _, existed, err := requestStart(s, req); err != nil || !existed || again.ID != x.ID {
		t.Errorf("the same request again: %v", err)
	}
	other := keyedRequest("order-7", "")
	other.Workflow = "p/v"
	for _, free := range []views.StartRequest{other, keyedRequest("order-8", ""), keyedRequest("", "")} {
		if _, _, _, err := requestStart(s, free); err != nil {
			t.Errorf("%s %q: %v", free.Workflow, free.Key, err)
		}
	}
	if _, _, _, err := requestStart(s, keyedRequest("a/b", "")); !workflow.Is(err, workflow.CodeInvalid) {
		t.Errorf("not a key: %v", err)
	}
	s.Drain()
	s.ExpectState(x.ID, sm.ExecutionWaiting)
	if _, err := s.Engine.SignalKey(context.Background(), harness.Caller, "p/w", "order-7", "paid", nil, "k", ""); err != nil {
		t.Error(err)
	}
	settle(s)
	s.ExpectState(x.ID, sm.ExecutionCompletedAck)
	if _, err := s.Engine.SignalKey(context.Background(), harness.Caller, "p/w", "order-7", "paid", nil, "k2", ""); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("a signal to a key that nobody holds: %v", err)
	}
	if next := mustStart(s, keyedRequest("order-7", "")); next.ID == x.ID {
		t.Error("the key is not free after the end")
	}
}

// takenKey is the execution that took the key last.
func takenKey(s *harness.Harness) string {
	s.Helper()
	k, err := s.Open().Registry.BusinessKey(context.Background(), harness.Caller.Tenant, "p/w", "k")
	if err != nil {
		s.Fatal(err)
	}
	return k.Execution
}

func asError(err error, e **workflow.Error) bool {
	var ok bool
	*e, ok = err.(*workflow.Error) //nolint:errorlint // the engine returns it as it is
	return ok
}

// Two starters find the key free. The execution that checks in later gives way, and what it was
// started with is done by the other one.
func TestKey_OfTwoThatFindItFreeOneGivesWay(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", keyedYAML)
	watchKey(s, nil)
	var late *workflow.Execution
	starter := s.StartTask("late", func() { late, _, _, _ = requestStart(s, keyedRequest("k", "late")) })
	starter.RunUntil("store.create")
	first := mustStart(s, keyedRequest("k", ""))
	s.Drain()
	s.ExpectState(first.ID, sm.ExecutionWaiting)
	starter.Finish()
	if late == nil || late.State != sm.ExecutionCancelledAck || late.KeyOwner != first.ID || late.Cancellation.Source != "key" || !strings.Contains(late.Reason, first.ID) {
		t.Fatalf("the one that gives way: %+v", late)
	}
	settle(s)
	s.ExpectState(first.ID, sm.ExecutionCompletedAck)
	if n := countEvents(s, first.ID, "signal.received"); n != 1 {
		t.Errorf("the owner has taken %d signals", n)
	}
	if n := countEvents(s, late.ID, "signal.unconsumed"); n != 0 || s.HasCalled(late.ID, "after EXECUTE") {
		t.Errorf("the one that gave way has noticed %d signals, calls %v", n, s.CallsOf(late.ID))
	}
}

// An owner that has not checked in yet may give way itself, so nobody gives way to it. So of two
// that could give way to each other, one continues.
func TestKey_NobodyGivesWayToOneThatHasStillToCheckIn(t *testing.T) {
	for _, sent := range []string{"two", ""} {
		s := newHarness(t, 1)
		s.Publish("w", keyedYAML)
		watchKey(s, nil)
		// It takes the key, and stalls before it commits that.
		first := s.StartTask("first", func() { _, _, _, _ = requestStart(s, keyedRequest("k", "")) })
		second := s.StartTask("second", func() { _, _, _, _ = requestStart(s, keyedRequest("k", sent)) })
		second.RunUntil("store.create")
		first.RunPast("registry.take_business_key")
		second.Finish()
		for id, state := range s.States(harness.Caller.Tenant) {
			if state != sm.ExecutionNew {
				t.Errorf("%s is %s", id, state)
			}
			if owner := takenKey(s); id != owner {
				expectKeyWait(s, id, owner, "has still to begin")
			}
		}
		first.Finish()
		settle(s)
		states := map[sm.ExecutionState]int{}
		for _, state := range s.States(harness.Caller.Tenant) {
			states[state]++
		}
		if states[sm.ExecutionCompletedAck] != 1 || states[sm.ExecutionCancelledAck] != 1 {
			t.Errorf("they ended as %v", states)
		}
		if sent != "" {
			expectSignalsKept(s, sent)
		}
	}
}

// The key is written at the revision that was read. An owner that is retried writes it again, so
// that an execution that has read the owner as ended does not take the key.
func TestKey_ARetryWritesItsKey(t *testing.T) {
	for _, mine := range []bool{true, false} {
		s := newHarness(t, 1)
		s.Publish("w", keyedYAML)
		s.Script = failCalls("after EXECUTE")
		watchKey(s, nil)
		owner := mustStart(s, keyedRequest("k", "one"))
		settle(s)
		s.ExpectState(owner.ID, sm.ExecutionFailedSafeAck)
		other := s.StartTask("other", func() { _, _, _, _ = requestStart(s, keyedRequest("k", "")) })
		other.RunUntil("registry.take_business_key") // it has read that the owner has ended
		s.Script = nil
		retry := func() {
			if _, err := s.Engine.Retry(context.Background(), harness.Caller, owner.ID, views.RetryRequest{}); err != nil {
				t.Error(err)
			}
		}
		if mine {
			retry()
			if state := s.Load(owner.ID).State; !pastCheckIn(state) {
				t.Errorf("the owner is %s", state)
			}
			other.Finish()
		} else {
			retried := s.StartTask("retry", retry)
			retried.RunUntil("store.commit")
			other.RunPast("registry.take_business_key")
			retried.Finish()
			if x := s.Load(owner.ID); x.State != sm.ExecutionReady || x.Try != 2 {
				t.Errorf("the owner is %s", x.State)
			}
			other.Finish()
			s.RunFor(10 * time.Minute)
			s.ExpectState(owner.ID, sm.ExecutionReady)
		}
		settle(s)
		states := s.States(harness.Caller.Tenant)
		if states[owner.ID] != sm.ExecutionCompletedAck || len(states) != 2 {
			t.Errorf("%v: %v, owner %s", mine, states, owner.ID)
		}
	}
}

// A retry of an execution that holds locks would give them up to take its key, so an operator has
// to look first.
func TestKey_NoRetryUnderLocks(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one forever device", "two pure device"))
	s.Script = failCalls("two EXECUTE d000")
	req := harness.NewStartRequest("w", "d000")
	req.Key = "k"
	x := mustStart(s, req)
	settle(s)
	s.ExpectState(x.ID, sm.ExecutionFailedUnsafe)
	_, err := s.Engine.Retry(context.Background(), harness.Caller, x.ID, views.RetryRequest{})
	if !workflow.Is(err, workflow.CodeIllegalTransition) || !strings.Contains(err.Error(), "acknowledge") {
		t.Errorf("retry: %v", err)
	}
	if _, err := s.Engine.Acknowledge(context.Background(), harness.Caller, x.ID, "checked"); err != nil {
		t.Fatal(err)
	}
	s.Script = nil
	if _, err := s.Engine.Retry(context.Background(), harness.Caller, x.ID, views.RetryRequest{}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	if states := s.ExecutionStates(x.ID); !slices.Contains(states, "READY") {
		t.Errorf("states %v", states)
	}
	s.ExpectState(x.ID, sm.ExecutionCompletedAck)
}

// Every signal that has been sent to an execution goes along when it gives way, also those whose
// data are stored apart, and those whose id the owner knows with other data.
func TestKey_TheWholeMailboxIsHandedOver(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", keyedYAML)
	watchKey(s, nil)
	starter := s.StartTask("late", func() { _, _, _, _ = requestStart(s, keyedRequest("k", "")) })
	starter.RunUntil("store.create")
	owner := mustStart(s, keyedRequest("k", "")).ID
	s.Drain()
	starter.RunPast("store.create")
	late := ""
	for id, state := range s.States(harness.Caller.Tenant) {
		if state == sm.ExecutionNew {
			late = id
		}
	}
	long := `{"text":"` + strings.Repeat("long ", 100) + `"}`
	for id, data := range map[string]string{"large": long, "same": `{"n":1}`} {
		if _, err := signal(s, late, "shipped", data, id); err != nil {
			t.Fatal(err)
		}
	}
	starter.Kill()
	if _, err := signal(s, owner, "shipped", `{"n":2}`, "same"); err != nil {
		t.Fatal(err)
	}
	s.RunFor(10 * time.Minute)
	if x := s.ExpectState(late, sm.ExecutionCancelledAck); x.KeyOwner != owner {
		t.Errorf("it gave way to %q", x.KeyOwner)
	}
	x, got := s.Load(owner), map[string]string{}
	for _, sent := range x.Signals {
		if sent.Stored != nil {
			data, err := s.Open().Store.LoadValue(context.Background(), harness.Caller.Tenant, owner, workflow.ValueOfSignals, *sent.Stored)
			if err != nil {
				t.Error(err)
			}
			sent.Data = data
		}
		got[sent.ID] = string(sent.Data)
	}
	if want := map[string]string{"large": long, "same": `{"n":2}`, "same@" + late: `{"n":1}`}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the owner has %v", got)
	}
}

// What comes to an execution after it has handed its signals over, and before it is cancelled, is
// handed over too.
func TestKey_ASignalThatComesWhileItGivesWay(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", keyedYAML)
	watchKey(s, nil)
	late := s.StartTask("late", func() { _, _, _, _ = requestStart(s, keyedRequest("k", "one")) })
	late.RunUntil("store.create")
	owner := mustStart(s, keyedRequest("k", ""))
	late.RunPast("store.send_signal")
	if !late.RunUntil("store.commit") {
		t.Fatal("it does not give way")
	}
	for id, state := range s.States(harness.Caller.Tenant) {
		if state == sm.ExecutionNew {
			if _, err := signal(s, id, "paid", "", "two"); err != nil {
				t.Fatal(err)
			}
		}
	}
	late.Finish()
	if x := s.Load(owner.ID); len(x.Signals)+len(x.Heard) != 2 {
		t.Errorf("the owner has %v and has taken %d", x.Signals, len(x.Heard))
	}
}

// An owner that has failed and is tried again has to check in, and may give way itself: it is
// handed nothing until it has done so.
func TestKey_NothingIsHandedToOneThatHasStillToCheckIn(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", keyedYAML)
	watchKey(s, nil)
	late := s.StartTask("late", func() { _, _, _, _ = requestStart(s, keyedRequest("k", "late")) })
	late.RunUntil("store.create")
	owner := mustStart(s, keyedRequest("k", "one"))
	late.RunUntil("store.send_signal")
	s.Script = failCalls("after EXECUTE")
	s.RunFor(time.Second)
	s.ExpectState(owner.ID, sm.ExecutionFailedSafeAck)
	s.Script = nil
	retry := s.StartTask("retry", func() { _, _ = s.Engine.Retry(context.Background(), harness.Caller, owner.ID, views.RetryRequest{}) })
	retry.RunPast("store.commit")
	late.Finish()
	if x := s.ExpectState(owner.ID, sm.ExecutionReady); len(x.Signals) > 0 {
		t.Errorf("it was handed %v", x.Signals)
	}
	retry.Finish()
	settle(s)
	expectSignalsKept(s, "one", "late")
}

// A repeated request finds the execution that has its signal, even after that has ended. It passes
// over only one that ended without the signal.
func TestSignalWithStart_RepeatedRequests(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", keyedYAML)
	watchKey(s, nil)
	owner := mustStart(s, keyedRequest("k", ""))
	req := keyedRequest("k", "")
	req.Signal, req.IdempotencyKey = &views.StartSignal{Name: "paid"}, "request"
	x, started, existed, err := requestStart(s, req)
	if err != nil || started || existed || x.ID != owner.ID {
		t.Fatalf("%v %v %v", started, existed, err)
	}
	settle(s)
	s.ExpectState(owner.ID, sm.ExecutionCompletedAck)
	if x, started, existed, err = requestStart(s, req); err != nil || started || !existed || x.ID != owner.ID {
		t.Errorf("repeated after the end: %v %v %v", started, existed, err)
	}
	if n := len(s.States(harness.Caller.Tenant)); n != 1 {
		t.Errorf("%d executions", n)
	}
	other := req
	other.Labels = map[string]string{"a": "b"}
	if _, _, _, err := requestStart(s, other); !workflow.Is(err, workflow.CodeIdempotencyMismatch) {
		t.Errorf("another request: %v", err)
	}
	// It is bound to an owner that ends before it gets the signal.
	second := mustStart(s, keyedRequest("k", ""))
	req.IdempotencyKey = "late"
	task := s.StartTask("late", func() { x, started, _, err = requestStart(s, req) })
	task.RunUntil("store.send_signal")
	if _, err := s.Engine.Cancel(context.Background(), harness.Caller, second.ID, views.CancelRequest{}); err != nil {
		t.Fatal(err)
	}
	task.Finish()
	if err != nil || !started || x.ID == second.ID {
		t.Fatalf("%v %v", started, err)
	}
	if again, started, existed, err := requestStart(s, req); err != nil || started || !existed || again.ID != x.ID {
		t.Errorf("repeated: %v %v %v", started, existed, err)
	}
	settle(s)
	if s.ExpectState(x.ID, sm.ExecutionCompletedAck); countEvents(s, x.ID, "signal.received") != 1 {
		t.Error("its signal was not taken once")
	}
	for _, bad := range []views.StartRequest{{Workflow: "p/w", Signal: &views.StartSignal{Name: "paid"}}, {Workflow: "p/w", Key: "k", Signal: &views.StartSignal{Name: "1"}}} {
		if _, _, _, err := requestStart(s, bad); !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// expectSignalsKept fails the test unless each signal was taken by an execution, or is in the
// mailbox of one that did not give way.
func expectSignalsKept(s *harness.Harness, ids ...string) {
	s.Helper()
	kept := map[string]bool{}
	for id := range s.States(harness.Caller.Tenant) {
		x := s.Load(id)
		for _, key := range x.Heard {
			kept[key] = true
		}
		for _, sent := range x.Signals {
			kept[workflow.SignalKey(sent.ID)] = kept[workflow.SignalKey(sent.ID)] || x.KeyOwner == ""
		}
	}
	for _, id := range ids {
		if !kept[workflow.SignalKey(id)] {
			s.Errorf("signal %q was accepted and is lost", id)
		}
	}
}

// A run again has the key of the execution that it repeats, and is refused like a start while
// another has that. What a start refuses, a plan refuses too.
func TestKey_OfRunsAgainAndPlans(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", keyedYAML)
	first := mustStart(s, keyedRequest("k", "one"))
	settle(s)
	s.ExpectState(first.ID, sm.ExecutionCompletedAck)
	all := views.RerunRequest{Entities: views.RerunEntities{Choice: views.RerunAll}}
	again, err := rerun(s, first.ID, all)
	if err != nil || s.Load(again).Key != "k" {
		t.Fatalf("%s, %v", again, err)
	}
	s.Drain()
	s.ExpectState(again, sm.ExecutionWaiting)
	if _, err := rerun(s, first.ID, all); !workflow.Is(err, workflow.CodeConflict) || !strings.Contains(err.Error(), again) {
		t.Errorf("a run again while the key is held: %v", err)
	}
	plan := func(req views.StartRequest) error {
		_, err := s.Engine.Preview(context.Background(), harness.Caller, req)
		return err
	}
	if err := plan(keyedRequest("k", "")); !workflow.Is(err, workflow.CodeConflict) || !strings.Contains(err.Error(), again) {
		t.Errorf("a plan while the key is held: %v", err)
	}
	if err := plan(keyedRequest("k", "two")); err != nil { // its signal would be sent
		t.Errorf("a plan of a start with a signal: %v", err)
	}
	if err := plan(keyedRequest("free", "")); err != nil {
		t.Errorf("a plan with a free key: %v", err)
	}
}

// A scenario of two starts with a signal each, a signal by the key and a retry, once for each of
// its calls with a fault there: only one execution is live, and no signal is lost.
func TestKey_SurvivesFaultAtEveryCall(t *testing.T) {
	play := func(s *harness.Harness) {
		var accepted []string
		repeat := func(id string, request func() error) {
			for range 20 {
				var err error
				if !faults.CatchCrash(func() { err = request() }) && !workflow.Is(err, workflow.CodeUnavailable) {
					if err == nil {
						accepted = append(accepted, id)
					}
					return
				}
			}
		}
		s.Script = failCalls("after EXECUTE")
		repeat("one", func() error { _, _, _, err := requestStart(s, keyedRequest("k", "one")); return err })
		s.RunUntilIdle(10 * time.Minute)
		s.Script = nil
		for id, state := range s.States(harness.Caller.Tenant) {
			if state == sm.ExecutionFailedSafeAck {
				faults.CatchCrash(func() {
					_, _ = s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{Entities: "all"})
				})
			}
		}
		repeat("two", func() error {
			_, err := s.Engine.SignalKey(context.Background(), harness.Caller, "p/w", "k", "paid", nil, "two", "")
			return err
		})
		repeat("three", func() error { _, _, _, err := requestStart(s, keyedRequest("k", "three")); return err })
		if !s.RunUntilIdle(100 * time.Hour) {
			s.Errorf("they do not end: %v", s.States(harness.Caller.Tenant))
		}
		s.Faults = nil
		s.CheckInvariants()
		expectSignalsKept(s, accepted...)
	}
	s := newHarness(t, 1)
	s.Publish("w", keyedYAML)
	before := s.CallCount()
	watchKey(s, nil)
	play(s)
	calls := s.CallCount() - before
	if t.Failed() || calls < 40 {
		t.Fatalf("%d calls without faults", calls)
	}
	for _, fault := range []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated} {
		for n := 1; n <= calls; n++ {
			s.Reset(1)
			watchKey(s, faults.At(n, fault))
			play(s)
			if t.Failed() {
				t.Fatalf("at call %d of %d: %s", n, calls, fault)
			}
		}
	}
}

// Whatever the order of starts that stall, retries, cancels, signals and messages, and whatever
// fails: at most one execution of a key is live, each ends, and no signal that was accepted is
// lost.
func TestKey_AtMostOneIsLiveUnderRandomFaults(t *testing.T) {
	gaveWay, forwarded, retried := 0, 0, 0
	for seed := range uint64(160) {
		s := harness.New(t, seed, harness.Options())
		s.RegisterBlocks()
		s.ImportDevices("d000")
		if seed%2 == 0 {
			s.Publish("w", keyedYAML)
		} else {
			s.Publish("w", strings.ReplaceAll(keyedYAML, "p/once", "p/forever")) // one that fails keeps its locks
		}
		random := rand.New(rand.NewPCG(seed, 9))
		watchKey(s, faults.Randomly(random, 40, faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated))
		s.Script = func(harness.BlockCall) *harness.Outcome {
			if random.IntN(2) == 0 {
				return &harness.Outcome{FailCode: "REFUSED"}
			}
			return nil
		}
		var accepted []string
		var tasks []*faults.Task
		begin := func(name string, request func() error, signalID string) {
			tasks = append(tasks, s.StartTask(name, func() {
				if err := request(); err == nil && signalID != "" {
					accepted = append(accepted, signalID)
				}
			}))
		}
		for n := range 12 {
			id, name := fmt.Sprintf("s%d", random.IntN(6)), fmt.Sprintf("task %d", n)
			some := ""
			if ids := slices.Sorted(maps.Keys(s.States(harness.Caller.Tenant))); len(ids) > 0 {
				some = ids[random.IntN(len(ids))]
			}
			switch random.IntN(7) {
			case 0:
				begin(name, func() error { _, _, _, err := requestStart(s, keyedRequest("k", "")); return err }, "")
			case 1, 2:
				begin(name, func() error { _, _, _, err := requestStart(s, keyedRequest("k", id)); return err }, id)
			case 3:
				begin(name, func() error {
					_, err := s.Engine.SignalKey(context.Background(), harness.Caller, "p/w", "k", "paid", json.RawMessage(`{"n":1}`), id, "")
					return err
				}, id)
			case 4, 5:
				begin(name, func() error {
					_, _ = s.Engine.Acknowledge(context.Background(), harness.Caller, some, "checked")
					_, err := s.Engine.Retry(context.Background(), harness.Caller, some, views.RetryRequest{Entities: "all"})
					if err == nil {
						retried++
					}
					return err
				}, "")
			case 6:
				begin(name, func() error {
					_, err := s.Engine.Cancel(context.Background(), harness.Caller, some, views.CancelRequest{})
					return err
				}, "")
			}
			for range random.IntN(12) {
				tasks[random.IntN(len(tasks))].Step()
			}
			if random.IntN(3) == 0 {
				s.RunFor(time.Duration(random.IntN(3)) * time.Minute)
			}
		}
		for _, task := range tasks {
			task.Finish()
		}
		if !s.RunUntilIdle(100 * time.Hour) {
			t.Errorf("they do not end: %v", s.States(harness.Caller.Tenant))
		}
		s.Faults = nil
		expectSignalsKept(s, accepted...)
		for id := range s.States(harness.Caller.Tenant) {
			if x := s.Load(id); x.KeyOwner != "" {
				gaveWay++
				forwarded += len(x.Signals)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d: %v", seed, s.States(harness.Caller.Tenant))
		}
	}
	t.Logf("%d gave way, %d signals were handed over, %d retries", gaveWay, forwarded, retried)
	if gaveWay < 10 || forwarded < 5 || retried < 10 {
		t.Errorf("%d gave way, %d signals were handed over, %d retries", gaveWay, forwarded, retried)
	}
}

// A start with a key costs two more writes than one without: the key, and the execution once before
// it does anything. The starter and the execution read the key, and the state of the previous
// owner. A signal costs nothing extra.
func TestCost_OfABusinessKey(t *testing.T) {
	cost := func(req views.StartRequest) workflow.Cost {
		s := newHarness(t, 1)
		s.Publish("w", stepsYAML("one pure global"))
		mustStart(s, req) // the definition is known from here on
		settle(s)
		before := s.Consumed()
		x := mustStart(s, req)
		settle(s)
		s.ExpectState(x.ID, sm.ExecutionCompletedAck)
		after := s.Consumed()
		return workflow.Cost{
			ReadUnits:  map[string]float64{"registry": after.ReadUnits["registry"] - before.ReadUnits["registry"], "executions": after.ReadUnits["executions"] - before.ReadUnits["executions"]},
			WriteUnits: map[string]float64{"registry": after.WriteUnits["registry"] - before.WriteUnits["registry"], "executions": after.WriteUnits["executions"] - before.WriteUnits["executions"]},
		}
	}
	without := cost(keyedRequest("", ""))
	for name, req := range map[string]views.StartRequest{"a key": keyedRequest("k", ""), "a key and a signal": keyedRequest("k", "s")} {
		with := cost(req)
		got := fmt.Sprintf("registry %v %v, executions %v %v",
			with.ReadUnits["registry"]-without.ReadUnits["registry"], with.WriteUnits["registry"]-without.WriteUnits["registry"],
			with.ReadUnits["executions"]-without.ReadUnits["executions"], with.WriteUnits["executions"]-without.WriteUnits["executions"])
		if want := "registry 2 1, executions 2 1"; got != want { // the owner before has ended: its state is read twice
			t.Errorf("%s costs %s more, want %s", name, got, want)
		}
	}
}
