package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

const hookSecret = harness.TriggerSecret

// triggeredYAML has a trigger with a key of its own, one without, one with a token and one that
// sends a signal.
const triggeredYAML = `parameters: {type: object, required: [ref], properties: {ref: {type: string}, event: {type: string}}, additionalProperties: false}
triggers:
  http:
    - name: push
      verify: {scheme: hmac, secret: hooks/push}
      schema: {type: object, required: [ref], properties: {ref: {type: string, maxLength: 40}}}
      parameters: {ref: "${body.ref}", event: "${headers['x-event']}"}
      idempotencyKey: "${headers['x-delivery']}"
      executeOnParameters: {ids: "${has(body.ids) ? body.ids : []}"}
      rate: 5/1m
    - {name: plain, verify: {scheme: github, secret: hooks/push}}
    - {name: token, verify: {scheme: token, secret: hooks/push, header: X-Token}, parameters: {ref: "${query.ref}"}}
    - {name: paid, verify: {scheme: token, secret: hooks/push}, parameters: {ref: "${body.order}"}, key: "${body.order}", signal: paid}
steps:
  - {label: one, set: {seen: "${parameters.ref}"}}
`

func newTriggered(t *testing.T) *harness.Harness {
	s := newHarness(t, 1)
	s.Engine.Secret = func(_ context.Context, tenant, name string) (string, error) {
		if tenant != harness.Caller.Tenant || name != "hooks/push" {
			return "", workflow.Errorf(workflow.CodeNotFound, "there is no secret %q", name)
		}
		return hookSecret, nil
	}
	s.Publish("w", triggeredYAML)
	return s
}

// signedCall is a call of the trigger push.
func signedCall(s *harness.Harness, delivery, body string) views.TriggerCall {
	return views.TriggerCall{Body: []byte(body), Headers: map[string]string{
		"lockstep-signature": workflow.Sign([]byte(hookSecret), s.Now(), []byte(body)), "x-delivery": delivery, "x-event": "push", "authorization": "secret",
	}}
}

func call(s *harness.Harness, name string, c views.TriggerCall) (views.TriggerReceipt, error) {
	return s.Engine.CallTrigger(context.Background(), harness.Caller.Tenant, name, c)
}

func triggerCalls(s *harness.Harness, name string) []workflow.TriggerCall {
	s.Helper()
	list, err := s.Catalog.TriggerCalls(context.Background(), harness.Caller, name)
	if err != nil {
		s.Fatal(err)
	}
	return list.Items
}

// A call starts an execution with what the trigger makes of it, once, however often it arrives.
func TestTrigger_StartsOnce(t *testing.T) {
	s := newTriggered(t)
	first, err := call(s, "push", signedCall(s, "d1", `{"ref":"main","ids":["d000"]}`))
	if err != nil || first.Duplicate {
		t.Fatal(first, err)
	}
	s.Advance(time.Minute)
	again, err := call(s, "push", signedCall(s, "d1", `{"ref":"main","ids":["d000"]}`)) // another time, and so another signature
	if err != nil || again.ID != first.ID || !again.Duplicate {
		t.Errorf("%+v, %v", again, err)
	}
	x := s.Load(first.ID)
	if in := string(x.Input.Parameters); in != `{"event":"push","ref":"main"}` || x.CreatedBy != "~trigger/push" || x.Labels["trigger"] != "push" || x.Input.Selector.IDs[0] != "d000" {
		t.Errorf("%s, %+v", in, x)
	}
	s.Advance(time.Second)
	if other, err := call(s, "push", signedCall(s, "d2", `{"ref":"main"}`)); err != nil || other.ID == first.ID {
		t.Errorf("another delivery: %+v, %v", other, err)
	}
	calls := triggerCalls(s, "push")
	if len(calls) != 3 || calls[2].Status != 202 || calls[0].Execution == first.ID {
		t.Errorf("%+v", calls)
	}
}

