package simulator_test

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator"
)

// manualTimer is a timer for slow devices that the test fires one by one.
type manualTimer struct {
	requested chan time.Duration
	open      chan time.Time
}

func newManualTimer() manualTimer {
	return manualTimer{requested: make(chan time.Duration, 10), open: make(chan time.Time)}
}

func (g manualTimer) after(d time.Duration) <-chan time.Time {
	g.requested <- d
	return g.open
}

func TestSlow_DelaysChange(t *testing.T) {
	g := newManualTimer()
	r := newFixture(t, simulator.Options{After: g.after})
	r.control("/sw-001", `{"slow": {"for": "250ms", "times": 1}}`)
	answers := make(chan answer, 1)
	go func() { answers <- r.upgrade("sw-001", "2.0.0", firstFence, "job-1") }()
	if d := <-g.requested; d != 250*time.Millisecond {
		t.Errorf("it waits %s, want 250ms", d)
	}
	if s := r.device("sw-001"); s.Version != "1.0.0" || !s.Busy {
		t.Errorf("half-way: %+v", s)
	}
	if e := r.lastEntry("sw-001"); e.Outcome != simulator.OutcomeRunning || !e.EndedAt.IsZero() {
		t.Errorf("log half-way: %+v", e)
	}
	wantOK(t, r.upgrade("sw-002", "2.0.0", firstFence, "job-2")) // another device is not slow
	g.open <- time.Time{}
	wantOK(t, <-answers)
	if s := r.device("sw-001"); s.Version != "2.0.0" || s.Busy || s.Behaviour.Slow != nil {
		t.Errorf("at the end: %+v", s)
	}
	wantOK(t, r.rollback("sw-001", "1.0.0", rollbackFence, "job-3")) // Once was enough.
}

func TestSlow_ContinuesAfterCallerHangsUp(t *testing.T) {
	g := newManualTimer()
	r := newFixture(t, simulator.Options{After: g.after})
	r.control("/sw-001", `{"slow": {"for": "1s", "times": 1}}`)
	hangUp := r.hangingUpgrade("sw-001", "2.0.0", firstFence, "job-1")
	<-g.requested
	hangUp()
	// The log entry of an overlapping change shows whether the device noticed.
	r.eventually("the device notices that its caller hung up", func() bool {
		hangUpWaiting := r.hangingUpgrade("sw-001", "3.0.0", takeoverFence, "probe")
		changes := r.device("sw-001").Changes
		r.eventually("the probe arrives", func() bool {
			return r.device("sw-001").Changes > changes || r.lastEntry("sw-001").IdempotencyKey == "probe"
		})
		hangUpWaiting()
		r.eventually("the waiting change is abandoned", func() bool { return r.lastEntry("sw-001").Outcome == simulator.OutcomeAbandoned })
		return r.lastEntry("sw-001").CallerGone
	})
	g.open <- time.Time{}
	r.eventually("the upgrade is made all the same", func() bool { return r.device("sw-001").Version == "2.0.0" })
	if e := r.fleet.Log("sw-001")[0]; !e.Effective || e.Outcome != simulator.OutcomeAnswered {
		t.Errorf("log %+v", e)
	}
}

// hangingUpgrade sends a request without waiting for the response. The returned function
// hangs up and waits until the call has ended.
func (r *fixture) hangingUpgrade(id, target, fence, key string) (hangUp func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	sent := make(chan struct{})
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { close(sent) }})
	request, err := http.NewRequestWithContext(ctx, "POST", r.url+"/devices/"+id+"/upgrade", strings.NewReader(`{"target": "`+target+`"}`))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("X-Fence", fence)
	request.Header.Set("Idempotency-Key", key)
	over := make(chan struct{})
	go func() {
		defer close(over)
		if response, err := r.client.Do(request); err == nil {
			_ = response.Body.Close()
		}
	}()
	<-sent
	return func() { cancel(); <-over }
}

func TestDevice_LogsOverlap(t *testing.T) {
	for name, c := range map[string]struct {
		fence, key string
		violation  bool
	}{
		"two runs":               {secondFence, "job-2", true},
		"two jobs of one run":    {firstFence, "job-2", true},
		"takeover of one job":    {takeoverFence, "job-1", false},
		"one job, another token": {secondFence, "job-1", true},
	} {
		t.Run(name, func(t *testing.T) {
			g := newManualTimer()
			r := newFixture(t, simulator.Options{After: g.after})
			r.control("/sw-001", `{"slow": {"for": "1s", "times": 1}}`)
			answers := make(chan answer, 2)
			go func() { answers <- r.upgrade("sw-001", "2.0.0", firstFence, "job-1") }()
			<-g.requested
			go func() { answers <- r.upgrade("sw-001", "2.0.0", c.fence, c.key) }()
			r.eventually("the second change waits", func() bool { return r.device("sw-001").Changes == 2 })
			g.open <- time.Time{}
			wantOK(t, <-answers)
			wantOK(t, <-answers)
			if e := r.lastEntry("sw-001"); !e.Overlap || e.Overlaps != 1 || e.CallerGone || e.From != "2.0.0" || e.Effective {
				t.Errorf("log %+v, want it to overlap 1 and to begin after it", e)
			}
			overlapped := false
			for _, v := range r.fleet.CheckLogs() {
				overlapped = overlapped || v.Rule == simulator.RuleOverlapped
			}
			if overlapped != c.violation {
				t.Errorf("violations %v, want an overlap: %t", r.fleet.CheckLogs(), c.violation)
			}
		})
	}
}

