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

const askStep = `steps:
  - {label: read, functionBlock: p/pure:1, runOn: device}
  - label: approve
    wait:
      input:
        title: "Upgrade ${size(read.results)} devices?"
        schema: {type: object, required: [approved], properties: {approved: {type: boolean}, note: {type: string}}, additionalProperties: false}
        show: {behind: "${parameters.behind}"}
        deadline: 24h
    outputKey: approval
  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {approval: "${vars.approval}", same: "${approve.result.approved}"}}
`

// person is a caller with roles.
func person(actor string, roles ...string) workflow.Caller {
	return workflow.Caller{Tenant: harness.Caller.Tenant, Actor: actor, Roles: strings.Join(roles, ",")}
}

func answerAs(s *harness.Harness, c workflow.Caller, id, input, key string) error {
	_, err := s.Engine.Answer(context.Background(), c, id, views.AnswerRequest{Input: json.RawMessage(input), IdempotencyKey: key})
	return err
}

func expectCode(t *testing.T, err error, want workflow.Code, text string) {
	t.Helper()
	if workflow.CodeOf(err) != want || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("%v, want %s %q", err, want, text)
	}
}

// R35: a step that asks for input pauses the execution, which shows the question, and an answer
// continues it with the value.
func TestAnswer_ContinuesWithTheValue(t *testing.T) {
	s, id := waiting(t, askStep, `{"behind":["d000"]}`, nil)
	x := expectWait(t, s, id, workflow.WaitInput, "approve", 24*time.Hour)
	if x.Wait.Reason != "Upgrade 3 devices?" {
		t.Errorf("the headline is %+v", x.Wait)
	}
	if err := answerAs(s, person("ann"), id, ` {"approved": true, "note": "`+strings.Repeat("long ", 60)+`"} `, ""); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	calls := callsWithParameters(s, id)
	if last := calls[3]; !strings.HasPrefix(last, `after {"approval":{"approved":true,"note":"long long`) || !strings.HasSuffix(last, `"same":true}`) {
		t.Errorf("%v", calls)
	}
	if r := s.Load(id).StepRunBySeq(2); len(r.Answers) != 1 || r.Answers[0].By != "ann" || r.Value.Stored == nil {
		t.Errorf("%+v", r)
	}
}

// R36: an answer that does not match the schema is refused with its fields, nothing is written,
// and the step waits.
func TestAnswer_InvalidIsRefused(t *testing.T) {
	s, id := waiting(t, askStep, `{"behind":[]}`, nil)
	before := s.Load(id).Version
	for _, input := range []string{`{"approved":"yes"}`, `{}`, `{"approved":true,"other":1}`, `5`, `{"approved":true,"approved":false}`, `nonsense`, ``} {
		err := answerAs(s, person("ann"), id, input, "")
		if workflow.CodeOf(err) != workflow.CodeInvalid {
			t.Errorf("%s: %v", input, err)
		}
	}
	if _, err := s.Engine.Resume(t.Context(), harness.Caller, id, "go on"); workflow.CodeOf(err) != workflow.CodeInvalid {
		t.Errorf("resume without input: %v", err)
	}
	expectCode(t, answerAs(s, person("ann"), id, `"`+strings.Repeat("x", workflow.MaxAnswerBytes)+`"`, ""), workflow.CodeTooLarge, "")
	expectCode(t, answerAs(s, person("ann"), "01900000-0000-7000-8000-000000000000", `{"approved":true}`, ""), workflow.CodeNotFound, "")
	if x := expectWait(t, s, id, workflow.WaitInput, "approve", 24*time.Hour); x.Version != before {
		t.Errorf("something was written: version %d after %d", x.Version, before)
	}
}

