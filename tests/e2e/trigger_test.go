package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

const triggerSecret = "hunter2-of-the-trigger"

// callHook calls a trigger of the default tenant over HTTP.
func (s *localStack) callHook(name, body string, headers map[string]string) (status int, receipt views.TriggerReceipt, answer string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+"/hooks/default/"+name, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer reply.Body.Close()
	raw, err := io.ReadAll(reply.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if reply.StatusCode < 300 {
		if err := json.Unmarshal(raw, &receipt); err != nil {
			s.t.Fatalf("%v: %s", err, raw)
		}
	}
	return reply.StatusCode, receipt, string(raw)
}

// R58: a call of a trigger starts an execution, once; what is not valid, paused or unknown is refused,
// changes nothing, and is in its history.
func TestTrigger_CallsStartExecutions(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secrets.json")
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"hooks/shop":%q}`, triggerSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startStack(t, stackOptions{args: []string{"--secrets", file}})
	s.publish(`package: test
name: triggered
version: 1.0.0
parameters: {type: object, required: [n], properties: {n: {type: integer}}}
triggers:
  http:
    - {name: shop, verify: {scheme: hmac, secret: hooks/shop}, parameters: {n: "${body.n}"}, idempotencyKey: "${headers['x-delivery']}", rate: 8/1m}
output: {n: "${vars.n}"}
steps:
  - {label: a, set: {n: "${parameters.n + 1}"}}
`)
	call := func(delivery, body string) (int, views.TriggerReceipt, string) {
		t.Helper()
		return s.callHook("shop", body, map[string]string{"Lockstep-Signature": workflow.Sign([]byte(triggerSecret), time.Now(), []byte(body)), "X-Delivery": delivery})
	}
	status, first, answer := call("one", `{"n":1}`)
	if status != http.StatusAccepted {
		t.Fatal(status, answer)
	}
	s.waitForState(first.ID, sm.ExecutionCompletedAck)
	if r, err := s.Result(t.Context(), first.ID); err != nil || string(r.Output) != `{"n":2}` {
		t.Errorf("%s, %v", r.Output, err)
	}
	if status, again, answer := call("one", `{"n":1}`); status != http.StatusOK || again.ID != first.ID || !again.Duplicate {
		t.Errorf("the same delivery: %d %s", status, answer)
	}
	if status, _, answer := call("two", `{"n":"many"}`); status != http.StatusBadRequest || !strings.Contains(answer, `"parameters.n"`) {
		t.Errorf("not valid: %d %s", status, answer)
	}
	refuse := func(name string, headers map[string]string) string {
		t.Helper()
		status, _, answer := s.callHook(name, `{"n":1}`, headers)
		if status != http.StatusUnauthorized {
			t.Errorf("%s %v: %d %s", name, headers, status, answer)
		}
		var p struct{ Detail, Code string }
		_ = json.Unmarshal([]byte(answer), &p)
		return p.Detail + p.Code
	}
	old := workflow.Sign([]byte(triggerSecret), time.Now().Add(-10*time.Minute), []byte(`{"n":1}`))
	forged := workflow.Sign([]byte("another secret"), time.Now(), []byte(`{"n":1}`))
	if a, b, c := refuse("shop", map[string]string{"Lockstep-Signature": forged}), refuse("nothing", nil), refuse("shop", map[string]string{"Lockstep-Signature": old}); a != b || b != c {
		t.Errorf("%q, %q and %q", a, b, c)
	}
	if code, out, errOut := runLockstep(t, "", "--url="+s.url, "triggers", "pause", "shop", "--reason", "freeze"); code != 0 {
		t.Errorf("pause: exit %d\n%s%s", code, out, errOut)
	}
	if status, _, answer := call("three", `{"n":33}`); status != http.StatusForbidden {
		t.Errorf("paused: %d %s", status, answer)
	}
	code, out, errOut := runLockstep(t, "", "--url="+s.url, "triggers", "fire", "shop", "--body", `{"n":41}`, "--header", "x-delivery=by-hand")
	if code != 0 {
		t.Fatalf("fire: exit %d\n%s%s", code, out, errOut)
	}
	s.waitForState(strings.TrimSpace(out), sm.ExecutionCompletedAck)
	if code, out, errOut := runLockstep(t, "", "--url="+s.url, "triggers", "resume", "shop"); code != 0 {
		t.Errorf("resume: exit %d\n%s%s", code, out, errOut)
	}
	limited := false
	for i := range 9 {
		status, _, answer := call(fmt.Sprint("flood", i), fmt.Sprintf(`{"n":%d}`, 100+i))
		if limited = status == http.StatusTooManyRequests; limited {
			break
		}
		if status >= 300 {
			t.Errorf("call %d: %d %s", i, status, answer)
		}
	}
	if !limited {
		t.Error("no call is above the rate")
	}
	calls, err := s.TriggerCalls(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]int{}
	for _, c := range calls {
		seen[c.Status]++
	}
	for _, status := range []int{200, 202, 400, 401, 403, 429} {
		if seen[status] == 0 {
			t.Errorf("no call with the status %d: %v", status, seen)
		}
	}
	code, out, errOut = runLockstep(t, "", "--url="+s.url, "triggers", "shop")
	if code != 0 || !strings.Contains(out, "parameters.n: type") || !strings.Contains(out, first.ID) || strings.Contains(out, triggerSecret) {
		t.Errorf("exit %d\n%s%s", code, out, errOut)
	}
}
