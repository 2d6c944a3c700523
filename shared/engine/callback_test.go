package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/token"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

const callbackStep = `steps:
  - label: ask
    functionBlock: p/%s:1
    runOn: global
    parameters: {to: "${parameters.to}", link: {token: "${callback.token}", list: [7, "${callback.token}"]}, text: "${'$' + '{callback.token}'}"}
    callback: {title: "for ${parameters.to}", schema: {type: object, required: [ok], properties: {ok: {type: boolean}}}, deadline: %s}
    outputKey: said
  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {said: "${vars.said}", ok: "${ask.result.ok}"}}
  - {label: late, functionBlock: p/pure:1, runOn: global}
`

// tokenIn returns the token in the parameters of a block's call.
func tokenIn(t testing.TB, c harness.BlockCall) string {
	t.Helper()
	var p struct {
		Link struct {
			Token string
			List  []json.RawMessage
		}
		Text string
	}
	if err := json.Unmarshal(c.Parameters, &p); err != nil {
		t.Fatal(err)
	}
	want, _ := workflow.EncodeJSON(p.Link.Token)
	if len(p.Link.List) != 2 || string(p.Link.List[0]) != "7" || !bytes.Equal(p.Link.List[1], want) || p.Text != "${callback.token}" || !strings.HasPrefix(p.Link.Token, "lst1.") {
		t.Fatalf("the parameters are %s", c.Parameters)
	}
	return p.Link.Token
}

// callback starts an execution whose first step has a callback. script is the outcome of its block.
func callback(t *testing.T, block, deadline string, script func(s *harness.Harness, c harness.BlockCall) *harness.Outcome) (*harness.Harness, string) {
	t.Helper()
	s := newHarness(t, 1)
	s.Publish("w", fmt.Sprintf(callbackStep, block, deadline))
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if script == nil || c.Step != "ask" {
			return nil
		}
		return script(s, c)
	}
	req := harness.NewStartRequest("w", "d000")
	req.Parameters = []byte(`{"to":"bob"}`)
	id := s.StartWith(req)
	s.Drain()
	return s, id
}

// stepCalls returns the calls of a step.
func stepCalls(s *harness.Harness, step string) (calls []harness.BlockCall) {
	for _, c := range s.BlockCalls {
		if c.Step == step {
			calls = append(calls, c)
		}
	}
	return calls
}

// R49: a step sends its job with a token and waits. No job runs, and the bearer of the token
// answers. The answer is the result of the step. Neither tables nor the history contain the token;
// what is planned contains the text of the expression instead.
func TestCallback_WaitsForTheAnswer(t *testing.T) {
	s, id := callback(t, "forever", "2h", nil)
	x := expectWait(t, s, id, workflow.WaitInput, "ask", 2*time.Hour)
	if x.Wait.Reason != "for bob" || x.StepRuns[0].Counts.OK != 1 {
		t.Errorf("%+v, %+v", x.Wait, x.StepRuns[0])
	}
	if p := executionView(t, s, id).Progress.Jobs; p.Completed != 1 || p.Total != 1 {
		t.Errorf("progress %+v: its job is counted twice", p)
	}
	text := tokenIn(t, s.BlockCalls[0])
	q, err := s.Engine.QuestionOfToken(t.Context(), text)
	if err != nil || *q.Title != "for bob" || q.For != workflow.CallbackBearer {
		t.Errorf("%+v, %v", q, err)
	}
	expectIssue(t, answerWith(s, text, `{"ok":"yes"}`), workflow.CodeInvalid, "type")
	if err := answerWith(s, text, `{"ok":true}`); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if got := callsWithParameters(s, id); got[1] != `after {"ok":true,"said":{"ok":true}}` {
		t.Errorf("%v", got)
	}
	for _, part := range strings.Split(text, ".")[1:] {
		if where := s.Storing(part); len(where) > 0 {
			t.Errorf("a part of the token is stored in %v", where)
		}
	}
	if where := s.Storing(id); len(where) == 0 {
		t.Error("nothing is found where it is stored")
	}
	if err := answerWith(s, text, `{"ok":true}`); err != nil {
		t.Errorf("the same request again: %v", err)
	}
	expectIssue(t, answerWith(s, text, `{"ok":false}`), workflow.CodeIllegalTransition, "closed")
	if a := s.Load(id).StepRuns[0].Answers[0]; a.By != workflow.CallbackBearer || a.Via != workflow.AnswerByToken || a.TokenBy != "" {
		t.Errorf("%+v", a)
	}
}

