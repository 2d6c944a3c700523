package eventsource_test

import (
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
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
