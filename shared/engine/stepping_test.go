package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// startWith starts an execution over two devices, and returns it once it is idle.
func startWith(t *testing.T, definition string, change func(*views.StartRequest)) (*harness.Harness, string) {
	t.Helper()
	s := newHarness(t, 2)
	s.Publish("w", definition)
	req := harness.NewStartRequest("w", harness.DeviceIDs(2)...)
	change(&req)
	id := s.StartWith(req)
	s.Drain()
	return s, id
}

// An execution that its starter holds has no locks and waits until somebody resumes it. The start
// conditions of its definition apply after that.
func TestHold_WaitsUntilResumed(t *testing.T) {
	for rest, want := range map[string]sm.ExecutionState{
		"": sm.ExecutionCompletedAck,
		"config: {startWhen: {condition: 'entity(\"site\", \"b\").open == true', deadline: 10m}}\n": sm.ExecutionBlockedWaiting,
		"config: {notBefore: \"2026-01-03T00:00:00Z\"}\n":                                           sm.ExecutionBlockedWaiting,
	} {
		s, id := startWith(t, rest+"steps: [{label: one, functionBlock: p/again:1, runOn: device}]\n", func(r *views.StartRequest) { r.Hold = true })
		s.RunFor(24 * time.Hour)
		if x := s.ExpectState(id, sm.ExecutionBlockedWaiting); x.Wait.Kind != workflow.WaitHold || x.Schema != workflow.SchemaVersion || len(s.Locks()) > 0 {
			t.Fatalf("%+v, schema %d, locks %v", x.Wait, x.Schema, s.Locks())
		}
		for range 2 {
			_, err := s.Engine.Resume(t.Context(), harness.Caller, id, "go")
			if err != nil && want == sm.ExecutionCompletedAck && !workflow.Is(err, workflow.CodeIllegalTransition) {
				t.Fatal(err)
			}
			if want != sm.ExecutionCompletedAck {
				break
			}
		}
		s.Drain()
		x := s.ExpectState(id, want)
		timer := x.Wait != nil && x.Wait.Kind == workflow.WaitTimer
		if x.Hold || x.Wait != nil && x.Wait.Kind == workflow.WaitHold || timer != strings.Contains(rest, "notBefore") {
			t.Errorf("%s: waits for %+v", rest, x.Wait)
		}
		s.RunFor(48 * time.Hour)
		if x := s.Load(id); rest != "" && strings.Contains(rest, "notBefore") != (x.State == sm.ExecutionCompletedAck) {
			t.Errorf("%s: ended %s", rest, x.State)
		}
	}
}

// A request to release that comes twice does not end what the execution waits for after that,
// and in step mode it lets in no step.
func TestHold_ReleasedOnce(t *testing.T) {
	for rest, state := range map[string]sm.ExecutionState{"config: {notBefore: \"2026-01-03T00:00:00Z\"}\n": sm.ExecutionBlockedWaiting, "": sm.ExecutionWaiting} {
		s, id := startWith(t, rest+"steps: [{label: one, functionBlock: p/again:1, runOn: device}]\n", func(r *views.StartRequest) { r.Hold, r.Mode = true, views.ModeStep })
		held := s.ExpectState(id, sm.ExecutionBlockedWaiting).Wait
		for range 3 {
			if _, err := s.Engine.NextStep(t.Context(), harness.Caller, id, views.NextRequest{Sequence: held.Event}); err != nil {
				t.Fatal(err)
			}
			s.Drain()
		}
		s.ExpectState(id, state)
		if calls := s.CallsOf(id); len(calls) > 0 {
			t.Errorf("calls %v", calls)
		}
	}
}

