package engine_test

import (
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

// Two departments are asked at the same time, while a third branch waits for a time and works.
const askBoth = `steps:
  - label: all
    parallel:
      branches:
        - {label: net, steps: [{label: asknet, wait: {input: {schema: {type: object, required: [n], properties: {n: {type: integer}}}}}}]}
        - {label: sec, steps: [{label: asksec, wait: {approval: {who: {roles: [sec]}ONREJECT}}}, {label: noted, set: {sec: done}}]}
        - {label: work, steps: [{label: pause, wait: {for: 5m}}, {label: go, functionBlock: p/pure:1, runOn: device}, {label: paid, wait: {signal: {name: paid}}}]}
      MORE
  - {label: last, functionBlock: p/pure:1, runOn: global, parameters: {r: "${all.branches.net}", n: "${all.failed}"}}
`

func answerStep(t *testing.T, s *harness.Harness, id, step, input, role string) error {
	t.Helper()
	c := harness.Caller
	c.Roles = role
	var err error
	s.WithoutFaults(func() {
		_, err = s.Engine.Answer(t.Context(), c, id, views.AnswerRequest{Step: step, Input: json.RawMessage(input), IdempotencyKey: step + input})
	})
	return err
}

// openInputs returns the steps of all executions that ask people.
func openInputs(t *testing.T, s *harness.Harness) string {
	t.Helper()
	list, err := s.Query.Inbox(t.Context(), harness.Caller, false, workflow.Page{})
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	for _, i := range list.Items {
		steps = append(steps, i.Step)
	}
	return strings.Join(steps, " ")
}

func askBothOf(onReject, more string) string {
	return strings.NewReplacer("ONREJECT", onReject, "MORE", more).Replace(askBoth)
}

// Waiting branches continue independently, in any order, even while another works.
func TestParallelWait_EachGoesOn(t *testing.T) {
	for order := range 3 {
		s, id := waiting(t, askBothOf("", "merge: {}"), "", nil)
		expectInputs := func(want string) {
			t.Helper()
			if got := openInputs(t, s); got != want {
				t.Fatalf("asked: %q, want %q", got, want)
			}
		}
		x := expectWait(t, s, id, workflow.WaitInput, "asknet", workflow.MaxStepWait)
		expectInputs("asknet asksec")
		if order == 0 {
			if err := answerStep(t, s, id, "asksec", `{"approved":true}`, "sec"); err != nil {
				t.Fatal(err)
			}
			s.Drain()
			expectInputs("asknet")
		}
		if order == 1 {
			sendSignal(t, s, id, "paid", `{"amount":1}`, "early")
		}
		s.RunFor(4 * time.Minute)
		if n := len(callsWithParameters(s, id)); n > 0 {
			t.Fatalf("%d calls before the time has come", n)
		}
		s.RunFor(2 * time.Minute)
		if n := len(callsWithParameters(s, id)); n != 3 {
			t.Fatalf("%d calls after the time has come", n)
		}
		if err := answerStep(t, s, id, "asknet", `{"n":"one"}`, ""); !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("an answer that does not match: %v", err)
		}
		if err := answerStep(t, s, id, "asknet", `{"n":1}`, ""); err != nil {
			t.Fatal(err)
		}
		if order > 0 {
			if err := answerStep(t, s, id, "asksec", `{"approved":true}`, "sec"); err != nil {
				t.Fatal(err)
			}
		}
		s.Drain()
		if order != 1 {
			expectWait(t, s, id, workflow.WaitSignal, "paid", workflow.MaxStepWait)
			sendSignal(t, s, id, "paid", `{"amount":1}`, "late")
			s.Drain()
		}
		if x = s.ExpectState(id, sm.ExecutionCompletedAck); len(x.Threads) > 0 {
			t.Errorf("threads %+v", x.Threads)
		}
		calls := callsWithParameters(s, id)
		if last := calls[len(calls)-1]; last != `last {"n":[],"r":{"n":1}}` {
			t.Error(last)
		}
		s.CheckInvariants()
	}
}

