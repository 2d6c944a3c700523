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

	// Shard reads all pack items, of all attempts and positions, of one shard of
	// a step run, strongly consistent and fully paged.
	Shard(ctx context.Context, run workflow.RunKey, shard int) ([]*workflow.Pack, error)

	// Done is a strongly consistent read of a shard's done set; empty if absent.
	Done(ctx context.Context, run workflow.RunKey, shard int) (workflow.DoneSet, error)

	// AddDone adds a lane to its shard's done set, with what is kept of its end,
	// and returns the whole set as it is after.
	AddDone(ctx context.Context, key workflow.PackKey, end workflow.LaneEnd) (workflow.DoneSet, error)

	// Save stores data beside a pack, whether there is such a pack or not, and Load
	// reads what is stored beside it; CodeNotFound if any of it is missing.
	Save(ctx context.Context, key workflow.PackKey, data []byte) (workflow.Stored, error)
	Load(ctx context.Context, key workflow.PackKey, s workflow.Stored) ([]byte, error)

	// Discard has everything of one shard of a step run dropped from at on: packs,
	// done set and what is stored beside them.
	Discard(ctx context.Context, run workflow.RunKey, shard int, at time.Time) error

	// Tombstone puts p (CANCELLED, all jobs NOT_EXECUTED) if the item is absent.
	Tombstone(ctx context.Context, p *workflow.Pack) (ok bool, err error)

	// AskCancel sets the cancel flag if the pack is CLAIMED.
	AskCancel(ctx context.Context, key workflow.PackKey) (ok bool, err error)

	// Seize replaces p's item by next (token+1, CANCELLED) if it is CLAIMED with
	// the token and the lease of seen.
	Seize(ctx context.Context, seen, next *workflow.Pack) (ok bool, err error)
}
