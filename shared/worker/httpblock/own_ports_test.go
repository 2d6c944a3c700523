package httpblock_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/worker/httpblock"
	"github.com/lockstep-run/lockstep/shared/workflow"

	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A block may call every program of this machine but the parts of the stack itself, by whatever name.
func TestClient_RefusesPortsOfTheStack(t *testing.T) {
	calls := 0
	serve := func() (url, port string) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			calls++
			_, _ = w.Write([]byte(`{"outcome":"OK"}`))
		}))
		t.Cleanup(server.Close)
		return server.URL, server.URL[strings.LastIndexByte(server.URL, ':')+1:]
	}
	own, port := serve()
	other, _ := serve()
	for _, form := range []string{own, "http://localhost:" + port, "127.0.0.1:" + port} {
		c := httpblock.New(httpblock.WithoutOwn([]string{httpblock.Loopback}, []string{form, "https://dynamodb.us-east-1.amazonaws.com"}))
		for _, url := range []string{own, own + "/executions", "http://localhost:" + port, "http://LOCALHOST:" + port, "http://[::1]:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://0.0.0.0:" + port} {

			if a := c.Call(t.Context(), &workflow.Endpoint{URL: url}, &job); a.Outcome == sm.OutcomeOK || a.Failure == nil || a.Failure.Code != "HTTP_FORBIDDEN" {
				t.Errorf("%s without %s: %+v", url, form, a)
			} else if text := a.Failure.Message; !strings.Contains(url, "0.0.0.0") && (strings.Contains(text, "add it to") || !strings.Contains(text, "an address of Lockstep itself")) {
				t.Errorf("%s without %s: %s", url, form, text)
			}
		}
		if calls != 0 {
			t.Fatalf("without %s: the stack was called %d times", form, calls)
		}
	}
	c := httpblock.New(httpblock.WithoutOwn([]string{httpblock.Loopback, "127.0.0.1:" + port}, []string{own}))
	for _, url := range []string{other, own} { // the second has an entry of its own

		if a := c.Call(t.Context(), &workflow.Endpoint{URL: url}, &job); a.Outcome != sm.OutcomeOK {
			t.Errorf("%s: %+v", url, a)
		}
	}
}
