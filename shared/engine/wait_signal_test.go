package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

const paidStep = `steps:
  - {label: total, set: {total: 10}}
  - {label: before, functionBlock: p/again:1, runOn: device}
  - label: paid
    wait: {signal: {name: paid, schema: {type: object, required: [amount]}, when: data.amount >= vars.total, deadline: 72h%s}}
    outputKey: payment
  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {amount: "${vars.payment.amount}", same: "${paid.result.amount}"}}
  - {label: unpaid, functionBlock: p/pure:1, runOn: global, parameters: {status: "${steps.paid.status}"}}
`

func sendSignal(t *testing.T, s *harness.Harness, id, name, data, key string) {
	t.Helper()
	if _, err := s.Engine.Signal(context.Background(), harness.Caller, id, name, json.RawMessage(data), key, ""); err != nil {
		t.Fatal(err)
	}
}

// R39: a step waits for a signal by name, and continues with its data. A signal that does not fit
// is taken and recorded, and the step keeps waiting; signals with other names stay.
func TestWaitSignal_TakesTheFirstThatFits(t *testing.T) {
	s, id := waiting(t, fmt.Sprintf(paidStep, ""), "", nil)
	x := expectWait(t, s, id, workflow.WaitSignal, "paid", 72*time.Hour)
	if x.Wait.Reason != "paid" || len(x.AwaitedSignals) != 1 || x.AwaitedSignals[0] != "paid" {
		t.Errorf("%+v, awaited %v", x.Wait, x.AwaitedSignals)
	}
	sendSignal(t, s, id, "shipped", `{"amount":99}`, "k0")
	for i, data := range []string{`{"amount":9}`, `5`, ``, `{"amount":"many"}`} {
		sendSignal(t, s, id, "paid", data, fmt.Sprint("small", i))
	}
	s.Drain()
	if x = expectWait(t, s, id, workflow.WaitSignal, "paid", 72*time.Hour); len(x.Signals) != 1 {
		t.Errorf("%d signals are left", len(x.Signals))
	}
	sendSignal(t, s, id, "paid", `{"amount":12,"text":"`+strings.Repeat("long ", 60)+`"}`, "k1")
	sendSignal(t, s, id, "paid", `{"amount":13}`, "k2")
	settle(s)
	x = s.ExpectState(id, sm.ExecutionCompletedAck)
	calls := callsWithParameters(s, id)
	expectCalls(t, calls[3:], `after {"amount":12,"same":12}`, `unpaid {"status":"COMPLETED"}`)
	if n := countEvents(s, id, "signal.received"); n != 5 || len(x.AwaitedSignals) > 0 {
		t.Errorf("%d signals were received, awaited %v", n, x.AwaitedSignals)
	}
	if n := countEvents(s, id, "signal.unconsumed"); n != 1 {
		t.Errorf("what nobody took is noticed %d times", n)
	}
	// Sent again under its key it is a duplicate, whatever has become of the execution.
	if got, err := s.Engine.Signal(t.Context(), harness.Caller, id, "paid", json.RawMessage(`{"amount":13}`), "k2", ""); err != nil || !got.Duplicate {
		t.Errorf("%+v, %v", got, err)
	}
}

// A signal that comes before the step is kept for it, and two steps take two signals, each once and
// in order.
func TestWaitSignal_KeepsWhatComesEarly(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", `steps:
  - {label: pause, wait: {for: 1h}}
  - {label: one, wait: {signal: {name: go}}}
  - {label: two, wait: {signal: {name: go}}}
  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {one: "${one.result}", two: "${two.result}"}}