// An answer may come before the job has reported: it is kept, and ends the step together with the
// job. A caller with rights answers in the same way, without the token. A probe asks nobody, even
// if the block is pure: it ends in front of the step.
func TestCallback_IsNotProbed(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "steps:\n  - {label: look, functionBlock: p/pure:1, runOn: device}\n  - {label: ask, functionBlock: p/pure:1, runOn: global, callback: {}, parameters: {token: \"${callback.token}\"}}\n")
	req := harness.NewStartRequest("w", "d000")
	req.Mode = views.ModeProbe
	id := s.StartWith(req)
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if got := s.CallsOf(id); len(got) != 1 || got[0] != "look EXECUTE d000" {
		t.Errorf("calls %v", got)
	}
}

func TestCallback_AnswerBeforeTheJobEnds(t *testing.T) {
	for _, byToken := range []bool{true, false} {
		s, id := callback(t, "forever", "2h", func(s *harness.Harness, c harness.BlockCall) *harness.Outcome {
			return &harness.Outcome{During: func() {
				err := errors.New("nobody")
				if byToken {
					err = answerWith(s, tokenIn(t, c), `{"ok":true}`)
				} else {
					err = answerAs(s, person("eve"), s.BlockCalls[0].Execution, `{"ok":true}`, "k")
				}
				if err != nil {
					t.Error(err)
				}
				if x := s.Load(c.Execution); x.State != sm.ExecutionRunning || !x.StepRuns[0].Open() || !x.StepRuns[0].Wait.Decided {
					t.Errorf("%s, %+v", x.State, x.StepRuns[0])
				}
			}}
		})
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		if n := countEvents(s, id, string(sm.EventExecutionPaused)); n != 0 {
			t.Errorf("paused %d times", n)
		}
	}
}

// A job that fails ends the step, whatever was answered, and onFailure may handle that. A retry
// asks with another token.
func TestCallback_JobFails(t *testing.T) {
	failing := true
	s, id := callback(t, "forever", "2h", func(s *harness.Harness, c harness.BlockCall) *harness.Outcome {
		o := &harness.Outcome{During: func() {
			if failing {
				if err := answerWith(s, tokenIn(t, c), `{"ok":true}`); err != nil {
					t.Error(err)
				}
			}
		}}
		if failing {
			o.FailCode = "NO_MAIL"
		}
		return o
	})
	settle(s)
	x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
	if x.Error.Code != "NO_MAIL" {
		t.Errorf("%+v", x.Error)
	}
	first := tokenIn(t, s.BlockCalls[0])
	failing = false
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{}); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	calls := stepCalls(s, "ask")
	second := tokenIn(t, calls[len(calls)-1])
	if second == first {
		t.Error("the retry asks with the same token")
	}
	expectIssue(t, answerWith(s, first, `{"ok":false}`), workflow.CodeIllegalTransition, "closed")
	if err := answerWith(s, second, `{"ok":true}`); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// A job that is sent again, because its worker has died or its attempt has failed, has the same
