// Package httpapi tests the HTTP API against its OpenAPI document, with requests that the
// document allows and many that it does not. The real routes, engine, catalog and worker
// API run on the simulation's stores, in one process.
//
// fixture_test.go serves the API. openapi_test.go reads the routes of the document, and
// checks answers against it. values_test.go generates values that match a schema or
// nearly do, requests_test.go generates requests, and generated_test.go sends thousands
// of them. tenants_test.go tries every route as a second tenant. request_limits_test.go
// and execution_limits_test.go try each limit of docs/limits.md, and one more. A route
// that is added to the document fails these tests until they have requests for it.
package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
	"github.com/lockstep-run/lockstep/tests/sim/simapi"
)

// fixture is the HTTP API on a simulation.
type fixture struct {
	*simapi.Service
	tenant string // of requests without an X-Tenant header
}

// newFixture returns a fixture in which a worker runs the blocks of package p.
func newFixture(t testing.TB, seed uint64) *fixture {
	return newFixtureWith(t, seed, harness.Options())
}

func newFixtureWith(t testing.TB, seed uint64, o engine.Options) *fixture {
	f := &fixture{simapi.New(harness.New(t, seed, o), func(tenant string) bool { return tenant == ownerTenant }), harness.Caller.Tenant}
	f.RegisterBlocks()
	return f
}

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) String() string { return fmt.Sprintf("%d %.1500s", a.status, a.body) }

// do sends a request as the fixture's tenant. Headers are given as "Name: value".
func (f *fixture) do(method, target, body string, headers ...string) answer {
	r, err := http.NewRequest(method, "http://test"+target, strings.NewReader(body))
	if err != nil {
		f.Fatalf("%s %q: %v", method, target, err)
	}
	r.RequestURI = target
	r.Header.Set("X-Tenant", f.tenant)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	return f.send(r)
}

func (f *fixture) send(r *http.Request) answer {
	rec := httptest.NewRecorder()
	f.Handler.ServeHTTP(rec, r)
	return answer{rec.Code, rec.Header(), rec.Body.Bytes()}
}

// mustDo sends a request that must succeed, and decodes the answer into v.
func (f *fixture) mustDo(v any, method, target, body string, headers ...string) answer {
	f.Helper()
	a := f.do(method, target, body, headers...)
	if a.status >= 300 {
		f.Fatalf("%s %s %.300s: %s", method, target, body, a)
	}
	if v != nil {
		if err := json.Unmarshal(a.body, v); err != nil {
			f.Fatalf("%s %s: %v in %s", method, target, err, a)
		}
	}
	return a
}

// addDeadLetter adds a wake-up of an execution to the dead letters of the lifecycle queue.
func (f *fixture) addDeadLetter(tenant, execution string) {
	f.Helper()
	raw, err := json.Marshal(workflow.Wakeup{Tenant: tenant, Execution: execution})
	if err != nil {
		f.Fatal(err)
	}
	f.DeadLetterQueue("lifecycle").AddDeadLetter(raw)
}
