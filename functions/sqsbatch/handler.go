package sqsbatch

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Handler is what lambda.Start takes for a queue with ReportBatchItemFailures.
type Handler func(context.Context, events.SQSEvent) (events.SQSEventResponse, error)

// Engine looks at executions, and is told of the looks that fail.
type Engine interface {
	Advance(ctx context.Context, l workflow.Wakeup) error
	RecordFailure(ctx context.Context, l workflow.Wakeup, cause error)
}

// HandleWakeups makes a handler of lifecycle messages. Messages about the same execution
// are answered by one look; different executions are looked at in parallel. Each
// look is charged its share of the invocation and of the two requests, receive
// and delete, that the event source mapping makes for a batch. What fails when it
// is received for the last time is told to the queue, for its run's history.
func HandleWakeups(log *slog.Logger, decode func(body string) (workflow.Wakeup, error), engine Engine, queue worker.WakeupSender) Handler {
	return func(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
		invocationShare := 1 / float64(max(1, len(event.Records)))
		failures := batchFailures{items: []events.SQSBatchItemFailure{}}
		groups := map[string]*group{}
		var order []*group
		for _, record := range event.Records {
			l, err := decode(record.Body)
			if err != nil {
				// It cannot say whose it is: it goes to the dead letters without a word to any run.
				log.ErrorContext(ctx, "message cannot be read", observe.MessageID, record.MessageId, observe.Receives, receiveCount(record), observe.Err(err))
				failures.add(record.MessageId)
				continue
			}
			l.Cost.Add(workflow.Cost{Invocations: invocationShare, QueueRequests: 2 * invocationShare})
			key := l.Tenant + "#" + l.Execution
			if l.Lane != nil {
				// A look for a lane is about one run of the step, not about its undoing.
				key += fmt.Sprint("#", l.StepRunSeq, "#", *l.Lane)
			}
			if l.DeadLetter != nil {
				key += "#dead#" + l.DeadLetter.MessageID // it is no look at the run
			}
			if g := groups[key]; g != nil {
				g.wakeup.Cost.Add(l.Cost)
				g.messages = append(g.messages, record)
				continue
			}
			groups[key] = &group{wakeup: l, messages: []events.SQSMessage{record}}
			order = append(order, groups[key])
		}
		var all sync.WaitGroup
		for _, g := range order {
			all.Go(func() {
				if err := recoverPanic(ctx, log, g.wakeup, engine.Advance); err != nil {
					log.LogAttrs(ctx, slog.LevelWarn, "look failed", append(observe.ExecutionAttrs(g.wakeup.Tenant, g.wakeup.Execution, ""), observe.Err(err))...)
					g.reportFailure(ctx, engine, worker.FinalReceiveOptions{MaxReceives: topology.MaxReceiveLifecycle, WakeupSender: queue, Logger: log}, err)
					for _, m := range g.messages {
						failures.add(m.MessageId)
					}
				}
			})
		}
		all.Wait()
		return events.SQSEventResponse{BatchItemFailures: failures.items}, nil
	}
}

// group is the messages of a batch that one look answers.
type group struct {
	wakeup   workflow.Wakeup
	messages []events.SQSMessage
}

// reportFailure tells that the look has failed. That a message has died is not told of the
// telling itself: there would be no end to it.
func (g *group) reportFailure(ctx context.Context, engine Engine, r worker.FinalReceiveOptions, err error) {
	if g.wakeup.DeadLetter != nil {
		return
	}
	engine.RecordFailure(ctx, g.wakeup, err)
	for _, m := range g.messages {
		worker.NewFinalWakeupReceive(r, m.MessageId, receiveCount(m), g.wakeup).ReportFailure(ctx, err)
	}
}

// receiveCount is how often a message has been received, this time included.
func receiveCount(m events.SQSMessage) int {
	n, _ := strconv.Atoi(m.Attributes["ApproximateReceiveCount"]) // Lambda says it with every message
	return n
}

type batchFailures struct {
	mu    sync.Mutex
	items []events.SQSBatchItemFailure
}

func (f *batchFailures) add(ids ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		f.items = append(f.items, events.SQSBatchItemFailure{ItemIdentifier: id})
	}
}

// recoverPanic turns a panic into an error of its record.
func recoverPanic(ctx context.Context, log *slog.Logger, wakeup workflow.Wakeup, advance func(context.Context, workflow.Wakeup) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			log.LogAttrs(ctx, slog.LevelError, "panic", append(observe.ExecutionAttrs(wakeup.Tenant, wakeup.Execution, ""), observe.PanicAttrs(cause, debug.Stack())...)...)
			err = &workflow.Error{Code: workflow.CodeInternal, Message: "panic", Cause: fmt.Errorf("%v", cause)}
		}
	}()
	return advance(ctx, wakeup)
}
