package process_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/lockstep-run/lockstep/localstack/process"
)

func TestListenLoopback_AddressIsLoopbackAndNew(t *testing.T) {
	seen := map[string]bool{}
	for range 5 {
		l, err := process.ListenLoopback("")
		if err != nil {
			t.Fatal(err)
		}
		host, _, err := net.SplitHostPort(l.Addr().String())
		if err != nil || !net.ParseIP(host).IsLoopback() {
			t.Errorf("%s: %v", l.Addr(), err)
		}
		seen[l.Addr().String()] = true
		_ = l.Close()
	}
	if len(seen) < 2 {
		t.Errorf("the same address each time: %v", seen)
	}
}

// An address is used again while nobody else has it.
func TestListenLoopback_TakesTheAddressOfBefore(t *testing.T) {
	first, err := process.ListenLoopback("")
	if err != nil {
		t.Fatal(err)
	}
	address := first.Addr().String()
	for _, before := range []string{address, "192.0.2.1:80", "nonsense"} {
		l, err := process.ListenLoopback(before)
		if err != nil || l.Addr().String() == before {
			t.Fatalf("%s: %v", before, err)
		}
		_ = l.Close()
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := process.ListenLoopback(address)
	if err != nil || again.Addr().String() != address {
		t.Fatalf("%v, want %s", err, address)
	}
	_ = again.Close()
}

func TestPrivateDir_ClosesDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for range 2 {
		if err := process.PrivateDir(dir); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info, err)
		}
		if err := os.Chmod(dir, 0o755); err != nil { // as an older release made it
			t.Fatal(err)
		}
	}
}

func TestProgramsOnly_RefusesBrowsersAndOtherHosts(t *testing.T) {
	h := process.ProgramsOnly("127.5.6.7:1234", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for name, c := range map[string]struct {
		host, header string
		want         int
	}{
		"a program":         {"127.5.6.7:1234", "", http.StatusNoContent},
		"another host":      {"evil.example:1234", "", http.StatusForbidden},
		"another port":      {"127.5.6.7:1235", "", http.StatusForbidden},
		"a page's script":   {"127.5.6.7:1234", "Origin", http.StatusForbidden},
		"a browser's fetch": {"127.5.6.7:1234", "Sec-Fetch-Site", http.StatusForbidden},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Host = c.host
		if c.header != "" {
			r.Header.Set(c.header, "null")
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("%s: %d, want %d", name, w.Code, c.want)
		}
	}
}
