// Package sim simulates in memory what the engine runs on: a store, locks, packs, queues, a
// registry and a clock. They check the same conditions as the real services and can inject a fault
// at any call, so that every failure between two calls can be reproduced from a seed.
//
// world.go holds the parts together and opens views of them. Each view has its own meter. Every
// call of a view passes faults.Injector, which decides what happens to it. store.go and indexes.go
// have the executions, locks.go the lock items, packs.go the packs for the engine and for workers,
// queue.go the queues and their sender, registry.go what is published and imported, and
// schedules.go and workers.go the rest.
//
// Values are copied on the way in and out, so that nobody shares memory with the world. The world
// is safe for concurrent use. It is deterministic if it is used by one goroutine, or by tasks of
// package faults.
//
// The layers above use these types through their own interfaces. This package imports none of those
// interfaces.
package sim

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// World is the state that outlives a handler. Its exported fields may be changed while no
// call is in progress.
type World struct {
	// Injector is called on every call. It has the plan of faults and the tasks.
	faults.Injector
	// QueueFaults describes how the queues misbehave; the zero value delivers each message once, in
	// order.
	QueueFaults QueueFaults
	// Observer, if set, is called on every write.
	Observer Observer
	// ExecutionBytes returns the size of the state item of an execution; nil estimates it.
	ExecutionBytes func(*workflow.Execution) int
	// PackBytes and EntityBytes return the sizes of a pack and of an entity; nil measures their
	// JSON.
	PackBytes   func(*workflow.Pack) int
	EntityBytes func(workflow.Entity) int
	// Shards is the number of shards of the index of timers.
	Shards int
	Bounds

	mu     sync.Mutex
	seed   uint64
	random *rand.Rand
	now    time.Time
	ids    uint64

	executions   map[string]*executionItem
	locks        map[string]workflow.Lock
	locksBefore  map[string]workflow.Lock // before the last change of each
	packs        map[workflow.PackKey]*workflow.Pack
	packsBefore  map[workflow.PackKey]*workflow.Pack // before the last change of each
	doneSets     map[shardKey]*workflow.DoneSet
	payloads     map[payloadKey][]byte
	polls        map[workflow.PollAttempt]workflow.PollReceipt
	poolMarks    map[string]workflow.PoolMark
	discardTimes map[shardKey]time.Time

	definitions      map[string]workflow.PublishedDefinition
	blocks           map[string]workflow.Block
	versionIndexes   map[string]workflow.VersionIndex
	versionRevisions map[string]int64 // by tenant
	entities         map[string]map[workflow.EntityKey]workflow.Entity
	deleted          map[string]workflow.Entity  // version and token of deleted entities
	entitiesBefore   map[string]*workflow.Entity // before the last change of each, nil if it was not there
	audit            map[string]workflow.AuditEntry
	ends             map[string]workflow.End // by tenant, day and id
	bindings         map[string]workflow.IdempotencyRecord
	businessKeys     map[string]workflow.BusinessKey
	subscriptions    map[string]map[string]workflow.Subscription    // by tenant and name
	deliveryAttempts map[string]map[string]workflow.DeliveryAttempt // by tenant and name, then by key
	triggers         map[string]map[string]spec.PublishedTrigger    // by tenant and name
	triggerCalls     map[string]map[string]workflow.TriggerCall     // by tenant and name, then by key
	tables           map[string]map[string]workflow.Table           // by tenant and name
	rows             map[string]map[string]workflow.Row             // by tenant and table, then by id
	rates            map[string]workflow.RateState                  // by tenant and name
	watchers         map[string]map[string]bool                     // of entities
	schedules        scheduleItems
	workers          workerItems

	consumed workflow.Cost // by all views

	lifecycleQueue *Queue
	eventsQueue    *Queue // of announcements
	hooksQueue     *Queue // of deliveries
	poolQueues     map[string]*Queue
}

