package sim

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/calendar"
	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/sim/queue"
	"github.com/lockstep-run/lockstep/shared/sim/replica"
	"github.com/lockstep-run/lockstep/shared/sim/roster"
	"github.com/lockstep-run/lockstep/shared/sim/watch"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// World is everything that outlives a handler. Its exported fields may be
// changed while no call is under way.
type World struct {
	// Hook is what every call passes: its plan of faults, its tasks.
	fate.Hook
	// Deliveries is how the queues misbehave; the zero value delivers each
	// message once, in order.
	Deliveries queue.Faults
	// Watcher, if there is one, is told of every write.
	Watcher watch.Watcher
	// Shards is the number of shards of the index of alarms.
	Shards int

	mu     sync.Mutex
	seed   uint64
	random *rand.Rand
	now    time.Time
	ids    uint64

	executions map[string]*execution
	locks      map[string]workflow.Lock
	packs      map[workflow.PackKey]*workflow.Pack
	done       map[shardKey]*workflow.DoneSet
	stored     map[storedKey][]byte
	discarded  map[shardKey]time.Time

	definitions map[string]workflow.Published
	blocks      map[string]workflow.Block
	entities    map[string]map[workflow.EntityKey]workflow.Entity
	bindings    map[string]workflow.Binding
	watchers    map[string]map[string]bool // of entities
	schedules   calendar.Book
	workers     roster.Book

	lifecycle *queue.Queue
	pools     map[string]*queue.Queue
}

// Dawn is when a new world's clock starts.
var Dawn = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// New makes an empty world. Everything that is left to chance in it follows from
// the seed.
func New(seed uint64) *World {
	w := &World{
		Shards: 2, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), now: Dawn,
		executions: map[string]*execution{}, locks: map[string]workflow.Lock{},
		packs: map[workflow.PackKey]*workflow.Pack{}, done: map[shardKey]*workflow.DoneSet{}, stored: map[storedKey][]byte{}, discarded: map[shardKey]time.Time{},
		definitions: map[string]workflow.Published{}, blocks: map[string]workflow.Block{},
		entities: map[string]map[workflow.EntityKey]workflow.Entity{}, bindings: map[string]workflow.Binding{},
		pools: map[string]*queue.Queue{}, workers: roster.Book{},
		watchers: map[string]map[string]bool{}, schedules: calendar.Book{},
	}
	w.lifecycle = w.queue(1)
	return w
}

func (w *World) queue(n uint64) *queue.Queue {
	return queue.New(w.Now, rand.New(rand.NewPCG(w.seed, n)), &w.Deliveries)
}

// Sequel is a new world in which the same things are published, registered and
// imported, and nothing has been started.
func (w *World) Sequel(seed uint64) *World {
	next := New(seed)
	next.Shards = w.Shards
	w.mu.Lock()
	defer w.mu.Unlock()
	next.definitions, next.blocks = maps.Clone(w.definitions), maps.Clone(w.blocks)
	for tenant, entities := range w.entities {
		next.entities[tenant] = maps.Clone(entities)
	}
	for pool := range w.pools {
		next.MakePool(pool)
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

// Draw is a number from 0 up to below n.
func (w *World) Draw(n int) int {
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
func (w *World) Interleave(tasks ...*fate.Task) { fate.Interleave(w.Draw, tasks...) }

// View is the world as one piece of work sees it: what it consumes is counted
// apart.
type View struct {
	Store     *Store
	Locks     *Locks
	Packs     *Packs
	Board     *Board
	Registry  *Registry
	Workers   *roster.Workers
	Schedules *calendar.Schedules
	Meter     *Meter
}

// Open makes a view.
func (w *World) Open() View {
	l := &line{w: w, meter: &Meter{w: w}}
	return View{Store: &Store{line: l}, Locks: &Locks{l}, Packs: &Packs{l}, Board: &Board{l}, Registry: &Registry{l},
		Workers:   &roster.Workers{Line: l, Book: w.workers, Shards: w.Shards},
		Schedules: &calendar.Schedules{Line: l, Book: w.schedules, Shards: w.Shards}, Meter: l.meter}
}

// line is what the parts of one view have in common.
type line struct {
	w     *World
	meter *Meter
}

// call makes one call with whatever the plan has in store for it. perform is its
// whole effect; it sees the world alone, and whether the index is stale.
func call[T any](l *line, name string, perform func(stale bool) (T, error)) (T, error) {
	return struck(l, name, func(f fate.Fault) (T, error) { return perform(f == fate.Stale) })
}

// struck is call for what may be done in part.
func struck[T any](l *line, name string, perform func(fate.Fault) (T, error)) (T, error) {
	var none T
	c, fault := l.w.Reach(name)
	switch fault {
	case fate.CrashBefore:
		panic(fate.Crash{Call: c})
	case fate.Throttled:
		return none, workflow.Errorf(workflow.CodeUnavailable, "throttled at call %s", c)
	}
	once := func() (T, error) {
		l.w.mu.Lock()
		defer l.w.mu.Unlock()
		return perform(fault)
	}
	answer, err := once()
	switch fault {
	case fate.CrashAfter:
		panic(fate.Crash{Call: c})
	case fate.LostReply:
		return none, workflow.Errorf(workflow.CodeUnavailable, "the reply to call %s is lost", c)
	case fate.Repeated:
		return once()
	}
	return answer, err
}

// Do is call for what no run pays for.
func (l *line) Do(name string, perform func() error) error {
	_, err := call(l, name, func(bool) (nothing, error) { return nothing{}, perform() })
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

func (l *line) reads(table string, n int) {
	l.meter.count.Add(workflow.Cost{ReadUnits: map[string]float64{table: float64(n)}, Dynamo: 1})
}

func (l *line) writes(table string) {
	l.meter.count.Add(workflow.Cost{WriteUnits: map[string]float64{table: 1}, Dynamo: 1})
}

// itemBytes and messageBytes are about how much the real services take.
const (
	itemBytes    = 512 << 10
	messageBytes = 1 << 20
	pageBytes    = 1 << 20
)

// fits refuses what no item could hold.
func fits(v any) error {
	if n := replica.Weight(v); n > itemBytes {
		return workflow.Errorf(workflow.CodeTooLarge, "%d bytes do not fit into one item", n)
	}
	return nil
}

// encoded is a message's body.
func encoded(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Errorf("sim: %T cannot be sent: %w", v, err))
	}
	return raw
}

// within is a key of a tenant's own.
func within(tenant, key string) string { return fmt.Sprintf("%q %s", tenant, key) }

func shardOf(id string, shards int) int {
	h := fnv.New32a()
	h.Write([]byte(id))
	return int(h.Sum32() % uint32(shards))
}