// R37: of two answers one counts, and the other is refused with the state. Repeating a request is
// accepted without a write, whatever has become of the execution; with another body it is refused.
func TestAnswer_CountsOnce(t *testing.T) {
	s, id := waiting(t, askStep, `{"behind":[]}`, nil)
	if err := answerAs(s, person("ann"), id, `{"approved":true}`, "k1"); err != nil {
		t.Fatal(err)
	}
	expectCode(t, answerAs(s, person("bob"), id, `{"approved":false}`, "k2"), workflow.CodeIllegalTransition, "RUNNING")
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if err := answerAs(s, person("ann"), id, `{"approved": true}`, "k1"); err != nil {
		t.Errorf("the same request again: %v", err)
	}
	expectCode(t, answerAs(s, person("ann"), id, `{"approved":false}`, "k1"), workflow.CodeIdempotencyMismatch, "")
	expectCode(t, answerAs(s, person("bob"), id, `{"approved":true}`, "k1"), workflow.CodeIllegalTransition, "COMPLETED_ACK")
	if again := s.Load(id); again.Version != x.Version {
		t.Errorf("something was written: version %d after %d", again.Version, x.Version)
	}
}

// R41: an answer that comes a moment after the deadline, before any alarm, is refused, and the
// refusal is read off a committed state.
func TestAnswer_AfterTheDeadlineIsRefused(t *testing.T) {
	for onTimeout, want := range map[string]sm.ExecutionState{
		"fail":                         sm.ExecutionFailedSafeAck,
		"{next: end}":                  sm.ExecutionCompletedAck,
		"{answer: {approved: false}}":  sm.ExecutionCompletedAck,
		"{answer: {approved: 'what'}}": sm.ExecutionFailedSafeAck,
	} {
		s, id := waiting(t, strings.Replace(askStep, "deadline: 24h", "deadline: 24h\n        onTimeout: "+onTimeout, 1), `{"behind":[]}`, nil)
		if strings.Contains(onTimeout, "what") {
			settle(s)
			if x := s.ExpectState(id, want); x.Error.Code != workflow.FailureParameters {
				t.Errorf("%+v", x.Error)
			}
			continue
		}
		x := expectWait(t, s, id, workflow.WaitInput, "approve", 24*time.Hour)
		s.Advance(x.Wait.Until.Sub(s.Now()))
		err := answerAs(s, person("ann"), id, `{"approved":true}`, "k")
		expectCode(t, err, workflow.CodeIllegalTransition, "deadline of step \"approve\" was")
		if got := s.Load(id); got.State == sm.ExecutionWaiting {
			t.Fatalf("%s: the refusal is not stored: a clock that is behind would accept the answer", onTimeout)
		}
		expectCode(t, answerAs(s, person("ann"), id, `{"approved":true}`, "k"), workflow.CodeIllegalTransition, "deadline")
		settle(s)
		s.ExpectState(id, want)
		calls := callsWithParameters(s, id)
		if answered := strings.Contains(onTimeout, "answer"); answered != (len(calls) == 4) || answered && calls[3] != `after {"approval":{"approved":false},"same":false}` {
			t.Errorf("%s: %v", onTimeout, calls)
		}
	}
}

// The deadline of the execution comes before an answer, too.
func TestAnswer_AfterTheDeadlineOfTheExecution(t *testing.T) {
	s, id := waiting(t, "config: {timeout: 1h}\n"+askStep, `{"behind":[]}`, nil)
	s.Advance(61 * time.Minute)
	expectCode(t, answerAs(s, person("ann"), id, `{"approved":true}`, ""), workflow.CodeIllegalTransition, "cannot answer")
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Cancellation == nil || x.Cancellation.Source != "timeout" {
		t.Errorf("%+v", x.Cancellation)
	}
}

