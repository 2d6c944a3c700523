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

// deployed says where the stack is that the tests run against, if it is not one of
// their own: LOCKSTEP_E2E=localstack, with which tests/localstack starts them. The
// configuration is then that of the stack.
var deployed = struct {
	on    bool
	url   string // of the function
	at    string // host:port of LocalStack, who serves it
	reach string // this machine as functions know it
}{
	os.Getenv("LOCKSTEP_E2E") == "localstack", os.Getenv("LOCKSTEP_E2E_URL"), os.Getenv("LOCKSTEP_E2E_AT"), os.Getenv("LOCKSTEP_E2E_REACH"),
}

// requireEmbedded says that a test needs a stack of its own, and why. Against one that is
// deployed it is left out.
func requireEmbedded(t testing.TB, why string) {
	t.Helper()
	if deployed.on {
		t.Skip("not on a stack that is deployed: " + why)
	}
}

// skipUnsupported leaves out tests whose stack differs by more than its configuration.
func skipUnsupported(t testing.TB, o stackOptions) {
	t.Helper()
	switch {
	case len(o.env) > 0:
		requireEmbedded(t, "it stands between the functions and a service of its own")
	case len(o.args) > 0:
		requireEmbedded(t, "it starts worker programs with the stack")
	case o.data != "" || o.port != 0:
		requireEmbedded(t, "it stops the stack and starts it again on its data")
	case o.config != "" && o.config != longLeaseConfig:
		requireEmbedded(t, "it has a configuration of its own")
	}
}

var tenantCount atomic.Int32

// attachTenant makes a deployed stack look like the test's own: a door on this machine,
// behind which the test is a tenant of its own, and so are the tenants that it names.
func attachTenant(t testing.TB, s *localStack) {
	t.Helper()
	if deployed.url == "" || deployed.at == "" {
		t.Fatal("there is no deployed stack: make test-localstack brings one up")
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
	door := httptest.NewServer(handler)
	t.Cleanup(door.Close)
	s.url = door.URL
	if s.Client, err = client.New(client.Options{URL: s.url}); err != nil {
		t.Fatal(err)
	}
}

// serveReachable serves something that functions call. From within a container, this
// machine has another name, and its loopback interface is out of reach.
func serveReachable(h http.Handler) (server *httptest.Server, url string) {
	if deployed.reach == "" || deployed.reach == "127.0.0.1" {
		server = httptest.NewServer(h)
		return server, server.URL
	}
	server = httptest.NewUnstartedServer(h)
	if listener, err := net.Listen("tcp", "0.0.0.0:0"); err == nil { //nolint:gosec // containers have to get here
		_ = server.Listener.Close()
		server.Listener = listener
	}
	server.Start()
	return server, "http://" + deployed.reach + server.URL[strings.LastIndex(server.URL, ":"):]
}
