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
	// Create writes the state item if none exists with its id. If the reply to an earlier write was
	// lost, Create recognises that write by x.Commit and reports ok.
	Create(ctx context.Context, x *workflow.Execution) (ok bool, err error)

	// Load reads an execution, strongly consistent, with its waiters and signals. It returns
	// CodeNotFound if the execution is missing, and CodeUnavailable if its schema is newer.
	Load(ctx context.Context, tenant, id string) (*workflow.Execution, error)

	// Commit replaces the state item if its version is still seen; next.Version is seen+1. If the
	// reply to an earlier write was lost, Commit recognises that write by next.Commit; its waiters
	// are then unknown, and their timers wake them.
	//
	// The waiters stay, unless o.Release is set: then the same write removes them and Commit
	// returns them.
	//
	// Signals stay too, even those that nobody has read, except for o.Consumed. Consumed signals
	// must be in the mailbox, and are remembered for ever, so that they are not accepted again;
	// Commit updates next.Heard and next.HeardOut. With o.SignalsSeen the write also requires that
	// no signal has arrived since next.SignalOrder was read; if only that condition has failed, the
	// item still has version seen. The schema version of an item never decreases.
	Commit(ctx context.Context, seen int64, next *workflow.Execution, o workflow.CommitOptions) (waiters []string, ok bool, err error)

	// SendSignal puts a signal into the mailbox of an execution, without changing its version;
	// signal.Order is ignored. Once a signal is accepted, another one with the same id is a
	// duplicate for as long as the execution exists, or a mismatch if it differs and the first is
	// not consumed yet. This is checked first, then the state of the execution, then the space in
	// the mailbox. A missing execution returns CodeNotFound. If the result is not accepted, state
	// is that of the execution.
	SendSignal(ctx context.Context, tenant, id string, signal workflow.Signal) (result workflow.SignalResult, state statemachines.ExecutionState, err error)

	// SaveValue stores data of an execution outside its state item, under the name of its owner and
	// its digest. Storing it again changes nothing. LoadValue reads it; CodeNotFound if any of it
	// is missing.
	SaveValue(ctx context.Context, tenant, id, owner string, data []byte) (workflow.PayloadRef, error)
	LoadValue(ctx context.Context, tenant, id, owner string, ref workflow.PayloadRef) ([]byte, error)

	// Heads reads, strongly consistent, the parts of executions that decide about locks, each
	// execution in a single read. A missing execution has the zero OwnerStatus.
	Heads(ctx context.Context, tenant string, ids []string) (map[string]workflow.OwnerStatus, error)

	// HeadsWeakly reads the same at half the cost, and each may be outdated.
	HeadsWeakly(ctx context.Context, tenant string, ids []string) (map[string]workflow.OwnerStatus, error)

	// AddHolderWaiter adds waiter to the waiters of by.Execution under three conditions: it is
	// still live at by.Epoch, its state is not in the closed list of states that hold nothing, and
	// it has released no entity since by was read (its count of releases is by.Narrowed).
	//
	// AddReserverWaiter adds a waiter if the reservations of the execution stand: it has yet to
	// lock and does not wait for an operator.
	//
	// The set holds at most 64 waiters. If it is full, the result is ok and nothing is added: the
	// waiter's timer wakes it. Both return the execution as the write left it, which says so.
	AddHolderWaiter(ctx context.Context, tenant string, by workflow.BlockedBy, waiter string) (holder workflow.OwnerStatus, ok bool, err error)
	AddReserverWaiter(ctx context.Context, tenant, reserver, waiter string) (status workflow.OwnerStatus, ok bool, err error)

	// RecordFailureStreak records that wake-ups fail, if the version is still seen, and the revision of the streak still
	// that of before, nil for none. The next commit removes the streak, unless the committed state has one itself. A
	// zero streak removes what is recorded. A release that knows no revisions changes none:
	// while one writes, a failure may not be counted.
	RecordFailureStreak(ctx context.Context, tenant, id string, seen int64, before *workflow.FailureStreak, t workflow.FailureStreak) (ok bool, err error)

	// CountDescendants counts n more executions started by root and its descendants, unless the sum
	// would exceed limit. as is the id of the execution, or of a set of them, under which they are
	// counted. Counting the same id again changes nothing.
	CountDescendants(ctx context.Context, tenant, root, as string, n, limit int) (ok bool, err error)

	// SaveInput and LoadInput store and read a large input outside the state item.
	SaveInput(ctx context.Context, tenant, id string, in workflow.Input) error
	LoadInput(ctx context.Context, tenant, id string) (workflow.Input, error)

	// SaveScope stores the entities of a scope under key, compressed and in chunks. It returns the
	// number of chunks, and the number of entities in each chunk but the last. LoadScope reads the
	// chunks from one number, counted from 0, up to another, in order.
	SaveScope(ctx context.Context, tenant, id, key string, entities []workflow.ScopeEntity) (chunks, perChunk int, err error)
	LoadScope(ctx context.Context, tenant, id, key string, from, to int) ([]workflow.ScopeEntity, error)

	// SaveEvents stores a page of events, keyed by its first sequence number; saving the same page
	// again changes nothing. LoadEvents returns at most limit stored events with a sequence number
	// above after, in order.
	SaveEvents(ctx context.Context, tenant, id string, events []workflow.Event) error
	LoadEvents(ctx context.Context, tenant, id string, after int64, limit int) ([]workflow.Event, error)

	// ObservedThrough reads, strongly consistent, through which event the history has been handed
	// on; zero if nothing has. LeaseObserved gives the handler by a lease until a time, if the
	// sequence is still seen and nobody else has a lease at now. MoveObserved moves the cursor to a
	// later event and ends the lease, whoever has it; ok is false if the sequence is no longer
	// seen.
	ObservedThrough(ctx context.Context, tenant, id string) (workflow.ObservedThrough, error)
	LeaseObserved(ctx context.Context, tenant, id string, seen int64, by string, now, until time.Time) (ok bool, err error)
	MoveObserved(ctx context.Context, tenant, id string, seen, to int64) (ok bool, err error)

	// Discard marks everything stored outside the state item for deletion from at on, with a
	// resolution of one second. The state item itself is deleted after the commit that sets
	// DiscardedAt and clears the timer.
	Discard(ctx context.Context, tenant, id string, at time.Time) error

	// DueExecutions lists executions of one shard whose timer is due between since (zero
	// for any) and now, oldest first, from the index. ListByState lists ids of executions in
	// the states that are listed as one ([statemachines.ListedAs]): newest first those below the
	// id given, or oldest first those above it ("" begins with the first). ListUnlisted lists, in
	// no order, ids of those that the index of states leaves out ([workflow.Execution.Unlisted]):
	// some thousands, those with the latest timers, where there are more. All may lag behind the
	// state items, each index by itself.
	DueExecutions(ctx context.Context, shard int, since, now time.Time, page workflow.Page) (workflow.List[workflow.Wakeup], error)
	ListByState(ctx context.Context, tenant string, state statemachines.ExecutionState, from string, order workflow.Order, limit int) ([]string, error)
	ListUnlisted(ctx context.Context, tenant string, now time.Time) ([]string, error)

	// LoadMany reads whole state items, strongly consistent, in the order of ids. It leaves out
	// missing ones. It also leaves out those with a newer schema, and names them in newer.
	LoadMany(ctx context.Context, tenant string, ids []string) (found []*workflow.Execution, newer []string, err error)
}

