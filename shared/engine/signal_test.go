package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// startWaiting starts an execution that waits for a minute before its second step.
func startWaiting(s *harness.Harness) string {
	s.Publish("w", `
steps:
  - {label: one, functionBlock: p/once:1, runOn: device}
  - {label: two, delay: 1m, functionBlock: p/once:1, runOn: device}
`)
	id := s.Start("w", "d000")
	s.Drain()
	s.ExpectState(id, sm.ExecutionWaiting)
	return id
}

func signal(s *harness.Harness, id, name, data, key string) (engine.SignalReceipt, error) {
	return s.Engine.Signal(context.Background(), harness.Caller, id, name, json.RawMessage(data), key, "as agreed")
}

// wakeups empties the lifecycle queue and returns the reasons of its messages.
func wakeups(s *harness.Harness) (reasons []string) {
	for {
		m, ok := s.LifecycleQueue().Receive(0)
		if !ok {
			return reasons
		}
		reasons = append(reasons, m.Wakeup().Reason)
		s.LifecycleQueue().Delete(m)
	}
}

func TestSignal_IsStoredAndWakesTheExecution(t *testing.T) {
	s := newHarness(t, 1)
	id := startWaiting(s)
	wakeups(s)
	version := s.Load(id).Version
	for i, duplicate := range []bool{false, true, true} {
		got, err := signal(s, id, "paid", `{"amount": 5}`, "key")
		if err != nil || got.Duplicate != duplicate || got.ID != "key" {
			t.Errorf("call %d: %+v, %v", i, got, err)
		}
		if woken := wakeups(s); !slices.Equal(woken, []string{"signal"}) {
			t.Errorf("call %d: woken by %v", i, woken)
		}
	}
	x := s.Load(id)
	want := workflow.Signal{
		ID: "key", Name: "paid", At: x.Signals[0].At, By: "ann", Reason: "as agreed", Data: json.RawMessage(`{"amount": 5}`),
		Digest: workflow.SignalDigest("paid", json.RawMessage(`{"amount":5}`)),
	}
	if fmt.Sprintf("%+v", x.Signals) != fmt.Sprintf("%+v", []workflow.Signal{want}) || !want.At.Equal(s.Now()) || x.Version != version {
		t.Errorf("version %d, signals %+v", x.Version, x.Signals)
	}
	first, err := signal(s, id, "paid", "", "")
	second, err2 := signal(s, id, "paid", "", "")
	if err != nil || err2 != nil || first.Duplicate || second.Duplicate || first.ID == second.ID || len(s.Load(id).Signals) != 3 {
		t.Errorf("without a key: %+v %v, %+v %v", first, err, second, err2)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

func TestSignal_Refusals(t *testing.T) {
	s := newHarness(t, 1)
	id := startWaiting(s)
	long := strings.Repeat("k", 255)
	for _, key := range []string{"kept", long} {
		if _, err := signal(s, id, "paid", `{"a":1}`, key); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what, id, name, data, key string, code workflow.Code, text string) {
		t.Helper()
		_, err := signal(s, id, name, data, key)
		if workflow.CodeOf(err) != code || err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", what, err)
		}
	}
	check("missing", s.NewID(), "paid", "", "k", workflow.CodeNotFound, "")
	check("missing, large", s.NewID(), "paid", `"`+strings.Repeat("x", 1000)+`"`, "k", workflow.CodeNotFound, "")
	check("another tenant's", id+"x", "paid", "", "k", workflow.CodeNotFound, "")
	for _, name := range []string{"", "1a", "a b", "a/b", "ä", strings.Repeat("a", 65)} {
		check("name "+name, id, name, "", "k", workflow.CodeInvalid, "name")
	}
	check("no JSON", id, "paid", `{"a":`, "k", workflow.CodeInvalid, "data")
	check("two values", id, "paid", `1 2`, "k", workflow.CodeInvalid, "data")
	check("too deep", id, "paid", strings.Repeat("[", 200)+strings.Repeat("]", 200), "k", workflow.CodeInvalid, "data")
	check("too large", id, "paid", `"`+strings.Repeat("x", workflow.MaxSignalBytes-1)+`"`, "k", workflow.CodeTooLarge, "limit")
	check("other data", id, "paid", `{"a":2}`, "kept", workflow.CodeIdempotencyMismatch, "")
	check("other name", id, "sent", `{"a":1}`, long, workflow.CodeIdempotencyMismatch, "")
	for i := len(s.Load(id).Signals); i < workflow.MaxUnawaited; i++ {
		check("a place", id, "ping", "", fmt.Sprint(i), "", "")
	}
	check("full", id, "ping", "", "new", workflow.CodeLimit, "no place")
	check("full, large", id, "ping", `"`+strings.Repeat("x", 1000)+`"`, "new", workflow.CodeLimit, "no place")
	check("a duplicate while it is full", id, "ping", "", "5", "", "")
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionCompletedAck); len(x.Signals) != workflow.MaxUnawaited {
		t.Errorf("%d signals", len(x.Signals))
	}
	check("a duplicate after the end", id, "paid", `{ "a": 1 }`, long, "", "")
	check("other data after the end", id, "paid", `{"a":2}`, "kept", workflow.CodeIdempotencyMismatch, "")
	check("late", id, "paid", "", "late", workflow.CodeIllegalTransition, "COMPLETED_ACK")
	check("late, large", id, "paid", `"`+strings.Repeat("x", 1000)+`"`, "late", workflow.CodeIllegalTransition, "COMPLETED_ACK")
	wakeups(s)
	check("a duplicate wakes too", id, "ping", "", "5", "", "")
	if woken := wakeups(s); len(woken) != 1 {
		t.Errorf("woken by %v", woken)
	}
}

