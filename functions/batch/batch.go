package batch

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
	"github.com/lockstep-run/lockstep/shared/worker/lasttry"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Handler is what lambda.Start takes for a queue with ReportBatchItemFailures.
type Handler func(context.Context, events.SQSEvent) (events.SQSEventResponse, error)

// Engine looks at executions, and is told of the looks that fail.
type Engine interface {
	Look(ctx context.Context, l workflow.Look) error
	Failed(ctx context.Context, l workflow.Look, cause error)
}

// Looks makes a handler of lifecycle messages. Messages about the same execution
// are answered by one look; different executions are looked at in parallel. Each
// look is charged its share of the invocation and of the two requests, receive
// and delete, that the event source mapping makes for a batch. What fails when it
// is received for the last time is told to the queue, for its run's history.
func Looks(log *slog.Logger, decode func(body string) (workflow.Look, error), engine Engine, queue lasttry.Queue) Handler {
	return func(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
		share := 1 / float64(max(1, len(event.Records)))
		failures := failures{items: []events.SQSBatchItemFailure{}}
		groups := map[string]*group{}
		var order []*group
		for _, record := range event.Records {
			l, err := decode(record.Body)
			if err != nil {
				// It cannot say whose it is: it goes to the dead letters without a word to any run.
				log.ErrorContext(ctx, "message cannot be read", observe.MessageID, record.MessageId, observe.Receives, receives(record), observe.Err(err))
				failures.add(record.MessageId)
				continue
			}
			l.Cost.Add(workflow.Cost{Functions: share, Queue: 2 * share})
			key := l.Tenant + "#" + l.Execution
			if l.Lane != nil {
				// A look for a lane is about one run of the step, not about its undoing.
				key += fmt.Sprint("#", l.RunSeq, "#", *l.Lane)
			}
			if l.Dead != nil {
				key += "#dead#" + l.Dead.Message // it is no look at the run
			}
			if g := groups[key]; g != nil {
				g.look.Cost.Add(l.Cost)
				g.messages = append(g.messages, record)
				continue
			}
			groups[key] = &group{look: l, messages: []events.SQSMessage{record}}
			order = append(order, groups[key])
		}
		var all sync.WaitGroup
		for _, g := range order {
			all.Go(func() {
				if err := guarded(ctx, log, g.look, engine.Look); err != nil {
					log.LogAttrs(ctx, slog.LevelWarn, "look failed", append(observe.Run(g.look.Tenant, g.look.Execution, ""), observe.Err(err))...)
					g.failed(ctx, engine, lasttry.Rules{MaxReceives: topology.MaxReceiveLifecycle, Queue: queue, Log: log}, err)
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
	look     workflow.Look
	messages []events.SQSMessage
}

// failed tells that the look has failed. That a message has died is not told of the
// telling itself: there would be no end to it.
func (g *group) failed(ctx context.Context, engine Engine, r lasttry.Rules, err error) {
	if g.look.Dead != nil {
		return
	}
	engine.Failed(ctx, g.look, err)
	for _, m := range g.messages {
		lasttry.OfLook(r, m.MessageId, receives(m), g.look).Failed(ctx, err)
	}
}

// receives is how often a message has been received, this time included.
func receives(m events.SQSMessage) int {
	n, _ := strconv.Atoi(m.Attributes["ApproximateReceiveCount"]) // Lambda says it with every message
	return n
}

type failures struct {
	mu    sync.Mutex
	items []events.SQSBatchItemFailure
}

func (f *failures) add(ids ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		f.items = append(f.items, events.SQSBatchItemFailure{ItemIdentifier: id})
	}
}

// guarded turns a panic into an error of its record.
func guarded(ctx context.Context, log *slog.Logger, l workflow.Look, look func(context.Context, workflow.Look) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			log.LogAttrs(ctx, slog.LevelError, "panic", append(observe.Run(l.Tenant, l.Execution, ""), observe.Panicked(cause, debug.Stack())...)...)
			err = &workflow.Error{Code: workflow.CodeInternal, Message: "panic", Cause: fmt.Errorf("%v", cause)}
		}
	}()
	return look(ctx, l)
}