// Locks stores the lock items. Every write increases an item's revision; all except RaiseRevision
// increase it by one.
type Locks interface {
	// Read reads lock items; an entity without an item has revision 0. Unless strong is set, an
	// item may be outdated, at half the cost.
	Read(ctx context.Context, tenant string, keys []workflow.EntityKey, strong bool) (map[workflow.EntityKey]workflow.Lock, error)

	// Take makes r the only holder of the lock if the item's revision is still seen. The new
	// revision is seen+1 and is also the token. Reservations stay. Take and Share set the item's
	// recent holders to r.Recent; the other writes leave them unchanged.
	Take(ctx context.Context, tenant string, key workflow.EntityKey, r workflow.LockRequest, seen int64) (ok bool, err error)

	// Share makes the lock a shared one, held by keep and s, if the item's revision is still seen.
	// A holder that is not kept must have been read as holding nothing. The new revision is seen+1
	// and is also the token of s.
	Share(ctx context.Context, tenant string, key workflow.EntityKey, s workflow.LockRequest, keep map[string]workflow.Holder, seen int64) (token int64, ok bool, err error)

	// Join adds s to the holders of a shared lock, whatever its revision, and removes the dead
	// holders j.Dead. It does not do so if s is a holder at a later epoch, if the lock has as many
	// holders as allowed, if an older execution's reservation stands (other than j.Void), or if one
	// of j.Dead is a holder at an epoch other than the given one. If s is already a holder at this
	// epoch, it has joined before, and Join returns its token.
	Join(ctx context.Context, tenant string, key workflow.EntityKey, s workflow.LockRequest, j workflow.JoinConditions) (token int64, ok bool, err error)

	// Reserve sets the reservation to r if there is none, if a younger execution has it, or if
	// exactly the execution void has it, which was read as void ("" for none).
	Reserve(ctx context.Context, tenant string, key workflow.EntityKey, r workflow.Reservation, void string) (ok bool, err error)

	// RaiseRevision sets an item's revision to minimum if it is still seen. minimum must be
	// greater. Nothing else about the item changes.
	RaiseRevision(ctx context.Context, tenant string, key workflow.EntityKey, minimum, seen int64) (ok bool, err error)

	// Outdate increases an item's revision and changes nothing else, so that nobody takes the lock who
	// read the item before.
	Outdate(ctx context.Context, tenant string, key workflow.EntityKey) error
}

