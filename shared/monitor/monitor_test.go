package monitor_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/monitor"
)

// Every file of the page is served, under a policy that allows no inline script.
func TestHandler_ServesPage(t *testing.T) {
	h := monitor.Handler()
	for path, kind := range map[string]string{"/": "text/html", "/monitor/page.js": "text/javascript", "/monitor/page.css": "text/css"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) {
			t.Errorf("%s: %d %s", path, w.Code, w.Header().Get("Content-Type"))
		}
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", path, policy)
		}
		if path == "/" && (strings.Contains(w.Body.String(), "<script>") || strings.Contains(w.Body.String(), " style=")) {
			t.Error("the page has inline script or style, which its policy forbids")
		}
		for _, markup := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval("} {
			if strings.Contains(w.Body.String(), markup) {
				t.Errorf("%s uses %s: data is set as text only", path, markup)
			}
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/monitor/../monitor.go", nil))
	if w.Code == http.StatusOK {
		t.Error("a file outside the page is served")
	}
}
