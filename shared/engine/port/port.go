package port

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Store keeps executions: the state item and what lies beside it.
type Store interface {
	// Create writes the state item if none exists under its id. A write whose
	// reply was lost is recognised by x.Commit and reported as ok.
	Create(ctx context.Context, x *workflow.Execution) (ok bool, err error)

	// Load is a strongly consistent read, waiters included. A missing execution
	// is an error with CodeNotFound, a newer schema one with CodeUnavailable.
	Load(ctx context.Context, tenant, id string) (*workflow.Execution, error)

	// Commit replaces the state item if its version is still seen; next.Version
	// is seen+1. The waiters are left alone, unless release is set: then they
	// are removed by the same write and returned. A write whose reply was lost
	// is recognised by next.Commit (its waiters are then unknown: their alarms
	// cover them).
	Commit(ctx context.Context, seen int64, next *workflow.Execution, release bool) (waiters []string, ok bool, err error)

	// Heads are strongly consistent reads of states and epochs; a missing
	// execution has the zero Head.
	Heads(ctx context.Context, tenant string, ids []string) (map[string]workflow.Head, error)

	// AwaitHolder adds waiter to holder's waiters if the holder is still live at
	// the epoch (its state is not in the closed list of states that hold
	// nothing). AwaitReserver does so if that run is not over. The set is
	// bounded (64); a full set answers ok without adding: the alarm covers it.
	AwaitHolder(ctx context.Context, tenant, holder string, epoch int64, waiter string) (ok bool, err error)
	AwaitReserver(ctx context.Context, tenant, reserver, waiter string) (ok bool, err error)

	// SaveInput and LoadInput keep a large input beside the state.
	SaveInput(ctx context.Context, tenant, id string, in workflow.Input) error
	LoadInput(ctx context.Context, tenant, id string) (workflow.Input, error)

	// SaveScope stores the entities of a scope compressed in chunks under key and
	// returns their number; LoadScope reads all chunks in order.
	SaveScope(ctx context.Context, tenant, id, key string, entities []workflow.Held) (chunks int, err error)
	LoadScope(ctx context.Context, tenant, id, key string, chunks int) ([]workflow.Held, error)

	// SaveEvents stores a page of events keyed by its first sequence number;
	// saving the same page again changes nothing. LoadEvents returns stored
	// events with a sequence number above after, in order, at most limit.
	SaveEvents(ctx context.Context, tenant, id string, events []workflow.Event) error
	LoadEvents(ctx context.Context, tenant, id string, after int64, limit int) ([]workflow.Event, error)

	// Due lists executions of one shard whose alarm has rung, oldest first, from
	// the index; Listed lists ids in a state, newest first, below the id given
	// ("" for the newest). Both may lag behind the state items.
	Due(ctx context.Context, shard int, now time.Time, page workflow.Page) (workflow.List[workflow.Look], error)
	Listed(ctx context.Context, tenant string, state statemachines.ExecutionState, below string, limit int) ([]string, error)

	// LoadMany are strongly consistent reads of whole state items; missing ones
	// are left out.
	LoadMany(ctx context.Context, tenant string, ids []string) ([]*workflow.Execution, error)
}

// Locks keeps the lock items.
type Locks interface {
	// Read is strongly consistent; an entity without an item has Rev 0.
	Read(ctx context.Context, tenant string, keys []workflow.EntityKey) (map[workflow.EntityKey]workflow.Lock, error)

	// Take makes owner the owner at epoch if the item's rev is still seen. The
	// new rev is seen+1 and is also the token. Reservations stay as they are.
	Take(ctx context.Context, tenant string, key workflow.EntityKey, owner string, epoch, seen int64, now time.Time) (ok bool, err error)

	// Reserve sets the reservation to the run by, if there is none, or a younger
	// run's, or exactly over, which was read as over ("" for none).
	Reserve(ctx context.Context, tenant string, key workflow.EntityKey, by, over string) (ok bool, err error)
}

