package engine_test

import (
	"encoding/json"
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

const askingStep = `steps:
  - {label: ask, functionBlock: p/forever:1, runOn: global, parameters: {n: 1}, delay: 10s, outputKey: said}
  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {said: "${vars.said}", of: "${ask.result}"}}
`

// asking starts an execution whose block asks to wait in its first calls. The last one gives {"n": 7}.
func asking(t *testing.T, definition string, waits ...func(s *harness.Harness) workflow.AskedWait) (*harness.Harness, string) {
	t.Helper()
	s := newHarness(t, 1)
	s.Publish("w", definition)
	calls := 0
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step != "ask" || c.Kind != workflow.JobExecute {
			return nil
		}
		if calls++; calls > len(waits) {
			return &harness.Outcome{Result: json.RawMessage(`{"n":7}`)}
		}
		w := waits[calls-1](s)
		return &harness.Outcome{Wait: &w, Result: json.RawMessage(`{"n":0}`)}
	}
	id := s.Start("w", "d000")
	s.RunFor(15 * time.Second)
	return s, id
}

// resumed returns the outcomes of earlier waits that the calls of a step got.
func resumed(s *harness.Harness, step string) string {
	var told []string
	for _, c := range stepCalls(s, step) {
		raw, _ := workflow.EncodeJSON(c.Resume)
		told = append(told, string(raw))
	}
	return strings.Join(told, " ")
}

// R38, R39, R35: a block asks to wait for a time, a signal and input, one after another. It is
// called again each time with the outcome, and the result of the step is that of its last call.
func TestAskedWait_CallsTheBlockAgain(t *testing.T) {
	s, id := asking(t, askingStep, func(s *harness.Harness) workflow.AskedWait {
		return workflow.AskedWait{Until: s.Now().Add(time.Hour), Reason: "the window opens"}
	}, func(s *harness.Harness) workflow.AskedWait {
		return workflow.AskedWait{Signal: "paid", Reason: "the bill is out"}
	}, func(s *harness.Harness) workflow.AskedWait {
		return workflow.AskedWait{Until: s.Now().Add(2 * time.Hour), Reason: "How many?", Input: &workflow.AskedInput{Schema: json.RawMessage(`{"type":"integer"}`), Who: workflow.Who{Actors: []string{"eve"}}}}
	})
	if w := waitingView(s, id); w == nil || w.Kind != workflow.WaitTimer || *w.Step != "ask" || *w.Reason != "the window opens" {
		t.Fatalf("%+v", w)
	}
	if x := s.Load(id); x.State != sm.ExecutionWaiting || x.StepRuns[0].Counts.OK != 1 {
		t.Errorf("%s, %+v", x.State, x.StepRuns[0])
	}
	s.RunFor(59 * time.Minute)
	if n := len(stepCalls(s, "ask")); n != 1 {
		t.Errorf("called %d times before the time has come", n)
	}
	s.RunFor(2 * time.Minute)
	expectWait(t, s, id, workflow.WaitSignal, "ask", workflow.MaxStepWait)
	if w := waitingView(s, id); *w.Reason != "the bill is out" || w.Signal != "paid" {
		t.Errorf("waits for the signal %q: %s", w.Signal, *w.Reason)
	}
	if _, err := s.Engine.Signal(t.Context(), harness.Caller, id, "paid", json.RawMessage(`{"amount":5}`), "", ""); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	expectWait(t, s, id, workflow.WaitInput, "ask", 2*time.Hour)
	if w := waitingView(s, id); *w.Reason != "How many?" || w.Signal != "" {
		t.Errorf("waits for input, and the signal %q: %s", w.Signal, *w.Reason)
	}
	expectCode(t, answerAs(s, person("bob"), id, `5`, "k1"), workflow.CodeForbidden, "")
	expectCode(t, answerAs(s, person("eve"), id, `"x"`, "k2"), workflow.CodeInvalid, "")
	if err := answerAs(s, person("eve"), id, `5`, "k3"); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if got := resumed(s, "ask"); got != `null {"kind":"TIMER"} {"kind":"SIGNAL","value":{"amount":5}} {"kind":"INPUT","value":5}` {
		t.Errorf("told %s", got)
	}
	if got := callsWithParameters(s, id); got[len(got)-1] != `after {"of":{"n":7},"said":{"n":7}}` {
		t.Errorf("%v", got)
	}
	r, err := s.Query.Result(t.Context(), harness.Caller, id)
	if err != nil || string(r.Steps["ask"].Result) != `{"n":7}` || r.Steps["ask"].Ordinal != 4 {
		t.Errorf("%+v, %v", r.Steps["ask"], err)
	}
}

