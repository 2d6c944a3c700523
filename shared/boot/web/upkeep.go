package web

import (
	"context"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/boot/core"
	"github.com/lockstep-run/lockstep/shared/deadletter"
	"github.com/lockstep-run/lockstep/shared/engine/burial"
	"github.com/lockstep-run/lockstep/shared/engine/sweep"
	"github.com/lockstep-run/lockstep/shared/sqs"
	"github.com/lockstep-run/lockstep/shared/sqs/dead"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// upkeep is what operators keep in order.
type upkeep struct {
	*deadletter.Service
	core *core.Core
}

// NextSweep is what the next sweep would do with what is the caller's.
func (u upkeep) NextSweep(ctx context.Context, c workflow.Caller) (views.SweepView, error) {
	return sweep.Plan(ctx, u.core.Engine, u.core.Silence(), topology.DueShards, c.Tenant)
}

func keep(c *core.Core) upkeep {
	return upkeep{&deadletter.Service{
		Blocks: c.DB.With(nil).Registry,
		Open:   func(ctx context.Context, queue string) (deadletter.Queue, error) { return open(ctx, c, queue) },
		Decode: deadletter.Decode{Look: sqs.DecodeLook, Pack: sqs.DecodePack},
		Reasons: func(ctx context.Context, tenant, execution string) (map[string]workflow.Dead, error) {
			store := c.DB.With(nil).Store
			x, err := store.Load(ctx, tenant, execution)
			if err != nil {
				return nil, err
			}
			return burial.Notices(ctx, store, x)
		},
		Now: time.Now, Log: c.Log, Parallel: 8,
	}, c}
}

// open finds a queue with its dead letters, nil if there is none.
func open(ctx context.Context, c *core.Core, queue string) (deadletter.Queue, error) {
	url := c.Queues.Lifecycle()
	if pool, ok := strings.CutPrefix(queue, topology.QueueJobsPrefix); ok {
		var err error
		if url, err = c.Queues.Lookup(ctx, time.Now(), pool); url == "" || err != nil {
			return nil, err
		}
	}
	q, err := dead.Open(ctx, c.SQS, url)
	if q == nil || err != nil {
		return nil, err // an interface that holds nil would be a queue
	}
	return q, nil
}