// Bounds limit what one item, chunk or page of the world holds.
type Bounds struct {
	MaxWaiters    int // executions that wait for one execution, or watch one entity
	ScopeEntities int // entities in one chunk of a scope
	PageItems     int // items in one page, whatever the request asks for
}

// StartTime is when a new world's clock starts.
var StartTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// New makes an empty world. All randomness in it follows from the seed.
func New(seed uint64) *World {
	w := &World{
		Shards: 2, Bounds: Bounds{MaxWaiters: workflow.MaxWaiters, ScopeEntities: 64, PageItems: workflow.MaxPageSize}, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), now: StartTime,
		executions: map[string]*executionItem{}, locks: map[string]workflow.Lock{}, locksBefore: map[string]workflow.Lock{}, entitiesBefore: map[string]*workflow.Entity{},
		packs: map[workflow.PackKey]*workflow.Pack{}, packsBefore: map[workflow.PackKey]*workflow.Pack{}, doneSets: map[shardKey]*workflow.DoneSet{}, payloads: map[payloadKey][]byte{}, polls: map[workflow.PollAttempt]workflow.PollReceipt{}, poolMarks: map[string]workflow.PoolMark{}, discardTimes: map[shardKey]time.Time{},
		definitions: map[string]workflow.PublishedDefinition{}, blocks: map[string]workflow.Block{}, versionIndexes: map[string]workflow.VersionIndex{}, versionRevisions: map[string]int64{},
		entities: map[string]map[workflow.EntityKey]workflow.Entity{}, deleted: map[string]workflow.Entity{}, audit: map[string]workflow.AuditEntry{}, ends: map[string]workflow.End{}, bindings: map[string]workflow.IdempotencyRecord{}, businessKeys: map[string]workflow.BusinessKey{}, subscriptions: map[string]map[string]workflow.Subscription{}, deliveryAttempts: map[string]map[string]workflow.DeliveryAttempt{},
		triggers: map[string]map[string]spec.PublishedTrigger{}, triggerCalls: map[string]map[string]workflow.TriggerCall{}, rates: map[string]workflow.RateState{}, tables: map[string]map[string]workflow.Table{}, rows: map[string]map[string]workflow.Row{},
		poolQueues: map[string]*Queue{}, workers: workerItems{},
		watchers: map[string]map[string]bool{}, schedules: scheduleItems{},
	}
	w.lifecycleQueue = w.newQueue(1)
	w.eventsQueue, w.hooksQueue = w.newQueue(1001), w.newQueue(1002)
	w.hooksQueue.faults = &QueueFaults{} // its senders depend on a queue that loses nothing
	return w
}

func (w *World) newQueue(n uint64) *Queue {
	return NewQueue(w.Now, rand.New(rand.NewPCG(w.seed, n)), &w.QueueFaults)
}

// CloneRegistry returns a new world with the same definitions, blocks, entities and tables, no rows
// and no executions.
func (w *World) CloneRegistry(seed uint64) *World {
	next := New(seed)
	next.Shards, next.Bounds = w.Shards, w.Bounds
	w.mu.Lock()
	defer w.mu.Unlock()
	next.definitions, next.blocks = maps.Clone(w.definitions), maps.Clone(w.blocks)
	next.versionIndexes, next.versionRevisions = maps.Clone(w.versionIndexes), maps.Clone(w.versionRevisions)
	for tenant, entities := range w.entities {
		next.entities[tenant] = maps.Clone(entities)
	}
	next.deleted = maps.Clone(w.deleted)
	for tenant, tables := range w.tables {
		next.tables[tenant] = maps.Clone(tables)
	}
	for pool := range w.poolQueues {
		next.PoolQueue(pool)
	}
	return next
}

// Seed returns the seed of the world.
func (w *World) Seed() uint64 { return w.seed }

// Now returns the time of the world's clock. Only Advance moves the clock.
func (w *World) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// Advance moves the clock forward.
func (w *World) Advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// IntN returns a random number in [0, n).
func (w *World) IntN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

