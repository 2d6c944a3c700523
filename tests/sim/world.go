package sim

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/tests/sim/faults"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// World is everything that outlives a handler. Its exported fields may be
// changed while no call is under way.
type World struct {
	// Hook is what every call passes: its plan of faults, its tasks.
	faults.Injector
	// QueueFaults is how the queues misbehave; the zero value delivers each
	// message once, in order.
	QueueFaults QueueFaults
	// Observer, if there is one, is told of every write.
	Observer Observer
	// Shards is the number of shards of the index of alarms.
	Shards int

	mu     sync.Mutex
	seed   uint64
	random *rand.Rand
	now    time.Time
	ids    uint64

	executions   map[string]*executionItem
	locks        map[string]workflow.Lock
	packs        map[workflow.PackKey]*workflow.Pack
	doneSets     map[shardKey]*workflow.DoneSet
	payloads     map[payloadKey][]byte
	discardTimes map[shardKey]time.Time

	definitions map[string]workflow.PublishedDefinition
	blocks      map[string]workflow.Block
	entities    map[string]map[workflow.EntityKey]workflow.Entity
	bindings    map[string]workflow.IdempotencyRecord
	watchers    map[string]map[string]bool // of entities
	schedules   scheduleItems
	workers     workerItems

	lifecycleQueue *Queue
	poolQueues     map[string]*Queue
}

// StartTime is when a new world's clock starts.
var StartTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// New makes an empty world. Everything that is left to chance in it follows from
// the seed.
func New(seed uint64) *World {
	w := &World{
		Shards: 2, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), now: StartTime,
		executions: map[string]*executionItem{}, locks: map[string]workflow.Lock{},
		packs: map[workflow.PackKey]*workflow.Pack{}, doneSets: map[shardKey]*workflow.DoneSet{}, payloads: map[payloadKey][]byte{}, discardTimes: map[shardKey]time.Time{},
		definitions: map[string]workflow.PublishedDefinition{}, blocks: map[string]workflow.Block{},
		entities: map[string]map[workflow.EntityKey]workflow.Entity{}, bindings: map[string]workflow.IdempotencyRecord{},
		poolQueues: map[string]*Queue{}, workers: workerItems{},
		watchers: map[string]map[string]bool{}, schedules: scheduleItems{},
	}
	w.lifecycleQueue = w.newQueue(1)
	return w
}

func (w *World) newQueue(n uint64) *Queue {
	return NewQueue(w.Now, rand.New(rand.NewPCG(w.seed, n)), &w.QueueFaults)
}

// CloneRegistry is a new world in which the same things are published, registered and
// imported, and nothing has been started.
func (w *World) CloneRegistry(seed uint64) *World {
	next := New(seed)
	next.Shards = w.Shards
	w.mu.Lock()
	defer w.mu.Unlock()
	next.definitions, next.blocks = maps.Clone(w.definitions), maps.Clone(w.blocks)
	for tenant, entities := range w.entities {
		next.entities[tenant] = maps.Clone(entities)
	}
	for pool := range w.poolQueues {
		next.PoolQueue(pool)
	}
	return next
}

// Seed is what the world was made from.
func (w *World) Seed() uint64 { return w.seed }

// Now is the time on the world's clock, which only Advance moves.
func (w *World) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// Advance moves the clock.
func (w *World) Advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// IntN is a number from 0 up to below n.
func (w *World) IntN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

// NewID is a UUIDv7 by form and order: later ones are greater.
func (w *World) NewID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids++
	ms := uint64(w.now.UnixMilli())
	return fmt.Sprintf("%08x-%04x-7%03x-8%03x-%012x", ms>>16, ms&0xffff, w.ids>>12&0xfff, w.ids&0xfff, w.random.Uint64()&(1<<48-1))
}

// Nonce is a short text that does not come twice.
func (w *World) Nonce() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids++
	return fmt.Sprintf("n%d", w.ids)
}

// Interleave runs tasks to their ends, each time choosing by chance which of
// them makes its next call.
func (w *World) Interleave(tasks ...*faults.Task) { faults.Interleave(w.IntN, tasks...) }

// View is the world as one piece of work sees it: what it consumes is counted
// apart.
type View struct {
	Store     *Store
	Locks     *Locks
	Packs     *Packs
	Sender    *Sender
	Registry  *Registry
	Workers   *Workers
	Schedules *Schedules
	Meter     *Meter
}

// Open makes a view.
func (w *World) Open() View {
	l := &conn{w: w, meter: &Meter{w: w}}
	return View{Store: &Store{conn: l}, Locks: &Locks{l}, Packs: &Packs{l}, Sender: &Sender{l}, Registry: &Registry{l},
		Workers:   &Workers{caller: l, items: w.workers, shards: w.Shards},
		Schedules: &Schedules{caller: l, items: w.schedules, shards: w.Shards}, Meter: l.meter}
}

// conn is what the parts of one view have in common.
type conn struct {
	w     *World
	meter *Meter
}

// call makes one call with whatever the plan has in store for it. perform is its
// whole effect; it sees the world alone, and whether the index is stale.
func call[T any](l *conn, name string, perform func(stale bool) (T, error)) (T, error) {
	return callWithFault(l, name, func(f faults.Fault) (T, error) { return perform(f == faults.Stale) })
}

// callWithFault is call for what may be done in part.
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

// Do is call for what no run pays for.
func (l *conn) Do(name string, perform func() error) error {
	_, err := call(l, name, func(bool) (empty, error) { return empty{}, perform() })
	return err
}

// The tables, by the names under which consumption is counted.
const (
	tableExecutions = "executions"
	tableJobs       = "jobs"
	tableLocks      = "locks"
	tableRegistry   = "registry"
)

// Meter counts what one view consumes: a unit for each item read or written,
// whatever its size.
type Meter struct {
	w     *World
	count workflow.Cost
}

// Take returns the count since the last Take and starts anew.
func (m *Meter) Take() workflow.Cost {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	c := m.count
	m.count = workflow.Cost{}
	return c
}

func (l *conn) countReads(table string, n int) {
	l.meter.count.Add(workflow.Cost{ReadUnits: map[string]float64{table: float64(n)}, DynamoRequests: 1})
}

func (l *conn) countWrite(table string) {
	l.meter.count.Add(workflow.Cost{WriteUnits: map[string]float64{table: 1}, DynamoRequests: 1})
}

// maxItemBytes and maxMessageBytes are about how much the real services take.
const (
	maxItemBytes    = 512 << 10
	maxMessageBytes = 1 << 20
	maxPageBytes    = 1 << 20
)

// checkItemSize refuses what no item could hold.
func checkItemSize(v any) error {
	if n := sizeOf(v); n > maxItemBytes {
		return workflow.Errorf(workflow.CodeTooLarge, "%d bytes do not fit into one item", n)
	}
	return nil
}

// encodeMessage is a message's body.
func encodeMessage(v any) []byte {
	raw, err := workflow.EncodeJSON(v)
	if err != nil {
		panic(fmt.Errorf("sim: %T cannot be sent: %w", v, err))
	}
	return raw
}

// tenantKey is a key of a tenant's own.
func tenantKey(tenant, key string) string { return fmt.Sprintf("%q %s", tenant, key) }

func shardOf(id string, shards int) int {
	h := fnv.New32a()
	h.Write([]byte(id))
	return int(h.Sum32() % uint32(shards))
}
