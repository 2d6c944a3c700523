// Package simulator runs the real engine, the real worker SDK and the real sweeper in a simulated
// world, in one goroutine, from a seed: several executions at once on overlapping devices, with
// operators that interfere and faults at every call. It checks the invariants after every call.
//
// simulator.go runs blocks of seeds that share definitions. simulation.go runs one seed: it
// repeatedly performs the event that is due next. scenario.go generates what happens and
// fault_plan.go what goes wrong. process.go is running code, which pauses before each of its calls.
// operators.go has what clients and operators do, people.go who answers and sends signals;
// restore.go restores the tables; stall.go lets the wake-ups of an execution fail for long.
// completion.go brings a simulation to its end and checks that end. shrink.go makes a failing
// simulation as short as possible, and trace.go prints it.
//
// Package invariant has the invariants, and package mutation proves that they find mistakes.
package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
	"github.com/lockstep-run/lockstep/tests/sim/oracle"
)

// workerCount is the number of workers.
const workerCount = 3

// Simulator simulates the seeds of one corpus. Its engine keeps compiled definitions from seed
// to seed. It is not safe for concurrent use.
type Simulator struct {
	*harness.Harness
	corpus    *corpus
	base      *sim.World // a world in which everything is published and nothing has been started
	published map[string]bool
}

// panickingTB is the testing.TB of a harness outside of a test. A failure is a bug of this
// package and panics.
type panickingTB struct{ testing.TB }

func (panickingTB) Helper()                   {}
func (panickingTB) Cleanup(func())            {}
func (panickingTB) Failed() bool              { return false }
func (panickingTB) Logf(string, ...any)       {}
func (panickingTB) Fatal(args ...any)         { panic(fmt.Sprint(args...)) }
func (panickingTB) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
func (panickingTB) Error(args ...any)         { panic(fmt.Sprint(args...)) }
func (panickingTB) Errorf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

// Small shrinks bounds of engine and world, so that few entities reach them: waiters, entities in a
// chunk of a scope, items in a page, bytes in a chain of lanes, inline entities, bytes of the inventory
// that a request reads, and reloads after lost races. Set it before making the first simulator.
var Small bool

// New makes a simulator.
func New(c *corpus) *Simulator {
	o := harness.Options()
	if Small {
		o.InlineMaxEntities, o.InlineMaxBytes, o.Dispatch.ChainBytes, o.MaxConflictRetries = 1, 600, 400, 2
	}
	o.Policy.MinPackedJobs = 2 // so that few devices suffice for packs of several jobs
	t := &Simulator{Harness: harness.New(panickingTB{}, 0, o), corpus: c, published: map[string]bool{}}
	if Small {
		t.Bounds = sim.Bounds{MaxWaiters: 2, ScopeEntities: 1, PageItems: 4}
		t.MaxSetBytes = 4 // as in tests/sim/mutation/small.go
	}
	t.SetWorkerCount(workerCount)
	t.RegisterBlocks()
	t.RegisterBlock(workflow.Block{Name: "finder", Pure: true})
	t.importAllDevices()
	t.makeTable()
	t.base = t.World
	return t
}

func (t *Simulator) importAllDevices() {
	for i, id := range harness.DeviceIDs(deviceCount) {
		e := workflow.Entity{Type: "device", ID: id, Groups: groupsOf(id)}
		e.Attributes, _ = json.Marshal(importedAttributes(i))
		if _, err := t.Catalog.PutEntity(context.Background(), harness.Caller, e); err != nil {
			t.Fatal(err)
		}
	}
}

// makeTable makes the table into which steps insert rows.
func (t *Simulator) makeTable() {
	req := views.TableRequest{}
	for _, c := range defgen.TableColumns {
		req.Columns = append(req.Columns, workflow.Column{Name: c.Name, Type: workflow.ColumnType(c.Type), Required: c.Required})
	}
	if _, err := t.Catalog.PutTable(context.Background(), harness.Caller, defgen.Table, req); err != nil {
		t.Fatal(err)
	}
}

// importedAttributes returns the attributes of a device, by its number, before anything changes it.
func importedAttributes(i int) map[string]any {
	return map[string]any{"name": deviceID(i), "ready": i%3 == 0}
}

