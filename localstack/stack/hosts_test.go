package stack

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// The API of a local stack answers under the names of this machine: a web page that has its own name
// resolved to 127.0.0.1 gets nothing.
func TestLocalHostsOnly_RefusesOtherNames(t *testing.T) {
	h := localHostsOnly(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for host, want := range map[string]int{
		"localhost": http.StatusNoContent, "localhost:3030": http.StatusNoContent, "127.0.0.1:3030": http.StatusNoContent, "[::1]:3030": http.StatusNoContent, "[::1]": http.StatusNoContent,
		"evil.example": http.StatusMisdirectedRequest, "evil.example:3030": http.StatusMisdirectedRequest, "localhost.evil.example:3030": http.StatusMisdirectedRequest,
		"127.0.0.1.evil.example": http.StatusMisdirectedRequest, "192.0.2.1:3030": http.StatusMisdirectedRequest, "": http.StatusMisdirectedRequest,
	} {
		r := httptest.NewRequest(http.MethodGet, "/workers", nil)
		r.Host = host
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%q: %d, want %d", host, w.Code, want)
		}
	}
}
