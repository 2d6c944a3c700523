package simulator_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator"
)

func TestFleet_NewDeviceState(t *testing.T) {
	r := newFixture(t, simulator.Options{InitialVersion: "1.4.2"})
	state := r.device("sw-003")
	if state.Version != "1.4.2" || state.BootCount != 1 || state.Changes != 0 || state.HighestFence != "" || state.Busy {
		t.Errorf("got %+v", state)
	}
	if got := r.fleet.Versions(); len(got) != 1 || got["1.4.2"] != 10 {
		t.Errorf("versions %v, want ten times 1.4.2", got)
	}
	a := r.call("GET", "/devices/sw-003", "")
	wantOK(t, a)
	if a.Version != "1.4.2" || a.BootCount != 1 {
		t.Errorf("over HTTP: %+v", a)
	}
}

func TestDevice_UpgradesAndRollsBack(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	r := newFixture(t, simulator.Options{Now: func() time.Time { return at }})
	wantOK(t, r.upgrade("sw-001", "2.0.0", firstFence, "job-1"))
	if s := r.device("sw-001"); s.Version != "2.0.0" || s.BootCount != 2 || s.HighestFence != firstFence {
		t.Errorf("after the upgrade: %+v", s)
	}
	want := simulator.LogEntry{
		Seq: 1, At: at, EndedAt: at, Operation: simulator.OpUpgrade, Requested: "2.0.0", Fence: firstFence, Token: 17,
		IdempotencyKey: "job-1", Accepted: true, Applied: true, Effective: true, Outcome: simulator.OutcomeAnswered,
		From: "1.0.0", To: "2.0.0",
	}
	if got := r.lastEntry("sw-001"); got != want {
		t.Errorf("log\n got %+v\nwant %+v", got, want)
	}
	wantOK(t, r.rollback("sw-001", "1.0.0", rollbackFence, "job-2"))
	if s := r.device("sw-001"); s.Version != "1.0.0" || s.BootCount != 3 {
		t.Errorf("after the rollback: %+v", s)
	}
	if s := r.device("sw-002"); s.Version != "1.0.0" || s.BootCount != 1 || s.Changes != 0 {
		t.Errorf("another device: %+v", s)
	}
	r.wantNoViolations()
}

// A worker that takes over repeats the same job with a higher fence.
func TestDevice_RepeatChangesNothing(t *testing.T) {
	r := newFixture(t, simulator.Options{})
	wantOK(t, r.upgrade("sw-001", "2.0.0", firstFence, "job-1"))
	for _, fence := range []string{firstFence, takeoverFence} {
		a := r.upgrade("sw-001", "2.0.0", fence, "job-1")
		wantOK(t, a)
		if !a.Repeat || a.BootCount != 2 {
			t.Errorf("repeat with fence %s: %+v", fence, a)
		}
		if e := r.lastEntry("sw-001"); !e.Repeat || !e.Accepted || !e.Applied || e.Effective {
			t.Errorf("log of the repeat with fence %s: %+v", fence, e)
		}
	}
	// Another job with the same target is not a repeat, but needs no boot.
	wantOK(t, r.upgrade("sw-001", "2.0.0", secondFence, "job-2"))
	if e, s := r.lastEntry("sw-001"), r.device("sw-001"); e.Repeat || e.Effective || s.BootCount != 2 {
		t.Errorf("another job: %+v, %+v", e, s)
	}
	r.wantNoViolations()
}

// Scenario N31, the device's part: a late holder is refused because of its fence.
func TestDevice_RefusesLowerFence(t *testing.T) {
	r := newFixture(t, simulator.Options{})
	wantOK(t, r.upgrade("sw-001", "2.0.0", secondFence, "job-9"))
	before := r.device("sw-001")
	for name, a := range map[string]answer{
		"upgrade":   r.upgrade("sw-001", "3.0.0", takeoverFence, "job-1"),
		"rollback":  r.rollback("sw-001", "1.0.0", rollbackFence, "job-2"),
		"configure": r.configure("sw-001", `{"mtu": "9000"}`, firstFence, "job-3"),
		"touch":     r.touch("sw-001", firstFence, "job-4"),
		"its own":   r.upgrade("sw-001", "2.0.0", firstFence, "job-9"),
	} {
		t.Run(name, func(t *testing.T) {
			wantCode(t, a, 409, simulator.CodeStaleFence)
			if a.HighestFence != secondFence {
				t.Errorf("highest fence %q, want %q", a.HighestFence, secondFence)
			}
		})
	}
	after := r.device("sw-001")
	if after.Changes != 6 {
		t.Errorf("%d entries in the log, want 6: refused changes are logged", after.Changes)
	}
	after.Changes = before.Changes
	if after.Version != before.Version || after.BootCount != before.BootCount || len(after.Config) != 0 || after.Touches != 0 || after.HighestFence != secondFence {
		t.Errorf("a refused change left a trace: %+v, before %+v", after, before)
	}
	for _, e := range r.fleet.Log("sw-001")[1:] {
		if e.Accepted || e.Applied || e.Outcome != simulator.OutcomeRefused || e.Code != simulator.CodeStaleFence || e.Token != 17 {
			t.Errorf("log %+v", e)
		}
	}
	// Each device has its own fence: another one has seen none.
	wantOK(t, r.upgrade("sw-002", "3.0.0", firstFence, "job-5"))
	r.wantNoViolations()
}

