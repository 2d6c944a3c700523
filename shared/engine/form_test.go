package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

const formsYAML = `parameters: {type: object, required: [email], properties: {email: {type: string}, text: {type: string}}, additionalProperties: false}
triggers:
  http:
    - name: contact
      rate: 20/1m
      schema: {type: object, required: [email], properties: {email: {type: string, maxLength: 40}, text: {type: string}}, additionalProperties: false}
      form: {honeypot: website, dedupe: {fields: [email, text], window: 5m}, message: Thank you}
    - name: guarded
      rate: 20/1m
      schema: {type: object, required: [email]}
      form: {captcha: {provider: turnstile, secret: hooks/push, siteKey: "0x4AAA"}}
    - name: both
      rate: 20/1m
      schema: {type: object, required: [email]}
      form: {captcha: {provider: turnstile, secret: hooks/push, siteKey: "0x4AAA"}, dedupe: {fields: [email], window: 5m}}
    - {name: plain, verify: {scheme: token, secret: hooks/push}}
steps:
  - {label: one, set: {seen: "${parameters.email}"}}
`

// captchas is the provider in a test. The solutions in solved are good; for the solution "no answer"
// it does not answer.
type captchas struct {
	solved map[string]bool
	asked  []string
}

func (p *captchas) check(_ context.Context, provider spec.CaptchaProvider, secret, solution, key string) (bool, error) {
	p.asked = append(p.asked, key)
	if solution == "no answer" || secret != harness.TriggerSecret || provider != spec.CaptchaTurnstile {
		return false, errors.New("no answer")
	}
	return p.solved[solution], nil
}

func newForms(t *testing.T) (*harness.Harness, *captchas) {
	s, p := newHarness(t, 1), &captchas{solved: map[string]bool{"good": true, "other": true}}
	s.Engine.Captcha = p.check
	s.Publish("w", formsYAML)
	return s, p
}

const (
	asJSON = "application/json; charset=utf-8"
	asForm = "application/x-www-form-urlencoded"
)

func submit(s *harness.Harness, name, kind, body string) (views.TriggerReceipt, error) {
	return call(s, name, views.TriggerCall{Body: []byte(body), Headers: map[string]string{"content-type": kind}})
}

func started(s *harness.Harness) int { return len(s.States(harness.Caller.Tenant)) }

// What people send with a form starts an execution, once for the same fields within the time; what a
// machine has filled in starts none. Nobody sees the difference.
func TestForm_StartsOncePerDedupe(t *testing.T) {
	s, _ := newForms(t)
	first, err := submit(s, "contact", asForm, "email=ann%40a.example&text=Hello&website=")
	if err != nil || !first.Form || first.Message != "Thank you" {
		t.Fatalf("%+v, %v", first, err)
	}
	if x := s.Load(first.ID); string(x.Input.Parameters) != `{"email":"ann@a.example","text":"Hello"}` || x.CreatedBy != "~trigger/contact" {
		t.Errorf("%s by %s", x.Input.Parameters, x.CreatedBy)
	}
	s.Advance(4 * time.Minute)
	again, err := submit(s, "contact", asJSON, `{"email":" ANN@a.example ","text":"hello"}`)
	if err != nil || again.ID != first.ID || !again.Form || again.Message != first.Message {
		t.Errorf("the same: %+v, %v", again, err)
	}
	trapped, err := submit(s, "contact", asJSON, `{"email":"bot@a.example","website":"http://spam.example"}`)
	if err != nil || trapped.ID != "" || !trapped.Form || trapped.Message != first.Message || started(s) != 1 {
		t.Errorf("a machine: %+v, %v, %d", trapped, err, started(s))
	}
	if other, err := submit(s, "contact", asJSON, `{"email":"ann@a.example","text":"something else"}`); err != nil || other.ID == first.ID {
		t.Errorf("another text: %+v, %v", other, err)
	}
	s.Advance(2 * time.Minute)
	if later, err := submit(s, "contact", asJSON, `{"email":"ann@a.example","text":"Hello"}`); err != nil || later.ID == first.ID {
		t.Errorf("after the time: %+v, %v", later, err)
	}
	if fired, err := s.Engine.FireTrigger(context.Background(), harness.Caller, "contact", views.FireRequest{Body: json.RawMessage(`{"email":"by hand"}`)}); err != nil || fired.Form {
		t.Errorf("%+v, %v", fired, err)
	}
	statuses := map[string]int{}
	for _, c := range triggerCalls(s, "contact") {
		statuses[fmt.Sprint(c.Status, c.Issues)]++
	}
	if fmt.Sprint(statuses) != "map[200 []:1 202 []:4 202 [{body.website honeypot}]:1]" {
		t.Errorf("%v", statuses)
	}
}