func TestDevice_RefusesStaleFenceDuringChange(t *testing.T) {
	g := newManualTimer()
	r := newFixture(t, simulator.Options{After: g.after})
	r.control("/sw-001", `{"slow": {"for": "1s"}}`)
	answers := make(chan answer, 1)
	go func() { answers <- r.upgrade("sw-001", "2.0.0", secondFence, "job-2") }()
	<-g.requested
	wantCode(t, r.upgrade("sw-001", "3.0.0", firstFence, "job-1"), 409, simulator.CodeStaleFence)
	g.open <- time.Time{}
	wantOK(t, <-answers)
	r.wantNoViolations()
}

func TestRefuse_ChangesNothing(t *testing.T) {
	t.Run("the first n times", func(t *testing.T) {
		r := newFixture(t, simulator.Options{})
		r.control("/sw-001", `{"refuse": {"times": 2}}`)
		for range 2 {
			wantCode(t, r.upgrade("sw-001", "2.0.0", firstFence, "job-1"), 503, simulator.CodeRefused)
		}
		a := r.upgrade("sw-001", "2.0.0", firstFence, "job-1")
		wantOK(t, a)
		if a.Repeat {
			t.Error("a refused change counts as made")
		}
		r.wantNoViolations()
	})
	t.Run("always, with a status, some operations", func(t *testing.T) {
		r := newFixture(t, simulator.Options{})
		r.control("/sw-001", `{"refuse": {"status": 422, "operations": ["upgrade", "touch"]}}`)
		for range 4 {
			wantCode(t, r.upgrade("sw-001", "2.0.0", firstFence, "job-1"), 422, simulator.CodeRefused)
			wantCode(t, r.touch("sw-001", firstFence, "job-2"), 422, simulator.CodeRefused)
		}
		wantOK(t, r.rollback("sw-001", "1.0.0", rollbackFence, "job-3"))
		wantOK(t, r.call("GET", "/devices/sw-001", ""))
		r.control("/sw-001", `{}`)
		wantOK(t, r.upgrade("sw-001", "2.0.0", rollbackFence, "job-4"))
	})
	t.Run("reads by name", func(t *testing.T) {
		r := newFixture(t, simulator.Options{})
		r.control("/sw-001", `{"refuse": {"operations": ["read"], "times": 1}}`)
		wantOK(t, r.upgrade("sw-001", "2.0.0", firstFence, "job-1"))
		wantCode(t, r.call("GET", "/devices/sw-001", ""), 503, simulator.CodeRefused)
		wantOK(t, r.call("GET", "/devices/sw-001", ""))
	})
}

func TestDrop_CutsConnectionAtPoint(t *testing.T) {
	for when, applied := range map[simulator.DropPoint]bool{
		simulator.DropBefore: false, simulator.DropAfter: true, simulator.DropAnswering: true,
	} {
		t.Run(string(when), func(t *testing.T) {
			r := newFixture(t, simulator.Options{})
			r.control("/sw-001", `{"drop": {"when": "`+string(when)+`", "times": 1}}`)
			a := r.upgrade("sw-001", "2.0.0", firstFence, "job-1")
			if a.err == nil {
				t.Fatalf("got %+v, want a broken connection", a)
			}
			if got := a.status == 200; got != (when == simulator.DropAnswering) {
				t.Errorf("status %d", a.status)
			}
			if e := r.lastEntry("sw-001"); e.Outcome != simulator.OutcomeDropped || !e.Accepted || e.Applied != applied || e.Effective != applied {
				t.Errorf("log %+v, want applied: %t", e, applied)
			}
			// The caller cannot know, retries, and the change is made once.
			again := r.upgrade("sw-001", "2.0.0", firstFence, "job-1")
			wantOK(t, again)
			if !again.Repeat || again.Version != "2.0.0" || again.BootCount != 2 {
				t.Errorf("the retry: %+v", again)
			}
			r.wantNoViolations()
		})
	}
	t.Run("always, upgrades only", func(t *testing.T) {
		r := newFixture(t, simulator.Options{})
		r.control("/sw-001", `{"drop": {"when": "before"}}`)
		for range 4 {
			if a := r.upgrade("sw-001", "2.0.0", firstFence, "job-1"); a.err == nil {
				t.Fatalf("got %+v, want a broken connection", a)
			}
		}
		wantOK(t, r.rollback("sw-001", "1.0.0", rollbackFence, "job-2"))
	})
	t.Run("a repeated touch is a violation even without effect", func(t *testing.T) {
		r := newFixture(t, simulator.Options{})
		r.control("/sw-001", `{"drop": {"when": "before", "times": 1, "operations": ["touch"]}}`)
		if a := r.touch("sw-001", firstFence, "job-1"); a.err == nil {
			t.Fatalf("got %+v, want a broken connection", a)
		}
		wantOK(t, r.touch("sw-001", firstFence, "job-1"))
		found := r.fleet.CheckLogs()
		if len(found) != 1 || found[0].Rule != simulator.RuleStartedTwice || r.device("sw-001").Touches != 1 {
			t.Errorf("violations %v with %d touches, want started_twice and 1", found, r.device("sw-001").Touches)
		}
	})
}

