package sqsbatch

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/sqs"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Observer hands events on, delivers them, and takes events from others. Package engine has one.
type Observer interface {
	PublishEvents(ctx context.Context, a workflow.Announcement) (retryAfter time.Duration, err error)
	HandleEvent(ctx context.Context, e workflow.BusEvent, receives int) (retryAfter time.Duration, err error)
	Deliver(ctx context.Context, to engine.Receivers, d *workflow.Delivery, receives int) (retryAfter time.Duration, err error)
}

// ObservedOptions configure [HandleObserved].
type ObservedOptions struct {
	Log       *slog.Logger
	Engine    Observer
	Receivers engine.Receivers
	// Defer makes a received message visible again after a time.
	Defer                  func(ctx context.Context, queueURL, receiptHandle string, after time.Duration) error
	EventsURL, HooksOutURL string
	HooksInURL             string // empty for none
}

// HandleObserved handles the messages of the queues events, hooks-out and hooks-in. Announcements
// of one execution in a batch are handled as one. A failed message comes again individually, after
// its own retry delay.
func HandleObserved(o ObservedOptions) Handler {
	return func(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
		failures := batchFailures{items: []events.SQSBatchItemFailure{}}
		announced := map[workflow.Announcement][]events.SQSMessage{}
		var all sync.WaitGroup
		work, cancel := boot.ReserveTime(ctx)
		defer cancel()
		run := func(url string, messages []events.SQSMessage, do func(context.Context) (time.Duration, error)) {
			all.Go(func() {
				after, err := recovered(work, o.Log, do)
				if err == nil {
					return
				}
				o.Log.LogAttrs(ctx, slog.LevelInfo, "comes again", slog.String(observe.MessageID, messages[0].MessageId), slog.Duration("after", after), observe.Err(err))
				for _, m := range messages {
					failures.add(m.MessageId)
					if after <= 0 {
						continue
					}
					if err := o.Defer(ctx, url, m.ReceiptHandle, after); err != nil { // it comes after the visibility timeout of the queue
						o.Log.WarnContext(ctx, "message not deferred", observe.MessageID, m.MessageId, observe.Err(err))
					}
				}
			})
		}
		for _, m := range event.Records {
			if o.HooksInURL != "" && queueName(m.EventSourceARN) == queueName(o.HooksInURL) {
				e, err := sqs.DecodeBusEvent(m.Body)
				if err != nil {
					o.Log.ErrorContext(ctx, "message cannot be decoded", observe.MessageID, m.MessageId, observe.Err(err))
					failures.add(m.MessageId)
					continue
				}
				run(o.HooksInURL, []events.SQSMessage{m}, func(ctx context.Context) (time.Duration, error) {
					return o.Engine.HandleEvent(ctx, e, receiveCount(m))
				})
				continue
			}
			if queueName(m.EventSourceARN) == queueName(o.HooksOutURL) {
				d, err := sqs.DecodeDelivery(m.Body)
				if err != nil {
					o.Log.ErrorContext(ctx, "message cannot be decoded", observe.MessageID, m.MessageId, observe.Err(err))
					failures.add(m.MessageId)
					continue
				}
				run(o.HooksOutURL, []events.SQSMessage{m}, func(ctx context.Context) (time.Duration, error) {
					return o.Engine.Deliver(ctx, o.Receivers, d, receiveCount(m))
				})
				continue
			}
			a, err := sqs.DecodeAnnouncement(m.Body)
			if err != nil {
				o.Log.ErrorContext(ctx, "message cannot be decoded", observe.MessageID, m.MessageId, observe.Err(err))
				failures.add(m.MessageId)
				continue
			}
			announced[a] = append(announced[a], m)
		}
		for a, messages := range announced {
			run(o.EventsURL, messages, func(ctx context.Context) (time.Duration, error) { return o.Engine.PublishEvents(ctx, a) })
		}
		all.Wait()
		return events.SQSEventResponse{BatchItemFailures: failures.items}, nil
	}
}

// queueName returns the name of a queue, from its ARN or URL.
func queueName(id string) string { return id[strings.LastIndexAny(id, ":/")+1:] }

// recovered calls do and turns a panic into an error.
func recovered(ctx context.Context, log *slog.Logger, do func(context.Context) (time.Duration, error)) (after time.Duration, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			log.LogAttrs(ctx, slog.LevelError, "panic", observe.PanicAttrs(cause, debug.Stack())...)
			err = &workflow.Error{Code: workflow.CodeInternal, Message: "panic", Cause: fmt.Errorf("%v", cause)}
		}
	}()
	return do(ctx)
}
