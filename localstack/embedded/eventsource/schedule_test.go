package eventsource_test

import (
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lockstep-run/lockstep/localstack/embedded/eventsource"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

func TestScheduledEvent_MatchesEventBridge(t *testing.T) {
	host := newFakeHost(t)
	payload := eventsource.ScheduledEvent(host.Host, "sweeper", time.Date(2026, 11, 21, 6, 0, 0, 999, time.FixedZone("CET", 3600)))
	sameJSON(t, payload, "scheduled_event.json")
	var decoded events.EventBridgeEvent
	if err := json.Unmarshal(payload, &decoded); err != nil || decoded.DetailType != "Scheduled Event" {
		t.Errorf("decoded %+v, %v", decoded, err)
	}
}

func TestStartSchedule_FiresUntilStopDespiteErrors(t *testing.T) {
	host := newFakeHost(t)
	var fired atomic.Int32
	fn := &fakeFunction{maxConcurrency: 1, handle: func(p []byte) ([]byte, error) {
		var e events.EventBridgeEvent
		if err := json.Unmarshal(p, &e); err != nil || e.Source != "aws.events" {
			t.Errorf("payload %s", p)
		}
		if fired.Add(1) == 1 {
			return nil, errors.New("first invocation failed")
		}
		return nil, nil
	}}
	if err := eventsource.StartSchedule(host.Host, 5*time.Millisecond, fn, nil); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the schedule fires again", func() bool { return fired.Load() >= 3 })
	host.stop()
	n := fired.Load()
	if !host.logged("first invocation failed") {
		t.Error("the failure was not logged")
	}
	if err := eventsource.StartSchedule(host.Host, time.Millisecond, fn, nil); !errors.Is(err, errClosed) {
		t.Errorf("schedule after shutdown: %v", err)
	}
	if fired.Load() != n {
		t.Error("the schedule fired after shutdown")
	}
}

func TestStartSchedule_SkipsFiringAtMaxConcurrency(t *testing.T) {
	host := newFakeHost(t)
	blocking := &blockingHandler{release: make(chan struct{})}
	payload := func(now time.Time) []byte { return []byte(now.Format(time.RFC3339)) }
	if err := eventsource.StartSchedule(host.Host, time.Millisecond, &fakeFunction{maxConcurrency: 2, handle: blocking.handle}, payload); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "a firing is skipped", func() bool { return host.logged("skipped") })
	if n := blocking.activeCount(); n != 2 {
		t.Errorf("%d running invocations, want 2", n)
	}
	close(blocking.release)
	host.stop()
	if blocking.peak != 2 {
		t.Errorf("up to %d concurrent invocations, want 2", blocking.peak)
	}
	if err := eventsource.StartSchedule(host.Host, 0, &fakeFunction{maxConcurrency: 1}, nil); err == nil {
		t.Error("an interval of 0 was accepted")
	}
}

// The alarm on sweeps that do not take place is raised when the rule is disabled and when all
// instances hang, and not by sweeps that fail, which have an alarm of their own.
func TestAlarm_SweepNotRunning(t *testing.T) {
	for name, c := range map[string]struct {
		fires  bool
		handle func(host *fakeHost, sweeps int) error
	}{
		"sweeps each minute": {false, func(*fakeHost, int) error { return nil }},
		"sweeps that fail":   {false, func(*fakeHost, int) error { return errors.New("refused") }},
		"a disabled rule":    {true, func(h *fakeHost, sweeps int) error { disable(h, sweeps); return nil }},
		"a sweep that hangs": {true, func(_ *fakeHost, sweeps int) error { hang(sweeps, 7*time.Minute); return nil }},
		"a slow sweep":       {false, func(_ *fakeHost, sweeps int) error { hang(sweeps, 90*time.Second); return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host, alarm := newFakeHost(t), testkit.ReadAlarm(t, "SweepNotRunning")
				var invocations []testkit.Measured
				fn := &fakeFunction{maxConcurrency: 1, handle: func([]byte) ([]byte, error) {
					invocations = append(invocations, testkit.Measured{At: time.Now(), Value: 1})
					return nil, c.handle(host, len(invocations))
				}}
				if err := eventsource.StartSchedule(host.Host, time.Minute, fn, nil); err != nil {
					t.Fatal(err)
				}
				time.Sleep(15*time.Minute + time.Second)
				host.stop()
				if got := alarm.Fires(append(invocations, testkit.Measured{At: time.Now()})); got != c.fires {
					t.Errorf("raised: %v, want %v, by %d invocations", got, c.fires, len(invocations))
				}
			})
		})
	}
}

// disable ends a schedule after three sweeps.
func disable(host *fakeHost, sweeps int) {
	if sweeps == 3 {
		go host.stop()
	}
}

// hang makes the third sweep take some time.
func hang(sweeps int, long time.Duration) {
	if sweeps == 3 {
		time.Sleep(long)
	}
}
