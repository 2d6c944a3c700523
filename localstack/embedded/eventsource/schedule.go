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

// StartSchedule invokes fn once per interval, the first time after one interval, until
// the host is closed. payload makes the event; nil means [ScheduledEvent]. While as
// many invocations run as the function allows, firings are skipped, so that a slow
// function does not pile up work. Failed invocations are not retried.
func StartSchedule(host Host, interval time.Duration, fn Function, payload func(now time.Time) []byte) error {
	if interval <= 0 || fn == nil {
		return fmt.Errorf("eventsource: a schedule needs a function and a positive interval, not %s", interval)
	}
	if payload == nil {
		payload = func(now time.Time) []byte { return ScheduledEvent(host, fn.Name(), now) }
	}
	return host.Start(func(ctx context.Context) {
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
					host.Logf(fn.Name(), "schedule of %s: skipped, earlier invocations are still running", interval)
					continue
				}
				invocations.Go(func() {
					defer func() { <-slots }()
					if _, err := fn.Invoke(context.Background(), payload(now)); err != nil && !errors.Is(err, host.ErrClosed) {
						host.Logf(fn.Name(), "schedule of %s: %v", interval, err)
					}
				})
			}
		}
	})
}

// ScheduledEvent is what EventBridge sends when a rule's schedule fires.
func ScheduledEvent(host Host, rule string, now time.Time) []byte {
	body, err := json.Marshal(events.EventBridgeEvent{
		Version:    "0",
		ID:         host.NewID(),
		DetailType: "Scheduled Event",
		Source:     "aws.events",
		AccountID:  host.Account,
		Time:       now.UTC().Truncate(time.Second),
		Region:     host.Region,
		Resources:  []string{"arn:aws:events:" + host.Region + ":" + host.Account + ":rule/" + rule},
		Detail:     json.RawMessage("{}"),
	})
	if err != nil {
		panic(err) // these values always encode
	}
	return body
}