func TestRefuse_RecordsFence(t *testing.T) {
	r := newFixture(t, simulator.Options{})
	r.control("/sw-001", `{"refuse": {"times": 1}}`)
	wantCode(t, r.upgrade("sw-001", "2.0.0", secondFence, "job-2"), 503, simulator.CodeRefused)
	wantCode(t, r.upgrade("sw-001", "2.0.0", firstFence, "job-1"), 409, simulator.CodeStaleFence)
}

func TestDevice_Configures(t *testing.T) {
	r := newFixture(t, simulator.Options{})
	wantOK(t, r.configure("sw-001", `{"mtu": "1500", "vlan": "7"}`, firstFence, "job-1"))
	wantOK(t, r.configure("sw-001", `{"mtu": "9000", "vlan": null, "absent": null}`, firstFence, "job-2"))
	if c := r.device("sw-001").Config; len(c) != 1 || c["mtu"] != "9000" {
		t.Errorf("config %v, want mtu 9000 alone", c)
	}
	wantOK(t, r.configure("sw-001", `{"mtu": "9000"}`, firstFence, "job-2b"))
	if e := r.lastEntry("sw-001"); e.Effective || !e.Applied || e.Requested != `{"mtu":"9000"}` {
		t.Errorf("the same again: %+v", e)
	}
	r.wantNoViolations()
}

func TestDevice_TouchCountsEveryCall(t *testing.T) {
	r := newFixture(t, simulator.Options{})
	wantOK(t, r.touch("sw-001", firstFence, "job-1"))
	wantOK(t, r.touch("sw-001", firstFence, "job-2"))
	r.wantNoViolations()
	if a := r.touch("sw-001", takeoverFence, "job-2"); a.Touches != 3 || !a.Repeat {
		t.Errorf("the third touch: %+v", a)
	}
	var rules []simulator.Rule
	for _, v := range r.fleet.CheckLogs("sw-001") {
		if v.Device != "sw-001" || v.First != 2 || v.Second != 3 {
			t.Errorf("violation %s", v)
		}
		rules = append(rules, v.Rule)
	}
	if len(rules) != 2 || rules[0] != simulator.RuleStartedTwice || rules[1] != simulator.RuleAppliedTwice {
		t.Errorf("rules %v, want started_twice and applied_twice", rules)
	}
	if len(r.fleet.CheckLogs("sw-002")) != 0 {
		t.Error("the neighbour is judged guilty")
	}
}