// Whoever has seen a call cannot use it again, with another key in a header that is not signed.
func TestTrigger_RefusesReplays(t *testing.T) {
	s := newTriggered(t)
	c := signedCall(s, "d1", `{"ref":"main"}`)
	signature := c.Headers["lockstep-signature"]
	first, err := call(s, "push", c)
	if err != nil {
		t.Fatal(err)
	}
	replay := func(delivery string) error {
		again := signedCall(s, delivery, `{"ref":"main"}`)
		again.Headers["lockstep-signature"] = signature
		got, err := call(s, "push", again)
		if err == nil && got.ID != first.ID {
			t.Errorf("a replay has started %s", got.ID)
		}
		return err
	}
	if err := replay("d1"); err != nil {
		t.Errorf("the same call: %v", err)
	}
	if err := replay("d2"); !workflow.Is(err, workflow.CodeConflict) {
		t.Errorf("with another key: %v", err)
	}
	s.Advance(10 * time.Minute)
	if err := replay("d1"); !workflow.Is(err, workflow.CodeUnauthorized) {
		t.Errorf("an old call: %v", err)
	}
	// Without a time, only the body distinguishes calls.
	body := `{"ref":"main"}`
	plain := func() views.TriggerCall {
		return views.TriggerCall{Body: []byte(body), Headers: map[string]string{"x-hub-signature-256": fmt.Sprintf("sha256=%x", workflow.MAC([]byte(hookSecret), []byte(body)))}}
	}
	one, err := call(s, "plain", plain())
	if err != nil {
		t.Fatal(err)
	}
	s.Advance(6 * 24 * time.Hour)
	if two, err := call(s, "plain", plain()); err != nil || two.ID != one.ID || !two.Duplicate {
		t.Errorf("a week later: %+v, %v", two, err)
	}
	if states := s.States(harness.Caller.Tenant); len(states) != 2 {
		t.Errorf("%v", states)
	}
}

// A repeated call takes nothing of the rate, so that somebody who has seen a call cannot use the
// rate up.
func TestTrigger_ReplaysTakeNothingOfTheRate(t *testing.T) {
	s := newTriggered(t)
	c := signedCall(s, "d1", `{"ref":"main"}`)
	signature := c.Headers["lockstep-signature"]
	if _, err := call(s, "push", c); err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		again := signedCall(s, "d1", `{"ref":"main"}`)
		again.Headers["lockstep-signature"] = signature
		if got, err := call(s, "push", again); err != nil || !got.Duplicate {
			t.Fatalf("replay %d: %+v, %v", n, got, err)
		}
	}
	for n := range 4 { // the rate is five in a row
		if _, err := call(s, "push", signedCall(s, fmt.Sprint("other", n), fmt.Sprintf(`{"ref":"r%d"}`, n))); err != nil {
			t.Errorf("call %d: %v", n, err)
		}
	}
	if _, err := call(s, "push", signedCall(s, "last", `{"ref":"last"}`)); !workflow.Is(err, workflow.CodeRateLimited) {
		t.Errorf("the sixth: %v", err)
	}
}

