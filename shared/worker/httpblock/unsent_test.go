package httpblock_test

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/worker/httpblock"
)

// A failure says that the block was not called only where that is certain, and a
// host that may not be called names the setting.
func TestClient_MarksUnsentOnlyWhenCertain(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + gone.Addr().String()
	_ = gone.Close()
	broken := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = c.Close()
	})
	for name, c := range map[string]struct {
		url, code string
		allow     []string
		unsent    bool
	}{
		"not on the list":   {"http://192.0.2.1/", "HTTP_FORBIDDEN", []string{httpblock.Loopback}, true},
		"no address":        {"http://%zz/", "HTTP_FORBIDDEN", []string{httpblock.Loopback}, true},
		"nobody listens":    {nobody, "HTTP_UNREACHABLE", []string{httpblock.Loopback}, true},
		"broken off":        {broken, "HTTP_UNREACHABLE", []string{httpblock.Loopback}, false},
		"refused by status": {serve(t, respondWith(500, "")), "HTTP_500", []string{httpblock.Loopback}, false},
		"says so itself":    {serve(t, respondWith(200, `{"outcome":"ERROR","error":{"code":"NO","unsent":true}}`)), "NO", []string{httpblock.Loopback}, false},
	} {
		a := call(c.url, c.allow...)
		if a.Failure == nil || a.Failure.Code != c.code || a.Failure.Unsent != c.unsent {
			t.Errorf("%s: %+v", name, a.Failure)
			continue
		}
		if c.code == "HTTP_FORBIDDEN" && !strings.Contains(a.Failure.Message, "LOCKSTEP_WORKER_ALLOW_HOSTS") {
			t.Errorf("%s: it does not name the setting: %s", name, a.Failure.Message)
		}
	}
}