// At the deadline, a block that asks for a signal or for input is called again with the outcome
// that nothing came.
func TestAskedWait_TimesOut(t *testing.T) {
	for _, ask := range []workflow.AskedWait{{Signal: "paid"}, {Input: &workflow.AskedInput{}}} {
		s, id := asking(t, askingStep, func(s *harness.Harness) workflow.AskedWait {
			ask.Until = s.Now().Add(time.Hour)
			return ask
		})
		s.RunFor(2 * time.Hour)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		if got, want := resumed(s, "ask"), fmt.Sprintf(`null {"kind":%q,"timedOut":true}`, ask.Kind()); got != want {
			t.Errorf("told %s, want %s", got, want)
		}
	}
}

// A time that has passed is not waited for, and a block that asks for ever ends at the limit of
// step runs.
func TestAskedWait_EndsAtTheLimit(t *testing.T) {
	past := func(s *harness.Harness) workflow.AskedWait { return workflow.AskedWait{Until: s.Now().Add(-time.Hour)} }
	s, id := asking(t, askingStep, past)
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	var waits []func(s *harness.Harness) workflow.AskedWait
	for range 200 {
		waits = append(waits, past)
	}
	s, id = asking(t, askingStep, waits...)
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedUnsafe); x.Error.Code != workflow.FailureLimit || len(x.StepRuns) > 100 {
		t.Errorf("%+v, %d step runs", x.Error, len(x.StepRuns))
	}
}

// A step on entities, one that repeats and one with a callback cannot wait for what their block
// asks. Nor can a block both ask and name the next step.
func TestAskedWait_IsRefused(t *testing.T) {
	for step, code := range map[string]string{
		"runOn: device":                              workflow.FailureWaitNotGlobal,
		"runOn: global, repeat: {count: 2}":          workflow.FailureWaitNotGlobal,
		"runOn: global, callback: {}":                workflow.FailureWaitNotGlobal,
		"runOn: item, foreach: {items: '${[1]}'}":    workflow.FailureWaitNotGlobal,
		"runOn: item, foreach: {items: '${[1, 2]}'}": workflow.FailureWaitNotGlobal,
		"runOn: item, foreach: {items: '${[1, 2, 3, 4, 5, 6, 7, 8, 9]}', maxInFlight: 2}, retry: {maxRetries: 2}": workflow.FailureWaitNotGlobal,
	} {
		s, id := asking(t, "steps:\n  - {label: ask, functionBlock: p/pure:1, "+step+"}\n", func(s *harness.Harness) workflow.AskedWait {
			return workflow.AskedWait{Until: s.Now().Add(time.Hour)}
		})
		settle(s)
		if x := s.Load(id); x.Error == nil || x.Error.Code != code {
			t.Errorf("%s: %s, %+v", step, x.State, x.Error)
		}
	}
}

