package port

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Packs is the engine's side of the pack items and done sets.
type Packs interface {
	// Pack is a strongly consistent read; nil if absent.
	Pack(ctx context.Context, key workflow.PackKey) (*workflow.Pack, error)

	// ShardPacks reads all pack items, of all attempts and positions, of one shard of
	// a step run, strongly consistent and fully paged.
	ShardPacks(ctx context.Context, run workflow.StepRunKey, shard int) ([]*workflow.Pack, error)

	// DoneSet is a strongly consistent read of a shard's done set; empty if absent.
	DoneSet(ctx context.Context, run workflow.StepRunKey, shard int) (workflow.DoneSet, error)

	// AddDone adds a lane to its shard's done set, with what is kept of its end,
	// and returns the whole set as it is after.
	AddDone(ctx context.Context, key workflow.PackKey, end workflow.LaneResult) (workflow.DoneSet, error)

	// SavePayload stores data beside a pack, whether there is such a pack or not, and Load
	// reads what is stored beside it; CodeNotFound if any of it is missing.
	SavePayload(ctx context.Context, key workflow.PackKey, data []byte) (workflow.PayloadRef, error)
	LoadPayload(ctx context.Context, key workflow.PackKey, s workflow.PayloadRef) ([]byte, error)

	// Discard has everything of one shard of a step run dropped from at on: packs,
	// done set and what is stored beside them.
	Discard(ctx context.Context, run workflow.StepRunKey, shard int, at time.Time) error

	// PutCancelled puts p (CANCELLED, all jobs NOT_EXECUTED) if the item is absent.
	PutCancelled(ctx context.Context, p *workflow.Pack) (ok bool, err error)

	// RequestCancel sets the cancel flag if the pack is CLAIMED.
	RequestCancel(ctx context.Context, key workflow.PackKey) (ok bool, err error)

	// ForceCancel replaces p's item by next (token+1, CANCELLED) if it is CLAIMED with
	// the token and the lease of seen.
	ForceCancel(ctx context.Context, seen, next *workflow.Pack) (ok bool, err error)
}
