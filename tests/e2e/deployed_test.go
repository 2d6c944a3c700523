package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lockstep-run/lockstep/localstack/emulator"
	"github.com/lockstep-run/lockstep/shared/client"
)

// deployed is the deployed stack that the tests use instead of their own, if
// LOCKSTEP_E2E=localstack is set, as tests/localstack does. Its configuration applies.
var deployed = struct {
	on    bool
	url   string // function URL
	at    string // host:port of LocalStack
	reach string // host name of this machine for functions
}{
	os.Getenv("LOCKSTEP_E2E") == "localstack", os.Getenv("LOCKSTEP_E2E_URL"), os.Getenv("LOCKSTEP_E2E_AT"), os.Getenv("LOCKSTEP_E2E_REACH"),
}

// requireEmbedded skips a test that needs its own stack, with the reason, if the tests
// use a deployed one.
func requireEmbedded(t testing.TB, why string) {
	t.Helper()
	if deployed.on {
		t.Skip("needs an embedded stack: " + why)
	}
}

// skipUnsupported skips tests whose stack options a deployed stack cannot have.
func skipUnsupported(t testing.TB, o stackOptions) {
	t.Helper()
	switch {
	case len(o.env) > 0:
		requireEmbedded(t, "it replaces a service of the stack")
	case len(o.args) > 0:
		requireEmbedded(t, "it starts worker programs with the stack")
	case o.data != "" || o.port != 0:
		requireEmbedded(t, "it restarts the stack on its data")
	case o.config != "" && o.config != longLeaseConfig:
		requireEmbedded(t, "it has its own configuration")
	}
}

var tenantCount atomic.Int32

// attachTenant makes a deployed stack look like the test's own: a proxy on this machine
// gives the test a separate tenant and prefixes the tenants that it names.
func attachTenant(t testing.TB, s *localStack) {
	t.Helper()
	if deployed.url == "" || deployed.at == "" {
		t.Fatal("there is no deployed stack: run make test-localstack")
	}
	tenant := fmt.Sprintf("t%d", tenantCount.Add(1))
	handler, err := emulator.NewFunctionURLProxy(deployed.url, deployed.at, func(r *http.Request) {
		if named := r.Header.Get("X-Tenant"); named != "" {
			r.Header.Set("X-Tenant", tenant+"-"+named)
		} else {
			r.Header.Set("X-Tenant", tenant)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(handler)
	t.Cleanup(proxy.Close)
	s.url = proxy.URL
	if s.Client, err = client.New(client.Options{URL: s.url}); err != nil {
		t.Fatal(err)
	}
}

// serveReachable serves a handler that functions call. Inside a container this machine
// has another host name, and its loopback interface is not reachable.
func serveReachable(h http.Handler) (server *httptest.Server, url string) {
	if deployed.reach == "" || deployed.reach == "127.0.0.1" {
		server = httptest.NewServer(h)
		return server, server.URL
	}
	server = httptest.NewUnstartedServer(h)
	if listener, err := net.Listen("tcp", "0.0.0.0:0"); err == nil { //nolint:gosec // containers must reach it
		_ = server.Listener.Close()
		server.Listener = listener
	}
	server.Start()
	return server, "http://" + deployed.reach + server.URL[strings.LastIndex(server.URL, ":"):]
}
