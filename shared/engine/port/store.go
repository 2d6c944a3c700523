package port

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Store keeps executions: the state item, and the large values stored apart from it.
type Store interface {
	// Create writes the state item if none exists under its id. A write whose reply was
	// lost is recognised by x.Commit and reported as ok.
	Create(ctx context.Context, x *workflow.Execution) (ok bool, err error)

	// Load is a strongly consistent read, waiters and signals included. A missing execution
	// is CodeNotFound, a newer schema CodeUnavailable.
	Load(ctx context.Context, tenant, id string) (*workflow.Execution, error)

	// Commit replaces the state item if its version is still seen; next.Version is
	// seen+1. The waiters stay, unless o.Release is set: then the same write removes them
	// and Commit returns them. A write whose reply was lost is recognised by next.Commit;
	// its waiters are then unknown, and their timers wake them.
	//
	// The signals stay too, those that nobody has read included, but for o.Consumed: these
	// have to be in the mailbox, and are remembered for ever, so that none is accepted again;
	// Commit updates next.Heard and next.HeardOut. With o.SignalsSeen the write depends also
	// on that no signal has come since next.SignalOrder was read: if only that has failed, the
	// version of the item is still seen. The schema version of an item never becomes lower.
	Commit(ctx context.Context, seen int64, next *workflow.Execution, o workflow.CommitOptions) (waiters []string, ok bool, err error)

	// SendSignal puts a signal into the mailbox of an execution, without changing its
	// version; signal.Order is ignored. Once accepted, a signal of the same id is a duplicate,
	// or a mismatch if it differs and is not consumed yet, for as long as the execution
	// exists. Only of one that is neither, the state is judged, and then whether there is a
	// place. A missing execution is CodeNotFound. With a result other than accepted, state is
	// that of the execution.
	SendSignal(ctx context.Context, tenant, id string, signal workflow.Signal) (result workflow.SignalResult, state statemachines.ExecutionState, err error)

	// SaveValue stores data of an execution apart from its state item, under the name of what
	// it belongs to and its digest; to store it again changes nothing. LoadValue reads it;
	// CodeNotFound if any of it is missing.
	SaveValue(ctx context.Context, tenant, id, owner string, data []byte) (workflow.PayloadRef, error)
	LoadValue(ctx context.Context, tenant, id, owner string, ref workflow.PayloadRef) ([]byte, error)

	// Heads are strongly consistent reads of what decides about locks, all of an execution
	// in one read. A missing execution has the zero OwnerStatus.
	Heads(ctx context.Context, tenant string, ids []string) (map[string]workflow.OwnerStatus, error)

	// AddHolderWaiter adds waiter to the waiters of by.Execution if that is still live at
	// by.Epoch, its state is not in the closed list of states that hold nothing, and it has
	// released no entity since by was read: its count of that is by.Narrowed. It returns
	// the holder as the write left it. AddReserverWaiter adds a waiter if the reservations
	// of the execution stand: it has still to lock and does not wait for an operator. The
	// set holds at most 64; if it is full, the result is ok and nothing is added: the
	// waiter's timer wakes it.
	AddHolderWaiter(ctx context.Context, tenant string, by workflow.BlockedBy, waiter string) (holder workflow.OwnerStatus, ok bool, err error)
	AddReserverWaiter(ctx context.Context, tenant, reserver, waiter string) (ok bool, err error)

	// RecordFailureStreak records that wake-ups fail, if the version is still seen. The
	// next commit removes the streak, unless the committed state has one itself. The zero
	// streak removes what is recorded.
	RecordFailureStreak(ctx context.Context, tenant, id string, seen int64, t workflow.FailureStreak) error

	// CountDescendants counts n executions among those that root and those that it started
	// have started, unless there are more than limit then. What they are counted as is the id of
	// one, or that of a set of them; to count it again changes nothing.
	CountDescendants(ctx context.Context, tenant, root, as string, n, limit int) (ok bool, err error)

	// SaveInput and LoadInput keep a large input outside the state item.
	SaveInput(ctx context.Context, tenant, id string, in workflow.Input) error
	LoadInput(ctx context.Context, tenant, id string) (workflow.Input, error)

	// SaveScope stores the entities of a scope under key, compressed and in chunks. It returns the
	// number of chunks, and that of the entities in each but the last. LoadScope reads the chunks
	// from one number, from 0, up to another, in order.
	SaveScope(ctx context.Context, tenant, id, key string, entities []workflow.ScopeEntity) (chunks, perChunk int, err error)
	LoadScope(ctx context.Context, tenant, id, key string, from, to int) ([]workflow.ScopeEntity, error)

	// SaveEvents stores a page of events, keyed by its first sequence number; saving the
	// same page again changes nothing. LoadEvents returns at most limit stored events
	// with a sequence number above after, in order.
	SaveEvents(ctx context.Context, tenant, id string, events []workflow.Event) error
	LoadEvents(ctx context.Context, tenant, id string, after int64, limit int) ([]workflow.Event, error)

	// ObservedThrough is a strongly consistent read; zero if nothing has been handed on.
	// LeaseObserved makes by the one who is at work until a time, if the sequence is still seen
	// and nobody else is at work at now. MoveObserved moves it to a later event and ends
	// the work of whoever is at work; ok is false if it is not seen any more.
	ObservedThrough(ctx context.Context, tenant, id string) (workflow.ObservedThrough, error)
	LeaseObserved(ctx context.Context, tenant, id string, seen int64, by string, now, until time.Time) (ok bool, err error)
	MoveObserved(ctx context.Context, tenant, id string, seen, to int64) (ok bool, err error)

	// Discard marks everything stored outside the state item for deletion from at on, to
	// the second. The state item itself is deleted after the commit that sets DiscardedAt
	// and clears the timer.
	Discard(ctx context.Context, tenant, id string, at time.Time) error

	// DueExecutions lists executions of one shard whose timer is due between since (zero
	// for any) and now, oldest first, from the index. ListByState lists ids of executions in
	// the states that are listed as one ([statemachines.ListedAs]): newest first those below the
	// id given, or oldest first those above it ("" begins with the first). Both may lag behind
	// the state items.
	DueExecutions(ctx context.Context, shard int, since, now time.Time, page workflow.Page) (workflow.List[workflow.Wakeup], error)
	ListByState(ctx context.Context, tenant string, state statemachines.ExecutionState, from string, order workflow.Order, limit int) ([]string, error)

	// LoadMany are strongly consistent reads of whole state items, in the order of ids;
	// missing ones are left out. Those with a newer schema are left out too, and named in
	// newer.
	LoadMany(ctx context.Context, tenant string, ids []string) (found []*workflow.Execution, newer []string, err error)
}