// NewID returns an ID in the form of a UUIDv7. Later IDs are greater.
func (w *World) NewID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids++
	ms := uint64(w.now.UnixMilli())
	return fmt.Sprintf("%08x-%04x-7%03x-8%03x-%012x", ms>>16, ms&0xffff, w.ids>>12&0xfff, w.ids&0xfff, w.random.Uint64()&(1<<48-1))
}

// Nonce returns a short unique text.
func (w *World) Nonce() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids++
	return fmt.Sprintf("n%d", w.ids)
}

// Interleave runs tasks to their ends. Which task makes the next call is random.
func (w *World) Interleave(tasks ...*faults.Task) { faults.Interleave(w.IntN, tasks...) }

// View gives access to the world with a meter of its own.
type View struct {
	Store     *Store
	Locks     *Locks
	Packs     *Packs
	Sender    *Sender
	Registry  *Registry
	Workers   *Workers
	Schedules *Schedules
	Rows      *Rows
	Meter     *Meter
}

// Open returns a new view.
func (w *World) Open() View {
	l := &conn{w: w, meter: &Meter{w: w}}
	return View{Store: &Store{conn: l}, Locks: &Locks{l}, Packs: &Packs{l}, Sender: &Sender{l}, Registry: &Registry{l}, Rows: &Rows{l},
		Workers:   &Workers{caller: l, items: w.workers, shards: w.Shards},
		Schedules: &Schedules{caller: l, items: w.schedules, shards: w.Shards}, Meter: l.meter}
}

// conn is shared by the parts of one view.
type conn struct {
	w     *World
	meter *Meter
}

// call makes one call with the fault that the plan injects. perform is the whole effect of the call
// and runs under the world's mutex; stale means that indexes return stale entries.
func call[T any](l *conn, name string, perform func(stale bool) (T, error)) (T, error) {
	return callWithFault(l, name, func(f faults.Fault) (T, error) { return perform(f == faults.Stale) })
}

// callWithFault is call for an operation that a fault may leave half done.
func callWithFault[T any](l *conn, name string, perform func(faults.Fault) (T, error)) (T, error) {
	var none T
	c, fault := l.w.Intercept(name)
	switch fault {
	case faults.CrashBefore:
		panic(faults.Crash{Call: c})
	case faults.Throttled:
		return none, workflow.Errorf(workflow.CodeUnavailable, "throttled at call %s", c)
	case faults.Broken:
		return none, fmt.Errorf("broken at call %s", c)
	}
	once := func() (T, error) {
		l.w.mu.Lock()
		defer l.w.mu.Unlock()
		return perform(fault)
	}
	answer, err := once()
	switch fault {
	case faults.CrashAfter:
		panic(faults.Crash{Call: c})
	case faults.LostReply:
		return none, workflow.Errorf(workflow.CodeUnavailable, "the reply to call %s is lost", c)
	case faults.Repeated:
		return once()
	}
	return answer, err
}

// Crashing makes a call outside of the world: the caller may crash before it, or after it in the
// returned function.
func (v View) Crashing(name string) (after func()) {
	w := v.Meter.w
	c, fault := w.Intercept(name)
	if fault == faults.CrashBefore {
		panic(faults.Crash{Call: c})
	}
	return func() {
		if fault == faults.CrashAfter {
			panic(faults.Crash{Call: c})
		}
	}
}

// Do is call for operations that are not metered.
func (l *conn) Do(name string, perform func() error) error {
	_, err := call(l, name, func(bool) (empty, error) { return empty{}, perform() })
	return err
}

// The tables, by the names that the meter uses.
const (
	tableExecutions = "executions"
	tableJobs       = "jobs"
	tableLocks      = "locks"
	tableRegistry   = "registry"
	tableData       = "data"
)

// Meter counts what one view consumes: one unit for each item read or written, whatever its
// size.
type Meter struct {
	w     *World
	count workflow.Cost
}

// Take returns the count since the last Take and resets it.
func (m *Meter) Take() workflow.Cost {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	c := m.count
	m.count = workflow.Cost{}
	return c
}