// Packs is the engine's side of the pack items and done sets.
type Packs interface {
	// Pack is a strongly consistent read; nil if absent.
	Pack(ctx context.Context, key workflow.PackKey) (*workflow.Pack, error)

	// Shard reads all pack items, of all attempts and positions, of one shard of
	// a step run, strongly consistent and fully paged.
	Shard(ctx context.Context, run workflow.RunKey, shard int) ([]*workflow.Pack, error)

	// Done is a strongly consistent read of a shard's done set; empty if absent.
	Done(ctx context.Context, run workflow.RunKey, shard int) (workflow.DoneSet, error)

	// AddDone adds a lane to its shard's done set, and to the bad ones if bad,
	// and returns the whole set as it is after.
	AddDone(ctx context.Context, key workflow.PackKey, bad bool, cost workflow.Cost) (workflow.DoneSet, error)

	// Tombstone puts p (CANCELLED, all jobs NOT_EXECUTED) if the item is absent.
	Tombstone(ctx context.Context, p *workflow.Pack) (ok bool, err error)

	// AskCancel sets the cancel flag if the pack is CLAIMED.
	AskCancel(ctx context.Context, key workflow.PackKey) (ok bool, err error)

	// Seize replaces p's item by next (token+1, CANCELLED) if it is CLAIMED with
	// the token and the lease of seen.
	Seize(ctx context.Context, seen, next *workflow.Pack) (ok bool, err error)
}

// Board sends messages. Sending is at least once; a queue that does not exist is
// no error: the message counts as not sent, and an alarm sends it again.
type Board interface {
	// Offer sends packs to the queue of their pool, each after its delay (cut to
	// 15 minutes), in batches. It returns the keys that could not be sent.
	Offer(ctx context.Context, now time.Time, packs []*workflow.PackMessage) (failed []workflow.PackKey, err error)

	// Notify sends looks to the lifecycle queue after the delay.
	Notify(ctx context.Context, delay time.Duration, looks ...workflow.Look) error
}

// Registry keeps what is published and registered.
type Registry interface {
	// PutDefinition stores a definition if none exists under its exact version;
	// otherwise it returns the stored one.
	PutDefinition(ctx context.Context, tenant string, d workflow.Published) (existing *workflow.Published, err error)
	// Definition is CodeNotFound if there is none.
	Definition(ctx context.Context, tenant string, ref workflow.Ref) (*workflow.Published, error)
	// DefinitionVersions lists the heads (no source) of one definition, or of
	// all if name is "", in order of name and version.
	DefinitionVersions(ctx context.Context, tenant, fullName string, page workflow.Page) (workflow.List[workflow.Published], error)
	SetArchived(ctx context.Context, tenant string, ref workflow.Ref, archived bool) error

	PutBlock(ctx context.Context, tenant string, b workflow.Block) (existing *workflow.Block, err error)
	// BlockVersions lists all registered versions of a block; Blocks all blocks.
	BlockVersions(ctx context.Context, tenant, fullName string) ([]workflow.Block, error)
	Blocks(ctx context.Context, tenant string, page workflow.Page) (workflow.List[workflow.Block], error)

	// PutEntities upserts: attributes and groups are replaced, the version grows,
	// the token stays.
	PutEntities(ctx context.Context, tenant string, entities []workflow.Entity) error
	// Entities reads by key; missing ones are left out. strong asks for strongly
	// consistent reads.
	Entities(ctx context.Context, tenant string, keys []workflow.EntityKey, strong bool) (map[workflow.EntityKey]workflow.Entity, error)
	// EntitiesOf lists a type's entities in order of id.
	EntitiesOf(ctx context.Context, tenant, entityType string, page workflow.Page) (workflow.List[workflow.Entity], error)

	// Reserve binds an idempotency key to an execution id and a digest of the
	// request, if it is free or has expired at now; otherwise it returns what it
	// is bound to.
	Reserve(ctx context.Context, tenant, key string, want workflow.Binding, now time.Time) (bound workflow.Binding, fresh bool, err error)
	// Bound reads what a key is bound to; the zero Binding if it is free or has
	// expired at now.
	Bound(ctx context.Context, tenant, key string, now time.Time) (workflow.Binding, error)
}

// Meter counts what has been consumed through the ports it was opened with.
type Meter interface {
	// Take returns the count since the last Take and starts anew.
	Take() workflow.Cost
}

// Ports is one view of the world, opened for one piece of work so that what it
// consumes is counted apart.
type Ports struct {
	Store    Store
	Locks    Locks
	Packs    Packs
	Board    Board
	Registry Registry
	Meter    Meter
}