// A cancel ends the wait, and what the calls before it have done is undone, each call once. A retry begins with the
// first call again.
func TestAskedWait_CancelAndRetry(t *testing.T) {
	hour := func(s *harness.Harness) workflow.AskedWait { return workflow.AskedWait{Until: s.Now().Add(time.Hour)} }
	definition := strings.ReplaceAll(askingStep, "p/forever", "p/once")
	s, id := asking(t, definition, hour, hour)
	s.RunFor(time.Hour + 2*time.Minute)
	if n := len(stepCalls(s, "ask")); n != 2 {
		t.Fatalf("%d calls", n)
	}
	if _, err := s.Engine.Cancel(t.Context(), harness.Caller, id, views.CancelRequest{}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCancelledAck)
	if got := strings.Join(s.CallsOf(id), ", "); got != "ask EXECUTE, ask EXECUTE, ask ROLLBACK, ask ROLLBACK" {
		t.Errorf("%s", got)
	}
	failing := true
	s, id = asking(t, askingStep, hour)
	script := s.Script
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if failing && c.Resume != nil {
			return &harness.Outcome{FailCode: "NO"}
		}
		return script(c)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	failing = false
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if got := resumed(s, "ask"); got != `null {"kind":"TIMER"} null` {
		t.Errorf("told %s", got)
	}
}

// Blocks ask to wait in branches and in loops, and each continues by itself.
func TestAskedWait_InBranchesAndLoops(t *testing.T) {
	hour := func(s *harness.Harness) workflow.AskedWait { return workflow.AskedWait{Until: s.Now().Add(time.Hour)} }
	for _, definition := range []string{
		`steps:
  - label: both
    parallel:
      branches:
        - {label: one, steps: [{label: ask, functionBlock: p/pure:1, runOn: global}]}
        - {label: two, steps: [{label: beside, wait: {for: 2h}}, {label: then, functionBlock: p/pure:1, runOn: global}]}
  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {n: "${both.result.n}"}}
`, `steps:
  - label: each
    loop: {over: "${[1, 2]}"}
    workflow: {steps: [{label: ask, functionBlock: p/pure:1, runOn: global}]}
  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {n: "${ask.result.n}"}}
`} {
		s, id := asking(t, definition, hour)
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		if got := resumed(s, "ask"); !strings.HasPrefix(got, `null {"kind":"TIMER"}`) {
			t.Errorf("told %s", got)
		}
		if got := callsWithParameters(s, id); got[len(got)-1] != `after {"n":7}` || resumed(s, "after") != "null" {
			t.Errorf("%v, told %s", got, resumed(s, "after"))
		}
	}
}

// A branch is closed while its block asks to wait. Its step has no result then: nobody calls the
// block again, which would have given it.
func TestAskedWait_OfAClosedBranchGivesNothing(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", `steps:
  - label: both
    continueOnError: true
    parallel:
      branches:
        - {label: one, steps: [{label: ask, functionBlock: p/forever:1, runOn: global, outputKey: said}]}
        - {label: two, steps: [{label: beside, functionBlock: p/pure:1, runOn: global}]}
  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {said: "${has(vars.said)}"}}