// In step mode an answer to the step that waits may take the step that follows, in one request,
// whichever that is. It counts once. Another execution is not stepped through, and a wrong answer
// takes nothing.
func TestStepMode_AnswerTakesTheStep(t *testing.T) {
	const definition = `steps:
  - label: ask
    wait: {input: {schema: {type: object, required: [n], properties: {n: {type: integer}}}}}
    outputKey: answer
  - {label: skipped, condition: "false", functionBlock: p/again:1, runOn: global}
  - label: around
    workflow: {steps: [{label: one, functionBlock: p/again:1, runOn: global}]}
  - label: board
    wait: {approval: {need: 2}}
  - {label: two, functionBlock: p/again:1, runOn: global}
  - {label: three, functionBlock: p/again:1, runOn: global}
`
	s, id := startWith(t, definition, func(r *views.StartRequest) { r.Mode = views.ModeStep })
	next := func(who, key, input string, all bool) error {
		_, err := s.Engine.NextStep(t.Context(), person(who), id, views.NextRequest{Input: []byte(input), All: all, IdempotencyKey: key})
		s.Drain()
		return err
	}
	at := func(kind workflow.WaitKind, step string, calls int) {
		t.Helper()
		if x := s.ExpectState(id, sm.ExecutionWaiting); x.Wait.Kind != kind || x.Wait.Step != step || len(s.CallsOf(id)) != calls {
			t.Fatalf("%+v, calls %v", x.Wait, s.CallsOf(id))
		}
	}
	expectCode(t, next("ann", "", `{"n":1}`, false), workflow.CodeIllegalTransition, "") // it has not asked yet
	if _, err := s.Engine.NextStep(t.Context(), harness.Caller, id, views.NextRequest{}); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	at(workflow.WaitInput, "ask", 0)
	expectCode(t, next("ann", "", `{"n":"x"}`, false), workflow.CodeInvalid, "")
	_, err := s.Engine.NextStep(t.Context(), harness.Caller, id, views.NextRequest{Step: "ask"})
	expectCode(t, err, workflow.CodeInvalid, "input")
	_, err = s.Engine.NextStep(t.Context(), harness.Caller, id, views.NextRequest{Input: []byte(`{"n":1}`), Sequence: 1})
	expectCode(t, err, workflow.CodeInvalid, "sequence")
	at(workflow.WaitInput, "ask", 0)
	for range 3 {
		if err := next("ann", "k", `{"n":1}`, false); err != nil {
			t.Fatal(err)
		}
		at(workflow.WaitStep, "board", 1)
	}
	if _, err := s.Engine.NextStep(t.Context(), harness.Caller, id, views.NextRequest{}); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	if err := next("ann", "", `{"approved":true}`, false); err != nil {
		t.Fatal(err)
	}
	at(workflow.WaitInput, "board", 1) // one of two
	if err := next("bob", "", `{"approved":true}`, false); err != nil {
		t.Fatal(err)
	}
	at(workflow.WaitStep, "three", 2)

	s, id = startWith(t, definition, func(r *views.StartRequest) { r.Mode = views.ModeStep })
	if _, err := s.Engine.NextStep(t.Context(), harness.Caller, id, views.NextRequest{}); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	if err := next("ann", "", `{"n":1}`, true); err != nil {
		t.Fatal(err)
	}
	at(workflow.WaitInput, "board", 1)

	s, id = startWith(t, definition, func(*views.StartRequest) {})
	expectCode(t, next("ann", "", `{"n":1}`, false), workflow.CodeIllegalTransition, "mode step")
	at(workflow.WaitInput, "ask", 0)
}

// A held execution that nobody releases ends safely.
func TestHold_Ends(t *testing.T) {
	s, id := startWith(t, "steps: [{label: one, functionBlock: p/again:1, runOn: device}]\n", func(r *views.StartRequest) { r.Hold = true })
	s.RunFor(workflow.MaxStepWait + time.Hour)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Cause != workflow.CauseTimeout {
		t.Errorf("cause %s", x.Cause)
	}
}