// Consumed returns what all views have consumed so far, whoever took it.
func (w *World) Consumed() workflow.Cost {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.consumed.Clone()
}

func (l *conn) countReads(table string, n int) {
	l.count(workflow.Cost{ReadUnits: map[string]float64{table: float64(n)}, DynamoRequests: 1})
}

// countWeakReads counts reads that are not strongly consistent.
func (l *conn) countWeakReads(table string, n int) {
	l.count(workflow.Cost{ReadUnits: map[string]float64{table: float64(n) / 2}, DynamoRequests: 1})
}

func (l *conn) countWrite(table string) {
	l.count(workflow.Cost{WriteUnits: map[string]float64{table: 1}, DynamoRequests: 1})
}

func (l *conn) count(c workflow.Cost) {
	l.meter.count.Add(c)
	l.w.consumed.Add(c)
}

// Limits close to those of the real services.
const (
	maxItemBytes    = 512 << 10
	maxMessageBytes = 1 << 20
	maxPageBytes    = 1 << 20
)

// executionBytes returns the size of a state item, or an error if that is too large for one item.
// Stored items are compressed: to about a quarter if nothing measures it.
func (w *World) executionBytes(x *workflow.Execution) (int, error) {
	bare := *x
	x = &bare
	x.Result = x.Result.InItem()
	x.Signals, x.Heard, x.AwaitedSignals = nil, nil, nil // there is room for a full mailbox besides everything else
	if w.ExecutionBytes == nil {
		n := sizeOf(x)
		return n / 4, checkBytes(n, maxItemBytes)
	}
	n := w.ExecutionBytes(x)
	if n > workflow.MaxItemBytes {
		return n, workflow.Errorf(workflow.CodeTooLarge, "%d bytes do not fit into one item", n)
	}
	return n, nil
}

// checkPackSize and checkEntitySize refuse what is too large for one item.
func (w *World) checkPackSize(p *workflow.Pack) error {
	if w.PackBytes == nil {
		return checkItemSize(p)
	}
	return checkBytes(w.PackBytes(p), workflow.MaxItemBytes)
}

func (w *World) checkEntitySize(e workflow.Entity) error {
	if w.EntityBytes == nil {
		return checkItemSize(e)
	}
	return checkBytes(w.EntityBytes(e), workflow.MaxItemBytes)
}

// checkItemSize refuses a value that is too large for one item.
func checkItemSize(v any) error {
	return checkBytes(sizeOf(v), maxItemBytes)
}

func checkBytes(n, limit int) error {
	if n > limit {
		return workflow.Errorf(workflow.CodeTooLarge, "an item of %d bytes is too large", n)
	}
	return nil
}

// encodeMessage returns the body of a message.
func encodeMessage(v any) []byte {
	raw, err := workflow.EncodeJSON(v)
	if err != nil {
		panic(fmt.Errorf("sim: %T cannot be sent: %w", v, err))
	}
	return raw
}

// tenantKey returns a key that is unique across tenants.
func tenantKey(tenant, key string) string { return fmt.Sprintf("%q %s", tenant, key) }

func shardOf(id string, shards int) int {
	h := fnv.New32a()
	h.Write([]byte(id))
	return int(h.Sum32() % uint32(shards))
}

// Observer is called on every write that changes an item, during the call that makes it.
// before is nil, or zero, for a new item. An observer may keep its arguments but must not
// change them, and must not call the world.
type Observer interface {
	ExecutionWritten(before, after *workflow.Execution)
	// WaitersRemaining is called after every commit with the number of waiters that are
	// still registered with the execution.
	WaitersRemaining(id string, registered int)
	LockWritten(before, after workflow.Lock)
	PackWritten(before, after *workflow.Pack)
	EntityWritten(before, after workflow.Entity)
	RowWritten(table string, row workflow.Row) // a new one: rows do not change
	ScheduleWritten(before, after spec.Schedule)
}