// Locks keeps the lock items. Every write raises an item's revision, all but
// RaiseRevision by one.
type Locks interface {
	// Read reads lock items; an entity without an item has revision 0. Unless strong is set, an
	// item may be as it was some time ago, at half the cost.
	Read(ctx context.Context, tenant string, keys []workflow.EntityKey, strong bool) (map[workflow.EntityKey]workflow.Lock, error)

	// Take makes r the only holder of the lock if the item's revision is still seen. The
	// new revision is seen+1 and is also the token. Reservations stay. The item names
	// r.Recent afterwards, as after Share; the other writes leave that as it is.
	Take(ctx context.Context, tenant string, key workflow.EntityKey, r workflow.LockRequest, seen int64) (ok bool, err error)

	// Share makes the lock a shared one of keep and of s, if the item's revision is still
	// seen. A holder that is not kept must have been read as holding nothing. The new
	// revision is seen+1 and is also the token of s.
	Share(ctx context.Context, tenant string, key workflow.EntityKey, s workflow.LockRequest, keep map[string]workflow.Holder, seen int64) (token int64, ok bool, err error)

	// Join adds s to the holders of a shared lock, whatever its revision, unless s is a
	// holder at a later epoch, there are as many holders as there may be, an older
	// execution's reservation stands (other than j.Void), or one of j.Dead is a holder at
	// another epoch than the one given. The dead holders are removed. If s is a holder at
	// this very epoch, it has joined before and Join returns its token.
	Join(ctx context.Context, tenant string, key workflow.EntityKey, s workflow.LockRequest, j workflow.JoinConditions) (token int64, ok bool, err error)

	// Reserve sets the reservation to r if there is none, or a younger execution's, or
	// exactly that of the execution void, which was read as void ("" for none).
	Reserve(ctx context.Context, tenant string, key workflow.EntityKey, r workflow.Reservation, void string) (ok bool, err error)

	// RaiseRevision sets an item's revision to minimum, which is greater, if it is still
	// seen. Nothing else about the item changes.
	RaiseRevision(ctx context.Context, tenant string, key workflow.EntityKey, minimum, seen int64) (ok bool, err error)
}

