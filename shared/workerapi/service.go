// Package workerapi serves workers that poll for packs over HTTP. They may be written in any
// language: they register, poll for packs, and push results. The service runs the delivery protocol
// for them, with the SDK's remote leases: a poll claims a pack under the worker's name, a heartbeat
// renews the lease, a push finishes the pack. Each request may be served by another process; all
// state is in the pack item.
//
// service.go lists what the service needs. workers.go serves the worker registry, poll.go finds a
// pack for a worker, attempt.go finds it again when the poll is repeated because its response was
// lost, and lease.go accepts heartbeats and results. receipt.go encodes the opaque text with which
// a worker names its pack: the queue message and its receipt handle. The claim's nonce contains a
// digest of that text, so a worker can neither report about a pack that it was not given nor change
// what the receipt is about.
package workerapi

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/token"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// PoolQueue is the queue of one pool.
type PoolQueue interface {
	worker.Source
	// ReceiveWithin is Receive with a limit on how long it waits.
	ReceiveWithin(ctx context.Context, n int, wait time.Duration) ([]worker.Delivery, error)
	// Depth returns roughly how many messages wait, are being worked on, and are
	// delayed.
	Depth(ctx context.Context) (waiting, received, delayed int, err error)
}

// Packs is the worker's access to pack items, and to the responses of polls.
type Packs interface {
	worker.Packs

	// PollReceipt returns, strongly consistent, what SavePollReceipt stored for an attempt; nil if
	// nothing is stored.
	PollReceipt(ctx context.Context, a workflow.PollAttempt) (*workflow.PollReceipt, error)
	// SavePollReceipt replaces what is stored for an attempt if that still has the version seen (""
	// for nothing). If it already has next's version, ok is true as well.
	SavePollReceipt(ctx context.Context, a workflow.PollAttempt, seen string, next workflow.PollReceipt) (ok bool, err error)
}

// BlockRegistry reads the registered blocks.
type BlockRegistry interface {
	VersionIndex(ctx context.Context, tenant string, kind workflow.VersionKind, fullName string) (workflow.VersionIndex, error)
	BlockVersions(ctx context.Context, tenant, fullName string) ([]workflow.Block, error)
	Blocks(ctx context.Context, tenant string, page workflow.Page) (workflow.List[workflow.Block], error)
}

// Ports are what the service uses to serve one request.
type Ports struct {
	Packs  Packs
	Sender worker.Sender
	Meter  worker.Meter
}

// Service serves polling workers. All exported fields are required.
type Service struct {
	WorkerRegistry *workers.Registry
	BlockRegistry  BlockRegistry
	NewPorts       func() Ports
	// Regions are the regions that pools of the stage serve.
	Regions []string
	// Parallel is how many queues are queried at a time; 1 keeps that in the caller's goroutine.
	Parallel int

	// UnclaimedJobs returns the jobs of a caller's executions that have waited for a while, by
	// pool.
	UnclaimedJobs func(ctx context.Context, c workflow.Caller) (map[string]views.UnclaimedJobs, error)

	// PoolQueue returns a pool's queue; CodeUnavailable, without a cause, if it has none.
	PoolQueue func(ctx context.Context, pool string) (PoolQueue, error)
	// OwnsQueues reports whether every message in the queues belongs to the tenant. Only then is
	// the tenant told how many there are, because SQS cannot count them by tenant.
	OwnsQueues func(tenant string) bool
	Decode     func(body string) (*workflow.PackMessage, error)
	// TokenKeys returns the keys of resume tokens, the zero value for none. With keys, what has to
	// be stored of a message with a token is sealed.
	TokenKeys func(ctx context.Context) (token.Keys, error)
	// WorkerOptions apply to every worker that is served. Name, NewNonce, Now, Logger,
	// Concurrency and PoolMarks are set by the service.
	WorkerOptions worker.Options
	Now           func() time.Time
	NewNonce      func() string // a short random text
	Log           *slog.Logger

	blockPools blockPools
	poolMarks  worker.PoolMarks
}

// sdkWorker returns an SDK worker that acts for the polling worker of this name.
func (s *Service) sdkWorker(name, nonce string) *worker.Worker {
	o := s.WorkerOptions
	o.Name, o.Now, o.Logger, o.Concurrency = name, s.Now, s.Log, 1
	o.PoolMarks = &s.poolMarks
	o.NewNonce = func() string { return nonce }
	return worker.New(o)
}

func (s *Service) ports() (Ports, worker.Ports) {
	p := s.NewPorts()
	return p, worker.Ports{Packs: p.Packs, Sender: p.Sender, Meter: p.Meter}
}

// claimLost is the error for a worker that does not, or no longer, hold the pack.
func claimLost() error {
	return workflow.Errorf(workflow.CodeClaimLost, "the pack is not held under this token any more: nothing has changed")
}

// logWarning logs a problem with a pack that the protocol recovers from.
func (s *Service) logWarning(ctx context.Context, msg string, m *workflow.PackMessage, err error, more ...slog.Attr) {
	s.Log.LogAttrs(ctx, slog.LevelWarn, msg, append(append(worker.PackAttrs(m), more...), observe.Err(err))...)
}