// Packs is the engine's side of the pack items and done sets.
type Packs interface {
	// Pack reads a pack, strongly consistent; nil if absent.
	Pack(ctx context.Context, key workflow.PackKey) (*workflow.Pack, error)

	// ShardPacks reads all pack items of one shard of a step run, of all attempts and positions,
	// strongly consistent and fully paged.
	ShardPacks(ctx context.Context, stepRun workflow.StepRunKey, shard int) ([]*workflow.Pack, error)

	// ShardPacksWeakly reads the same at half the cost, and each item may be outdated or missing. A
	// pack that it returns as final is: a final pack does not change.
	ShardPacksWeakly(ctx context.Context, stepRun workflow.StepRunKey, shard int) ([]*workflow.Pack, error)

	// LanePacks reads, as ShardPacks does, the lanes from first to last, which belong to one shard.
	LanePacks(ctx context.Context, stepRun workflow.StepRunKey, first, last int) ([]*workflow.Pack, error)

	// DoneSet reads a shard's done set, strongly consistent; empty if absent.
	DoneSet(ctx context.Context, stepRun workflow.StepRunKey, shard int) (workflow.DoneSet, error)

	// AddDone adds a lane to its shard's done set, with the lane's result, and returns the whole
	// set afterwards. Added is set if the lane is new; after a lost reply it may be false.
	AddDone(ctx context.Context, key workflow.PackKey, end workflow.LaneResult) (workflow.DoneSet, error)

	// AddDoneLanes adds lanes of one shard to its done set as successful, and returns the whole set
	// afterwards. The lanes are numbered within the step run. Added is set if one of them is new;
	// after a lost reply it may be false.
	AddDoneLanes(ctx context.Context, stepRun workflow.StepRunKey, shard int, lanes []int) (workflow.DoneSet, error)

	// PoolMark is the mark that a worker of the pool has left last, zero if none has.
	PoolMark(ctx context.Context, pool string) (workflow.PoolMark, error)

	// SavePayload stores data that belongs to a pack, whether or not the pack's item exists.
	// LoadPayload reads it; CodeNotFound if any of it is missing.
	SavePayload(ctx context.Context, key workflow.PackKey, data []byte) (workflow.PayloadRef, error)
	LoadPayload(ctx context.Context, key workflow.PackKey, s workflow.PayloadRef) ([]byte, error)

	// Discard marks everything of one shard of a step run for deletion from at on: packs, done set
	// and payloads.
	Discard(ctx context.Context, stepRun workflow.StepRunKey, shard int, at time.Time) error

	// PutCancelled puts p (CANCELLED, all jobs NOT_EXECUTED) if the item is absent.
	PutCancelled(ctx context.Context, p *workflow.Pack) (ok bool, err error)

	// RequestCancel sets the cancel flag if the pack is CLAIMED.
	RequestCancel(ctx context.Context, key workflow.PackKey) (ok bool, err error)

	// ForceCancel replaces the item by next (token+1, CANCELLED) if it is CLAIMED with the token
	// and the lease of seen.
	ForceCancel(ctx context.Context, seen, next *workflow.Pack) (ok bool, err error)
}

