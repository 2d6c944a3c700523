// Package sqsbatch handles SQS events of the lifecycle queue. Each message succeeds or fails by
// itself, and a panic fails only the messages about its execution. The list of failures is never
// null, which AWS would take for success.
//
// It is a package of its own because a Lambda main stays short, and because it is tested with the
// event shapes that AWS sends.
package sqsbatch

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Handler is a Lambda handler for a queue with ReportBatchItemFailures.
type Handler func(context.Context, events.SQSEvent) (events.SQSEventResponse, error)

// Engine advances executions.
type Engine interface {
	// Advance handles one wake-up.
	Advance(ctx context.Context, wakeup workflow.Wakeup) error
	// RecordFailure records that Advance has failed for the wake-up's execution.
	RecordFailure(ctx context.Context, wakeup workflow.Wakeup, cause error)
}

// HandleWakeups returns a handler for the messages of the lifecycle queue. Messages about the same
// execution are handled by one call of Advance, different executions in parallel. Each wake-up is
// charged its share of the invocation and of the two requests, receive and delete, that the event
// source mapping makes for a batch. A message that fails at its last permitted receive is reported
// to queue, so that the reason gets into the execution's history. The number of failed messages is
// measured, because Lambda counts the invocation as a success.
func HandleWakeups(log *slog.Logger, decode func(body string) (workflow.Wakeup, error), engine Engine, queue worker.WakeupSender, measure func(ctx context.Context, metric string, n int)) Handler {
	return func(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
		share := 1 / float64(max(1, len(event.Records)))
		failures := batchFailures{items: []events.SQSBatchItemFailure{}}
		groups := map[string]*group{}
		var order []*group
		for _, record := range event.Records {
			wakeup, err := decode(record.Body)
			if err != nil {
				// Its execution is unknown, so no history can record the reason. It becomes a dead letter.
				log.ErrorContext(ctx, "message cannot be decoded", observe.MessageID, record.MessageId, observe.Receives, receiveCount(record), observe.Err(err))
				failures.add(record.MessageId)
				continue
			}
			wakeup.Cost.Add(workflow.Cost{Invocations: share, QueueRequests: 2 * share})
			wakeup.Redelivered = receiveCount(record) > 1
			key := groupKey(wakeup)
			if g := groups[key]; g != nil {
				g.wakeup.Merge(wakeup)
				g.messages = append(g.messages, record)
				continue
			}
			groups[key] = &group{wakeup: wakeup, messages: []events.SQSMessage{record}}
			order = append(order, groups[key])
		}
		work, cancel := boot.ReserveTime(ctx)
		defer cancel()
		var all sync.WaitGroup
		for _, g := range order {
			all.Go(func() {
				if err := advance(work, log, engine, g.wakeup); err != nil {
					log.LogAttrs(ctx, slog.LevelWarn, "wake-up failed", append(observe.ExecutionAttrs(g.wakeup.Tenant, g.wakeup.Execution, ""), observe.Err(err))...)
					g.reportFailure(ctx, engine, worker.FinalReceiveOptions{MaxReceives: topology.MaxReceiveLifecycle, WakeupSender: queue, Logger: log}, err)
					for _, m := range g.messages {
						failures.add(m.MessageId)
					}
				}
			})
		}
		all.Wait()
		if n := len(failures.items); n > 0 {
			measure(ctx, topology.MetricFailedWakeups, n)
		}
		return events.SQSEventResponse{BatchItemFailures: failures.items}, nil
	}
}

// group is the messages of a batch that one call of Advance handles.
type group struct {
	wakeup   workflow.Wakeup
	messages []events.SQSMessage
}

// groupKey returns the same key for wake-ups that one call of Advance can handle. A
// wake-up for a lane is about one step run, and a dead letter does not advance its
// execution.
func groupKey(w workflow.Wakeup) string {
	key := w.Tenant + "#" + w.Execution
	if w.Lane != nil {
		key += fmt.Sprint("#", w.StepRunSeq, "#", *w.Lane)
	}
	if w.DeadLetter != nil {
		key += "#dead#" + w.DeadLetter.MessageID
	}
	return key
}

// reportFailure records that the group's wake-up failed. It does nothing if the wake-up
// itself reports a dead letter: otherwise the reports would never end.
func (g *group) reportFailure(ctx context.Context, engine Engine, o worker.FinalReceiveOptions, err error) {
	if g.wakeup.DeadLetter != nil {
		return
	}
	engine.RecordFailure(ctx, g.wakeup, err)
	for _, m := range g.messages {
		worker.NewFinalWakeupReceive(o, m.MessageId, receiveCount(m), g.wakeup).ReportFailure(ctx, err)
	}
}

// receiveCount returns how often a message was received, this time included.
func receiveCount(m events.SQSMessage) int {
	n, _ := strconv.Atoi(m.Attributes["ApproximateReceiveCount"]) // Lambda sets it for every message
	return n
}

// batchFailures collects the messages that failed.
type batchFailures struct {
	mu    sync.Mutex
	items []events.SQSBatchItemFailure
}

func (f *batchFailures) add(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.items = append(f.items, events.SQSBatchItemFailure{ItemIdentifier: id})
}

// advance handles one wake-up and returns a panic as an error.
func advance(ctx context.Context, log *slog.Logger, engine Engine, wakeup workflow.Wakeup) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			log.LogAttrs(ctx, slog.LevelError, "panic", append(observe.ExecutionAttrs(wakeup.Tenant, wakeup.Execution, ""), observe.PanicAttrs(cause, debug.Stack())...)...)
			err = &workflow.Error{Code: workflow.CodeInternal, Message: "panic", Cause: fmt.Errorf("%v", cause)}
		}
	}()
	return engine.Advance(ctx, wakeup)
}