// Without parameters the body becomes the parameters, so it must be an object.
func TestTrigger_BodyOfAnotherTypeIsRefused(t *testing.T) {
	s := newTriggered(t)
	s.Publish("open", "triggers: {http: [{name: open, verify: {scheme: token, secret: hooks/push}}]}\nsteps: [{label: a, set: {b: 1}}]\n")
	for body, ok := range map[string]bool{`[1]`: false, `"a"`: false, `7`: false, `{"a":1}`: true, ``: true} {
		if _, err := call(s, "open", views.TriggerCall{Body: []byte(body), Headers: map[string]string{"authorization": "Bearer " + hookSecret}}); ok != (err == nil) || !ok && !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// What is refused changes nothing but the list of calls, which has nothing of what was sent. Nobody
// learns without a proof which triggers there are.
func TestTrigger_RefusalsChangeNothing(t *testing.T) {
	s := newTriggered(t)
	unknown, missing := errors.New(""), errors.New("")
	bad := signedCall(s, "d", `{"ref":"main"}`)
	bad.Headers["lockstep-signature"] = strings.Replace(bad.Headers["lockstep-signature"], "v1=", "v1=00", 1)
	_, unknown = call(s, "push", bad)
	_, missing = call(s, "nothing", signedCall(s, "d", `{"ref":"main"}`))
	_, elsewhere := s.Engine.CallTrigger(context.Background(), "other", "push", signedCall(s, "d", `{"ref":"main"}`))
	if !workflow.Is(unknown, workflow.CodeUnauthorized) || unknown.Error() != missing.Error() || unknown.Error() != elsewhere.Error() {
		t.Errorf("%v, %v and %v", unknown, missing, elsewhere)
	}
	for body, want := range map[string]workflow.Code{
		`{"ref":7}`: workflow.CodeInvalid, `{`: workflow.CodeInvalid, ``: workflow.CodeInvalid, `{"ref":"s3cr3t that is far too long for the schema of it"}`: workflow.CodeInvalid,
	} {
		if _, err := call(s, "push", signedCall(s, "x", body)); !workflow.Is(err, want) {
			t.Errorf("%s: %v", body, err)
		}
	}
	if states := s.States(harness.Caller.Tenant); len(states) != 0 {
		t.Errorf("%v", states)
	}
	calls := triggerCalls(s, "push")
	raw, err := json.Marshal(calls)
	if err != nil || len(calls) != 5 || strings.Contains(string(raw), "s3cr3t") || strings.Contains(string(raw), "main") {
		t.Errorf("%s, %v", raw, err)
	}
	// The rate is five in a row: one is left.
	if _, err := call(s, "push", signedCall(s, "d", `{"ref":"main"}`)); err != nil {
		t.Error(err)
	}
	_, err = call(s, "push", signedCall(s, "e", `{"ref":"other"}`))
	var limited *workflow.Error
	if !errors.As(err, &limited) || limited.Code != workflow.CodeRateLimited || limited.RetryAfter <= 0 || limited.RetryAfter > 12*time.Second {
		t.Errorf("above the rate: %v", err)
	}
	s.Advance(12 * time.Second)
	if _, err := call(s, "push", signedCall(s, "e", `{"ref":"other"}`)); err != nil {
		t.Errorf("after %s: %v", limited.RetryAfter, err)
	}
	s.Engine.Secret = func(context.Context, string, string) (string, error) { return "short", nil }
	if _, err := call(s, "push", signedCall(s, "f", `{"ref":"main"}`)); !workflow.Is(err, workflow.CodeUnavailable) || !strings.Contains(err.Error(), "shorter than 8 bytes") {
		t.Errorf("with a secret that is too short: %v", err)
	}
	s.Engine.Secret = func(context.Context, string, string) (string, error) { return "", errors.New("no answer") }
	if _, err := call(s, "push", signedCall(s, "f", `{"ref":"main"}`)); !workflow.Is(err, workflow.CodeUnavailable) {
		t.Errorf("without its secret: %v", err)
	}
}

// A trigger also accepts a token, forms, and a query. A trigger that sends signals sends each to
// the execution that has the key.
func TestTrigger_TokensFormsAndSignals(t *testing.T) {
	s := newTriggered(t)
	form := views.TriggerCall{Body: []byte("ref=a&ref=b"), Query: map[string]string{"ref": "from the query"}, Headers: map[string]string{"x-token": hookSecret, "content-type": "application/x-www-form-urlencoded; charset=utf-8"}}
	got, err := call(s, "token", form)
	if err != nil || string(s.Load(got.ID).Input.Parameters) != `{"ref":"from the query"}` {
		t.Errorf("%+v, %v", got, err)
	}
	pay := func() (views.TriggerReceipt, error) {
		return call(s, "paid", views.TriggerCall{Body: []byte(`{"order":"o-7"}`), Headers: map[string]string{"authorization": "bearer " + hookSecret}})
	}
	s.Publish("x", "steps: [{label: a, set: {b: 1}}]\n")
	first, err := pay()
	if err != nil {
		t.Fatal(err)
	}
	if x := s.Load(first.ID); x.Key != "o-7" || x.SignalOrder != 1 {
		t.Errorf("%+v", x)
	}
	if second, err := pay(); err != nil {
		t.Errorf("%+v, %v", second, err)
	}
	asForm := views.TriggerCall{Body: []byte(`{"order":"o-8"}`), Headers: map[string]string{"authorization": "bearer " + hookSecret, "content-type": "application/x-www-form-urlencoded"}}
	if third, err := call(s, "paid", asForm); err != nil || s.Load(third.ID).Key != "o-8" {
		t.Errorf("JSON whose type is that of a form: %+v, %v", third, err)
	}
}

// A handler that dies between any two calls, and a delivery that is made again: one execution.
func TestTrigger_OneExecutionWhoeverDies(t *testing.T) {
	for at := 1; ; at++ {
		s := newTriggered(t)
		calls, died := 0, false
		s.Faults = func(faults.Call) faults.Fault {
			if calls++; calls == at {
				died = true
				return faults.CrashAfter
			}
			return faults.None
		}
		faults.CatchCrash(func() { _, _ = call(s, "push", signedCall(s, "d1", `{"ref":"main"}`)) })
		s.Faults = nil
		if _, err := call(s, "push", signedCall(s, "d1", `{"ref":"main"}`)); err != nil {
			t.Errorf("call %d: %v", at, err)
		}
		if states := s.States(harness.Caller.Tenant); len(states) != 1 {
			t.Errorf("call %d: %v", at, states)
		}
		if !died {
			break
		}
	}
}

// Somebody who may start executions fires a trigger without a proof, also while it is paused.
func TestTrigger_PausedAndFired(t *testing.T) {
	s := newTriggered(t)
	ctx := context.Background()
	if _, err := s.Catalog.PauseTrigger(ctx, harness.Caller, "push", "freeze"); err != nil {
		t.Fatal(err)
	}
	if _, err := call(s, "push", signedCall(s, "d1", `{"ref":"main"}`)); !workflow.Is(err, workflow.CodeForbidden) {
		t.Errorf("paused: %v", err)
	}
	fire := views.FireRequest{Body: json.RawMessage(`{"ref":"main"}`), Headers: map[string]string{"X-Event": "by hand", "X-Delivery": "d1"}}
	s.Advance(time.Second)
	fired, err := s.Engine.FireTrigger(ctx, harness.Caller, "push", fire)
	if err != nil || s.Load(fired.ID).CreatedBy != harness.Caller.Actor {
		t.Fatal(fired, err)
	}
	s.Advance(time.Second)
	if again, err := s.Engine.FireTrigger(ctx, harness.Caller, "push", fire); err != nil || again.ID != fired.ID || !again.Duplicate {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := s.Engine.FireTrigger(ctx, harness.Caller, "nothing", fire); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("%v", err)
	}
	if _, err := s.Catalog.ResumeTrigger(ctx, harness.Caller, "push"); err != nil {
		t.Fatal(err)
	}
	s.Advance(time.Second)
	if got, err := call(s, "push", signedCall(s, "d1", `{"ref":"main"}`)); err != nil || got.ID != fired.ID {
		t.Errorf("resumed: %+v, %v", got, err)
	}
	if calls := triggerCalls(s, "push"); len(calls) != 4 || calls[0].Status != 200 || calls[1].By == "" || calls[3].Status != 403 {
		t.Errorf("%+v", calls)
	}
}

// Every call by hand has a line in the history, also those within one second, up to a hundred of them.
func TestTrigger_RemembersEveryCallByHand(t *testing.T) {
	s := newTriggered(t)
	fire := func(delivery, body string) error {
		_, err := s.Engine.FireTrigger(context.Background(), harness.Caller, "push", views.FireRequest{Body: json.RawMessage(body), Headers: map[string]string{"x-delivery": delivery, "x-event": "by hand"}})
		return err
	}
	for i := range 6 {
		if err := fire(fmt.Sprintf("d%d", i), `{"ref":"main"}`); err != nil {
			t.Fatal(err)
		}
	}
	if err := fire("bad", `{}`); !workflow.Is(err, workflow.CodeInvalid) {
		t.Errorf("without ref: %v", err)
	}
	executions, refused := map[string]bool{}, 0
	for _, c := range triggerCalls(s, "push") {
		if c.Status == 400 {
			refused++
			continue
		}
		executions[c.Execution] = true
	}
	if len(executions) != 6 || refused != 1 {
		t.Errorf("%d executions, %d refused", len(executions), refused)
	}
	for i := range 2 * workflow.MaxTriggerCalls {
		s.Advance(10 * time.Millisecond)
		if err := fire("bad", `{}`); !workflow.Is(err, workflow.CodeInvalid) {
			t.Fatal(i, err)
		}
	}
	if calls := triggerCalls(s, "push"); len(calls) != workflow.MaxTriggerCalls {
		t.Errorf("%d calls", len(calls))
	}
}

// A trigger that went with its version says how it comes back.
func TestTrigger_OfAnArchivedVersionSaysRestore(t *testing.T) {
	s, ctx := newTriggered(t), context.Background()
	if err := s.Catalog.Archive(ctx, harness.Caller, workflow.Ref{Package: "p", Name: "w", Version: "1.0.0"}); err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]bool{"push": true, "nothing": false} {
		_, err := s.Engine.FireTrigger(ctx, harness.Caller, name, views.FireRequest{Body: json.RawMessage(`{"ref":"main"}`)})
		if !workflow.Is(err, workflow.CodeNotFound) || strings.Contains(err.Error(), "restore the one") != says {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A call whose key is known starts nothing, so it takes nothing of the rate, and a pause does not refuse it, also if its sender signs
// each try anew. Another signature without a known key is another call.
func TestTrigger_CallWithAKnownKeyTakesNothingOfTheRate(t *testing.T) {
	s := newTriggered(t)
	started, err := call(s, "push", signedCall(s, "d1", `{"ref":"main"}`))
	if err != nil {
		t.Fatal(err)
	}
	again := func(what string) {
		t.Helper()
		s.Advance(time.Second)
		if again, err := call(s, "push", signedCall(s, "d1", `{"ref":"main"}`)); err != nil || !again.Duplicate || again.ID != started.ID {
			t.Fatalf("%s: %+v, %v", what, again, err)
		}
	}
	for range 10 {
		again("signed anew")
	}
	for n := range 4 { // of 5 in a minute
		if _, err := call(s, "push", signedCall(s, fmt.Sprint("other", n), fmt.Sprintf(`{"ref":"r%d"}`, n))); err != nil {
			t.Errorf("call %d: %v", n, err)
		}
	}
	if _, err := call(s, "push", signedCall(s, "last", `{"ref":"last"}`)); !workflow.Is(err, workflow.CodeRateLimited) {
		t.Errorf("above the rate: %v", err)
	}
	again("above the rate")
	if _, err := s.Catalog.PauseTrigger(context.Background(), harness.Caller, "push", "freeze"); err != nil {
		t.Fatal(err)
	}
	s.Advance(time.Minute)
	if _, err := call(s, "push", signedCall(s, "d9", `{"ref":"main"}`)); !workflow.Is(err, workflow.CodeForbidden) {
		t.Errorf("another call, paused: %v", err)
	}
	again("paused")
}

// Each signature is bound to its key, also that of a call whose key is known: otherwise somebody who has seen such a call could start
// another execution with it, under another key.
func TestTrigger_CallWithAKnownKeyCannotBeSentUnderAnother(t *testing.T) {
	s := newTriggered(t)
	if _, err := call(s, "push", signedCall(s, "d1", `{"ref":"main"}`)); err != nil {
		t.Fatal(err)
	}
	s.Advance(time.Second)
	again := signedCall(s, "d1", `{"ref":"main"}`)
	replayed := again
	replayed.Headers = maps.Clone(again.Headers)
	replayed.Headers["x-delivery"] = "d2"
	if got, err := call(s, "push", again); err != nil || !got.Duplicate {
		t.Fatalf("signed anew: %+v, %v", got, err)
	}
	if got, err := call(s, "push", replayed); !workflow.Is(err, workflow.CodeConflict) {
		t.Errorf("replayed under another key: %+v, %v", got, err)
	}
}