`)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		switch c.Step {
		case "ask":
			return &harness.Outcome{Wait: &workflow.AskedWait{Until: s.Now().Add(time.Hour)}, During: func() { s.DrainPacks(); s.DrainWakeups() }}
		case "beside":
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	}
	id := s.Start("w", "d000")
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if got := callsWithParameters(s, id); len(got) != 3 || got[2] != `after {"said":false}` {
		t.Errorf("%v", got)
	}
}

// A crash anywhere around the wait loses nothing: the block is called again exactly once, with the
// outcome.
func TestAskedWait_LostMessages(t *testing.T) {
	s, id := asking(t, askingStep, func(s *harness.Harness) workflow.AskedWait { return workflow.AskedWait{Until: s.Now().Add(time.Hour)} })
	s.PoolQueue("default").Purge()
	s.RunFor(time.Hour)
	s.LifecycleQueue().Purge()
	s.PoolQueue("default").Purge()
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if got := resumed(s, "ask"); got != `null {"kind":"TIMER"}` {
		t.Errorf("told %s", got)
	}
}

// The stepTimeout covers all calls of the block and the waits between them. When it is over the
// step fails, whether its block waits or not, and nothing polls.
func TestAskedWait_EndsWithTheStep(t *testing.T) {
	signal := func(*harness.Harness) workflow.AskedWait { return workflow.AskedWait{Signal: "paid"} }
	for name, c := range map[string]struct {
		waits  []func(s *harness.Harness) workflow.AskedWait
		around string
		calls  int
	}{
		"a signal": {waits: []func(s *harness.Harness) workflow.AskedWait{signal}, calls: 1},
		"input": {waits: []func(s *harness.Harness) workflow.AskedWait{func(s *harness.Harness) workflow.AskedWait {
			return workflow.AskedWait{Until: s.Now().Add(3 * time.Hour), Input: &workflow.AskedInput{}}
		}}, calls: 1},
		"times, one after the other": {waits: slices.Repeat([]func(s *harness.Harness) workflow.AskedWait{func(s *harness.Harness) workflow.AskedWait {
			return workflow.AskedWait{Until: s.Now().Add(25 * time.Minute)}
		}}, 10), calls: 3},
		"in a branch": {waits: []func(s *harness.Harness) workflow.AskedWait{signal}, around: "branch", calls: 1},
	} {
		step := `{label: ask, functionBlock: p/pure:1, runOn: global, stepTimeout: 1h}`
		if c.around != "" {
			step = `{label: both, parallel: {branches: [{label: one, steps: [` + step + `]}, {label: two, steps: [{label: beside, wait: {for: 30m}}]}]}}`
		}
		s, id := asking(t, "steps:\n  - "+step+"\n", c.waits...)
		s.RunFor(59 * time.Minute)
		s.ExpectState(id, sm.ExecutionWaiting)
		s.RunFor(10 * time.Minute)
		if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error == nil || x.Error.Code != workflow.FailureTimeout || !strings.Contains(x.Error.Message, "within 1h") {
			t.Errorf("%s: %s, %+v", name, x.State, x.Error)
		}
		if n := len(stepCalls(s, "ask")); n != c.calls {
			t.Errorf("%s: %d calls, want %d", name, n, c.calls)
		}
	}
}

// What the definition does about a failure it does about a wait that the time of its step ends.
func TestAskedWait_TimeOfTheStepIsHandled(t *testing.T) {
	s, id := asking(t, `steps:
  - {label: ask, functionBlock: p/pure:1, runOn: global, stepTimeout: 1h, onFailure: other}
  - {label: never, functionBlock: p/pure:1, runOn: global}
  - {label: other, functionBlock: p/pure:1, runOn: global, parameters: {code: "${error.code}"}}
`, func(*harness.Harness) workflow.AskedWait { return workflow.AskedWait{Signal: "paid"} })
	s.RunFor(90 * time.Minute)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if got := callsWithParameters(s, id); got[len(got)-1] != `other {"code":"TIMEOUT"}` || len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// R38: when the wait is over the execution goes on as onResume says: the block is not called again, and what has
// come is the result of its step. A retry behind it does not call it either.
func TestAskedWait_GoesOnAsOnResumeSays(t *testing.T) {
	definition := `steps:
  - {label: ask, functionBlock: p/forever:1, runOn: global, outputKey: said, onResume: behind}
  - {label: passed, functionBlock: p/pure:1, runOn: global}
  - {label: behind, functionBlock: p/pure:1, runOn: global, parameters: {said: "${vars.said}", of: "${ask.result}", status: "${steps.ask.status}"}}