const stepped = `config: {executionStrategy: {parallel: true}}
steps:
  - {label: one, functionBlock: p/pure:1, runOn: device}
  - {label: two, functionBlock: p/again:1, runOn: device}
  - label: around
    workflow:
      steps:
        - {label: skipped, condition: "false", functionBlock: p/again:1, runOn: device}
        - {label: three, set: {n: 1}}
  - {label: last, functionBlock: p/again:1, runOn: global}
`

// In step mode an execution waits before each step that does something. A request that names the
// step run is applied once, however often it arrives.
func TestStepMode_EntersOneStepAtATime(t *testing.T) {
	s, id := startWith(t, stepped, func(r *views.StartRequest) { r.Mode = views.ModeStep })
	var seen []string
	for range 10 {
		x := s.Load(id)
		if x.State != sm.ExecutionWaiting {
			break
		}
		if x.Wait.Kind != workflow.WaitStep || len(s.Locks()) != 2 {
			t.Fatalf("%+v, %d locks", x.Wait, len(s.Locks()))
		}
		seen = append(seen, x.Wait.Step)
		for range 3 { // a reply may be lost
			if _, err := s.Engine.NextStep(t.Context(), harness.Caller, id, views.NextRequest{Sequence: x.Wait.Event}); err != nil {
				t.Fatal(err)
			}
			s.Drain()
		}
	}
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if want := []string{"one", "two", "three", "last"}; !slices.Equal(seen, want) {
		t.Errorf("waited in front of %v, want %v", seen, want)
	}

	s, id = startWith(t, stepped, func(r *views.StartRequest) { r.Mode = views.ModeStep })
	if _, err := s.Engine.Resume(t.Context(), harness.Caller, id, ""); err != nil {
		t.Error(err)
	}
	s.Drain()
	if x := s.ExpectState(id, sm.ExecutionWaiting); x.Wait.Step != "two" {
		t.Errorf("waits in front of %s", x.Wait.Step)
	}
	if _, err := s.Engine.NextStep(t.Context(), harness.Caller, id, views.NextRequest{Sequence: 700}); !workflow.Is(err, workflow.CodeInvalid) {
		t.Errorf("a step run far ahead: %v", err)
	}
	if _, err := s.Engine.NextStep(t.Context(), harness.Caller, id, views.NextRequest{All: true}); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if _, err := s.Engine.NextStep(t.Context(), harness.Caller, id, views.NextRequest{}); !workflow.Is(err, workflow.CodeIllegalTransition) {
		t.Errorf("after its end: %v", err)
	}
}

