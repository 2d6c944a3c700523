package eventsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// StartSchedule fires fn each interval, first after one interval, until the host is
// closed. payload makes the event; nil stands for [ScheduledEvent]. A firing
// for which the function has no room, because all it may run at a time are
// earlier firings still under way, is left out: the next one comes soon enough,
// and a slow function must not pile up work. Failed firings are not repeated.
func StartSchedule(g Host, interval time.Duration, fn Function, payload func(now time.Time) []byte) error {
	if interval <= 0 || fn == nil {
		return fmt.Errorf("source: a schedule needs a function and an interval, not %s", interval)
	}
	if payload == nil {
		payload = func(now time.Time) []byte { return ScheduledEvent(g, fn.Name(), now) }
	}
	return g.Start(func(ctx context.Context) {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		slots := make(chan struct{}, fn.MaxConcurrency())
		var invocations sync.WaitGroup
		defer invocations.Wait()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				select {
				case slots <- struct{}{}:
				default:
					g.Logf(fn.Name(), "schedule of %s: left out, the last firing is still under way", interval)
					continue
				}
				invocations.Go(func() {
					defer func() { <-slots }()
					if _, err := fn.Invoke(context.Background(), payload(now)); err != nil && !errors.Is(err, g.ErrClosed) {
						g.Logf(fn.Name(), "schedule of %s: %v", interval, err)
					}
				})
			}
		}
	})
}

// ScheduledEvent is what EventBridge sends when a rule's schedule fires.
func ScheduledEvent(g Host, rule string, now time.Time) []byte {
	body, err := json.Marshal(events.EventBridgeEvent{
		Version:    "0",
		ID:         g.NewID(),
		DetailType: "Scheduled Event",
		Source:     "aws.events",
		AccountID:  g.Account,
		Time:       now.UTC().Truncate(time.Second),
		Region:     g.Region,
		Resources:  []string{"arn:aws:events:" + g.Region + ":" + g.Account + ":rule/" + rule},
		Detail:     json.RawMessage("{}"),
	})
	if err != nil {
		panic(err) // nothing in it can fail to encode
	}
	return body
}
