package httpserver

import (
	"context"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/boot/enginehost"
	"github.com/lockstep-run/lockstep/shared/deadletter"
	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/scheduler"
	"github.com/lockstep-run/lockstep/shared/sqs"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// operations is what operators keep in order.
type operations struct {
	*deadletter.Service
	host *enginehost.Host
}

// NextSweep is what the next sweep would do with what is the caller's.
func (u operations) NextSweep(ctx context.Context, c workflow.Caller) (views.SweepView, error) {
	return scheduler.PlanSweep(ctx, u.host.Engine, u.host.LivenessTimeouts(), topology.DueShards, c.Tenant)
}

func newOperations(c *enginehost.Host) operations {
	return operations{&deadletter.Service{
		Blocks: c.DB.WithMeter(nil).Registry,
		Open: func(ctx context.Context, queue string) (deadletter.Queue, error) {
			return openDeadLetters(ctx, c, queue)
		},
		Decoder: deadletter.Decoder{Wakeup: sqs.DecodeWakeup, Pack: sqs.DecodePack},
		Reasons: func(ctx context.Context, tenant, execution string) (map[string]workflow.DeadLetter, error) {
			store := c.DB.WithMeter(nil).Store
			x, err := store.Load(ctx, tenant, execution)
			if err != nil {
				return nil, err
			}
			return engine.DeadLetterNotices(ctx, store, x)
		},
		Now: time.Now, Log: c.Log, Parallel: 8,
	}, c}
}

// openDeadLetters finds a queue with its dead letters, nil if there is none.
func openDeadLetters(ctx context.Context, c *enginehost.Host, queue string) (deadletter.Queue, error) {
	url := c.Queues.LifecycleURL()
	if pool, ok := strings.CutPrefix(queue, topology.QueueJobsPrefix); ok {
		var err error
		if url, err = c.Queues.LookupPoolQueue(ctx, time.Now(), pool); url == "" || err != nil {
			return nil, err
		}
	}
	q, err := sqs.OpenDeadLetterQueue(ctx, c.SQS, url)
	if q == nil || err != nil {
		return nil, err // an interface that holds nil would be a queue
	}
	return q, nil
}
