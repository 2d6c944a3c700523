package simulator_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator"
)

// The fences of the tests: of two executions, the second later, and of the rollback and the
// takeover within the first.
const (
	firstFence    = "0000000017-000003-01-01"
	takeoverFence = "0000000017-000003-01-02"
	rollbackFence = "0000000017-000004-01-01"
	secondFence   = "0000000018-000001-01-01"
)

// fixture is a fleet behind a real listener, so that dropped connections are real.
type fixture struct {
	t      *testing.T
	fleet  *simulator.Fleet
	url    string
	client *http.Client
}

func newFixture(t *testing.T, o simulator.Options) *fixture {
	t.Helper()
	if o.Devices == nil {
		o.Devices = simulator.NumberedDevices(10)
	}
	fleet := simulator.New(o)
	server := httptest.NewServer(fleet.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(func() {
		if err := fleet.Close(); err != nil {
			t.Error(err)
		}
	})
	// One connection per call: on a reused connection net/http would repeat a dropped
	// request by itself, see TestDrop_GoClientRetriesOnReusedConnection.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return &fixture{t: t, fleet: fleet, url: server.URL, client: client}
}

// answer is any response of a device.
type answer struct {
	status       int
	err          error // the connection broke
	Code         string
	Message      string
	HighestFence string
	Version      string
	BootCount    int
	Touches      int
	Repeat       bool
}

func (r *fixture) call(method, path, body string, headers ...string) answer {
	request, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i+1] != "" {
			request.Header.Set(headers[i], headers[i+1])
		}
	}
	response, err := r.client.Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	a := answer{status: response.StatusCode}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		a.err = err
		return a
	}
	a.err = json.Unmarshal(text, &a)
	return a
}

func (r *fixture) upgrade(id, target, fence, key string) answer {
	return r.call("POST", "/devices/"+id+"/upgrade", `{"target": "`+target+`"}`, "X-Fence", fence, "Idempotency-Key", key)
}

func (r *fixture) rollback(id, version, fence, key string) answer {
	return r.call("POST", "/devices/"+id+"/rollback", `{"version": "`+version+`"}`, "X-Fence", fence, "Idempotency-Key", key)
}

func (r *fixture) configure(id, config, fence, key string) answer {
	return r.call("PUT", "/devices/"+id+"/config", config, "X-Fence", fence, "Idempotency-Key", key)
}

func (r *fixture) touch(id, fence, key string) answer {
	return r.call("POST", "/devices/"+id+"/touch", "", "X-Fence", fence, "Idempotency-Key", key)
}

func (r *fixture) control(path, behaviour string) {
	r.t.Helper()
	if a := r.call("POST", "/control"+path, behaviour); a.status != 200 {
		r.t.Fatalf("control%s %s: %+v", path, behaviour, a)
	}
}

func (r *fixture) device(id string) simulator.State {
	r.t.Helper()
	state, ok := r.fleet.Device(id)
	if !ok {
		r.t.Fatalf("no device %s", id)
	}
	return state
}

// lastEntry returns the last entry of a device's log.
func (r *fixture) lastEntry(id string) simulator.LogEntry {
	r.t.Helper()
	log := r.fleet.Log(id)
	if len(log) == 0 {
		r.t.Fatalf("the log of %s is empty", id)
	}
	return log[len(log)-1]
}

// eventually polls until a condition holds.
func (r *fixture) eventually(what string, holds func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func (r *fixture) wantNoViolations() {
	r.t.Helper()
	for _, v := range r.fleet.CheckLogs() {
		r.t.Error(v)
	}
}

func wantOK(t *testing.T, a answer) {
	t.Helper()
	if a.err != nil || a.status != 200 {
		t.Fatalf("got %+v, want status 200", a)
	}
}

func wantCode(t *testing.T, a answer, status int, code string) {
	t.Helper()
	if a.err != nil || a.status != status || a.Code != code || a.Message == "" {
		t.Fatalf("got %+v, want status %d, code %s and a message", a, status, code)
	}
}