`)
	id := s.Start("w", "d000")
	s.Drain()
	for _, n := range []string{"1", "2", "3"} {
		sendSignal(t, s, id, "go", n, "k"+n)
		sendSignal(t, s, id, "go", n, "k"+n)
	}
	s.Drain()
	if x := s.Load(id); len(x.Signals) != 3 || x.Wait.Kind != workflow.WaitTimer {
		t.Errorf("%d signals, %+v", len(x.Signals), x.Wait)
	}
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, callsWithParameters(s, id), `after {"one":1,"two":2}`)
	if len(x.Signals) != 1 || string(x.Signals[0].Data) != "3" {
		t.Errorf("%+v", x.Signals)
	}
}

// R52: without a signal in time the step times out, as onTimeout says.
func TestWaitSignal_Deadline(t *testing.T) {
	for onTimeout, want := range map[string]string{
		"":                                   "",
		", onTimeout: {next: unpaid}":        `unpaid {"status":"CASE_HANDLED"}`,
		", onTimeout: {answer: {amount: 0}}": `after {"amount":0,"same":0}|unpaid {"status":"COMPLETED"}`,
	} {
		s, id := waiting(t, fmt.Sprintf(paidStep, onTimeout), "", nil)
		expectWait(t, s, id, workflow.WaitSignal, "paid", 72*time.Hour)
		if !s.RunUntilIdle(100 * time.Hour) {
			t.Fatal("it does not end")
		}
		x := s.Load(id)
		if want == "" {
			if x.Cause != workflow.CauseTimeout || x.Error.Step != "paid" {
				t.Errorf("%s, %+v", x.Cause, x.Error)
			}
			continue
		}
		if got := strings.Join(callsWithParameters(s, id)[3:], "|"); got != want {
			t.Errorf("%s: %s", onTimeout, got)
		}
	}
}

// Whether a signal is in time depends on when it was sent: one sent in time, whose wake-up was
// lost, counts at the deadline; one sent later does not.
func TestWaitSignal_MailboxBeforeDeadline(t *testing.T) {
	for _, late := range []bool{false, true} {
		s, id := waiting(t, fmt.Sprintf(paidStep, ", onTimeout: {next: unpaid}"), "", nil)
		until := s.Load(id).Wait.Until
		s.Advance(until.Sub(s.Now()) - time.Second)
		if late {
			s.Advance(time.Second)
		}
		s.Faults = faults.Every(faults.Throttled, "sender.send_wakeups")
		if _, err := s.Engine.Signal(t.Context(), harness.Caller, id, "paid", json.RawMessage(`{"amount":20}`), "k", ""); !workflow.Is(err, workflow.CodeUnavailable) {
			t.Errorf("the wake-up is not lost: %v", err)
		}
		s.Faults = nil
		s.Advance(time.Hour)
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		calls := callsWithParameters(s, id)
		if got := calls[3]; strings.HasPrefix(got, "after") == late {
			t.Errorf("late %v: %v", late, calls)
		}
	}
}

// A signal that was sent in time, and is stored while a handler that has read the execution before
// is about to end the wait, is not passed over.
func TestWaitSignal_LapseDependsOnSignals(t *testing.T) {
	s, id := waiting(t, fmt.Sprintf(paidStep, ", onTimeout: {next: unpaid}"), "", nil)
	until := s.Load(id).Wait.Until
	s.Advance(until.Sub(s.Now()) - time.Second)
	sender := s.StartTask("sender", func() { sendSignal(t, s, id, "paid", `{"amount":20}`, "k") })
	alarm := s.StartTask("alarm", func() {
		if err := s.Engine.Advance(context.Background(), workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: id}); err != nil {
			t.Error(err)
		}
	})
	if !sender.RunUntil("store.send_signal") {
		t.Fatal("the signal is not stored")
	}
	s.Advance(2 * time.Second)
	if !alarm.RunUntil("store.commit") {
		t.Fatal("the wait does not end")
	}
	sender.Finish()
	alarm.Finish()
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if calls := callsWithParameters(s, id); !strings.HasPrefix(calls[3], "after") {
		t.Errorf("%v", calls)
	}
}

// A wait for a signal is ended by no operator, and by a cancel at once; the signal that comes
// then is refused.
func TestWaitSignal_CancelAndResume(t *testing.T) {
	s, id := waiting(t, fmt.Sprintf(paidStep, ""), "", nil)
	if _, err := s.Engine.Resume(t.Context(), harness.Caller, id, "go on"); !workflow.Is(err, workflow.CodeIllegalTransition) || !strings.Contains(err.Error(), `signal "paid"`) {
		t.Error(err)
	}
	expectCode(t, answerAs(s, person("ann"), id, `1`, ""), workflow.CodeIllegalTransition, "not asked")
	if _, err := s.Engine.Cancel(t.Context(), harness.Caller, id, views.CancelRequest{Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Engine.Signal(t.Context(), harness.Caller, id, "paid", nil, "k", ""); !workflow.Is(err, workflow.CodeIllegalTransition) {
		t.Error(err)
	}
	settle(s)
	if r := s.Load(id).StepRunBySeq(3); r.Status != sm.StepCancelled {
		t.Errorf("%+v", r)
	}
}

// A handler that has read the execution is about to enter the step that waits for a signal, while
// that signal is accepted. The step takes it at once: the signal's own wake-up finds nothing that
// waits yet.
func TestWaitSignal_EnteringDependsOnSignals(t *testing.T) {
	s, id := waiting(t, `steps:
  - {label: ask, wait: {input: {title: "?"}}}
  - {label: paid, wait: {signal: {name: paid}}}
`, "", nil)
	stalled := s.StartTask("answer", func() {
		if err := answerAs(s, person("ann"), id, `1`, "k"); err != nil {
			t.Error(err)
		}
	})
	if !stalled.RunUntil("store.commit") {
		t.Fatal("the answer is not stored")
	}
	sendSignal(t, s, id, "paid", `{"amount":20}`, "k")
	s.Drain()
	stalled.Finish()
	s.Drain()
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// Signals that nobody wants leave a count and a few events, however many there are.
func TestWaitSignal_UnfitAreCounted(t *testing.T) {
	s, id := waiting(t, "steps: [{label: paid, wait: {signal: {name: paid, when: data.order == 7}}}]\n", "", nil)
	before := s.Load(id).Sequence
	for i := range 200 {
		sendSignal(t, s, id, "paid", `{"order":1}`, fmt.Sprint("k", i))
		if i%16 == 0 {
			s.Drain()
		}
	}
	s.Drain()
	x := s.Load(id)
	if n := x.Sequence - before; n > workflow.MaxPassed || len(x.Signals) > 0 || x.LastStepRun().Wait.Unfit != 200 {
		t.Errorf("%d events, %d signals are left, %d did not fit", n, len(x.Signals), x.LastStepRun().Wait.Unfit)
	}
	sendSignal(t, s, id, "paid", `{"order":7}`, "right")
	s.Drain()
	s.ExpectState(id, sm.ExecutionCompletedAck)
}