func TestHandler_BadInputChangesNothing(t *testing.T) {
	r := newFixture(t, simulator.Options{})
	big := `{"target": "` + strings.Repeat("9", 70_000) + `"}`
	for name, c := range map[string]struct {
		method, path, body, fence, key string
		status                         int
		code                           string
	}{
		"no fence":           {"POST", "/devices/sw-001/upgrade", `{"target": "2"}`, "", "job", 400, simulator.CodeFenceRequired},
		"no key":             {"POST", "/devices/sw-001/upgrade", `{"target": "2"}`, firstFence, "", 400, simulator.CodeKeyRequired},
		"no JSON":            {"POST", "/devices/sw-001/upgrade", `target=2`, firstFence, "job", 400, simulator.CodeInvalid},
		"empty body":         {"POST", "/devices/sw-001/upgrade", ``, firstFence, "job", 400, simulator.CodeInvalid},
		"no target":          {"POST", "/devices/sw-001/upgrade", `{}`, firstFence, "job", 400, simulator.CodeInvalid},
		"unknown field":      {"POST", "/devices/sw-001/upgrade", `{"target": "2", "force": true}`, firstFence, "job", 400, simulator.CodeInvalid},
		"wrong type":         {"POST", "/devices/sw-001/upgrade", `{"target": 2}`, firstFence, "job", 400, simulator.CodeInvalid},
		"two values":         {"POST", "/devices/sw-001/upgrade", `{"target": "2"} {}`, firstFence, "job", 400, simulator.CodeInvalid},
		"huge body":          {"POST", "/devices/sw-001/upgrade", big, firstFence, "job", 413, simulator.CodeTooLarge},
		"no version":         {"POST", "/devices/sw-001/rollback", `{"target": "2"}`, firstFence, "job", 400, simulator.CodeInvalid},
		"no config":          {"PUT", "/devices/sw-001/config", `{}`, firstFence, "job", 400, simulator.CodeInvalid},
		"config of numbers":  {"PUT", "/devices/sw-001/config", `{"mtu": 9000}`, firstFence, "job", 400, simulator.CodeInvalid},
		"unknown device":     {"POST", "/devices/sw-999/upgrade", `{"target": "2"}`, firstFence, "job", 404, simulator.CodeNotFound},
		"unknown route":      {"POST", "/devices/sw-001/explode", ``, firstFence, "job", 404, simulator.CodeNotFound},
		"wrong method":       {"DELETE", "/devices/sw-001", ``, "", "", 404, simulator.CodeNotFound},
		"unknown control":    {"POST", "/control/sw-999", `{}`, "", "", 404, simulator.CodeNotFound},
		"unknown group":      {"POST", "/control?group=nowhere", `{}`, "", "", 404, simulator.CodeNotFound},
		"unknown switch":     {"POST", "/control/sw-001", `{"explode": {}}`, "", "", 400, simulator.CodeInvalid},
		"slow without time":  {"POST", "/control/sw-001", `{"slow": {}}`, "", "", 400, simulator.CodeInvalid},
		"slow bad time":      {"POST", "/control/sw-001", `{"slow": {"for": "soon"}}`, "", "", 400, simulator.CodeInvalid},
		"refuse with 200":    {"POST", "/control/sw-001", `{"refuse": {"status": 200}}`, "", "", 400, simulator.CodeInvalid},
		"refuse negative":    {"POST", "/control/sw-001", `{"refuse": {"times": -1}}`, "", "", 400, simulator.CodeInvalid},
		"drop nowhere":       {"POST", "/control/sw-001", `{"drop": {"when": "later"}}`, "", "", 400, simulator.CodeInvalid},
		"drop of reads":      {"POST", "/control/sw-001", `{"drop": {"when": "before", "operations": ["read"]}}`, "", "", 400, simulator.CodeInvalid},
		"keep a touch":       {"POST", "/control/sw-001", `{"keepVersion": {"operations": ["touch"]}}`, "", "", 400, simulator.CodeInvalid},
		"control of no JSON": {"POST", "/control", `slow`, "", "", 400, simulator.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			wantCode(t, r.call(c.method, c.path, c.body, "X-Fence", c.fence, "Idempotency-Key", c.key), c.status, c.code)
		})
	}
	s := r.device("sw-001")
	if s.Version != "1.0.0" || s.BootCount != 1 || len(s.Config) != 0 || s.HighestFence != "" || s.Behaviour != (simulator.Behaviour{}) {
		t.Errorf("bad input left a trace: %+v", s)
	}
	for _, e := range r.fleet.Log("sw-001") {
		if e.Accepted || e.Outcome != simulator.OutcomeRefused {
			t.Errorf("log %+v", e)
		}
	}
}

func TestFleet_Reset(t *testing.T) {
	r := newFixture(t, simulator.Options{})
	r.control("", `{"refuse": {"operations": ["touch"]}}`)
	wantOK(t, r.upgrade("sw-001", "2.0.0", secondFence, "job-1"))
	wantOK(t, r.call("POST", "/reset", ""))
	s := r.device("sw-001")
	if s.Version != "1.0.0" || s.BootCount != 1 || s.Changes != 0 || s.HighestFence != "" || s.Behaviour != (simulator.Behaviour{}) {
		t.Errorf("after the reset: %+v", s)
	}
	a := r.upgrade("sw-001", "2.0.0", firstFence, "job-1")
	wantOK(t, a)
	if a.Repeat {
		t.Error("the key of before the reset is remembered")
	}
}

func TestFleet_ResetAndCloseInterruptChanges(t *testing.T) {
	for name, end := range map[string]func(*simulator.Fleet){
		"reset": (*simulator.Fleet).Reset,
		"close": func(f *simulator.Fleet) { _ = f.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, simulator.Options{After: never})
			r.control("/sw-001", `{"slow": {"for": "1h"}}`)
			answers := make(chan answer, 2)
			for _, key := range []string{"job-1", "job-2"} { // One runs, one waits.
				go func() { answers <- r.upgrade("sw-001", "2.0.0", firstFence, key) }()
			}
			r.eventually("both changes arrive", func() bool { return r.device("sw-001").Changes == 2 })
			end(r.fleet)
			for range 2 {
				wantCode(t, <-answers, 503, simulator.CodeNoPower)
			}
			if v := r.device("sw-001").Version; v != "1.0.0" {
				t.Errorf("version %s, want the first one", v)
			}
			if name == "close" {
				wantCode(t, r.upgrade("sw-001", "2.0.0", firstFence, "job-3"), 503, simulator.CodeNoPower)
			}
		})
	}
}

func TestFleet_ConcurrentDevices(t *testing.T) {
	r := newFixture(t, simulator.Options{Devices: simulator.NumberedDevices(100)})
	r.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 20}}
	defer r.client.CloseIdleConnections()
	ids := make(chan string)
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			for id := range ids {
				if a := r.upgrade(id, "2.0.0", firstFence, "job-"+id); a.status != 200 {
					t.Errorf("%s: %+v", id, a)
				}
			}
		})
	}
	for _, id := range r.fleet.IDs() {
		ids <- id
	}
	close(ids)
	callers.Wait()
	if got := r.fleet.Versions(); got["2.0.0"] != 100 {
		t.Errorf("versions %v, want 100 times 2.0.0", got)
	}
	r.wantNoViolations()
}

func never(time.Duration) <-chan time.Time { return nil }