// What an operator has let in counts for that step run alone: not after a rewind in its delay.
func TestStepMode_DelayAndBack(t *testing.T) {
	s, id := startWith(t, `steps:
  - {label: one, functionBlock: p/again:1, runOn: device}
  - {label: two, delay: 1h, functionBlock: p/again:1, runOn: device}
`, func(r *views.StartRequest) { r.Mode = views.ModeStep })
	for range 2 {
		if _, err := s.Engine.NextStep(t.Context(), harness.Caller, id, views.NextRequest{}); err != nil {
			t.Fatal(err)
		}
		s.Drain()
	}
	expectWait(t, s, id, workflow.WaitTimer, "two", time.Hour)
	if _, err := s.Engine.Rewind(t.Context(), harness.Caller, id, views.RewindRequest{To: "one", Force: true}); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	x := s.ExpectState(id, sm.ExecutionWaiting)
	if calls := s.CallsOf(id); x.Wait.Kind != workflow.WaitStep || x.Wait.Step != "one" || len(calls) != 2 {
		t.Errorf("waits for %+v, calls %v", x.Wait, calls)
	}
	for range 2 { // enters all, once
		if _, err := s.Engine.NextStep(t.Context(), harness.Caller, id, views.NextRequest{Sequence: x.Wait.Event, All: true}); err != nil {
			t.Fatal(err)
		}
		s.Drain()
	}
	expectWait(t, s, id, workflow.WaitTimer, "two", time.Hour)
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// A stepped execution can be cancelled, and it ends if nobody lets it continue.
func TestStepMode_Ends(t *testing.T) {
	s, id := startWith(t, stepped, func(r *views.StartRequest) { r.Mode = views.ModeStep })
	if _, err := s.Engine.Cancel(t.Context(), harness.Caller, id, views.CancelRequest{}); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	s.ExpectState(id, sm.ExecutionCancelledAck)

	s, id = startWith(t, stepped, func(r *views.StartRequest) { r.Mode = views.ModeStep })
	s.RunFor(workflow.MaxStepWait + time.Hour)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Cause != workflow.CauseTimeout || x.Error.Step != "one" {
		t.Errorf("cause %s, %+v", x.Cause, x.Error)
	}
}

const rewound = `steps:
  - {label: look, functionBlock: p/pure:1, runOn: device}
  - {label: change, condition: parameters.change, functionBlock: p/again:1, runOn: device}
  - label: around
    workflow:
      steps:
        - {label: ask, wait: {approval: {need: 2, who: {roles: [boss]}}}}
  - {label: last, functionBlock: p/pure:1, runOn: global}
`

// An execution that waits goes back under its locks. The answers to the wait that it left do
// not count, and its deadline stays.
func TestRewind_GoesBack(t *testing.T) {
	s, id := startWith(t, "config: {timeout: 10h}\n"+rewound, func(r *views.StartRequest) { r.Parameters = []byte(`{"change":false}`) })
	boss := harness.Caller
	boss.Roles = "boss"
	approve := func(key string) {
		t.Helper()
		if _, err := s.Engine.Answer(t.Context(), boss, id, views.AnswerRequest{Input: []byte(`{"approved":true}`), IdempotencyKey: key}); err != nil {
			t.Fatal(err)
		}
		boss.Actor += "x"
		s.Drain()
	}
	approve("a")
	before := s.ExpectState(id, sm.ExecutionWaiting)
	s.RunFor(time.Hour)
	if _, err := s.Engine.Rewind(t.Context(), harness.Caller, id, views.RewindRequest{To: "look", Reason: "again"}); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	x := s.ExpectState(id, sm.ExecutionWaiting)
	if x.Try != 2 || x.Epoch != before.Epoch || !x.Deadline.Equal(before.Deadline) || len(s.Locks()) != 2 {
		t.Errorf("try %d, epoch %d, deadline %s, %d locks", x.Try, x.Epoch, x.Deadline, len(s.Locks()))
	}
	if n := len(s.CallsOf(id)); n != 4 {
		t.Errorf("%d calls: %v", n, s.CallsOf(id))
	}
	approve("b")
	s.ExpectState(id, sm.ExecutionWaiting)
	approve("c")
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// A retry of those that failed has left what was done for the others. A rewind does it again, and so
// has to be forced.
func TestRewind_AfterARetryOfFailedRepeatsNothingUnasked(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", `steps:
  - {label: look, functionBlock: p/pure:1, runOn: device}
  - {label: nap, wait: {for: 1h}}
  - {label: write, functionBlock: p/forever:1, runOn: device}
`)
	mended := false
	s.Script = failUntil("write", "d001", &mended)
	id := s.Start("w", harness.DeviceIDs(2)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	mended = true
	retry(s, id, views.RetryRequest{From: "look", Entities: views.RetryFailed})
	s.Drain()
	s.ExpectState(id, sm.ExecutionWaiting)
	if _, err := s.Engine.Rewind(t.Context(), harness.Caller, id, views.RewindRequest{To: "look"}); !workflow.Is(err, workflow.CodeIllegalTransition) {
		t.Errorf("the rewind is not refused: %v", err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	calls := slices.DeleteFunc(s.CallsOf(id), func(call string) bool { return call != "write EXECUTE d000" })
	if len(calls) != 1 {
		t.Errorf("write was executed %d times on d000", len(calls))
	}
}

// An execution whose branches all wait goes back too, and what was asked in them is asked again.
func TestRewind_LeavesBranches(t *testing.T) {
	for _, to := range []string{"look", "both"} {
		s, id := startWith(t, `steps:
  - {label: look, functionBlock: p/pure:1, runOn: device}
  - label: both
    parallel:
      branches:
        - {label: people, steps: [{label: around, workflow: {steps: [{label: cab, wait: {approval: {by: [cab], deadline: 24h}}}]}}]}
        - {label: time, steps: [{label: look2, functionBlock: p/pure:1, runOn: device}, {label: nap, wait: {for: 24h}}]}
        - {label: done, steps: [{label: look3, functionBlock: p/pure:1, runOn: global}]}
`, func(*views.StartRequest) {})
		s.ExpectState(id, sm.ExecutionWaiting)
		before := len(s.CallsOf(id))
		if _, err := s.Engine.Rewind(t.Context(), harness.Caller, id, views.RewindRequest{To: to}); err != nil {
			t.Fatal(err)
		}
		s.Drain()
		x := s.ExpectState(id, sm.ExecutionWaiting)
		want := 3
		if to == "look" {
			want += 2
		}
		if got := s.CallsOf(id)[before:]; x.Try != 2 || len(x.Threads) != 3 || len(got) != want {
			t.Errorf("to %s: try %d, %d branches, calls %v", to, x.Try, len(x.Threads), got)
		}
		cancelled := ""
		for _, e := range s.History(id) {
			if e.Type == string(sm.EventWorkflowCancelled) {
				cancelled += e.Step + " "
			}
		}
		if cancelled != "around both.people both.time " {
			t.Errorf("to %s: ended %s", to, cancelled)
		}
		boss := harness.Caller
		boss.Roles = "cab"
		if _, err := s.Engine.Answer(t.Context(), boss, id, views.AnswerRequest{Step: "cab", Input: []byte(`{"approved":true}`)}); err != nil {
			t.Fatal(err)
		}
		s.RunUntilIdle(48 * time.Hour)
		s.ExpectState(id, sm.ExecutionCompletedAck)
	}
}

// A rewind past work that changed something needs force. Only an execution that waits with nothing
// running goes back, and only to a step that it has reached.
func TestRewind_Refuses(t *testing.T) {
	s, id := startWith(t, rewound, func(r *views.StartRequest) { r.Parameters = []byte(`{"change":true}`) })
	rewind := func(req views.RewindRequest) error {
		_, err := s.Engine.Rewind(t.Context(), harness.Caller, id, req)
		return err
	}
	for to, want := range map[string]workflow.Code{"look": workflow.CodeIllegalTransition, "last": workflow.CodeInvalid, "nowhere": workflow.CodeInvalid} {
		if err := rewind(views.RewindRequest{To: to}); !workflow.Is(err, want) {
			t.Errorf("to %s: %v", to, err)
		}
	}
	if err := rewind(views.RewindRequest{To: "around"}); err != nil {
		t.Errorf("to a step after the change: %v", err)
	}
	s.Drain()
	if err := rewind(views.RewindRequest{To: "change", Force: true}); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	x := s.ExpectState(id, sm.ExecutionWaiting)
	if calls := s.CallsOf(id); x.Try != 3 || len(calls) != 6 {
		t.Errorf("try %d, calls %v", x.Try, calls)
	}
	if _, err := s.Engine.Cancel(t.Context(), harness.Caller, id, views.CancelRequest{}); err != nil {
		t.Fatal(err)
	}
	s.RunUntilIdle(time.Hour)
	s.ExpectState(id, sm.ExecutionCancelledAck)
	rollbacks := 0
	for _, c := range s.BlockCalls {
		if c.Kind == workflow.JobRollback {
			rollbacks++
		}
	}
	if rollbacks != 4 {
		t.Errorf("%d rollbacks, want one for each time that a device was changed: %v", rollbacks, s.CallsOf(id))
	}
	if err := rewind(views.RewindRequest{To: "look"}); !workflow.Is(err, workflow.CodeIllegalTransition) {
		t.Errorf("after its end: %v", err)
	}
}
