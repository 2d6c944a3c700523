package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-run/lockstep/shared/topology"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// F51: everybody reads what a form has and sends it, as browsers do and as JSON. A captcha is checked with
// its provider, a real receiver; what a machine has filled in gets the same answer and starts nothing.
func TestForm_EverybodySends(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-of-the-captcha"
	var mu sync.Mutex
	asked := 0
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if asked++; r.PostFormValue("secret") != secret || r.PostFormValue("idempotency_key") == "" {
			t.Errorf("the provider is asked with %v", r.PostForm)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"success": r.PostFormValue("response") == "solved"})
	}))
	t.Cleanup(provider.Close)
	file := filepath.Join(t.TempDir(), "secrets.json")
	if err := os.WriteFile(file, []byte(`{"hooks/captcha":"`+secret+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startStack(t, stackOptions{args: []string{"--secrets", file}, env: []string{topology.EnvCaptchaURL + "=" + provider.URL}})
	s.publish(`package: test
name: contacted
version: 1.0.0
parameters: {type: object, required: [email], properties: {email: {type: string}}}
triggers:
  http:
    - name: contact
      rate: 50/1m
      schema: {type: object, required: [email], properties: {email: {type: string}}, additionalProperties: false}
      form: {honeypot: website, dedupe: {fields: [email], window: 1h}, captcha: {provider: turnstile, secret: hooks/captcha, siteKey: key-for-everybody}, message: Thank you}
output: {email: "${parameters.email}"}
steps:
  - {label: a, set: {seen: "${parameters.email}"}}
`)
	get := func(name string) (int, string) {
		t.Helper()
		reply, err := http.Get(s.url + "/forms/default/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		raw, err := io.ReadAll(reply.Body)
		if err != nil {
			t.Fatal(err)
		}
		return reply.StatusCode, string(raw)
	}
	if status, body := get("contact"); status != 200 || !strings.Contains(body, "key-for-everybody") || strings.Contains(body, "website") || strings.Contains(body, "hooks/captcha") || strings.Contains(body, secret) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := get("nothing"); status != 404 {
		t.Errorf("%d %s", status, body)
	}
	submit := func(kind, body string) (int, string) {
		t.Helper()
		status, _, answer := s.callHook("contact", body, map[string]string{"Content-Type": kind})
		return status, answer
	}
	const thanks = `{"message":"Thank you"}`
	for _, c := range []struct {
		kind, body string
		status     int
		answer     string
	}{
		{"application/x-www-form-urlencoded", "email=ann%40a.example&website=&cf-turnstile-response=solved", 202, thanks},
		{"application/json", `{"email":"Ann@a.example","cf-turnstile-response":"solved"}`, 202, thanks},
		{"application/json", `{"email":"bot@a.example","website":"x"}`, 202, thanks},
		{"application/json", `{"email":"bob@a.example","cf-turnstile-response":"guessed"}`, 400, `"captcha"`},
		{"application/json", `{"email":"bob@a.example"}`, 400, `"captcha"`},
		{"application/json", `{"email":7,"cf-turnstile-response":"solved"}`, 400, `"body.email"`},
		{"text/plain", `{"email":"bob@a.example"}`, 400, `"headers.content-type"`},
	} {
		if status, answer := submit(c.kind, c.body); status != c.status || !strings.Contains(answer, c.answer) || c.status == 202 && strings.TrimSpace(answer) != c.answer {
			t.Errorf("%s: %d %s", c.body, status, answer)
		}
	}
	mu.Lock()
	if asked != 3 {
		t.Errorf("the provider was asked %d times", asked)
	}
	mu.Unlock()
	calls, err := s.TriggerCalls(t.Context(), "contact")
	if err != nil {
		t.Fatal(err)
	}
	execution, seen := "", map[int]int{}
	for _, c := range calls {
		if seen[c.Status]++; c.Status == 202 && c.Execution != "" {
			execution = c.Execution
		}
	}
	if seen[202] != 2 || seen[200] != 1 || seen[400] < 2 { // of what is refused there is one of a kind and minute
		t.Errorf("%v", seen)
	}
	s.waitForState(execution, sm.ExecutionCompletedAck)
	if r, err := s.Result(t.Context(), execution); err != nil || string(r.Output) != `{"email":"ann@a.example"}` {
		t.Errorf("%s, %v", r.Output, err)
	}
	code, out, errOut := runLockstep(t, "", "--url="+s.url, "triggers", "contact")
	if code != 0 || !strings.Contains(out, "GET /forms/default/contact") || !strings.Contains(out, "body.website: honeypot") || strings.Contains(out, secret) {
		t.Errorf("exit %d\n%s%s", code, out, errOut)
	}
	provider.Close()
	if status, answer := submit("application/json", `{"email":"eve@a.example","cf-turnstile-response":"solved"}`); status != 503 {
		t.Errorf("without a provider: %d %s", status, answer)
	}
}