// An answer whose commit is lost to a race is decided again with all checks, for the same step
// run: it never answers another question.
func TestAnswer_StaysWithItsQuestion(t *testing.T) {
	definition := `steps:
  - {label: count, set: {n: "${has(vars.n) ? vars.n + 1 : 1}"}}
  - {label: ask, wait: {input: {title: "question ${vars.n}"}}, next: count}
`
	s, id := waiting(t, definition, "", nil)
	var err error
	late := s.StartTask("ann", func() { err = answerAs(s, person("ann"), id, `"me too"`, "k-ann") })
	if !late.RunUntil("store.commit") {
		t.Fatal("ann's answer is not committed")
	}
	if err := answerAs(s, person("bob"), id, `"first"`, "k-bob"); err != nil {
		t.Fatal(err)
	}
	late.Finish()
	expectCode(t, err, workflow.CodeIllegalTransition, "has been answered")
	x := s.Load(id)
	if x.Wait == nil || x.Wait.Reason != "question 2" || len(x.LastStepRun().Answers) > 0 {
		t.Errorf("%+v, %+v", x.Wait, x.LastStepRun())
	}
	// A request that was counted in the first run is known, though the second one waits.
	if err := answerAs(s, person("bob"), id, `"first"`, "k-bob"); err != nil {
		t.Error(err)
	}
	if x := s.Load(id); x.Wait.Reason != "question 2" {
		t.Errorf("the second question was answered: %+v", x.Wait)
	}
	// One that names the run is about that run.
	_, err = s.Engine.Answer(t.Context(), person("ann"), id, views.AnswerRequest{Input: []byte(`1`), Step: "ask", Visit: 1})
	expectCode(t, err, workflow.CodeIllegalTransition, "has been answered")
	if _, err = s.Engine.Answer(t.Context(), person("ann"), id, views.AnswerRequest{Input: []byte(`1`), Step: "ask", Visit: 2}); err != nil {
		t.Error(err)
	}
	_, err = s.Engine.Answer(t.Context(), person("ann"), id, views.AnswerRequest{Input: []byte(`1`), Step: "nobody"})
	expectCode(t, err, workflow.CodeIllegalTransition, "nobody")
}

// A commit whose reply is lost is recognised when the request comes again.
func TestAnswer_LostReply(t *testing.T) {
	for _, fault := range []faults.Fault{faults.LostReply, faults.Repeated} {
		s, id := waiting(t, askStep, `{"behind":[]}`, nil)
		lost := false
		s.Faults = func(c faults.Call) faults.Fault {
			if c.Name == "store.commit" && !lost {
				lost = true
				return fault
			}
			return faults.None
		}
		if err := answerAs(s, person("ann"), id, `{"approved":true}`, "k"); err != nil && fault == faults.Repeated {
			t.Error(err)
		}
		s.Faults = nil
		if err := answerAs(s, person("ann"), id, `{"approved":true}`, "k"); err != nil {
			t.Errorf("%s: %v", fault, err)
		}
		settle(s)
		if x := s.ExpectState(id, sm.ExecutionCompletedAck); len(x.StepRunBySeq(2).Answers) != 1 {
			t.Errorf("%s: %+v", fault, x.StepRunBySeq(2).Answers)
		}
	}
}

