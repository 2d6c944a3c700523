package batch

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Handler is what lambda.Start takes for a queue with ReportBatchItemFailures.
type Handler func(context.Context, events.SQSEvent) (events.SQSEventResponse, error)

// Looks makes a handler of lifecycle messages. Messages about the same execution
// are answered by one look; different executions are looked at in parallel. Each
// look is charged its share of the invocation and of the two requests, receive
// and delete, that the event source mapping makes for a batch. failed is told of
// the looks that fail.
func Looks(log *slog.Logger, decode func(body string) (workflow.Look, error), look func(context.Context, workflow.Look) error, failed func(context.Context, workflow.Look, error)) Handler {
	return func(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
		share := 1 / float64(max(1, len(event.Records)))
		failures := failures{items: []events.SQSBatchItemFailure{}}
		groups := map[string]*group{}
		var order []*group
		for _, record := range event.Records {
			l, err := decode(record.Body)
			if err != nil {
				log.ErrorContext(ctx, "message cannot be read", "messageId", record.MessageId, "error", err)
				failures.add(record.MessageId)
				continue
			}
			l.Cost.Add(workflow.Cost{Functions: share, Queue: 2 * share})
			key := l.Tenant + "#" + l.Execution
			if l.Lane != nil {
				// A look for a lane is about one run of the step, not about its undoing.
				key += fmt.Sprint("#", l.RunSeq, "#", *l.Lane)
			}
			if g := groups[key]; g != nil {
				g.look.Cost.Add(l.Cost)
				g.messages = append(g.messages, record.MessageId)
				continue
			}
			groups[key] = &group{look: l, messages: []string{record.MessageId}}
			order = append(order, groups[key])
		}
		var all sync.WaitGroup
		for _, g := range order {
			all.Go(func() {
				if err := guarded(ctx, log, g.look, look); err != nil {
					log.WarnContext(ctx, "look failed", "executionId", g.look.Execution, "error", err)
					failures.add(g.messages...)
					failed(ctx, g.look, err)
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
	messages []string
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
			log.ErrorContext(ctx, "panic", "executionId", l.Execution, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return look(ctx, l)
}