// What is no form, does not fit, or is above the rate changes nothing.
func TestForm_RefusalsChangeNothing(t *testing.T) {
	s, p := newForms(t)
	for _, test := range []struct{ kind, body, path string }{
		{"text/plain", `{"email":"a"}`, "headers.content-type"},
		{"multipart/form-data; boundary=x", "--x", "headers.content-type"},
		{"", `{"email":7}`, "body.email"},
		{asJSON, `[]`, "body"},
		{asJSON, ``, "body"},
		{asJSON, `{"email":7}`, "body.email"},
		{asJSON, `{"text":"a"}`, "body"},
		{asJSON, `{"email":"` + strings.Repeat("x", 50) + `"}`, "body.email"},
	} {
		var refused *workflow.Error
		if _, err := submit(s, "contact", test.kind, test.body); !errors.As(err, &refused) || refused.Code != workflow.CodeInvalid || !strings.HasPrefix(refused.Issues[0].Path, test.path) {
			t.Errorf("%s %s: %+v", test.kind, test.body, err)
		}
	}
	if started(s) != 0 || len(p.asked) != 0 {
		t.Errorf("%d executions, %d captchas", started(s), len(p.asked))
	}
	for i := range 30 { // takes nothing of the rate
		_, _ = submit(s, "contact", asJSON, `{"website":"a"}`)
		_, _ = submit(s, "contact", asJSON, `{"email":7}`)
		if _, err := submit(s, "contact", asJSON, fmt.Sprintf(`{"email":"%d"}`, i)); (err == nil) != (i < 20) {
			t.Errorf("form %d: %v", i, err)
		}
	}
	if _, err := submit(s, "contact", asJSON, `{"email":"a"}`); !workflow.Is(err, workflow.CodeRateLimited) {
		t.Errorf("above the rate: %v", err)
	}
	s.Advance(time.Minute)
	if _, err := s.Catalog.PauseTrigger(context.Background(), harness.Caller, "contact", "spam"); err != nil {
		t.Fatal(err)
	}
	if _, err := submit(s, "contact", asJSON, `{"email":"a"}`); !workflow.Is(err, workflow.CodeForbidden) || started(s) != 20 {
		t.Errorf("paused: %v", err)
	}
	s.Advance(time.Minute)
	if _, err := submit(s, "contact", asJSON, `{"email":"`+strings.Repeat("x", 256<<10)+`"}`); !workflow.Is(err, workflow.CodeTooLarge) && !workflow.Is(err, workflow.CodeForbidden) {
		t.Errorf("large: %v", err)
	}
}