// Packs is the engine's side of the pack items and done sets.
type Packs interface {
	// Pack is a strongly consistent read; nil if absent.
	Pack(ctx context.Context, key workflow.PackKey) (*workflow.Pack, error)

	// ShardPacks reads all pack items, of all attempts and positions, of one shard of a
	// step run, strongly consistent and fully paged.
	ShardPacks(ctx context.Context, stepRun workflow.StepRunKey, shard int) ([]*workflow.Pack, error)

	// LanePacks does so for the lanes from first to last, which are of one shard.
	LanePacks(ctx context.Context, stepRun workflow.StepRunKey, first, last int) ([]*workflow.Pack, error)

	// DoneSet is a strongly consistent read of a shard's done set; empty if absent.
	DoneSet(ctx context.Context, stepRun workflow.StepRunKey, shard int) (workflow.DoneSet, error)

	// AddDone adds a lane to its shard's done set, with the lane's result, and returns
	// the whole set after that. Added is set if the lane is new; after a lost reply it may
	// not be.
	AddDone(ctx context.Context, key workflow.PackKey, end workflow.LaneResult) (workflow.DoneSet, error)

	// AddDoneLanes adds lanes of one shard, numbered in the step run, to its done set, as
	// lanes that are over well.
	AddDoneLanes(ctx context.Context, stepRun workflow.StepRunKey, shard int, lanes []int) error

	// PoolMark is the mark that a worker of the pool has left last, zero if none has.
	PoolMark(ctx context.Context, pool string) (workflow.PoolMark, error)

	// SavePayload stores data that belongs to a pack, whether the pack's item exists or
	// not. LoadPayload reads it; CodeNotFound if any of it is missing.
	SavePayload(ctx context.Context, key workflow.PackKey, data []byte) (workflow.PayloadRef, error)
	LoadPayload(ctx context.Context, key workflow.PackKey, s workflow.PayloadRef) ([]byte, error)

	// Discard marks everything of one shard of a step run for deletion from at on: packs,
	// done set and payloads.
	Discard(ctx context.Context, stepRun workflow.StepRunKey, shard int, at time.Time) error

	// PutCancelled puts p (CANCELLED, all jobs NOT_EXECUTED) if the item is absent.
	PutCancelled(ctx context.Context, p *workflow.Pack) (ok bool, err error)

	// RequestCancel sets the cancel flag if the pack is CLAIMED.
	RequestCancel(ctx context.Context, key workflow.PackKey) (ok bool, err error)

	// ForceCancel replaces the item by next (token+1, CANCELLED) if it is CLAIMED with
	// the token and the lease of seen.
	ForceCancel(ctx context.Context, seen, next *workflow.Pack) (ok bool, err error)
}

