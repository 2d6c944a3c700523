package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// The doctor reports no problem in a healthy stack, a warning for an execution that
// needs an operator, and a failure for what cannot work. It leaves nothing behind.
func TestDoctor_ChecksStack(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	b := serveBlocks(t)
	b.register(s, workflow.Block{Name: "hello"})
	b.handle("hello", func(call) blockAnswer { return errorAnswer("NO", false) })
	s.publish(globalWorkflow)

	type finding struct{ Check, Level, Says, Next string }
	doctor := func(want int, args ...string) map[string]finding {
		t.Helper()
		code, out, err := runLockstep(t, "", append([]string{"doctor", "-o", "json"}, args...)...)
		var report struct {
			OK       bool
			Findings []finding
		}
		if failure := json.Unmarshal([]byte(out), &report); failure != nil || code != want || report.OK != (want == 0) {
			t.Fatalf("exit %d, %v\n%s%s", code, failure, out, err)
		}
		found := map[string]finding{}
		for _, f := range report.Findings {
			found[f.Check] = f
		}
		return found
	}
	url := "--url=" + s.url
	found := doctor(0, url)
	for _, check := range []string{"address", "clock", "rights", "version", "dead letters", "sweep", "workers", "pools", "runs"} {
		if check == "pools" && deployed.on {
			continue // other tests use the pools at the same time
		}
		if found[check].Level != "ok" {
			t.Errorf("%s: %+v", check, found[check])
		}
	}
	for what, path := range map[string]string{"runs": "/workflow-execution", "entities": "/entities?type=device"} {
		if _, body := s.sendRaw("GET", path, "", ""); !strings.Contains(body, `"items":[]`) {
			t.Errorf("the doctor left %s: %s", what, body)
		}
	}

	id := s.startExecution("test/hello", `{}`)
	s.waitForState(id, sm.ExecutionFailedUnsafe)
	if f := doctor(0, url)["runs"]; f.Level != "warning" || !strings.Contains(f.Says, id) || f.Next == "" {
		t.Errorf("with an unsafe execution: %+v", f)
	}
	if f := doctor(4, "--url=http://127.0.0.1:1")["address"]; f.Level != "failure" || f.Next == "" {
		t.Errorf("without a service: %+v", f)
	}
	if code, out, _ := runLockstep(t, "", url, "doctor"); code != 0 || !strings.Contains(out, "-> ") || !strings.Contains(out, ", 0 failures") {
		t.Errorf("text output, exit %d:\n%s", code, out)
	}

	// A proxy whose clock is one hour behind.
	target, err := neturl.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(r *http.Response) error {
		r.Header.Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
		return nil
	}
	late := httptest.NewServer(proxy)
	t.Cleanup(late.Close)
	if f := doctor(1, "--url="+late.URL)["clock"]; f.Level != "failure" || !strings.Contains(f.Says, "1h0m") {
		t.Errorf("with a wrong clock: %+v", f)
	}
}