// Only a captcha that its provider calls solved starts something, and once; the provider is asked once for
// each call, after everything else was checked.
func TestForm_CaptchaIsCheckedOnce(t *testing.T) {
	s, p := newForms(t)
	send := func(body string) (views.TriggerReceipt, error) { return submit(s, "guarded", asJSON, body) }
	for body, want := range map[string]workflow.Code{
		`{"email":"a"}`: workflow.CodeInvalid,
		`{"email":"a","cf-turnstile-response":7}`:                                   workflow.CodeInvalid,
		`{"email":"a","cf-turnstile-response":"bad"}`:                               workflow.CodeInvalid,
		`{"email":"a","cf-turnstile-response":"no answer"}`:                         workflow.CodeUnavailable,
		`{"cf-turnstile-response":"good"}`:                                          workflow.CodeInvalid,
		`{"email":"a","cf-turnstile-response":"` + strings.Repeat("x", 3000) + `"}`: workflow.CodeInvalid,
	} {
		if _, err := send(body); !workflow.Is(err, want) {
			t.Errorf("%.60s: %v", body, err)
		}
	}
	if len(p.asked) != 2 || started(s) != 0 {
		t.Errorf("%d captchas, %d executions", len(p.asked), started(s))
	}
	first, err := send(`{"email":"a","cf-turnstile-response":"good"}`)
	if err != nil || string(s.Load(first.ID).Input.Parameters) != `{"email":"a"}` {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := send(`{"email":"b","cf-turnstile-response":"good"}`); err != nil || again.ID != first.ID || started(s) != 1 {
		t.Errorf("the same solution again: %+v, %v", again, err)
	}
	if other, err := send(`{"email":"a","cf-turnstile-response":"other"}`); err != nil || other.ID == first.ID {
		t.Errorf("another solution: %+v, %v", other, err)
	}
	s.Advance(time.Second)
	if len(p.asked) != 5 || p.asked[2] != p.asked[3] || p.asked[3] == p.asked[4] || len(p.asked[2]) != 36 {
		t.Errorf("%q", p.asked)
	}
	s.Engine.Secret = func(context.Context, string, string) (string, error) { return "", errors.New("no answer") }
	if _, err := send(`{"email":"a","cf-turnstile-response":"good"}`); !workflow.Is(err, workflow.CodeUnavailable) {
		t.Errorf("without its secret: %v", err)
	}
}

// Forms with an unsolved captcha take nothing of the rate, and the provider is asked only so often.
func TestForm_UnsolvedCaptchasKeepNobodyOut(t *testing.T) {
	s, p := newForms(t)
	for range 20 {
		_, _ = submit(s, "guarded", asJSON, `{"email":"a","cf-turnstile-response":"bad"}`)
		_, _ = submit(s, "guarded", asJSON, `{"email":"a"}`)
	}
	if len(p.asked) != 5 {
		t.Errorf("the provider was asked %d times in a second", len(p.asked))
	}
	for range 30 {
		s.Advance(200 * time.Millisecond)
		_, _ = submit(s, "guarded", asJSON, `{"email":"a","cf-turnstile-response":"bad"}`)
	}
	s.Advance(200 * time.Millisecond)
	if _, err := submit(s, "guarded", asJSON, `{"email":"a","cf-turnstile-response":"good"}`); err != nil || len(p.asked) != 36 {
		t.Errorf("a person: %v, %d captchas", err, len(p.asked))
	}
}

// Solving one captcha starts one execution, and takes one unit of the rate.
func TestForm_OneSolutionTakesOneOfTheRate(t *testing.T) {
	for _, name := range []string{"guarded", "both"} {
		s, _ := newForms(t)
		for i := range 40 {
			s.Advance(200 * time.Millisecond)
			if _, err := submit(s, name, asJSON, fmt.Sprintf(`{"email":"%d","cf-turnstile-response":"good"}`, i%2)); err != nil {
				t.Fatalf("%s, time %d: %v", name, i, err)
			}
		}
		s.Advance(200 * time.Millisecond)
		if other, err := submit(s, name, asJSON, `{"email":"ann","cf-turnstile-response":"other"}`); err != nil || other.ID == "" || started(s) != 2 {
			t.Errorf("%s: %+v, %v, %d executions", name, other, err, started(s))
		}
	}
}

// A stranger learns nothing about what others have sent, nor about the workflow; the history has
// it.
func TestForm_TellsNobodyWhatOthersHaveSent(t *testing.T) {
	s, p := newForms(t)
	s.Publish("keys", `parameters: {type: object, required: [n], properties: {n: {type: integer}}}
triggers:
  http:
    - {name: keyed, rate: 20/1m, schema: {type: object}, form: {message: Thank you}, key: "${body.email}", parameters: {n: 1}}
    - {name: signals, rate: 20/1m, schema: {type: object}, form: {message: Thank you}, key: "${body.email}", signal: more, parameters: {n: 1}, idempotencyKey: "${body.id}"}
    - {name: computed, rate: 2/1m, schema: {type: object}, form: {}, parameters: {n: "${body.secretField}"}}
    - {name: unfit, rate: 20/1m, schema: {type: object}, form: {}, parameters: {n: "${body.n}"}}
steps:
  - {label: one, wait: {for: 1h}}
`)
	s.Publish("limited", `config: {rate: {limit: 1/1h, onLimit: fail}}
triggers: {http: [{name: bounded, rate: 20/1m, schema: {type: object}, form: {}}]}
steps: [{label: one, set: {a: 1}}]
`)
	send := func(name, body string) string {
		got, err := submit(s, name, asJSON, body)
		if err == nil {
			return got.Message
		}
		var coded *workflow.Error
		if !errors.As(err, &coded) {
			t.Fatal(err)
		}
		for _, i := range coded.Issues {
			coded.Message += " " + i.Path + " " + i.Code
		}
		return string(coded.Code) + " " + coded.Message
	}
	for i, test := range []struct{ name, body, want string }{
		{"keyed", `{"email":"ann","text":"1"}`, "Thank you"},
		{"keyed", `{"email":"ann","text":"2"}`, "Thank you"},
		{"signals", `{"email":"ann","id":"1"}`, "Thank you"},
		{"computed", `{}`, "invalid the form is not filled in as it should be"},
		{"computed", `[]`, "invalid the form is not filled in as it should be body type"},
		{"unfit", `{"n":"text"}`, "invalid the form is not filled in as it should be"},
		{"contact", `{"email":7}`, "invalid the form is not filled in as it should be body.email type"},
		{"contact", `{"email":"` + strings.Repeat("x", 256<<10) + `"}`, "too_large the form is too large"},
		{"guarded", `{"email":"a","cf-turnstile-response":"no answer"}`, "unavailable the form cannot be taken now: try again later"},
		{"guarded", `{"email":"a"}`, "invalid the form is not filled in as it should be body.cf-turnstile-response captcha"},
		{"bounded", `{}`, ""},
		{"bounded", `{"a":1}`, "rate_limited the form was sent too often: try again later"},
	} {
		if got := send(test.name, test.body); got != test.want {
			t.Errorf("%d: %s %.60s: %q", i, test.name, test.body, got)
		}
	}
	if calls := triggerCalls(s, "keyed"); len(calls) != 2 || calls[0].Status+calls[1].Status != 202+409 {
		t.Errorf("%+v", calls)
	}
	if len(p.asked) != 1 {
		t.Errorf("%d captchas", len(p.asked))
	}
	if _, err := s.Catalog.PauseTrigger(context.Background(), harness.Caller, "contact", "spam by somebody"); err != nil {
		t.Fatal(err)
	}
	if got := send("contact", `{"email":"a"}`); got != "forbidden the form is not open" {
		t.Error(got)
	}
}

// Everybody reads what a form has, and nothing of what is secret, or of what is no form.
func TestForm_ShowsNoSecret(t *testing.T) {
	s, _ := newForms(t)
	ctx := context.Background()
	v, err := s.Engine.Form(ctx, harness.Caller.Tenant, "guarded")
	raw, _ := json.Marshal(v)
	if want := `{"name":"guarded","address":"/hooks/acme/guarded","schema":{"required":["email"],"type":"object"},"captcha":{"provider":"turnstile","siteKey":"0x4AAA","field":"cf-turnstile-response"}}`; err != nil || string(raw) != want {
		t.Errorf("%s, %v", raw, err)
	}
	v, err = s.Engine.Form(ctx, harness.Caller.Tenant, "contact")
	if raw, _ := json.Marshal(v); err != nil || v.Captcha != nil || strings.Contains(string(raw), "website") {
		t.Errorf("%s, %v", raw, err)
	}
	for tenant, name := range map[string]string{harness.Caller.Tenant: "plain", "other": "contact", "": "nothing"} {
		if _, err := s.Engine.Form(ctx, tenant, name); !workflow.Is(err, workflow.CodeNotFound) {
			t.Errorf("%s of %s: %v", name, tenant, err)
		}
	}
}

// A handler that dies between any two calls, and a person who sends the form again: one execution.
func TestForm_OneExecutionWhoeverDies(t *testing.T) {
	for _, test := range []struct{ name, body string }{{"contact", `{"email":"a"}`}, {"guarded", `{"email":"a","cf-turnstile-response":"good"}`}} {
		for at := 1; ; at++ {
			s, _ := newForms(t)
			calls, died := 0, false
			s.Faults = func(faults.Call) faults.Fault {
				if calls++; calls == at {
					died = true
					return faults.CrashAfter
				}
				return faults.None
			}
			faults.CatchCrash(func() { _, _ = submit(s, test.name, asJSON, test.body) })
			s.Faults = nil
			if _, err := submit(s, test.name, asJSON, test.body); err != nil || started(s) != 1 {
				t.Errorf("%s, call %d: %v, %d executions", test.name, at, err, started(s))
			}
			if !died {
				break
			}
		}
	}
}