// A job of one branch may wait for its next attempt while another branch waits: the execution runs,
// and accepts answers.
func TestParallelWait_AnswerWhileItRuns(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", `steps:
  - label: all
    parallel:
      branches:
        - {label: net, steps: [{label: ask, wait: {input: {schema: {type: object}}}}]}
        - {label: short, steps: [{label: wait, wait: {for: 1m}}, {label: late, functionBlock: p/pure:1, runOn: global}]}
        - {label: work, functionBlock: p/again:1, runOn: device, retry: {maxRetries: 1, delay: 10m}}
`)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "work" && c.Attempt == 1 {
			return &harness.Outcome{FailCode: "BUSY", Retryable: true}
		}
		return nil
	}
	id := s.Start("w", "d000")
	s.RunFor(time.Second)
	s.ExpectState(id, sm.ExecutionRunning)
	if got := openInputs(t, s); got != "ask" {
		t.Errorf("asked: %q", got)
	}
	if err := answerStep(t, s, id, "ask", `{}`, ""); err != nil {
		t.Fatal(err)
	}
	s.RunFor(3 * time.Minute)
	x := s.ExpectState(id, sm.ExecutionRunning)
	for _, r := range x.StepRuns {
		if r.Waiting() {
			t.Errorf("%s still waits", r.Label)
		}
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// A rejection in one branch ends the others, unless the step continues without it. A branch that
// waits for too long is closed with its wait.
func TestParallelWait_BranchFails(t *testing.T) {
	for _, c := range []struct {
		onReject, more string
		late           bool
		want           sm.ExecutionState
		cause          workflow.Cause
		failed         string
	}{
		{"", "merge: {}", false, sm.ExecutionFailedSafeAck, workflow.CauseStepFailed, ""},
		{", onReject: {next: noted}", "merge: {}", false, sm.ExecutionCompletedAck, "", `[]`},
		{"", "allowPartial: true", false, sm.ExecutionCompletedAck, "", `"branch":"sec"`},
		{"", "merge: {}\n    stepTimeout: 1h", true, sm.ExecutionFailedSafeAck, workflow.CauseTimeout, ""},
		{"", "allowPartial: true\n    stepTimeout: 1h", true, sm.ExecutionCompletedAck, "", `"code":"TIMEOUT"`},
		{", deadline: 30m", "allowPartial: true", true, sm.ExecutionCompletedAck, "", `"code":"TIMEOUT"`},
		{", deadline: 30m", "merge: {}", true, sm.ExecutionFailedSafeAck, workflow.CauseTimeout, ""},
	} {
		s, id := waiting(t, askBothOf(c.onReject, c.more), "", nil)
		sendSignal(t, s, id, "paid", `{}`, "k")
		if !c.late {
			if err := answerStep(t, s, id, "asksec", `{"approved":false}`, "sec"); err != nil {
				t.Fatal(err)
			}
		}
		s.Drain()
		s.RunFor(10 * time.Minute)
		if c.late || c.want == sm.ExecutionCompletedAck {
			if err := answerStep(t, s, id, "asknet", `{"n":1}`, ""); err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
		}
		settle(s)
		x := s.ExpectState(id, c.want)
		if x.Cause != c.cause || len(x.Threads) > 0 {
			t.Errorf("%+v: cause %s, %+v, threads %v", c, x.Cause, x.Error, x.Threads)
		}
		for _, r := range x.StepRuns {
			if r.Open() {
				t.Errorf("%+v: step run %s is open", c, r.Label)
			}
		}
		if calls := callsWithParameters(s, id); c.failed != "" && !strings.Contains(calls[len(calls)-1], c.failed) {
			t.Errorf("%+v: %s", c, calls[len(calls)-1])
		}
	}
}

// Two branches wait for one name: each takes the signal that it waits for, and a signal that nobody
// waits for is dropped.
func TestParallelWait_SignalsByWhen(t *testing.T) {
	for _, order := range [][]int{{2, 1, 3}, {1, 2, 3}, {3, 2, 1}} {
		s, id := waiting(t, `steps:
  - label: all
    parallel:
      branches:
        - {label: a, steps: [{label: waita, wait: {signal: {name: paid, when: data.order == 1, deadline: 1h}}}]}
        - {label: b, steps: [{label: waitb, wait: {signal: {name: paid, when: data.order == 2, deadline: 1h}}}]}
`, "", nil)
		for _, n := range order {
			if s.Load(id).State == sm.ExecutionWaiting {
				sendSignal(t, s, id, "paid", fmt.Sprintf(`{"order":%d}`, n), fmt.Sprint("k", n))
				s.Drain()
			}
		}
		x := s.ExpectState(id, sm.ExecutionCompletedAck)
		for _, r := range x.StepRuns {
			if want := map[string]string{"waita": `{"order":1}`, "waitb": `{"order":2}`}[r.Label]; want != "" && (r.Value == nil || string(r.Value.Inline) != want) {
				t.Errorf("%v: %s has %+v", order, r.Label, r.Value)
			}
		}
	}
}

// Handlers may crash anywhere, and the execution may be cancelled, while branches wait.
func TestParallelWait_Crashes(t *testing.T) {
	for n := range 40 {
		s := newHarness(t, 3)
		s.Publish("w", askBothOf("", "merge: {}"))
		count := 0
		s.Faults = func(faults.Call) faults.Fault {
			if count++; count%40 == n {
				return []faults.Fault{faults.CrashBefore, faults.CrashAfter}[count/40%2]
			}
			return faults.None
		}
		id := s.Start("w", harness.DeviceIDs(3)...)
		s.RunFor(time.Minute)
		for k, answer := range [][3]string{{"asknet", `{"n":1}`, ""}, {"asksec", `{"approved":true}`, "sec"}} {
			if err := answerStep(t, s, id, answer[0], answer[1], answer[2]); err != nil {
				t.Fatalf("%d: %v", n, err)
			}
			s.RunFor(time.Duration(k*4) * time.Minute)
		}
		if n%3 == 2 {
			s.WithoutFaults(func() { _, _ = s.Engine.Cancel(t.Context(), harness.Caller, id, views.CancelRequest{Reason: "no"}) })
		} else {
			s.WithoutFaults(func() { sendSignal(t, s, id, "paid", `{}`, "k") })
		}
		s.RunFor(2 * time.Hour)
		x := s.Load(id)
		if want := (map[bool]sm.ExecutionState{true: sm.ExecutionCancelledAck, false: sm.ExecutionCompletedAck})[n%3 == 2]; x.State != want || len(x.Threads) > 0 {
			t.Errorf("%d: %s, %+v, %+v", n, x.State, x.Error, x.Threads)
		}
		if calls := fmt.Sprint(s.CallsOf(id)); n%3 != 2 && !strings.Contains(calls, "last EXECUTE") {
			t.Errorf("%d: %s", n, calls)
		}
		s.CheckInvariants()
	}
}

// A resume ends the wait that the execution shows, if that is one for a time. If several steps wait
// for a time, it names one, even while a job runs.
func TestParallelWait_ResumeNamesTheStep(t *testing.T) {
	s, id := waiting(t, `steps:
  - label: all
    parallel:
      branches:
        - {label: a, steps: [{label: ask, wait: {input: {schema: {type: object}}}}]}
        - {label: b, steps: [{label: soak, wait: {for: 24h}}, {label: go, functionBlock: p/forever:1, runOn: device}]}
        - {label: c, steps: [{label: long, wait: {for: 240h}}, {label: slow, functionBlock: p/pure:1, runOn: global, retry: {maxRetries: 1, delay: 1h}}]}
`, "", func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "slow" && c.Attempt == 1 {
			return &harness.Outcome{FailCode: "BUSY", Retryable: true}
		}
		return nil
	})
	resume := func(step string) error {
		_, err := s.Engine.ResumeStep(t.Context(), harness.Caller, id, step, "go")
		s.Drain()
		return err
	}
	if err := resume(""); !workflow.Is(err, workflow.CodeInvalid) || !strings.Contains(fmt.Sprint(err), "input") || !strings.Contains(fmt.Sprint(err), "name its step: soak, long") || len(callsWithParameters(s, id)) > 0 {
		t.Errorf("the execution asks people: %v, calls %v", err, callsWithParameters(s, id))
	}
	for step, want := range map[string]workflow.Code{"ask": workflow.CodeInvalid, "go": workflow.CodeIllegalTransition, "nothing": workflow.CodeIllegalTransition} {
		if err := resume(step); !workflow.Is(err, want) {
			t.Errorf("%s: %v", step, err)
		}
	}
	if err := answerStep(t, s, id, "ask", "{}", ""); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	if err := resume(""); !workflow.Is(err, workflow.CodeInvalid) || !strings.Contains(fmt.Sprint(err), "soak, long") {
		t.Errorf("two wait for a time: %v", err)
	}
	if err := resume("long"); err != nil {
		t.Fatal(err)
	}
	s.ExpectState(id, sm.ExecutionRunning)
	if err := resume("soak"); err != nil {
		t.Fatal(err)
	}
	s.RunFor(2 * time.Hour)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// The view lists every wait of the branches, even while a branch works.
func TestParallelWait_AllAreShown(t *testing.T) {
	s, id := waiting(t, `steps:
  - label: all
    parallel:
      branches:
        - {label: a, steps: [{label: ask, wait: {input: {schema: {type: object}}}}]}
        - {label: b, steps: [{label: chief, wait: {approval: {deadline: 1h}}}]}
        - {label: c, steps: [{label: soak, wait: {for: 10m}}, {label: slow, functionBlock: p/pure:1, runOn: global, retry: {maxRetries: 1, delay: 10m}}]}
`, "", func(c harness.BlockCall) *harness.Outcome {
		if c.Attempt == 1 {
			return &harness.Outcome{FailCode: "BUSY", Retryable: true}
		}
		return nil
	})
	shown := func() string {
		x, err := s.Query.Execution(t.Context(), harness.Caller, id)
		if err != nil || x.Waiting == nil {
			t.Fatal(x.State, err)
		}
		text := fmt.Sprint(x.State, " ", x.Waiting.Kind)
		for _, o := range x.Waiting.All {
			if x.Waiting.Step == nil || o.Step != *x.Waiting.Step {
				text += " " + o.Step
			}
		}
		return text
	}
	if got := shown(); got != "WAITING INPUT soak chief" {
		t.Error(got)
	}
	s.RunFor(11 * time.Minute)
	if got := shown(); got != "RUNNING RETRY chief ask" {
		t.Error(got)
	}
}

// A caller who only reads the question learns that it is over when its own wait has timed out, not
// when another branch has: closed is final.
func TestParallelWait_QuestionJudgesItsOwnWait(t *testing.T) {
	for _, c := range []struct {
		name, more, ask string
		after           time.Duration
		want            string
	}{
		{"the timer of another branch is due", "", "", 5 * time.Minute, ""},
		{"its own deadline", "", ", deadline: 4m", 5 * time.Minute, `the deadline of step "ok"`},
		{"the time of the branches", "\n    stepTimeout: 1h", "", time.Hour, `the time of step "all"`},
		{"the deadline of the execution", "\nconfig: {timeout: 1h}", "", 61 * time.Minute, "the deadline of the execution"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, id := waitingWithTokens(t, `steps:
  - label: all
    parallel:
      branches:
        - {label: a, steps: [{label: ok, wait: {approval: {need: 1`+c.ask+`}}}]}
        - {label: b, steps: [{label: soak, wait: {for: 5m}}, {label: go, functionBlock: p/pure:1, runOn: device}]}`+c.more+"\n")
			made, err := s.Engine.IssueToken(t.Context(), person("ann"), id, views.TokenRequest{For: "x", Step: "ok"})
			if err != nil {
				t.Fatal(err)
			}
			s.Advance(c.after) // nobody has seen it yet
			_, err = s.Engine.QuestionOfToken(t.Context(), made.Token)
			answered := answerWith(s, made.Token, `{"approved":true}`)
			if c.want == "" {
				if err != nil || answered != nil {
					t.Errorf("asked: %v, answered: %v", err, answered)
				}
				return
			}
			expectIssue(t, err, workflow.CodeIllegalTransition, "closed")
			expectIssue(t, answered, workflow.CodeIllegalTransition, "closed")
			if err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// Ending a timer of a branch after the stepTimeout of the branches is refused as too late.
func TestParallelWait_ResumeAfterTheTimeOfItsBranches(t *testing.T) {
	s, id := waiting(t, `steps:
  - label: all
    stepTimeout: 1h
    parallel:
      branches:
        - {label: a, steps: [{label: soak, wait: {for: 5h}}, {label: go, functionBlock: p/pure:1, runOn: device}]}
        - {label: b, steps: [{label: quick, functionBlock: p/pure:1, runOn: device}]}
`, "", nil)
	s.Advance(time.Hour + time.Second)
	_, err := s.Engine.ResumeStep(t.Context(), harness.Caller, id, "soak", "")
	expectIssue(t, err, workflow.CodeIllegalTransition, "")
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Cause != workflow.CauseTimeout || countEvents(s, id, "execution.resumed") > 0 {
		t.Errorf("%s: %+v", x.Cause, x.Error)
	}
}

// An answer that comes after the stepTimeout of the branches around its wait is refused, when the
// end of the branches is stored: it would be thrown away with them.
func TestParallelWait_AnswerAfterTheTimeOfItsBranches(t *testing.T) {
	for _, inner := range []bool{false, true} {
		ask := `{label: ask, wait: {input: {schema: {type: object}}}}, {label: go, functionBlock: p/pure:1, runOn: device}`
		if inner { // in branches of a branch
			ask = `{label: both, parallel: {branches: [{label: c, steps: [` + ask + `]}, {label: d, steps: [{label: other, functionBlock: p/pure:1, runOn: device}]}]}}`
		}
		s, id := waiting(t, `steps:
  - label: all
    stepTimeout: 1h
    parallel:
      branches:
        - {label: a, steps: [`+ask+`]}
        - {label: b, steps: [{label: quick, functionBlock: p/pure:1, runOn: device}]}
`, "", nil)
		s.Advance(s.Load(id).StepRunBySeq(1).Deadline.Sub(s.Now()))
		expectIssue(t, answerStep(t, s, id, "ask", `{}`, ""), workflow.CodeIllegalTransition, "closed")
		x := s.Load(id)
		for _, r := range x.StepRuns {
			if r.Waiting() {
				t.Errorf("the refusal is not stored: step run %s waits, in %s", r.Label, x.State)
			}
		}
		settle(s)
		if x = s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Cause != workflow.CauseTimeout {
			t.Errorf("%s: %+v", x.Cause, x.Error)
		}
	}
}

// A branch that ends with an answer gives it.
func TestParallelWait_GivesTheAnswer(t *testing.T) {
	s, id := waiting(t, `steps:
  - label: all
    parallel:
      branches:
        - {label: people, steps: [{label: first, functionBlock: p/pure:1, runOn: global}, {label: ask, wait: {approval: {}}}]}
        - {label: time, steps: [{label: done, functionBlock: p/pure:1, runOn: global}, {label: pause, wait: {for: 1m}}]}
  - {label: last, functionBlock: p/pure:1, runOn: global, parameters: {p: "${all.branches.people.approved}", t: "${all.branches.time}"}}
`, "", func(c harness.BlockCall) *harness.Outcome {
		return &harness.Outcome{Result: json.RawMessage(`"` + c.Step + `"`)}
	})
	s.RunFor(2 * time.Minute)
	if err := answerStep(t, s, id, "ask", `{"approved":true}`, ""); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	calls := callsWithParameters(s, id)
	if last := calls[len(calls)-1]; last != `last {"p":true,"t":"done"}` {
		t.Error(last)
	}
}

// Branches that are closed with a branch around them give nothing, not even a conflict.
func TestParallelWait_ClosedBranchesAreNotMerged(t *testing.T) {
	s, id, _ := flow(t, `steps:
  - label: outer
    parallel:
      branches:
        - label: a
          steps:
            - label: inner
              outputKey: given
              parallel:
                branches:
                  - {label: x, steps: [{label: waits, wait: {for: 1h}}], result: {v: 1}}
                  - {label: y, steps: [{label: waits_too, wait: {for: 1h}}], result: {v: 2}}
                merge: {onConflict: fail}
        - {label: b, steps: [{label: fails, functionBlock: "p/pure:1", runOn: global}]}
`, "", func(c harness.BlockCall) *harness.Outcome { return &harness.Outcome{FailCode: "BROKEN"} })
	x := s.Load(id)
	if x.Error == nil || x.Error.Code != "BROKEN" || x.Error.Step != "fails" {
		t.Errorf("failed with %+v", x.Error)
	}
	for i := range x.StepRuns {
		if r := &x.StepRuns[i]; r.Label == "inner" && (r.Status != sm.StepCancelled || r.Value != nil) {
			t.Errorf("%+v", *r)
		}
	}
}

// An hour without wake-ups is nobody's fault. The first wake-up after it may be busy with an
// earlier branch. What the timer has fired for in a later branch is done all the same, so that its
// jobs are offered once more before they count as unclaimed, and what was lost a few minutes ago is
// sent again at once.
func TestParallel_JobsAreOfferedAgainAfterAnOutage(t *testing.T) {
	for outage, within := range map[time.Duration]time.Duration{3 * time.Hour: 48 * time.Hour, 4*time.Minute + 5*time.Second: 2 * time.Minute} {
		offeredAgain(t, outage, within)
	}
}

func offeredAgain(t *testing.T, outage, within time.Duration) {
	t.Helper()
	s := newHarness(t, 1)
	s.Publish("w", `steps:
  - label: both
    parallel:
      branches:
        - {label: x, steps: [{label: first, functionBlock: "p/again:1", runOn: device}, {label: second, functionBlock: "p/again:1", runOn: device}]}
        - {label: y, steps: [{label: other, functionBlock: "p/pure:1", runOn: global}]}
`)
	id := s.Start("w", "d000")
	s.DrainWakeups()
	q := s.PoolQueue("default")
	for range 2 {
		m, ok := q.Receive(time.Minute)
		if !ok {
			t.Fatal("a pack was not sent")
		}
		if p := m.Pack(); s.Load(id).StepRunBySeq(p.Key.StepRunSeq).Label == "first" {
			if _, err := s.HandlePack(0, p); err != nil {
				t.Fatal(err)
			}
		}
		q.Delete(m) // that of the other branch is lost
	}
	s.LifecycleQueue().Purge()
	s.Advance(outage)
	s.Sweep()
	s.RunFor(within)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}