`
	for name, test := range map[string]struct {
		ask  func(s *harness.Harness) workflow.AskedWait
		come func(s *harness.Harness, id string)
		want string
	}{
		"a time": {func(s *harness.Harness) workflow.AskedWait { return workflow.AskedWait{Until: s.Now().Add(time.Hour)} },
			func(s *harness.Harness, _ string) { s.RunFor(2 * time.Hour) }, "null"},
		"a signal": {func(*harness.Harness) workflow.AskedWait { return workflow.AskedWait{Signal: "paid"} },
			func(s *harness.Harness, id string) { sendSignal(t, s, id, "paid", `{"n":5}`, "k") }, `{"n":5}`},
		"an answer": {func(*harness.Harness) workflow.AskedWait { return workflow.AskedWait{Input: &workflow.AskedInput{}} },
			func(s *harness.Harness, id string) {
				if err := answerAs(s, person("eve"), id, `{"n":6}`, "k"); err != nil {
					t.Fatal(err)
				}
			}, `{"n":6}`},
		"nothing until the deadline": {func(s *harness.Harness) workflow.AskedWait {
			return workflow.AskedWait{Signal: "paid", Until: s.Now().Add(time.Hour)}
		}, func(s *harness.Harness, _ string) { s.RunFor(2 * time.Hour) }, "null"},
	} {
		t.Run(name, func(t *testing.T) {
			s, id := asking(t, definition, test.ask)
			test.come(s, id)
			settle(s)
			s.ExpectState(id, sm.ExecutionCompletedAck)
			expectCalls(t, callsWithParameters(s, id), "ask {}", fmt.Sprintf(`behind {"of":%s,"said":%s,"status":"COMPLETED"}`, test.want, test.want))
			r, err := s.Query.Result(t.Context(), harness.Caller, id)
			if err != nil || string(r.Steps["ask"].Result) != test.want && test.want != "null" {
				t.Errorf("%+v, %v", r.Steps["ask"], err)
			}
		})
	}
}

// In a branch and in a loop, and with a retry behind it: the step is over, and its block is not called again.
func TestAskedWait_OnResumeIsKeptByARetry(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", `steps:
  - label: each
    loop: {over: "${[1, 2]}"}
    workflow:
      steps:
        - label: gather
          parallel:
            branches:
              - {label: l, steps: [{label: ask, functionBlock: p/forever:1, runOn: global, onResume: then}, {label: passed, functionBlock: p/pure:1, runOn: global}, {label: then, functionBlock: p/pure:1, runOn: global, parameters: {n: "${ask.result.n}"}}]}
        - {label: bad, functionBlock: p/pure:1, runOn: global}
`)
	fail := true
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		switch {
		case c.Step == "ask" && c.Kind == workflow.JobExecute:
			return &harness.Outcome{Wait: &workflow.AskedWait{Signal: "paid"}}
		case c.Step == "bad" && fail:
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	}
	id := s.Start("w", "d000")
	s.Drain()
	sendSignal(t, s, id, "paid", `{"n":1}`, "k1")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	fail = false
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "mended"}); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	sendSignal(t, s, id, "paid", `{"n":2}`, "k2")
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, callsWithParameters(s, id), "ask {}", `then {"n":1}`, "bad {}", "bad {}", "ask {}", `then {"n":2}`, "bad {}")
}

// A retry that would execute a step again whose wait is over is refused, if its block can neither be repeated nor
// undone: it begins with the first repetition.
func TestAskedWait_IsNotAskedAgainUnasked(t *testing.T) {
	signals := func(*harness.Harness) workflow.AskedWait { return workflow.AskedWait{Signal: "paid"} }
	s, id := asking(t, `steps:
  - label: c
    repeat: {count: 2}
    workflow: {steps: [{label: ask, functionBlock: p/forever:1, runOn: global, onResume: bad}, {label: bad, functionBlock: p/pure:1, runOn: global}]}
`, signals, signals)
	script, calls := s.Script, 0
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "bad" {
			if calls++; calls > 1 {
				return &harness.Outcome{FailCode: "NO"}
			}
		}
		return script(c)
	}
	sendSignal(t, s, id, "paid", `{}`, "k1")
	s.Drain()
	sendSignal(t, s, id, "paid", `{}`, "k2")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "again"}); err == nil || !strings.Contains(err.Error(), `"ask"`) {
		t.Errorf("%v", err)
	}
}
