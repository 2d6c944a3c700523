package web

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/blackboard"
	"github.com/lockstep-run/lockstep/shared/boot/core"
	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/sqs"
	"github.com/lockstep-run/lockstep/shared/sqs/source"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// board serves workers that poll over HTTP.
func board(c *core.Core) *blackboard.Service {
	conf := c.Config
	lease := max(conf.Job.Lease, time.Second) // a queue knows whole seconds only
	return &blackboard.Service{
		Roster:   c.Roster(),
		Registry: c.DB.With(nil).Registry,
		Open: func() blackboard.Ports {
			m := &cost.Meter{}
			m.Add(workflow.Cost{Functions: 1, Queue: 1}) // the request itself, and what it asks of the queue
			return blackboard.Ports{Packs: c.DB.With(m).Packs, Queue: c.Queues.With(m), Meter: m}
		},
		Pool: func(ctx context.Context, pool string) (blackboard.Queue, error) {
			url, err := c.Queues.Find(ctx, time.Now(), pool)
			if err != nil {
				return nil, err
			}
			return source.New(c.SQS, url, lease, nil), nil
		},
		Decode: sqs.DecodePack,
		Rules: worker.Options{
			Lease: conf.Job.Lease, Heartbeat: conf.Job.Heartbeat, Skew: conf.Clock.Skew, Margin: conf.Clock.Margin,
			MaxClaims: conf.Job.MaxTakeovers, Unclaimed: conf.Job.Unclaimed,
			Floor: func() int64 { return int64(conf.Lock.Floor) },
		},
		Now:   time.Now,
		Nonce: func() string { return strings.ToLower(rand.Text()[:12]) },
		Log:   c.Log,
	}
}