// token, and revoking the tokens revokes it for good.
func TestCallback_SentAgain(t *testing.T) {
	attempts := 0
	s, id := callback(t, "again", "2h", func(*harness.Harness, harness.BlockCall) *harness.Outcome {
		attempts++
		return &harness.Outcome{Crash: attempts == 1}
	})
	s.RunFor(30 * time.Minute)
	calls := stepCalls(s, "ask")
	if len(calls) != 2 || tokenIn(t, calls[0]) != tokenIn(t, calls[1]) {
		t.Fatalf("%d calls", len(calls))
	}
	expectWait(t, s, id, workflow.WaitInput, "ask", 2*time.Hour)
	text := tokenIn(t, calls[0])
	if _, err := s.Engine.RevokeTokens(t.Context(), harness.Caller, id, views.RevokeRequest{Step: "ask"}); err != nil {
		t.Fatal(err)
	}
	expectIssue(t, answerWith(s, text, `{"ok":true}`), workflow.CodeIllegalTransition, "revoked")
	if err := answerWith(s, mustIssue(t, s, "bob", id, "eve"), `{"ok":true}`); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// A job whose message was lost is sent again with the token.
func TestCallback_MessageIsLost(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", fmt.Sprintf(callbackStep, "forever", "2h"))
	req := harness.NewStartRequest("w", "d000")
	req.Parameters = []byte(`{"to":"bob"}`)
	id := s.StartWith(req)
	s.DrainWakeups()
	if s.PoolQueue("default").Len() != 1 {
		t.Fatalf("%d messages", s.PoolQueue("default").Len())
	}
	s.PoolQueue("default").Purge()
	s.RunFor(10 * time.Minute)
	if err := answerWith(s, tokenIn(t, s.BlockCalls[0]), `{"ok":true}`); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// A revoked token stays revoked when the job is sent again.
func TestCallback_RevokedBeforeItIsSentAgain(t *testing.T) {
	attempts := 0
	s, id := callback(t, "again", "2h", func(s *harness.Harness, c harness.BlockCall) *harness.Outcome {
		if attempts++; attempts > 1 {
			return nil
		}
		if _, err := s.Engine.RevokeTokens(t.Context(), harness.Caller, c.Execution, views.RevokeRequest{Step: "ask"}); err != nil {
			t.Error(err)
		}
		return &harness.Outcome{Crash: true}
	})
	s.RunFor(30 * time.Minute)
	calls := stepCalls(s, "ask")
	expectIssue(t, answerWith(s, tokenIn(t, calls[len(calls)-1]), `{"ok":true}`), workflow.CodeIllegalTransition, "revoked")
	if len(calls) != 2 || s.Load(id).State != sm.ExecutionWaiting {
		t.Errorf("%d calls, %s", len(calls), s.Load(id).State)
	}
}

// R41: at the deadline the step continues as its onTimeout says, whether its job has ended or not,
// and a later answer is refused.
func TestCallback_Lapses(t *testing.T) {
	for onTimeout, want := range map[string]struct {
		state sm.ExecutionState
		calls string
	}{
		"":                                       {sm.ExecutionFailedUnsafe, "ask"},
		", onTimeout: {next: late}":              {sm.ExecutionCompletedAck, "ask late"},
		", onTimeout: {answer: {ok: false}}":     {sm.ExecutionCompletedAck, "ask after late"},
		", onTimeout: {answer: {ok: 'perhaps'}}": {sm.ExecutionFailedSafeAck, ""},
	} {
		for _, slow := range []bool{false, true} {
			deadline := "2h"
			if slow { // its job still runs at the deadline
				deadline = "20s"
			}
			s, id := callback(t, "forever", deadline+onTimeout, func(s *harness.Harness, c harness.BlockCall) *harness.Outcome {
				return &harness.Outcome{During: func() {
					if slow {
						s.Advance(21 * time.Second)
						expectIssue(t, answerWith(s, tokenIn(t, c), `{"ok":true}`), workflow.CodeIllegalTransition, "closed")
					}
				}}
			})
			settle(s)
			var calls []string
			for _, c := range s.BlockCalls {
				calls = append(calls, c.Step)
			}
			if x := s.Load(id); x.State != want.state || strings.Join(calls, " ") != want.calls {
				t.Errorf("%q, slow %v: %s after %v: %+v", onTimeout, slow, x.State, calls, x.Error)
			}
		}
	}
}

// Without keys no token can be made: the step fails before anything is sent. With keys that cannot
// be read nobody knows, and it is tried again.
func TestCallback_NeedsKeys(t *testing.T) {
	s := newHarness(t, 1)
	keys := s.Engine.TokenKeys
	s.Publish("w", fmt.Sprintf(callbackStep, "forever", "2h"))
	s.Engine.TokenKeys = nil
	req := harness.NewStartRequest("w", "d000")
	req.Parameters = []byte(`{"to":"bob"}`)
	id := s.StartWith(req)
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error.Code != workflow.FailureParameters || !strings.Contains(x.Error.Message, "token.keys") {
		t.Errorf("%+v", x.Error)
	}
	down := true
	s.Engine.TokenKeys = func(ctx context.Context) (token.Keys, error) {
		if down {
			return token.Keys{}, errors.New("unreachable")
		}
		return keys(ctx)
	}
	id = s.StartWith(req)
	s.RunFor(5 * time.Minute)
	if len(s.BlockCalls) > 0 || sm.Terminal(s.Load(id).State) {
		t.Errorf("%v, %s", s.BlockCalls, s.Load(id).State)
	}
	down = false
	s.RunFor(time.Hour / 2)
	expectWait(t, s, id, workflow.WaitInput, "ask", 2*time.Hour)
}

// A link consists of the address of the service, the page of answers and, behind a #, the token,
// which nothing stores. Without an address the step fails before anything is sent; a step without a
// link needs none.
func TestCallback_Link(t *testing.T) {
	for _, address := range []string{harness.Address, harness.Address + "/", ""} {
		s := newHarness(t, 1)
		s.Engine.Address = address
		s.Publish("w", `steps: [{label: ask, functionBlock: p/forever:1, runOn: global, parameters: {link: "${callback.url}"}, callback: {deadline: 2h}}]`)
		s.Publish("plain", `steps: [{label: ask, functionBlock: p/forever:1, runOn: global, parameters: {token: "${callback.token}"}, callback: {deadline: 2h}}]`)
		id := s.StartWith(harness.NewStartRequest("w", "d000"))
		s.Drain()
		if address == "" {
			settle(s)
			if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error.Code != workflow.FailureParameters || !strings.Contains(x.Error.Message, "token.address") || len(s.BlockCalls) != 0 {
				t.Errorf("%+v after %d calls", x.Error, len(s.BlockCalls))
			}
			id = s.StartWith(harness.NewStartRequest("plain", "d000"))
			s.Drain()
			expectWait(t, s, id, workflow.WaitInput, "ask", 2*time.Hour)
			continue
		}
		expectWait(t, s, id, workflow.WaitInput, "ask", 2*time.Hour)
		var p struct{ Link string }
		if err := json.Unmarshal(s.BlockCalls[0].Parameters, &p); err != nil {
			t.Fatal(err)
		}
		text, found := strings.CutPrefix(p.Link, harness.Address+"/answer#")
		if !found {
			t.Fatalf("the link is %s", p.Link)
		}
		for _, part := range strings.Split(text, ".")[1:] {
			if where := s.Storing(part); len(where) > 0 {
				t.Errorf("a part of the token is stored in %v", where)
			}
		}
		if err := answerWith(s, text, `{}`); err != nil {
			t.Fatal(err)
		}
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
	}
}

// Parameters that do not fit into a message are refused: they are never stored with the token.
func TestCallback_LargeParametersAreRefused(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", fmt.Sprintf(callbackStep, "forever", "2h"))
	req := harness.NewStartRequest("w", "d000")
	req.Parameters = []byte(`{"to":"` + strings.Repeat("x", workflow.MaxCallbackParameterBytes) + `"}`)
	id := s.StartWith(req)
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error.Code != workflow.FailureLimit {
		t.Errorf("%+v", x.Error)
	}
}

// A cancel closes a callback that waits, and a rewind closes it and asks again. Tokens of the
// closed one are of no use.
func TestCallback_CancelAndRewind(t *testing.T) {
	s, id := callback(t, "pure", "2h", nil)
	first := tokenIn(t, s.BlockCalls[0])
	if _, err := s.Engine.Rewind(t.Context(), harness.Caller, id, views.RewindRequest{To: "ask"}); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	expectIssue(t, answerWith(s, first, `{"ok":true}`), workflow.CodeIllegalTransition, "closed")
	calls := stepCalls(s, "ask")
	second := tokenIn(t, calls[len(calls)-1])
	if _, err := s.Engine.Cancel(t.Context(), harness.Caller, id, views.CancelRequest{}); err != nil {
		t.Fatal(err)
	}
	expectIssue(t, answerWith(s, second, `{"ok":true}`), workflow.CodeIllegalTransition, "closed")
	settle(s)
	s.ExpectState(id, sm.ExecutionCancelledAck)
	if x := s.Load(id); slices.ContainsFunc(x.StepRuns, func(r workflow.StepRun) bool { return r.Open() }) {
		t.Errorf("%+v", x.StepRuns)
	}
}

// A branch with a callback waits for its answer beside the others. When another branch fails, its
// job is stopped, or its wait ends, and an answer is refused.
func TestCallback_InBranches(t *testing.T) {
	const definition = `steps:
  - label: both
    parallel:
      branches:
        - {label: one, steps: [{label: ask, functionBlock: p/forever:1, runOn: global, parameters: {link: {token: "${callback.token}", list: [7, "${callback.token}"]}, text: "${'$' + '{callback.token}'}"}, callback: {deadline: 2h}}]}
        - {label: two, steps: [{label: beside, functionBlock: p/pure:1, runOn: global}]}
  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {n: "${both.result.n}"}}
`
	for _, test := range []struct {
		name        string
		fails, slow bool
		late        bool // the other branch ends when the job of the callback has ended
		want        sm.ExecutionState
		refused     string
	}{
		{name: "answered", want: sm.ExecutionCompletedAck},
		{name: "answered while the other is at work", late: true, want: sm.ExecutionCompletedAck},
		{name: "the other fails", fails: true, want: sm.ExecutionFailedUnsafe, refused: "closed"},
		{name: "the other fails while the job is at work", fails: true, slow: true, want: sm.ExecutionFailedUnsafe, refused: "closed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newHarness(t, 1)
			s.Publish("w", definition)
			id := ""
			s.Script = func(c harness.BlockCall) *harness.Outcome {
				switch {
				case c.Step == "ask" && test.slow:
					return &harness.Outcome{During: func() { s.DrainPacks(); s.DrainWakeups() }}
				case c.Step == "beside" && test.fails:
					return &harness.Outcome{FailCode: "NO"}
				case c.Step == "beside" && test.late:
					return &harness.Outcome{During: func() {
						s.DrainPacks()
						s.DrainWakeups()
						if err := answerWith(s, tokenIn(t, stepCalls(s, "ask")[0]), `{"n":1}`); err != nil {
							t.Error(err)
						}
					}}
				}
				return nil
			}
			id = s.Start("w", "d000")
			s.Drain()
			text := tokenIn(t, stepCalls(s, "ask")[0])
			if test.refused != "" {
				settle(s)
				expectIssue(t, answerWith(s, text, `{"n":1}`), workflow.CodeIllegalTransition, test.refused)
			} else if err := answerWith(s, text, `{"n":1}`); err != nil {
				t.Error(err)
			}
			settle(s)
			x := s.ExpectState(id, test.want)
			for _, r := range x.StepRuns {
				if r.Open() {
					t.Errorf("%s is open", r.Label)
				}
			}
			if calls := callsWithParameters(s, id); test.refused == "" && calls[2] != `after {"n":1}` {
				t.Errorf("%v", calls)
			}
		})
	}
}

// While its branch is closed, or the step is stopped because of its jobs, a callback whose job
// still runs accepts no answer, and its deadline ends nothing.
func TestCallback_ClosingTakesNothing(t *testing.T) {
	const definition = `steps:
  - label: both
    parallel:
      branches:
        - label: one
          steps:
            - {label: ask, functionBlock: p/forever:1, runOn: global, parameters: {link: {token: "${callback.token}", list: [7, "${callback.token}"]}, text: "${'$' + '{callback.token}'}"}, callback: {deadline: 20s, onTimeout: {next: x}}}
            - {label: y, functionBlock: p/pure:1, runOn: global}
            - {label: x, functionBlock: p/pure:1, runOn: global}
        - {label: two, steps: [{label: beside, functionBlock: p/pure:1, runOn: global}]}
`
	for _, answered := range []bool{true, false} {
		s := newHarness(t, 1)
		s.Publish("w", definition)
		id, asked := "", false
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			switch c.Step {
			case "beside":
				return &harness.Outcome{FailCode: "NO"}
			case "x", "y":
				return nil
			}
			return &harness.Outcome{During: func() {
				s.DrainPacks() // the other branch fails
				s.DrainWakeups()
				if r := s.Load(id).StepRuns[1]; !r.Open() || !r.Closing {
					t.Errorf("%s: the branch is not being closed: %+v", c.Step, r)
				}
				asked = true
				if answered {
					expectIssue(t, answerWith(s, tokenIn(t, c), `{"n":1}`), workflow.CodeIllegalTransition, "closed")
				}
				s.Advance(21 * time.Second)
				s.Sweep()
				s.DrainWakeups()
			}}
		}
		id = s.Start("w", "d000")
		s.Drain()
		settle(s)
		x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
		if r := x.StepRuns[1]; !asked || r.Label != "ask" || r.Status != sm.StepCancelled || r.Wait.Lapsed || r.Wait.Decided || r.Failure != nil {
			t.Errorf("answered %t: asked %t, %s %+v %+v", answered, asked, r.Status, r.Wait, r.Failure)
		}
		for _, c := range s.BlockCalls {
			if c.Step != "ask" && c.Step != "beside" {
				t.Errorf("answered %t: step %s was executed", answered, c.Step)
			}
		}
	}
}