// groupsOf returns the groups of a device.
func groupsOf(id string) []string {
	if (id[len(id)-1]-'0')%2 == 1 {
		return []string{"all", "odd"}
	}
	return []string{"all"}
}

// publishOnce publishes definitions without the cut steps, and starts each once in a world that is
// discarded, so that the engine's caches do not depend on earlier seeds.
func (t *Simulator) publishOnce(cut Cut, names ...string) {
	for _, name := range names {
		if t.published[name] {
			continue
		}
		t.published[name] = true
		d := t.corpus.definition(name)
		if labels := cut.cutSteps(name); len(labels) > 0 {
			d = t.corpus.shorten(name, labels)
		}
		t.publishOnce(cut, d.References()...)
		if t.World = t.base; name == defgen.FollowsLater { // a scenario publishes it, or does not
			t.World = t.base.CloneRegistry(0)
		}
		t.Publish(name, d.YAML())
		t.World, t.BlockCalls = t.World.CloneRegistry(0), nil
		t.Clock, t.BeforeBlock, t.ProgramVersion, t.Script = nil, nil, nil, nil
		t.Start(name, harness.DeviceIDs(1)...)
		t.World = t.base
	}
}

// seedsPerCorpus is the number of consecutive seeds that share definitions, and
// definitionsPerCorpus the number of these definitions. Sharing saves time: compiling
// definitions is most of the cost of a simulation.
const seedsPerCorpus, definitionsPerCorpus = 256, 48

// corpus has the definitions of a block of seeds.
type corpus struct {
	number      uint64
	definitions map[string]*defgen.Definition
}

// newCorpus returns the corpus of a seed, without any definition yet.
func newCorpus(seed uint64) *corpus {
	return &corpus{number: seed / seedsPerCorpus, definitions: map[string]*defgen.Definition{}}
}

// definition returns a definition by its name and generates it if necessary.
func (c *corpus) definition(name string) *defgen.Definition {
	if d := c.definitions[name]; d != nil {
		return d
	}
	d := c.draw(name)
	if c.definitions[name] = d; strings.HasSuffix(name, withEnds) {
		seed := uint64(13_000)
		for _, b := range []byte(name) {
			seed = seed*131 + uint64(b)
		}
		d.Ends = defgen.DrawEnds(rand.New(rand.NewPCG(c.number, seed)).IntN)
	}
	return d
}

// withEnds ends the name of a definition whose ends start executions. Without it, the name is that
// of the same definition without them.
const withEnds = "e"

// draw generates a definition by its name.
func (c *corpus) draw(name string) *defgen.Definition {
	var n int
	if _, err := fmt.Sscanf(name, "f%d", &n); err == nil {
		r := rand.New(rand.NewPCG(c.number, uint64(2000+n)))
		return &defgen.Definition{Flow: defgen.DrawFlow(r.IntN, n%2 == 1, n%4 == 3), Unpredictable: true}
	}
	if _, err := fmt.Sscanf(name, "k%d", &n); err == nil {
		r := rand.New(rand.NewPCG(c.number, uint64(7000+n)))
		return &defgen.Definition{Flow: defgen.DrawBranches(r.IntN, n%2 == 1), Unpredictable: true}
	}
	if _, err := fmt.Sscanf(name, "m%d", &n); err == nil {
		r, more := rand.New(rand.NewPCG(c.number, uint64(8000+n))), rand.New(rand.NewPCG(c.number, uint64(9000+n)))
		return &defgen.Definition{Flow: defgen.DrawMore(r.IntN, more.IntN, n%2 == 1), Unpredictable: true}
	}
	if _, err := fmt.Sscanf(name, "t%d", &n); err == nil {
		r, more := rand.New(rand.NewPCG(c.number, uint64(11_000+n))), rand.New(rand.NewPCG(c.number, uint64(12_000+n)))
		return &defgen.Definition{Flow: defgen.DrawExtra(r.IntN, more.IntN, n%2 == 1), Unpredictable: true}
	}
	if _, err := fmt.Sscanf(name, "r%d", &n); err == nil {
		r := rand.New(rand.NewPCG(c.number, uint64(3000+n)))
		waits := n%2 == 1 && !Small // a message that holds a token must have room for it
		return &defgen.Definition{Flow: defgen.DrawRollouts(r.IntN, waits, waits && n%4 == 3), Unpredictable: true}
	}
	if d := defgen.Follows(name); d != nil {
		return d
	}
	switch name {
	case defgen.Escalated, defgen.Started:
		return defgen.Page()
	case defgen.Changing:
		return defgen.Changes()
	}
	if _, err := fmt.Sscanf(name, "v%d", &n); err == nil {
		return defgen.Invalid(n)
	}
	if _, err := fmt.Sscanf(name, "g%d", &n); err == nil {
		r := rand.New(rand.NewPCG(c.number, uint64(6000+n)))
		return &defgen.Definition{Flow: defgen.DrawFurther(r.IntN, n%2 == 1, n%4 == 3), Unpredictable: true}
	}
	generate, draw := defgen.GenerateAny, uint64(1000)
	if _, err := fmt.Sscanf(name, "l%d", &n); err == nil {
		generate, draw = defgen.GenerateLimited, 4000
	} else if _, err := fmt.Sscanf(name, "c%d", &n); err == nil {
		generate, draw = defgen.GenerateSets, 5000
	} else if _, err := fmt.Sscanf(name, "b%d", &n); err == nil {
		generate, draw = defgen.GenerateBreaks, 10_000
	} else if _, err := fmt.Sscanf(name, "w%d", &n); err != nil {
		panic(fmt.Errorf("simulator: no definition is named %q: %w", name, err))
	}
	r := rand.New(rand.NewPCG(c.number, draw+uint64(n)))
	var references []string // only lower numbers, so that there are no cycles
	for i := range n % 6 {
		reference := definitionName(n - n%6 + i)
		if strings.HasSuffix(name, withEnds) {
			reference += withEnds
		}
		references = append(references, reference)
	}
	return generate(func(_ string, below int) int { return r.IntN(below) }, references)
}

