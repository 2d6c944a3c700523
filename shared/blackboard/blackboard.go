package blackboard

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/roster"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Queue is one pool's queue.
type Queue interface {
	worker.Source
	// Within receives and waits for no longer than wait.
	Within(ctx context.Context, n int, wait time.Duration) ([]worker.Delivery, error)
	// Depth is about how many messages wait, have been received, and are delayed.
	Depth(ctx context.Context) (waiting, received, delayed int, err error)
}

// Packs is the worker's side of the pack items, and a read of one.
type Packs interface {
	worker.Packs
	Pack(ctx context.Context, key workflow.PackKey) (*workflow.Pack, error)
}

// Registry knows the blocks.
type Registry interface {
	BlockVersions(ctx context.Context, tenant, fullName string) ([]workflow.Block, error)
	Blocks(ctx context.Context, tenant string, page workflow.Page) (workflow.List[workflow.Block], error)
}

// Ports is one view of the world for one request.
type Ports struct {
	Packs Packs
	Queue worker.Queue
	Meter worker.Meter
}

// Service is the blackboard.
type Service struct {
	Roster   *roster.Roster
	Registry Registry
	Open     func() Ports
	// Pool is a pool's queue; CodeUnavailable if it has none.
	Pool   func(ctx context.Context, pool string) (Queue, error)
	Decode func(body string) (*workflow.PackMessage, error)
	// Rules are those of every worker that is served; its name and nonces are set
	// for each.
	Rules worker.Options
	Now   func() time.Time
	Nonce func() string // a short random text
	Log   *slog.Logger
}

// worker is a worker of the SDK that speaks for one that polls.
func (s *Service) worker(name, nonce string) *worker.Worker {
	o := s.Rules
	o.Name, o.Now, o.Log, o.Concurrency = name, s.Now, s.Log, 1
	o.Nonce = func() string { return nonce }
	return worker.New(o)
}

func (s *Service) ports() (Ports, worker.Ports) {
	p := s.Open()
	return p, worker.Ports{Packs: p.Packs, Queue: p.Queue, Meter: p.Meter}
}

// lost is the answer to whoever says something of a pack that is not his.
func lost() error {
	return workflow.Errorf(workflow.CodeClaimLost, "the pack is not held under this token any more: nothing has changed")
}