// What is shown of a callback: the step waits for input, is in the inbox, and its job is no worker's.
func TestCallback_IsShown(t *testing.T) {
	s, id := callback(t, "forever", "2h", nil)
	if w := waitingView(s, id); w == nil || w.Kind != workflow.WaitInput || *w.Step != "ask" || *w.Reason != "for bob" {
		t.Errorf("%+v", w)
	}
	list, err := s.Query.Inbox(t.Context(), harness.Caller, true, workflow.Page{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Step != "ask" || len(list.Items[0].Tokens) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	for _, j := range s.Jobs(id) {
		if raw, _ := workflow.EncodeJSON(j); bytes.Contains(raw, []byte("lst1.")) {
			t.Errorf("a job shows the token: %s", raw)
		}
	}
	steps, err := s.Query.Steps(t.Context(), harness.Caller, id, workflow.Page{})
	if err != nil || steps.Items[0].Status != sm.StepRunning || steps.Items[0].Jobs.Completed != 1 || *steps.Items[0].Jobs.Pending != 0 {
		t.Errorf("%+v, %v", steps.Items, err)
	}
}

// A callback costs one write beyond the job itself, for the pause, and two reads, for the answer,
// however long it waits: the commit of the answer enters the next step, as the commit of the job's
// end otherwise does.
func TestCost_OfACallback(t *testing.T) {
	consumed := func(field string, answered time.Duration) (writes, reads float64) {
		s := newHarness(t, 1)
		s.Publish("w", "steps:\n  - {label: ask, functionBlock: p/pure:1, runOn: global"+field+"}\n  - {label: b, functionBlock: p/pure:1, runOn: global}\n")
		before := s.Consumed()
		id := s.StartWith(harness.NewStartRequest("w"))
		s.Drain()
		if field != "" {
			s.RunFor(answered)
			if err := answerAs(s, person("eve"), id, `{"ok":true}`, "k"); err != nil {
				t.Fatal(err)
			}
		}
		s.RunFor(time.Hour)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		after := s.Consumed()
		for table, n := range after.WriteUnits {
			writes += n - before.WriteUnits[table]
		}
		for table, n := range after.ReadUnits {
			reads += n - before.ReadUnits[table]
		}
		return writes, reads
	}
	plainWrites, plainReads := consumed("", 0)
	writes, reads := consumed(", callback: {deadline: 300h}", time.Hour)
	longWrites, longReads := consumed(", callback: {deadline: 300h}", 200*time.Hour)
	t.Logf("a callback costs %v writes and %v reads", writes-plainWrites, reads-plainReads)
	if writes-plainWrites != 1 || reads-plainReads != 2 || longWrites != writes || longReads != reads {
		t.Errorf("without a callback %v and %v units, with one %v and %v, with a long one %v and %v", plainWrites, plainReads, writes, reads, longWrites, longReads)
	}
}