// Registry stores definitions, blocks, entities, idempotency keys and business keys.
type Registry interface {
	// PutDefinition stores a definition if none exists with its exact version; otherwise it returns
	// the stored one.
	PutDefinition(ctx context.Context, tenant string, d workflow.PublishedDefinition) (existing *workflow.PublishedDefinition, err error)
	// Definition reads a definition; CodeNotFound if there is none.
	Definition(ctx context.Context, tenant string, ref workflow.Ref) (*workflow.PublishedDefinition, error)
	// DefinitionVersions lists the versions of one definition, or of all if the name is "", without
	// their source, ordered by name and version.
	DefinitionVersions(ctx context.Context, tenant, fullName string, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error)
	// DefinitionSources lists all versions of all definitions with their source, in the same order.
	// A page before the last one may be short.
	DefinitionSources(ctx context.Context, tenant string, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error)
	// PublishDraft makes a draft a published version, with the time and publisher of d. A version that
	// is no draft stays as it is.
	PublishDraft(ctx context.Context, tenant string, d workflow.PublishedDefinition) error
	// SetArchived archives a version, or restores it.
	SetArchived(ctx context.Context, tenant string, ref workflow.Ref, archived bool) error

	// PutBlock stores a block if none exists with its exact version; otherwise it returns the
	// stored one.
	PutBlock(ctx context.Context, tenant string, b workflow.Block) (existing *workflow.Block, err error)
	// Block reads a block; CodeNotFound if there is none.
	Block(ctx context.Context, tenant string, ref workflow.Ref) (*workflow.Block, error)
	// BlockVersions lists all registered versions of a block; Blocks lists all blocks.
	BlockVersions(ctx context.Context, tenant, fullName string) ([]workflow.Block, error)
	Blocks(ctx context.Context, tenant string, page workflow.Page) (workflow.List[workflow.Block], error)

	// VersionIndex reads an index, strongly consistent; the zero index if none is stored.
	VersionIndex(ctx context.Context, tenant string, kind workflow.VersionKind, fullName string) (workflow.VersionIndex, error)
	// VersionsRevision reads, strongly consistent, how often RaiseVersionsRevision was called.
	VersionsRevision(ctx context.Context, tenant string) (int64, error)
	// RaiseVersionsRevision is called after a version index was written, and before whoever asked for
	// that is answered.
	RaiseVersionsRevision(ctx context.Context, tenant string) error
	// PutVersionIndex replaces an index if its revision is still that of index, and increases the
	// revision. ok is also false if the index was written and the reply was lost.
	PutVersionIndex(ctx context.Context, tenant string, kind workflow.VersionKind, fullName string, index workflow.VersionIndex) (ok bool, err error)

	// PutEntities creates or replaces entities: it replaces attributes and groups and increases the
	// version; the token stays. The same writes remove the entities' watchers. PutEntities returns
	// them, each once, even with an error: they are executions to wake. If a reply is lost, its
	// watchers are woken by their timers.
	PutEntities(ctx context.Context, tenant string, entities []workflow.Entity) (watchers []string, err error)
	// AddWatcher adds an execution to those that are woken when the entity is written; ok is false
	// if there is no such entity. The set holds at most 64 watchers. If it is full, the result is
	// ok and nothing is added: the execution's timer wakes it.
	AddWatcher(ctx context.Context, tenant string, key workflow.EntityKey, execution string) (ok bool, err error)
	// ReplaceEntity writes an entity, including its token, if the version is still the one seen.
	// The version increases by one, and watchers are treated as in PutEntities. If the reply to an
	// earlier write was lost, that write is recognised by the token.
	ReplaceEntity(ctx context.Context, tenant string, e workflow.Entity, seenVersion int64) (ok bool, watchers []string, err error)
	// WriteEntities writes each entity whose version is still the one seen. If that is 0, it
	// creates the entity. The version increases by one, the token stays, and watchers are treated
	// as in PutEntities. ok is by position. It is also false for a write whose reply was lost: a
	// caller that reads the entity again finds its own write.
	WriteEntities(ctx context.Context, tenant string, writes []workflow.EntityWrite) (ok []bool, watchers []string, err error)
	// MarkDeletion marks an entity as about to be deleted if its version is still the one seen. The
	// version stays, and every other write of the entity removes the mark. Marking a marked entity
	// again is ok.
	MarkDeletion(ctx context.Context, tenant string, key workflow.EntityKey, seenVersion int64) (ok bool, err error)
	// DeleteEntity deletes an entity if its version is still the one seen; it is also ok if the
	// entity has already been deleted at that version. Until the given time, the version and the
	// token are kept and continued by a new entity with the same key. That way nobody who has read
	// or held the deleted entity takes the new one for it.
	DeleteEntity(ctx context.Context, tenant string, key workflow.EntityKey, seenVersion int64, until time.Time) (ok bool, watchers []string, err error)
	// Entities reads entities by key; it leaves out missing ones. strong asks for strongly
	// consistent reads.
	Entities(ctx context.Context, tenant string, keys []workflow.EntityKey, strong bool) (map[workflow.EntityKey]workflow.Entity, error)
	// EntityTypes lists all types that have had an entity, in order.
	EntityTypes(ctx context.Context, tenant string, page workflow.Page) (workflow.List[string], error)
	// EntitiesOf lists a type's entities ordered by id.
	EntitiesOf(ctx context.Context, tenant, entityType string, page workflow.Page) (workflow.List[workflow.Entity], error)

	// BeginAudit stores an entry if there is none with its id; also ok if it is the same entry.
	BeginAudit(ctx context.Context, tenant string, e workflow.AuditEntry) error
	// EndAudit sets the status of an entry that has none. An existing status stays.
	EndAudit(ctx context.Context, tenant string, e workflow.AuditEntry, status int) error
	// AuditEntries lists the entries of a month in UTC, such as 2026-11, newest first. from and to
	// are compared with the milliseconds at the beginning of the entries' ids.
	AuditEntries(ctx context.Context, tenant, month string, from, to time.Time, page workflow.Page) (workflow.List[workflow.AuditEntry], error)

	// PutEnd stores one end of an execution for the day of its time, unless it is stored. Ends lists those
	// of a day, of one workflow or of all, in order of their ids. It may miss the last second, and of the
	// time of an end it has only the day.
	PutEnd(ctx context.Context, tenant string, e workflow.End) error
	Ends(ctx context.Context, tenant, day, fullName string, page workflow.Page) (workflow.List[workflow.End], error)

	// BindIdempotencyKey binds a key to an execution id and a digest of the request if the key is
	// free or has expired at now; otherwise it returns what the key is bound to.
	BindIdempotencyKey(ctx context.Context, tenant, key string, want workflow.IdempotencyRecord, now time.Time) (bound workflow.IdempotencyRecord, fresh bool, err error)
	// MoveIdempotencyKey rebinds a key from the execution from to the execution to; ok is false if
	// the key is not bound to from or has expired at now. If it is already bound to the execution
	// to, ok is true.
	MoveIdempotencyKey(ctx context.Context, tenant, key, from, to string, now time.Time) (ok bool, err error)
	// IdempotencyRecord reads what a key is bound to; the zero record if it is free or has expired
	// at now.
	IdempotencyRecord(ctx context.Context, tenant, key string, now time.Time) (workflow.IdempotencyRecord, error)

	// Subscriptions lists all subscriptions of a tenant ordered by name, strongly consistent.
	Subscriptions(ctx context.Context, tenant string) ([]workflow.Subscription, error)
	// PutSubscription writes a subscription if its revision is still s.Revision (0 for none), and
	// increases the revision. A write whose reply was lost is recognised. A removed subscription
	// stays in the list for a while.
	PutSubscription(ctx context.Context, tenant string, s workflow.Subscription) (ok bool, err error)
	// PutDeliveryAttempt stores the result of the latest attempt of a delivery, and replaces an
	// older entry. DeliveryAttempts lists the stored entries, the newest first.
	PutDeliveryAttempt(ctx context.Context, tenant, subscription string, a workflow.DeliveryAttempt) error
	DeliveryAttempts(ctx context.Context, tenant, subscription string) ([]workflow.DeliveryAttempt, error)

	// Trigger reads a trigger, strongly consistent; it has revision 0 if it was never written.
	// PutTrigger writes a trigger if its revision is still t.Revision, and increases the revision.
	// A write whose reply was lost is recognised. Triggers lists all triggers of a tenant ordered
	// by name, whether off or on, strongly consistent.
	Trigger(ctx context.Context, tenant, name string) (spec.PublishedTrigger, error)
	PutTrigger(ctx context.Context, tenant string, t spec.PublishedTrigger) (ok bool, err error)
	Triggers(ctx context.Context, tenant string) ([]spec.PublishedTrigger, error)
	// PutTriggerCall stores a call of a trigger under a key, and replaces the call stored there.
	// TriggerCalls lists them, the newest first.
	PutTriggerCall(ctx context.Context, tenant, name, key string, c workflow.TriggerCall) error
	TriggerCalls(ctx context.Context, tenant, name string) ([]workflow.TriggerCall, error)

	// Table reads a table of a tenant, strongly consistent; it has revision 0 if it was never
	// written. PutTable writes a table if its revision is still t.Revision, and increases the
	// revision. A write whose reply was lost is recognised. Tables lists all tables of a tenant
	// ordered by name, strongly consistent.
	Table(ctx context.Context, tenant, name string) (workflow.Table, error)
	PutTable(ctx context.Context, tenant string, t workflow.Table) (ok bool, err error)
	Tables(ctx context.Context, tenant string) ([]workflow.Table, error)

	// TakeRate takes one use from a rate, as [workflow.RateState.Take] does. After a lost reply a use
	// may be taken twice.
	TakeRate(ctx context.Context, tenant, name string, r workflow.Rate, within time.Duration, now time.Time) (workflow.RateUse, error)

	// BusinessKey reads a business key of a workflow, strongly consistent; zero if no execution has
	// taken it.
	BusinessKey(ctx context.Context, tenant, workflowName, key string) (workflow.BusinessKey, error)
	// TakeBusinessKey makes the execution the latest taker of the key if its revision is still
	// seen; the new revision is seen+1. A write whose reply was lost is recognised.
	TakeBusinessKey(ctx context.Context, tenant, workflowName, key string, seen int64, execution string) (ok bool, err error)
}

// Rows stores the rows of tables, separate from everything that executions need.
type Rows interface {
	// PutRow stores a row until a time (zero for ever) if there is none with its id; storing it
	// again changes nothing. HasRow reports whether there is one with an id, strongly consistent.
	// Rows lists the rows of a table ordered by id; it may lag.
	PutRow(ctx context.Context, tenant, table string, row workflow.Row, until time.Time) error
	HasRow(ctx context.Context, tenant, table, id string) (bool, error)
	Rows(ctx context.Context, tenant, table string, page workflow.Page) (workflow.List[workflow.Row], error)
}
