package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// lateCommands are the requests about a question that a step asks. TOKEN is one that was made before.
var lateCommands = map[string]struct{ path, body, header string }{
	"an answer":                   {path: "resume", body: `{"input":{"n":1}}`},
	"an answer to the step":       {path: "resume", body: `{"input":{"n":1},"step":"ask"}`},
	"an answer that does not fit": {path: "resume", body: `{"input":{}}`},
	"an answer by token":          {body: `{"input":{"n":1}}`, header: "Authorization: Bearer TOKEN"},
	"a token":                     {path: "tokens", body: `{"for":"bob"}`},
	"no tokens any more":          {path: "tokens/revoke", body: `{}`},
}

// waitingUntil starts an execution that waits, and moves the clock to its deadline, or to a second before it. Nobody
// looks meanwhile.
func (f *fixture) waitingUntil(name, definition string, late bool) (id, token string) {
	f.Helper()
	f.Publish(name, definition)
	var x views.ExecutionView
	f.mustDo(&x, "POST", "/workflow-execution", `{"workflow":"p/`+name+`"}`)
	f.Drain()
	f.mustDo(&x, "GET", "/workflow-execution/id/"+x.ID, "")
	if x.Waiting == nil || x.Waiting.Until == nil {
		f.Fatalf("%s is in %s", name, x.State)
	}
	if x.Waiting.Kind == workflow.WaitInput {
		var made views.TokenView
		f.mustDo(&made, "POST", "/workflow-execution/"+x.ID+"/tokens", `{"for":"ann"}`)
		token = made.Token
	}
	left := x.Waiting.Until.Sub(f.Now())
	if !late {
		left -= time.Second
	}
	f.Advance(left)
	return x.ID, token
}

// R41: the deadline of a wait decides before whatever is sent about it: what the deadline leads to is stored before
// the sender is told, although nobody has looked at the clock before, and no answer is. A second earlier the same
// requests are accepted.
func TestDeadline_DecidesBeforeAnyAnswer(t *testing.T) {
	f := newFixture(t, 3)
	n := 0
	for onTimeout, status := range map[string]string{"fail": "FAILED", "{next: late}": "CASE_HANDLED", "{answer: {n: 9}}": "COMPLETED"} {
		for what, c := range lateCommands {
			for _, late := range []bool{true, false} {
				n++
				id, token := f.waitingUntil(fmt.Sprintf("w%d", n), "steps:\n  - {label: ask, wait: {input: {schema: {type: object, required: [n]}, deadline: 1h, onTimeout: "+onTimeout+"}}}\n"+
					"  - {label: gate, wait: {signal: {name: done}}, next: end}\n  - {label: late, wait: {signal: {name: done}}}\n", late)
				target, headers := "/workflow-execution/"+id+"/"+c.path, []string{"X-Actor: late"}
				if c.header != "" {
					target, headers = "/answers", []string{strings.Replace(c.header, "TOKEN", token, 1)}
				}
				a := f.do("POST", target, c.body, headers...)
				lapsed, sent := f.endOfQuestion(id, status)
				switch {
				case late && (a.status != http.StatusConflict || !strings.Contains(a.String(), "deadline")):
					t.Errorf("%s after the deadline that leads to %s: %s, want 409 because of it", what, onTimeout, a)
				case late && !lapsed:
					t.Errorf("%s after the deadline that leads to %s: refused, and what that leads to is not stored", what, onTimeout)
				case late && sent:
					t.Errorf("%s after the deadline that leads to %s: refused, and it has changed something", what, onTimeout)
				case !late && lapsed && !strings.HasPrefix(what, "an answer"):
					t.Errorf("%s before the deadline that leads to %s: the step has ended", what, onTimeout)
				case !late && strings.Contains(what, "fit") != (a.status == http.StatusBadRequest), !late && a.status >= http.StatusConflict:
					t.Errorf("%s before the deadline that leads to %s: %s", what, onTimeout, a)
				case !late && strings.Contains(what, "fit") == sent:
					t.Errorf("%s before the deadline that leads to %s: it has changed something: %t", what, onTimeout, sent)
				}
			}
		}
	}
}

// endOfQuestion tells from the history whether the step "ask" has ended with a status, and whether there are events of
// what was sent about its question after it was asked: an answer, or whatever names who sent it.
func (f *fixture) endOfQuestion(id, status string) (ended, sent bool) {
	f.Helper()
	var h struct{ Items []workflow.Event }
	f.mustDo(&h, "GET", "/workflow-execution/id/"+id+"/history", "")
	for _, e := range h.Items {
		ended = ended || e.Layer == "step" && e.Step == "ask" && e.From == "RUNNING" && e.To == status
		sent = sent || e.Actor == "late" || e.Type == "input.answered"
	}
	return ended, sent
}

// R41: a signal that is sent after the deadline of the step that waits for it is not taken, although nobody has looked
// at the clock before; one that is sent a second earlier is.
func TestDeadline_DecidesBeforeALateSignal(t *testing.T) {
	f := newFixture(t, 3)
	for late, want := range map[bool]string{true: `{"n":9}`, false: `{"n":1}`} {
		id, _ := f.waitingUntil(fmt.Sprintf("late-%t", late), "steps:\n  - {label: paid, wait: {signal: {name: paid, deadline: 1h, onTimeout: {answer: {n: 9}}}}, outputKey: said}\n"+
			"output: {n: \"${vars.said.n}\"}\n", late)
		if a := f.do("POST", "/workflow-execution/"+id+"/signal/paid", `{"data":{"n":1}}`); a.status != http.StatusAccepted && !late {
			t.Errorf("the signal: %s", a)
		}
		f.RunFor(time.Minute)
		var result views.ResultView
		f.mustDo(&result, "GET", "/workflow-execution/id/"+id+"/result", "")
		if string(result.Output) != want {
			t.Errorf("sent after the deadline: %t, and the step got %s, want %s", late, result.Output, want)
		}
	}
}

// A cancel and a rewind after the deadline of a wait that nobody has stored are the operator's, and close the wait: no
// answer counts, and it does not lapse any more.
func TestDeadline_OperatorsCloseTheWait(t *testing.T) {
	f := newFixture(t, 3)
	for verb, body := range map[string]string{"cancel": `{"reason":"late"}`, "rewind": `{"to":"first"}`} {
		id, token := f.waitingUntil(verb, "steps:\n  - {label: first, set: {x: 1}}\n  - {label: ask, wait: {input: {deadline: 1h}}}\n", true)
		if a := f.do("POST", "/workflow-execution/"+id+"/"+verb, body, "X-Actor: late"); a.status != http.StatusAccepted {
			t.Errorf("%s: %s", verb, a)
		}
		if a := f.do("POST", "/answers", `{"input":1}`, "Authorization: Bearer "+token); a.status != http.StatusConflict {
			t.Errorf("an answer after a %s: %s", verb, a)
		}
		f.RunFor(time.Minute)
		if cancelled, sent := f.endOfQuestion(id, "CANCELLED"); !cancelled || !sent {
			t.Errorf("after a %s: the wait was closed: %t, by the operator: %t", verb, cancelled, sent)
		}
		if lapsed, _ := f.endOfQuestion(id, "FAILED"); lapsed {
			t.Errorf("after a %s the wait has lapsed", verb)
		}
	}
}
