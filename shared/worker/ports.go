package worker

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Ports are what a worker uses to handle one message. Open new ports for each
// message, so that Meter counts only what that message costs.
type Ports struct {
	Packs  Packs
	Sender Sender
	Meter  Meter

	// ExtendVisibility hides the message from other receivers for d. The worker calls
	// it with every heartbeat. Nil: it is not called.
	ExtendVisibility func(ctx context.Context, d time.Duration) error

	// TimeBudget is how much time the process had for all messages that it received at once. A job
	// with a longer timeout starts only if at least nine tenths of the budget are left. Zero:
	// unknown.
	TimeBudget time.Duration

	// OnUnclaimedStart is called when jobs start without a claim of their pack. Nil: it is not
	// called.
	OnUnclaimedStart func(ctx context.Context)
}

// Packs is the worker's access to pack items and done sets: reads and conditional writes of single
// items, nothing else. A method whose condition does not hold returns ok=false and the current
// item, nil if there is none. A write whose reply was lost is reported as ok if it is found in the
// item (same nonce, same token).
type Packs interface {
	// Pack reads the item, strongly consistent; nil if there is none.
	Pack(ctx context.Context, key workflow.PackKey) (*workflow.Pack, error)

	// Claim puts p (CLAIMED, token 1) if there is no item.
	Claim(ctx context.Context, p *workflow.Pack) (ok bool, old *workflow.Pack, err error)

	// TakeOver replaces seen by next (token+1, new lease) if the item is CLAIMED with
	// seen's token and lease and without a cancel request.
	TakeOver(ctx context.Context, seen, next *workflow.Pack) (ok bool, old *workflow.Pack, err error)

	// Extend writes p's lease, job records, time of the claim and Confirmed if the item is CLAIMED
	// with p's token, has no cancel request and no later lease: a delayed heartbeat must not undo a
	// later one.
	Extend(ctx context.Context, p *workflow.Pack) (ok bool, old *workflow.Pack, err error)

	// Finish writes p (FINISHED or CANCELLED) if the item is CLAIMED with p's token.
	Finish(ctx context.Context, p *workflow.Pack) (ok bool, old *workflow.Pack, err error)

	// FinishUnclaimed puts p if there is no item. It is for pure blocks.
	FinishUnclaimed(ctx context.Context, p *workflow.Pack) (ok bool, old *workflow.Pack, err error)

	// AddDone adds the lane to its shard's done set and returns the new set. Added is set if the
	// lane is new; after a lost reply it may be false.
	AddDone(ctx context.Context, key workflow.PackKey, end workflow.LaneResult) (workflow.DoneSet, error)

	// MarkPool replaces the mark of a pool.
	MarkPool(ctx context.Context, pool string, mark workflow.PoolMark) error

	// SavePayload stores data in items of its own under a pack's key. The pack itself
	// need not exist.
	SavePayload(ctx context.Context, key workflow.PackKey, data []byte) (workflow.PayloadRef, error)

	// LoadPayload reads what SavePayload stored; CodeNotFound if a part is missing.
	LoadPayload(ctx context.Context, key workflow.PackKey, s workflow.PayloadRef) ([]byte, error)
}

// Sender sends what follows a pack.
type Sender interface {
	// SendPacks sends packs to the queues of their pools, each not before its time. It returns the
	// keys of the packs that could not be sent.
	SendPacks(ctx context.Context, now time.Time, packs []*workflow.PackMessage) (failed []workflow.PackKey, err error)
	WakeupSender
}

// WakeupSender sends messages to the engine.
type WakeupSender interface {
	// SendWakeups sends wake-ups to the lifecycle queue, to be delivered after the
	// delay.
	SendWakeups(ctx context.Context, delay time.Duration, wakeups ...workflow.Wakeup) error
}

// Meter counts what calls to Packs and Sender cost.
type Meter interface {
	// Take returns the cost since the last Take.
	Take() workflow.Cost
}

// Source is the queue a polling worker receives packs from. A Lambda worker has
// none: its event source mapping receives and deletes the messages.
type Source interface {
	// Receive returns at most n messages. It waits up to 20s for the first one.
	Receive(ctx context.Context, n int) ([]Delivery, error)
	// Delete removes a delivered message from the queue.
	Delete(ctx context.Context, d Delivery) error
	// Defer makes a delivered message visible again after a time.
	Defer(ctx context.Context, d Delivery, after time.Duration) error
}

// Delivery is one received message.
type Delivery struct {
	ID            string // of the message, the same for every delivery
	ReceiptHandle string // of this delivery; empty in a batch
	Body          string
	ReceiveCount  int // how often the message was received, this time included
}

// WorkerRegistry records which polling workers are alive. It informs people and
// decides who may receive new packs. It does not decide who may work on a pack:
// leases do.
type WorkerRegistry interface {
	// Register adds the worker. Repeating it changes nothing.
	Register(ctx context.Context, w workflow.Worker) error
	// Heartbeat records that the worker is alive and which packs it works on. It returns
	// CodeNotFound if the worker is not, or no longer, registered. draining means that it should
	// receive no more packs.
	Heartbeat(ctx context.Context, id string, held []workflow.ClaimedPack) (draining bool, err error)
	// Unregister removes a worker that stops.
	Unregister(ctx context.Context, id string) error
}