// Who may answer is checked by name and role, and widened by escalation.
func TestAnswer_OnlyWhoMay(t *testing.T) {
	definition := `steps:
  - label: ask
    wait:
      input:
        who: {actors: ["${parameters.owner}", tester], roles: [cab], notStarter: true}
        deadline: 24h
        remind: [1h, 5h]
        escalate: [{after: 2h, roles: [duty], actors: [zoe]}]
`
	ask := func() (*harness.Harness, string) { return waiting(t, definition, `{"owner":"olga"}`, nil) }
	for _, c := range []workflow.Caller{person("bob"), person("bob", "duty"), person("zoe"), person(harness.Caller.Actor, "cab")} {
		s, id := ask()
		expectCode(t, answerAs(s, c, id, `1`, ""), workflow.CodeForbidden, "may not answer")
		expectWait(t, s, id, workflow.WaitInput, "ask", 24*time.Hour)
	}
	for _, c := range []workflow.Caller{person("olga"), person("bob", "other", "cab")} {
		s, id := ask()
		if err := answerAs(s, c, id, `1`, ""); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, c := range []workflow.Caller{person("bob", "duty"), person("zoe"), person("olga")} {
		s, id := ask()
		s.RunFor(2*time.Hour + time.Minute)
		if err := answerAs(s, c, id, `1`, ""); err != nil {
			t.Errorf("after the escalation, %+v: %v", c, err)
		}
		if n := countEvents(s, id, "input.escalated"); n != 1 {
			t.Errorf("%d escalations", n)
		}
	}
}

// An approval needs so many people, each once; the first rejection decides.
// At its deadline an approval takes the answer that its definition names for that of a person: one
// that approves ends it well, one that rejects is a rejection.
func TestApproval_AnswerAtTheDeadline(t *testing.T) {
	definition := `steps:
  - label: cab
    wait: {approval: {need: 2, deadline: 24h, onTimeout: {answer: {approved: "${parameters.default}", note: late}}ON_REJECT}}
  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {answers: "${cab.result.answers.map(a, [a.by, a.note, a.approved])}"}}
  - {label: denied, functionBlock: p/pure:1, runOn: global, parameters: {approved: "${cab.result.approved}", code: "${steps.cab.status}"}}
`
	late := func(onReject, approved string) (*harness.Harness, string) {
		s, id := waiting(t, strings.Replace(definition, "ON_REJECT", onReject, 1), `{"default":`+approved+`}`, nil)
		if err := answerAs(s, person("ann"), id, `{"approved":true,"note":"fine"}`, ""); err != nil {
			t.Fatal(err)
		}
		s.RunFor(23 * time.Hour)
		expectWait(t, s, id, workflow.WaitInput, "cab", 24*time.Hour)
		s.RunFor(2 * time.Hour)
		expectCode(t, answerAs(s, person("bob"), id, `{"approved":true}`, ""), workflow.CodeIllegalTransition, "the deadline")
		return s, id
	}
	s, id := late("", "true")
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, callsWithParameters(s, id), `after {"answers":[["ann","fine",true],["","late",true]]}`, `denied {"approved":true,"code":"COMPLETED"}`)

	s, id = late("", "false")
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error.Code != workflow.FailureRejected || x.Cause != workflow.CauseStepFailed || !strings.Contains(x.Error.Message, "deadline") {
		t.Errorf("%s %+v", x.Cause, x.Error)
	}
	s, id = late(", onReject: {next: denied}", "false")
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, callsWithParameters(s, id), `denied {"approved":false,"code":"CASE_HANDLED"}`)

	s, id = waiting(t, strings.Replace(definition, "ON_REJECT", "", 1), `{"default":1}`, nil)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); !strings.Contains(x.Error.Message, "onTimeout") {
		t.Errorf("an answer of another type: %+v", x.Error)
	}
}

func TestApproval_FirstRejectionDecides(t *testing.T) {
	definition := `steps:
  - label: cab
    wait: {approval: {title: "ok?", by: [cab], need: 2, deadline: 24h%s}}
  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {who: "${cab.result.answers.map(a, a.by)}", notes: "${cab.result.answers.map(a, has(a.note) ? a.note : '')}"}}
  - {label: denied, functionBlock: p/pure:1, runOn: global, parameters: {approved: "${cab.result.approved}", code: "${steps.cab.status}"}}
`
	start := func(more string) (*harness.Harness, string) {
		s, id := waiting(t, strings.Replace(definition, "%s", more, 1), "", nil)
		expectWait(t, s, id, workflow.WaitInput, "cab", 24*time.Hour)
		return s, id
	}
	s, id := start("")
	expectCode(t, answerAs(s, person("eve"), id, `{"approved":true}`, ""), workflow.CodeForbidden, "")
	expectCode(t, answerAs(s, person("ann", "cab"), id, `{"approved":1}`, ""), workflow.CodeInvalid, "")
	if err := answerAs(s, person("ann", "cab"), id, `{"approved":true,"note":"fine"}`, ""); err != nil {
		t.Fatal(err)
	}
	expectCode(t, answerAs(s, person("ann", "cab"), id, `{"approved":true}`, "another"), workflow.CodeIllegalTransition, "already")
	expectWait(t, s, id, workflow.WaitInput, "cab", 24*time.Hour)
	if w := waitingView(s, id); w.Answers == nil || *w.Answers != 1 || w.Need == nil || *w.Need != 2 {
		t.Errorf("%+v", w)
	}
	if err := answerAs(s, person("bob", "cab"), id, `{"approved":true}`, ""); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, callsWithParameters(s, id), `after {"notes":["fine",""],"who":["ann","bob"]}`, `denied {"approved":true,"code":"COMPLETED"}`)

	s, id = start("")
	for i, approved := range []string{"true", "false"} {
		if err := answerAs(s, person(fmt.Sprint("p", i), "cab"), id, `{"approved":`+approved+`}`, ""); err != nil {
			t.Fatal(err)
		}
	}
	expectCode(t, answerAs(s, person("p3", "cab"), id, `{"approved":true}`, ""), workflow.CodeIllegalTransition, "has been answered")
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error.Code != workflow.FailureRejected || !strings.Contains(x.Error.Message, "p1") {
		t.Errorf("%+v", x.Error)
	}
	s, id = start(", onReject: {next: denied}")
	if err := answerAs(s, person("ann", "cab"), id, `{"approved":false}`, ""); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, callsWithParameters(s, id), `denied {"approved":false,"code":"CASE_HANDLED"}`)
}

