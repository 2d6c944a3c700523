package monitor_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/monitor"
)

// Every file of the page is served, under a policy that allows no inline script.
func TestHandler_ServesPage(t *testing.T) {
	h := monitor.Handler()
	for path, kind := range map[string]string{
		"/": "text/html", "/monitor/page.js": "text/javascript", "/answer": "text/html", "/monitor/answer.js": "text/javascript",
		"/monitor/page.css": "text/css", "/monitor/licences.txt": "text/plain",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) {
			t.Errorf("%s: %d %s", path, w.Code, w.Header().Get("Content-Type"))
		}
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", path, policy)
		}
		if (path == "/" || path == "/answer") && (strings.Contains(w.Body.String(), "<script>") || strings.Contains(w.Body.String(), " style=")) {
			t.Error("the page has inline script or style, which its policy forbids")
		}
		for _, forbidden := range []string{"eval(", "new Function", "document.write", "https://", "//cdn"} {
			if strings.Contains(w.Body.String(), forbidden) {
				t.Errorf("%s has %s, which its policy forbids", path, forbidden)
			}
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/monitor/../monitor.go", nil))
	if w.Code == http.StatusOK {
		t.Error("a file outside the page is served")
	}
}

// No source of the page makes markup out of text.
func TestSources_SetDataAsText(t *testing.T) {
	read := 0
	err := filepath.WalkDir(filepath.Join("app", "src"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		read++
		for _, markup := range []string{"InnerHTML", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval(", "new Function"} {
			if strings.Contains(string(text), markup) {
				t.Errorf("%s uses %s: data is set as text only", path, markup)
			}
		}
		return err
	})
	if err != nil || read < 10 {
		t.Errorf("%d sources were read: %v", read, err)
	}
}