// Large data are stored before the signal that refers to them, and not at all if it is
// refused anyway.
func TestSignal_LargeData(t *testing.T) {
	s := newHarness(t, 1)
	id := startWaiting(s)
	var calls []string
	s.Faults = func(c faults.Call) faults.Fault {
		calls = append(calls, c.Name)
		return faults.None
	}
	for _, n := range []int{workflow.MaxInlineSignal, workflow.MaxInlineSignal + 1, workflow.MaxSignalBytes} {
		data := `"` + strings.Repeat("x", n-2) + `"`
		calls = nil
		if _, err := signal(s, id, "paid", data, fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
		want := []string{"store.load", "store.save_value", "store.send_signal", "sender.wakeups"}
		if n == workflow.MaxInlineSignal {
			want = want[2:]
		}
		if len(calls) != len(want) || !slices.Equal(calls[:len(calls)-1], want[:len(want)-1]) {
			t.Errorf("%d bytes: calls %v, want %v", n, calls, want)
		}
		signals := s.Load(id).Signals
		got := signals[len(signals)-1]
		if (got.Stored != nil) != (n > workflow.MaxInlineSignal) || (got.Data == nil) != (got.Stored != nil) {
			t.Fatalf("%d bytes: %d inline, stored %+v", n, len(got.Data), got.Stored)
		}
		if got.Stored == nil {
			continue
		}
		stored, err := s.Open().Store.LoadValue(context.Background(), harness.Caller.Tenant, id, workflow.ValueOfSignals, *got.Stored)
		if err != nil || string(stored) != data {
			t.Errorf("%d bytes: read %d, %v", n, len(stored), err)
		}
	}
	s.Faults = nil
	settle(s)
	s.Faults = func(c faults.Call) faults.Fault {
		if c.Name == "store.save_value" {
			t.Error("the data of a refused signal are stored")
		}
		return faults.None
	}
	if _, err := signal(s, id, "paid", `"`+strings.Repeat("y", 1000)+`"`, "late"); !workflow.Is(err, workflow.CodeIllegalTransition) {
		t.Error(err)
	}
}

// Whoever sends a signal dies, or gets no reply, at any call. To send it again is enough.
func TestSignal_SentAgainAfterAFault(t *testing.T) {
	data := `"` + strings.Repeat("x", 1000) + `"`
	for call := 1; call <= 4; call++ { // read, store, send, wake
		for _, fault := range []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated} {
			s := newHarness(t, 1)
			id := startWaiting(s)
			wakeups(s)
			s.Faults = faults.At(call, fault)
			func() {
				defer func() { _ = recover() }() // a crash
				_, _ = signal(s, id, "paid", data, "key")
			}()
			s.Faults = nil
			wakeups(s)
			if _, err := signal(s, id, "paid", data, "key"); err != nil {
				t.Fatalf("%v at call %d: %v", fault, call, err)
			}
			if x := s.Load(id); len(x.Signals) != 1 || len(wakeups(s)) != 1 {
				t.Errorf("%v at call %d: signals %+v", fault, call, x.Signals)
			}
		}
	}
}

// A signal that could not wake its execution is reported, and is in the mailbox.
func TestSignal_ReportsAWakeupThatWasNotSent(t *testing.T) {
	s := newHarness(t, 1)
	id := startWaiting(s)
	s.Faults = faults.Every(faults.Broken, "sender.")
	if _, err := signal(s, id, "paid", "", "key"); !workflow.Is(err, workflow.CodeUnavailable) || !strings.Contains(err.Error(), `"key"`) {
		t.Error(err)
	}
	if len(s.Load(id).Signals) != 1 {
		t.Error("it is not stored")
	}
}

// A signal that is accepted while the execution ends is seen by the end, however many come
// in a row.
func TestSignal_AcceptedBeforeTheEndIsNoticed(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		o := harness.Options()
		o.MaxConflictRetries = 2
		s := harness.New(t, 1, o)
		s.RegisterBlocks()
		s.ImportDevices("d000")
		id := startWaiting(s)
		sent := 0
		open := s.Engine.OpenPorts
		s.Engine.OpenPorts = func() port.Ports {
			p := open()
			p.Store = overtakenStore{p.Store, func(*workflow.Execution) {
				signal := workflow.Signal{ID: s.NewID(), Name: "ping", At: s.Now()}
				result, _, err := p.Store.SendSignal(context.Background(), harness.Caller.Tenant, id, signal)
				if err != nil {
					t.Error(err)
				}
				if result == workflow.SignalAccepted {
					sent++
				}
			}}
			return p
		}
		want := sm.ExecutionCompletedAck
		if cancel {
			want = sm.ExecutionCancelledAck
			if _, err := s.Engine.Cancel(context.Background(), harness.Caller, id, views.CancelRequest{}); err != nil {
				t.Fatal(err)
			}
		}
		settle(s)
		x := s.ExpectState(id, want)
		if sent != workflow.MaxUnawaited || len(x.Signals) != sent {
			t.Errorf("cancel %t: %d accepted, %d kept", cancel, sent, len(x.Signals))
		}
		var noticed struct{ Count int }
		for _, e := range s.History(id) {
			if e.Type == lifecycle.EventSignalUnconsumed {
				if err := json.Unmarshal(e.Data, &noticed); err != nil {
					t.Error(err)
				}
			}
		}
		if noticed.Count != sent {
			t.Errorf("cancel %t: %d accepted, %d noticed", cancel, sent, noticed.Count)
		}
	}
}