// shorten removes steps from a definition, unless none would remain.
func (c *corpus) shorten(name string, labels []string) *defgen.Definition {
	if d := c.definition(name).WithoutSteps(labels); d != nil {
		c.definitions[name] = d
	}
	return c.definitions[name]
}

func definitionName(n int) string { return fmt.Sprintf("w%d", n) }

// Summary sums up the results of many seeds.
type Summary struct {
	Seeds, Executions, Calls, Faults int
	SimulatedHours                   float64 // a Duration ends at 2.56 million hours
	StoredOutcomes                   int     // see Result
	Ends                             oracle.Ends
	Failed                           []Result // in order of their seeds
}

func (s *Summary) add(r Result) {
	s.Seeds++
	s.Executions += r.Executions
	s.Calls += r.Calls
	s.Faults += len(r.Faults)
	s.SimulatedHours += r.SimulatedTime.Hours()
	s.StoredOutcomes += r.StoredOutcomes
	s.Ends.Later += r.Ends.Later
	s.Ends.Judged += r.Ends.Judged
	if r.Violation != nil {
		s.Failed = append(s.Failed, r)
		slices.SortFunc(s.Failed, func(a, b Result) int { return int(int64(a.Seed) - int64(b.Seed)) })
	}
}

// RunSeeds simulates n seeds from the first on, parallel at a time, until maxFailures have
// failed. progress, unless it is nil, is called after every seed.
func RunSeeds(first uint64, n, parallel, maxFailures int, progress func(Summary)) Summary {
	var mu sync.Mutex
	var summary Summary
	next, end := first, first+uint64(n)
	// One goroutine simulates the seeds of a corpus, one after the other.
	take := func() (from, to uint64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if next >= end || len(summary.Failed) >= maxFailures {
			return 0, 0, false
		}
		from, to = next, min(end, (next/seedsPerCorpus+1)*seedsPerCorpus)
		next = to
		return from, to, true
	}
	var all sync.WaitGroup
	for range parallel {
		all.Go(func() {
			for from, to, ok := take(); ok; from, to, ok = take() {
				t := New(newCorpus(from))
				for seed := from; seed < to; seed++ {
					r := t.Run(seed, Cut{}, nil)
					mu.Lock()
					summary.add(r)
					stop := len(summary.Failed) >= maxFailures
					if progress != nil {
						progress(summary)
					}
					mu.Unlock()
					if stop {
						return
					}
				}
			}
		})
	}
	all.Wait()
	return summary
}