// On a reused connection net/http repeats a request with an Idempotency-Key by itself if
// the connection breaks before the first byte of the response. Callers of a change that
// must not run twice have to prevent that. The test shows both cases.
func TestDrop_GoClientRetriesOnReusedConnection(t *testing.T) {
	for name, c := range map[string]struct {
		replayable bool
		entries    int
	}{
		"a body it can read again": {true, 2},
		"a body it can read once":  {false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, simulator.Options{})
			r.client = &http.Client{Transport: &http.Transport{}}
			defer r.client.CloseIdleConnections()
			wantOK(t, r.call("GET", "/devices/sw-001", "")) // The connection is in use now.
			r.control("/sw-001", `{"drop": {"when": "after", "times": 1, "operations": ["touch"]}}`)
			request, err := http.NewRequest("POST", r.url+"/devices/sw-001/touch", strings.NewReader(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("X-Fence", firstFence)
			request.Header.Set("Idempotency-Key", "job-1")
			if !c.replayable {
				request.GetBody = nil
			}
			response, err := r.client.Do(request)
			if err == nil {
				_ = response.Body.Close()
			}
			if got := len(r.fleet.Log("sw-001")); got != c.entries || (err == nil) != c.replayable {
				t.Errorf("%d entries and error %v, want %d entries", got, err, c.entries)
			}
		})
	}
}

func TestKeepVersion_ReportsOldVersion(t *testing.T) {
	r := newFixture(t, simulator.Options{})
	r.control("/sw-001", `{"keepVersion": {"times": 1}}`)
	a := r.upgrade("sw-001", "2.0.0", firstFence, "job-1")
	wantOK(t, a)
	if a.Version != "2.0.0" {
		t.Errorf("it reports version %s, want a claim of success", a.Version)
	}
	if s := r.device("sw-001"); s.Version != "1.0.0" || s.BootCount != 2 {
		t.Errorf("got %+v, want the old version after a boot", s)
	}
	if e := r.lastEntry("sw-001"); e.Applied || e.Effective || e.Outcome != simulator.OutcomeAnswered || e.To != "1.0.0" {
		t.Errorf("log %+v", e)
	}
	wantOK(t, r.upgrade("sw-001", "2.0.0", firstFence, "job-1"))
	if s := r.device("sw-001"); s.Version != "2.0.0" || s.BootCount != 3 {
		t.Errorf("the retry: %+v", s)
	}
	r.wantNoViolations()
}

func TestSetBehaviour_CountsPerDevice(t *testing.T) {
	r := newFixture(t, simulator.Options{})
	r.control("?group=distribution", `{"refuse": {"times": 1}}`)
	ids := r.fleet.Group("distribution")
	if len(ids) != 3 {
		t.Fatalf("group of %v, want 3 devices", ids)
	}
	for _, id := range ids {
		wantCode(t, r.upgrade(id, "2.0.0", firstFence, "job-"+id), 503, simulator.CodeRefused)
		wantOK(t, r.upgrade(id, "2.0.0", firstFence, "job-"+id))
	}
	wantOK(t, r.upgrade("sw-001", "2.0.0", firstFence, "job-1"))
	// The fault applies to all of them once, then to none.
	r.control("", `{"refuse": {}}`)
	wantCode(t, r.upgrade("sw-001", "3.0.0", firstFence, "job-2"), 503, simulator.CodeRefused)
	r.control("", `{}`)
	wantOK(t, r.upgrade("sw-001", "3.0.0", firstFence, "job-3"))
	if err := r.fleet.SetBehaviour(simulator.Behaviour{}, r.fleet.Group("nowhere")...); err == nil {
		t.Error("an empty group means everybody")
	}
}

func TestBehaviour_Combines(t *testing.T) {
	g := newManualTimer()
	r := newFixture(t, simulator.Options{After: g.after})
	r.control("/sw-001", `{"slow": {"for": "1s"}, "drop": {"when": "after"}, "keepVersion": {}}`)
	answers := make(chan answer, 1)
	go func() { answers <- r.upgrade("sw-001", "2.0.0", firstFence, "job-1") }()
	<-g.requested
	g.open <- time.Time{}
	if a := <-answers; a.err == nil {
		t.Errorf("got %+v, want a broken connection", a)
	}
	if s := r.device("sw-001"); s.Version != "1.0.0" || s.BootCount != 2 {
		t.Errorf("got %+v", s)
	}
}
