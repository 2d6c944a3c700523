package port

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Workers keeps the polling workers. It judges nothing: a worker that was removed
// stays readable for a while, in that state.
type Workers interface {
	// Worker is a strongly consistent read; nil if absent.
	Worker(ctx context.Context, tenant, id string) (*workflow.Worker, error)

	// Workers lists a tenant's workers in order of id, without removed ones.
	Workers(ctx context.Context, tenant string, page workflow.Page) (workflow.List[workflow.Worker], error)

	// PutWorker replaces seen by next if the item still has seen's state and was
	// last heard of when seen was; seen nil stands for no item. The packs that it
	// holds are removed if next names none, and otherwise left as they are.
	PutWorker(ctx context.Context, seen, next *workflow.Worker) (ok bool, err error)

	// Heartbeat writes the time of a heartbeat of a worker that is ONLINE, and the packs
	// that it holds unless held is nil. Of any other worker it writes nothing and
	// returns it, nil if absent.
	Heartbeat(ctx context.Context, tenant, id string, at time.Time, held []workflow.ClaimedPack) (ok bool, old *workflow.Worker, err error)

	// AddClaimedPack adds a pack to those that a worker holds, Drop takes one away. Neither
	// makes a worker that is absent.
	AddClaimedPack(ctx context.Context, tenant, id string, pack workflow.ClaimedPack) error
	RemoveClaimedPack(ctx context.Context, tenant, id string, pack workflow.ClaimedPack) error

	// DueWorkers lists workers of one shard that have to be looked at by now, the
	// longest due first, from the index, which may lag behind. Only Tenant and ID
	// are set.
	DueWorkers(ctx context.Context, shard int, now time.Time, page workflow.Page) (workflow.List[workflow.Worker], error)
}
