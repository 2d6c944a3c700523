package httpserver

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/boot/enginehost"
	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/sqs"
	"github.com/lockstep-run/lockstep/shared/workerapi"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// newWorkerAPI serves workers that poll over HTTP.
func newWorkerAPI(c *enginehost.Host) *workerapi.Service {
	cfg := c.Config
	lease := max(cfg.Job.Lease, time.Second) // a queue knows whole seconds only
	return &workerapi.Service{
		WorkerRegistry: c.Workers(),
		BlockRegistry:  c.DB.WithMeter(nil).Registry,
		NewPorts: func() workerapi.Ports {
			m := &cost.Meter{}
			m.Add(workflow.Cost{Invocations: 1, QueueRequests: 1}) // the request itself, and what it asks of the queue
			return workerapi.Ports{Packs: c.DB.WithMeter(m).Packs, Sender: c.Queues.WithMeter(m), Meter: m}
		},
		PoolQueue: func(ctx context.Context, pool string) (workerapi.PoolQueue, error) {
			url, err := c.Queues.PoolQueueURL(ctx, time.Now(), pool)
			if err != nil {
				return nil, err
			}
			return sqs.NewReceiver(c.SQS, url, lease, nil), nil
		},
		Decode: sqs.DecodePack,
		WorkerOptions: worker.Options{
			LeaseDuration: cfg.Job.Lease, HeartbeatInterval: cfg.Job.Heartbeat, MaxClockSkew: cfg.Clock.Skew, LeaseMargin: cfg.Clock.Margin,
			MaxClaims: cfg.Job.MaxTakeovers, UnclaimedTimeout: cfg.Job.Unclaimed,
			MinFencingToken: func() int64 { return int64(cfg.Lock.MinFencingToken) },
		},
		Now:      time.Now,
		NewNonce: func() string { return strings.ToLower(rand.Text()[:12]) },
		Log:      c.Log,
	}
}