// Registry keeps definitions, blocks, entities, idempotency keys and business keys.
type Registry interface {
	// PutDefinition stores a definition if none exists under its exact version; otherwise
	// it returns the stored one.
	PutDefinition(ctx context.Context, tenant string, d workflow.PublishedDefinition) (existing *workflow.PublishedDefinition, err error)
	// Definition reads a definition; CodeNotFound if there is none.
	Definition(ctx context.Context, tenant string, ref workflow.Ref) (*workflow.PublishedDefinition, error)
	// DefinitionVersions lists the versions of one definition, or of all if the name is
	// "", without their source, in order of name and version.
	DefinitionVersions(ctx context.Context, tenant, fullName string, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error)
	// DefinitionSources lists all versions of all definitions with their source, in the same order. A page
	// may be short before the last.
	DefinitionSources(ctx context.Context, tenant string, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error)
	// SetArchived archives a version, or undoes that.
	SetArchived(ctx context.Context, tenant string, ref workflow.Ref, archived bool) error

	// PutBlock stores a block if none exists under its exact version; otherwise it returns
	// the stored one.
	PutBlock(ctx context.Context, tenant string, b workflow.Block) (existing *workflow.Block, err error)
	// Block reads a block; CodeNotFound if there is none.
	Block(ctx context.Context, tenant string, ref workflow.Ref) (*workflow.Block, error)
	// BlockVersions lists all registered versions of a block, Blocks all blocks.
	BlockVersions(ctx context.Context, tenant, fullName string) ([]workflow.Block, error)
	Blocks(ctx context.Context, tenant string, page workflow.Page) (workflow.List[workflow.Block], error)

	// VersionIndex is a strongly consistent read; the zero index if none is stored.
	VersionIndex(ctx context.Context, tenant string, kind workflow.VersionKind, fullName string) (workflow.VersionIndex, error)
	// PutVersionIndex replaces an index if its revision is still that of index, and gives it
	// the next one. ok is false too if it has been written and the reply was lost.
	PutVersionIndex(ctx context.Context, tenant string, kind workflow.VersionKind, fullName string, index workflow.VersionIndex) (ok bool, err error)

	// PutEntities upserts: it replaces attributes and groups and raises the version; the
	// token stays. The same writes remove the entities' watchers. PutEntities returns
	// them, each once, also with an error: they are executions to wake. Watchers that a
	// lost reply hides are woken by their timers.
	PutEntities(ctx context.Context, tenant string, entities []workflow.Entity) (watchers []string, err error)
	// AddWatcher adds an execution to those that are woken when the entity is written; ok
	// is false if there is no such entity. The set holds at most 64; if it is full, the
	// result is ok and nothing is added: the execution's timer wakes it.
	AddWatcher(ctx context.Context, tenant string, key workflow.EntityKey, execution string) (ok bool, err error)
	// ReplaceEntity writes an entity, its token included, if the version is still the one
	// seen. The version grows by one, and watchers are as in PutEntities. A write whose
	// reply was lost is recognised by the token.
	ReplaceEntity(ctx context.Context, tenant string, e workflow.Entity, seenVersion int64) (ok bool, watchers []string, err error)
	// WriteEntities writes each entity whose version is still the one seen, and creates one
	// that is not there if that is 0. The version grows by one, the token stays, and watchers
	// are as in PutEntities. ok is by position. It is false as well for a write whose reply was
	// lost: who reads the entity again finds what it has written.
	WriteEntities(ctx context.Context, tenant string, writes []workflow.EntityWrite) (ok []bool, watchers []string, err error)
	// MarkDeletion marks an entity as about to be deleted if its version is still the one seen.
	// The version stays, and every other write of the entity takes the mark away. A mark that is
	// there already is written again: ok.
	MarkDeletion(ctx context.Context, tenant string, key workflow.EntityKey, seenVersion int64) (ok bool, err error)
	// DeleteEntity deletes an entity if its version is still the one seen; ok if it has been
	// deleted at that version. Until the time given its version and its token are kept, for an
	// entity of the same key: it goes on with them, so that who has read the deleted one, or
	// held it, does not take the new one for it.
	DeleteEntity(ctx context.Context, tenant string, key workflow.EntityKey, seenVersion int64, until time.Time) (ok bool, watchers []string, err error)
	// Entities reads by key; missing ones are left out. strong asks for strongly
	// consistent reads.
	Entities(ctx context.Context, tenant string, keys []workflow.EntityKey, strong bool) (map[workflow.EntityKey]workflow.Entity, error)
	// EntityTypes lists the types of which an entity has been put, in order.
	EntityTypes(ctx context.Context, tenant string, page workflow.Page) (workflow.List[string], error)
	// EntitiesOf lists a type's entities in order of id.
	EntitiesOf(ctx context.Context, tenant, entityType string, page workflow.Page) (workflow.List[workflow.Entity], error)

	// BeginAudit stores an entry if there is none with its id; ok as well if it is this one.
	BeginAudit(ctx context.Context, tenant string, e workflow.AuditEntry) error
	// EndAudit sets the status of an entry that has none; what was set stays.
	EndAudit(ctx context.Context, tenant string, e workflow.AuditEntry, status int) error
	// AuditEntries lists the entries of a month in UTC, such as 2026-11, newest first: those from
	// the millisecond of one time to that of another, which their ids begin with.
	AuditEntries(ctx context.Context, tenant, month string, from, to time.Time, page workflow.Page) (workflow.List[workflow.AuditEntry], error)

	// PutEnd stores one end of an execution for the day of its time, unless it is stored. Ends lists those
	// of a day, of one workflow or of all, in order of their ids. It may miss the last second, and of the
	// time of an end it has only the day.
	PutEnd(ctx context.Context, tenant string, e workflow.End) error
	Ends(ctx context.Context, tenant, day, fullName string, page workflow.Page) (workflow.List[workflow.End], error)

	// BindIdempotencyKey binds a key to an execution id and a digest of the request, if
	// the key is free or has expired at now; otherwise it returns what the key is bound
	// to.
	BindIdempotencyKey(ctx context.Context, tenant, key string, want workflow.IdempotencyRecord, now time.Time) (bound workflow.IdempotencyRecord, fresh bool, err error)
	// MoveIdempotencyKey binds a key that is bound to the execution from, and has not expired
	// at now, to the execution to; ok is false if it is not. If it is bound to that one
	// already, ok is true.
	MoveIdempotencyKey(ctx context.Context, tenant, key, from, to string, now time.Time) (ok bool, err error)
	// IdempotencyRecord reads what a key is bound to; the zero record if it is free or has
	// expired at now.
	IdempotencyRecord(ctx context.Context, tenant, key string, now time.Time) (workflow.IdempotencyRecord, error)

	// Subscriptions lists all subscriptions of a tenant in order of name, strongly consistent.
	Subscriptions(ctx context.Context, tenant string) ([]workflow.Subscription, error)
	// PutSubscription writes a subscription if its revision is still s.Revision, 0 for none, and
	// gives it the next one. A write whose reply was lost is recognised. One that is removed is
	// listed too, for a while.
	PutSubscription(ctx context.Context, tenant string, s workflow.Subscription) (ok bool, err error)
	// PutDeliveryAttempt remembers what became of a delivery when it was tried last, in the place of
	// another one. DeliveryAttempts lists what is remembered, the newest first.
	PutDeliveryAttempt(ctx context.Context, tenant, subscription string, a workflow.DeliveryAttempt) error
	DeliveryAttempts(ctx context.Context, tenant, subscription string) ([]workflow.DeliveryAttempt, error)

	// Trigger is a strongly consistent read; at revision 0 if it was never written. PutTrigger
	// writes a trigger if its revision is still t.Revision, and gives it the next one. A write whose
	// reply was lost is recognised. Triggers lists all of a tenant in order of name, off or on,
	// strongly consistent.
	Trigger(ctx context.Context, tenant, name string) (spec.PublishedTrigger, error)
	PutTrigger(ctx context.Context, tenant string, t spec.PublishedTrigger) (ok bool, err error)
	Triggers(ctx context.Context, tenant string) ([]spec.PublishedTrigger, error)
	// PutTriggerCall remembers a call of a trigger under a key, in the place of the one that was
	// there. TriggerCalls lists them, the newest first.
	PutTriggerCall(ctx context.Context, tenant, name, key string, c workflow.TriggerCall) error
	TriggerCalls(ctx context.Context, tenant, name string) ([]workflow.TriggerCall, error)

	// Table is a strongly consistent read of a table of a tenant; at revision 0 if it was never
	// written. PutTable writes a table if its revision is still t.Revision, and gives it the next one.
	// A write whose reply was lost is recognised. Tables lists all of a tenant in order of name,
	// strongly consistent.
	Table(ctx context.Context, tenant, name string) (workflow.Table, error)
	PutTable(ctx context.Context, tenant string, t workflow.Table) (ok bool, err error)
	Tables(ctx context.Context, tenant string) ([]workflow.Table, error)

	// TakeRate takes one of what a rate allows, as [workflow.RateState.Take], and returns how often
	// that has been done, 0 if nothing was taken, and for how long it has to wait. After a lost reply
	// it may be taken twice.
	TakeRate(ctx context.Context, tenant, name string, r workflow.Rate, within time.Duration, now time.Time) (sequence int64, wait time.Duration, err error)

	// BusinessKey is a strongly consistent read of a business key of a workflow; zero if no
	// execution has taken it.
	BusinessKey(ctx context.Context, tenant, workflowName, key string) (workflow.BusinessKey, error)
	// TakeBusinessKey makes the execution the one that took the key last, if its revision is
	// still seen; the new one is seen+1. A write whose reply was lost is recognised.
	TakeBusinessKey(ctx context.Context, tenant, workflowName, key string, seen int64, execution string) (ok bool, err error)
}

// Rows keeps the rows of tables, apart from everything that executions need.
type Rows interface {
	// PutRow stores a row if there is none with its id, until a time, zero for ever; to store it
	// again changes nothing. Rows lists the rows of a table in the order of their ids; it may lag.
	PutRow(ctx context.Context, tenant, table string, row workflow.Row, until time.Time) error
	Rows(ctx context.Context, tenant, table string, page workflow.Page) (workflow.List[workflow.Row], error)
}
