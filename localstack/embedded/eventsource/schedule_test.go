package eventsource_test

import (
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lockstep-run/lockstep/localstack/embedded/eventsource"
)

func TestScheduledEvent_MatchesEventBridge(t *testing.T) {
	g := newFakeHost(t)
	payload := eventsource.ScheduledEvent(g.Host, "sweeper", time.Date(2026, 11, 21, 6, 0, 0, 999, time.FixedZone("CET", 3600)))
	sameJSON(t, payload, "scheduled_event.json")
	var back events.EventBridgeEvent
	if err := json.Unmarshal(payload, &back); err != nil || back.DetailType != "Scheduled Event" {
		t.Errorf("decoded %+v, %v", back, err)
	}
}

func TestStartSchedule_FiresUntilStopDespiteErrors(t *testing.T) {
	g := newFakeHost(t)
	var fired atomic.Int32
	fn := &fakeFunction{maxConcurrency: 1, handle: func(p []byte) ([]byte, error) {
		var e events.EventBridgeEvent
		if err := json.Unmarshal(p, &e); err != nil || e.Source != "aws.events" {
			t.Errorf("payload %s", p)
		}
		if fired.Add(1) == 1 {
			return nil, errors.New("first fails")
		}
		return nil, nil
	}}
	if err := eventsource.StartSchedule(g.Host, 5*time.Millisecond, fn, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it fires again", func() bool { return fired.Load() >= 3 })
	g.stop()
	n := fired.Load()
	if !g.logged("first fails") {
		t.Error("the failure was not reported")
	}
	if err := eventsource.StartSchedule(g.Host, time.Millisecond, fn, nil); !errors.Is(err, errClosed) {
		t.Errorf("a schedule after the end: %v", err)
	}
	if fired.Load() != n {
		t.Error("it fires after the end")
	}
}

func TestStartSchedule_SkipsFiringAtMaxConcurrency(t *testing.T) {
	g := newFakeHost(t)
	blocking := &blockingHandler{release: make(chan struct{})}
	payload := func(now time.Time) []byte { return []byte(now.Format(time.RFC3339)) }
	if err := eventsource.StartSchedule(g.Host, time.Millisecond, &fakeFunction{maxConcurrency: 2, handle: blocking.handle}, payload); err != nil {
		t.Fatal(err)
	}
	eventually(t, "firings are left out", func() bool { return g.logged("left out") })
	if n := blocking.activeCount(); n != 2 {
		t.Errorf("%d at a time", n)
	}
	close(blocking.release)
	g.stop()
	if blocking.peak != 2 {
		t.Errorf("up to %d at a time", blocking.peak)
	}
	if err := eventsource.StartSchedule(g.Host, 0, &fakeFunction{maxConcurrency: 1}, nil); err == nil {
		t.Error("an interval of 0 was accepted")
	}
}
