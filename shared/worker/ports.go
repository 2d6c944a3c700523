package worker

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Packs is the worker's side of the pack items and done sets: conditional
// single-item writes, nothing else. A method whose condition does not hold
// answers ok=false with the item as it stands (nil if absent). A write whose
// reply was lost and that is found to have landed (same nonce, same token) is
// reported as ok.
type Packs interface {
	// Claim puts p (CLAIMED, token 1) if the item is absent.
	Claim(ctx context.Context, p *workflow.Pack) (ok bool, old *workflow.Pack, err error)

	// TakeOver replaces seen by next (token+1, new lease) if the item is CLAIMED
	// with seen's token and lease and without a cancel flag.
	TakeOver(ctx context.Context, seen, next *workflow.Pack) (ok bool, old *workflow.Pack, err error)

	// Extend writes p's lease and job records if the item is CLAIMED with p's
	// token, without a cancel flag, and with no later lease: a heartbeat that was
	// held up on its way must not undo a later one.
	Extend(ctx context.Context, p *workflow.Pack) (ok bool, old *workflow.Pack, err error)

	// Finish writes p (FINISHED or CANCELLED) if the item is CLAIMED with p's
	// token; FinishUnclaimed puts it if the item is absent (pure blocks).
	Finish(ctx context.Context, p *workflow.Pack) (ok bool, old *workflow.Pack, err error)
	FinishUnclaimed(ctx context.Context, p *workflow.Pack) (ok bool, old *workflow.Pack, err error)

	// AddDone adds the lane to its shard's done set and returns the set after.
	AddDone(ctx context.Context, key workflow.PackKey, end workflow.LaneResult) (workflow.DoneSet, error)

	// SavePayload stores data beside a pack, whether there is such a pack or not, and Load
	// reads what is stored beside it; CodeNotFound if any of it is missing.
	SavePayload(ctx context.Context, key workflow.PackKey, data []byte) (workflow.PayloadRef, error)
	LoadPayload(ctx context.Context, key workflow.PackKey, s workflow.PayloadRef) ([]byte, error)
}

// Sender is where a worker sends what follows a pack.
type Sender interface {
	// SendPacks sends packs to their pool's queue, each not before its time.
	SendPacks(ctx context.Context, now time.Time, packs []*workflow.PackMessage) (failed []workflow.PackKey, err error)

	// SendWakeups sends looks to the lifecycle queue after the delay.
	SendWakeups(ctx context.Context, delay time.Duration, looks ...workflow.Wakeup) error
}

// Meter counts what the calls through the two ports consumed.
type Meter interface {
	// Take returns the count since the last Take and starts anew.
	Take() workflow.Cost
}

// Source is where a polling worker gets its packs. A Lambda worker has none: its
// event source mapping receives and deletes for it.
type Source interface {
	// Receive waits up to 20 s for messages, at most n.
	Receive(ctx context.Context, n int) ([]Delivery, error)
	// Delete ends a delivery for good; Defer makes it come back after d.
	Delete(ctx context.Context, d Delivery) error
	Defer(ctx context.Context, d Delivery, after time.Duration) error
}

// Delivery is one received message.
type Delivery struct {
	ID            string // of the message, the same each time
	ReceiptHandle string
	Body          string
	ReceiveCount  int // how often it has been received, this time included
}