// The level of an escalation is committed before its execution is started, which happens once,
// whatever dies in between; it costs two commits.
func TestEscalation_StartsOnce(t *testing.T) {
	definition := `steps:
  - label: ask
    wait:
      input:
        deadline: 24h
        escalate: [{after: 1h, start: {workflow: p/page, parameters: {who: "${parameters.who}"}}}, {after: 2h, start: {workflow: p/page}}, {after: 3h, start: {workflow: p/nothing}}]
`
	for _, fault := range []string{"", "store.create", "store.commit", "sender.send_wakeups"} {
		s := newHarness(t, 3)
		s.Publish("w", definition)
		s.Publish("page", "steps:\n  - {label: call, functionBlock: p/pure:1, runOn: global, parameters: {p: '${parameters}'}}\n")
		req := harness.NewStartRequest("w", harness.DeviceIDs(3)...)
		req.Parameters = []byte(`{"who":"duty"}`)
		id := s.StartWith(req)
		s.Drain()
		before := s.Load(id).Version
		s.RunFor(59 * time.Minute)
		if v := s.Load(id).Version; v != before {
			t.Errorf("%q: %d commits while nothing is due", fault, v-before)
		}
		crashes := 0
		s.Faults = func(c faults.Call) faults.Fault {
			if c.Name == fault && crashes < 2 {
				crashes++
				return faults.CrashAfter
			}
			return faults.None
		}
		s.RunFor(30 * time.Minute)
		s.Faults = nil
		if v := s.Load(id).Version; fault == "" && v != before+2 {
			t.Errorf("an escalation takes %d commits", v-before)
		}
		s.RunFor(3 * time.Hour)
		pages := 0
		for _, c := range s.BlockCalls {
			if c.Execution != id {
				pages++
			}
		}
		if pages != 2 || countEvents(s, id, "input.escalated") != 3 {
			t.Errorf("%q: %d executions were started in %d levels", fault, pages, countEvents(s, id, "input.escalated"))
		}
		if err := answerAs(s, person("ann"), id, `1`, ""); err != nil {
			t.Error(err)
		}
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
	}
}

// Whoever ends a wait at its deadline first starts what an escalation was about to start.
func TestEscalation_StartsBeforeTheDeadline(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "steps:\n  - {label: ask, wait: {input: {deadline: 2h, escalate: [{after: 1h, start: {workflow: p/page}}], onTimeout: {next: end}}}}\n")
	s.Publish("page", "steps:\n  - {label: call, functionBlock: p/pure:1, runOn: global}\n")
	id := s.Start("w", "d000")
	s.Drain()
	s.RunFor(59 * time.Minute)
	s.Faults = faults.Every(faults.CrashBefore, "store.heads")
	s.RunFor(2 * time.Minute)
	if w := s.Load(id).StepRunBySeq(1).Wait; w.Level != 1 || w.Paged != 0 {
		t.Fatalf("%+v", w)
	}
	s.Faults = nil
	s.Advance(2 * time.Hour)
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if len(s.BlockCalls) != 1 {
		t.Errorf("%d executions were started", len(s.BlockCalls))
	}
}

// R48: a cancel ends the wait at once; an answer after it is refused.
func TestAnswer_AfterCancel(t *testing.T) {
	s, id := waiting(t, askStep, `{"behind":[]}`, nil)
	if _, err := s.Engine.Cancel(t.Context(), harness.Caller, id, views.CancelRequest{Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	expectCode(t, answerAs(s, person("ann"), id, `{"approved":true}`, ""), workflow.CodeIllegalTransition, "cannot answer")
	settle(s)
	if r := s.Load(id).StepRunBySeq(2); r.Status != sm.StepCancelled || len(r.Answers) > 0 {
		t.Errorf("%+v", r)
	}
}
