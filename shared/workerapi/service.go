package workerapi

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// PoolQueue is one pool's queue.
type PoolQueue interface {
	worker.Source
	// ReceiveWithin receives and waits for no longer than wait.
	ReceiveWithin(ctx context.Context, n int, wait time.Duration) ([]worker.Delivery, error)
	// Depth is about how many messages wait, have been received, and are delayed.
	Depth(ctx context.Context) (waiting, received, delayed int, err error)
}

// Packs is the worker's side of the pack items, and a read of one.
type Packs interface {
	worker.Packs
	Pack(ctx context.Context, key workflow.PackKey) (*workflow.Pack, error)
}

// BlockRegistry knows the blocks.
type BlockRegistry interface {
	BlockVersions(ctx context.Context, tenant, fullName string) ([]workflow.Block, error)
	Blocks(ctx context.Context, tenant string, page workflow.Page) (workflow.List[workflow.Block], error)
}

// Ports is one view of the world for one request.
type Ports struct {
	Packs  Packs
	Sender worker.Sender
	Meter  worker.Meter
}

// Service is the blackboard.
type Service struct {
	WorkerRegistry *workers.Registry
	BlockRegistry  BlockRegistry
	NewPorts       func() Ports
	// PoolQueue is a pool's queue; CodeUnavailable if it has none.
	PoolQueue func(ctx context.Context, pool string) (PoolQueue, error)
	Decode    func(body string) (*workflow.PackMessage, error)
	// WorkerOptions are those of every worker that is served; its name and nonces are set
	// for each.
	WorkerOptions worker.Options
	Now           func() time.Time
	NewNonce      func() string // a short random text
	Log           *slog.Logger
}

// sdkWorker is a worker of the SDK that speaks for one that polls.
func (s *Service) sdkWorker(name, nonce string) *worker.Worker {
	o := s.WorkerOptions
	o.Name, o.Now, o.Logger, o.Concurrency = name, s.Now, s.Log, 1
	o.NewNonce = func() string { return nonce }
	return worker.New(o)
}

func (s *Service) ports() (Ports, worker.Ports) {
	p := s.NewPorts()
	return p, worker.Ports{Packs: p.Packs, Sender: p.Sender, Meter: p.Meter}
}

// claimLost is the answer to whoever says something of a pack that is not his.
func claimLost() error {
	return workflow.Errorf(workflow.CodeClaimLost, "the pack is not held under this token any more: nothing has changed")
}
