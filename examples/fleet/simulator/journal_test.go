package simulator_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator"
)

func newPersistentFixture(t *testing.T, path string, o simulator.Options) *fixture {
	t.Helper()
	r := newFixture(t, o)
	if err := r.fleet.Persist(path); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPersist_RestoresDevices(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.jsonl")
	g := newManualTimer()
	r := newPersistentFixture(t, path, simulator.Options{After: g.after})
	wantOK(t, r.upgrade("sw-001", "2.0.0", secondFence, "job-1"))
	wantOK(t, r.configure("sw-001", `{"mtu": "9000"}`, secondFence, "job-2"))
	wantCode(t, r.touch("sw-001", firstFence, "job-3"), 409, simulator.CodeStaleFence)
	r.control("/sw-002", `{"slow": {"for": "1h"}}`)
	over := make(chan struct{})
	go func() { defer close(over); r.upgrade("sw-002", "2.0.0", firstFence, "job-4") }()
	<-g.requested

	// The process dies here. Only the file is left, and its last line may be incomplete.
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "state.jsonl")
	if err := os.WriteFile(path, append(text, `{"device":"`+strings.Repeat("x", 5000)...), 0o600); err != nil {
		t.Fatal(err)
	}
	g.open <- time.Time{}
	<-over

	for round := range 2 {
		again := newPersistentFixture(t, path, simulator.Options{})
		s := again.device("sw-001")
		if s.Version != "2.0.0" || s.BootCount != 2 || s.Config["mtu"] != "9000" || s.HighestFence != secondFence || s.Changes != 3+2*round {
			t.Errorf("round %d: %+v", round, s)
		}
		if log, want := again.fleet.Log("sw-001"), r.fleet.Log("sw-001"); !log[0].At.Equal(want[0].At) || log[0].IdempotencyKey != "job-1" || log[2].Code != simulator.CodeStaleFence {
			t.Errorf("round %d: log %+v", round, log)
		}
		if e, s := again.lastEntry("sw-002"), again.device("sw-002"); e.Outcome != simulator.OutcomeInterrupted || e.Applied || s.Version != "1.0.0" || s.Busy {
			t.Errorf("round %d: the change in progress: %+v, %+v", round, e, s)
		}
		wantCode(t, again.upgrade("sw-001", "3.0.0", firstFence, "job-5"), 409, simulator.CodeStaleFence)
		if a := again.upgrade("sw-001", "2.0.0", secondFence, "job-1"); !a.Repeat || a.BootCount != 2 {
			t.Errorf("round %d: the key is lost: %+v", round, a)
		}
		again.wantNoViolations()
		if err := again.fleet.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestPersist_RestoresReset(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.jsonl")
	r := newPersistentFixture(t, path, simulator.Options{After: never})
	wantOK(t, r.upgrade("sw-001", "2.0.0", secondFence, "job-1"))
	r.control("/sw-003", `{"slow": {"for": "1h"}}`)
	interrupted := make(chan answer, 1)
	go func() { interrupted <- r.upgrade("sw-003", "2.0.0", firstFence, "job-3") }()
	r.eventually("a change is under way", func() bool { return r.device("sw-003").Busy })
	r.fleet.Reset()
	wantCode(t, <-interrupted, 503, simulator.CodeNoPower)
	wantOK(t, r.upgrade("sw-002", "3.0.0", firstFence, "job-2"))
	if err := r.fleet.Close(); err != nil {
		t.Fatal(err)
	}
	again := newPersistentFixture(t, path, simulator.Options{})
	if s := again.device("sw-001"); s.Version != "1.0.0" || s.Changes != 0 || s.HighestFence != "" {
		t.Errorf("before the reset: %+v", s)
	}
	if s := again.device("sw-003"); s.Changes != 0 {
		t.Errorf("the change that the reset interrupted left a trace: %+v", s)
	}
	if s := again.device("sw-002"); s.Version != "3.0.0" || s.Changes != 1 {
		t.Errorf("after the reset: %+v", s)
	}
}

func TestPersist_RefusesForeignFile(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":       "hello\n",
		"another shape": `{"id": 7}` + "\n",
		"no entry":      `{"device": "sw-001"}` + "\n",
		"a gap":         `{"device": "sw-001", "entry": {"seq": 2}, "memory": {}}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.jsonl")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			err := newFixture(t, simulator.Options{}).fleet.Persist(path)
			if err == nil || !strings.Contains(err.Error(), "line 1") || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want one that names the file and line 1", err)
			}
			if left, err := os.ReadFile(path); err != nil || string(left) != text {
				t.Errorf("the file is %q, error %v", left, err)
			}
		})
	}
}
