package demo

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator"
)

// newTestFleet returns ten devices behind a real listener, and the demo's client for them.
func newTestFleet(t *testing.T) (*simulator.Fleet, *fleet) {
	t.Helper()
	s := simulator.New(simulator.Options{Devices: simulator.NumberedDevices(10)})
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(func() { _ = s.Close() })
	return s, newFleet(server.URL, s.IDs())
}

// sendChange requests a change of a device.
func sendChange(t *testing.T, f *fleet, id, operation, body, fence, key string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, f.url+"/devices/"+id+"/"+operation, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Fence", fence)
	req.Header.Set("Idempotency-Key", key)
	reply, err := f.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _ = reply.Body.Close(); reply.StatusCode != http.StatusOK {
		t.Fatal(reply.Status)
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error %q lacks %q", err, part)
		}
	}
}

func TestVerifyVersions_NamesEveryWrongDevice(t *testing.T) {
	_, f := newTestFleet(t)
	var out bytes.Buffer
	d := Demo{Out: &out, fleet: f}
	if err := d.verifyDevices(t.Context(), f.uniformVersions("1.0.0")); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "10 x 1.0.0") {
		t.Errorf("got %s", &out)
	}
	sendChange(t, f, "sw-003", "upgrade", `{"target":"2.0.0"}`, "1", "a")
	sendChange(t, f, "sw-007", "upgrade", `{"target":"3.0.0"}`, "1", "b")
	out.Reset()
	err := d.verifyDevices(t.Context(), f.uniformVersions("1.0.0"))
	wantError(t, err, "2 of 10 devices", "sw-003 has version 2.0.0, want 1.0.0", "sw-007 has version 3.0.0")
	// The error of an execution with the wrong outcome names them too.
	ended := errors.New("wrong outcome")
	wantError(t, d.withDeviceReport(t.Context(), ended, f.uniformVersions("1.0.0")), "wrong outcome", "sw-003 has version 2.0.0", "sw-007")
	if out.Len() != 0 {
		t.Errorf("unexpected output: %s", &out)
	}
	if found, err := f.versions(t.Context()); err != nil || len(found) != 10 || found["sw-003"] != "2.0.0" {
		t.Errorf("the devices run %v, %v", found, err)
	}
}

func TestVerifyVersions_FailsWhenDeviceUnreachable(t *testing.T) {
	s, f := newTestFleet(t)
	if err := f.setBehaviour(t.Context(), "/sw-004", `{"refuse":{"operations":["read"]}}`); err != nil {
		t.Fatal(err)
	}
	wantError(t, f.verifyVersions(t.Context(), f.uniformVersions("1.0.0")), "sw-004", "503")

	if err := f.setBehaviour(t.Context(), "/sw-004", `{}`); err != nil {
		t.Fatal(err)
	}
	missing := newFleet(f.url, append(s.IDs(), "sw-011"))
	wantError(t, missing.verifyVersions(t.Context(), missing.uniformVersions("1.0.0")), "sw-011", "404")

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.verifyVersions(gone, f.uniformVersions("1.0.0")); err == nil {
		t.Error("nobody was asked and all is well")
	}
}

func TestVerifyLogs_ReportsViolations(t *testing.T) {
	_, f := newTestFleet(t)
	if err := f.verifyLogs(t.Context()); err != nil {
		t.Fatal(err)
	}
	sendChange(t, f, "sw-005", "touch", `{}`, "1", "same")
	sendChange(t, f, "sw-005", "touch", `{}`, "2", "same")
	wantError(t, f.verifyLogs(t.Context()), "sw-005", "started_twice")
}

// Only a rollback in the device's own log counts, and only if the device had the version.
func TestCountRolledBack_CountsEffectiveRollbacks(t *testing.T) {
	_, f := newTestFleet(t)
	sendChange(t, f, "sw-001", "upgrade", `{"target":"3.0.0"}`, "1", "a")
	sendChange(t, f, "sw-001", "rollback", `{"version":"1.0.0"}`, "2", "b")
	sendChange(t, f, "sw-002", "rollback", `{"version":"1.0.0"}`, "2", "c") // it was never upgraded
	sendChange(t, f, "sw-003", "upgrade", `{"target":"3.0.0"}`, "1", "d")   // it still has the version
	if n, err := f.countRolledBack(t.Context(), "3.0.0"); n != 1 || err != nil {
		t.Errorf("%d devices rolled back, %v; want 1", n, err)
	}
}

func TestSetBehaviour_ReturnsDeviceError(t *testing.T) {
	_, f := newTestFleet(t)
	wantError(t, f.setBehaviour(t.Context(), "/sw-999", `{}`), "404")
}
