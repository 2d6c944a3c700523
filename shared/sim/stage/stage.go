package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/delivery"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/engine/roster"
	"github.com/lockstep-run/lockstep/shared/engine/view"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Stage is an engine in a world. A mistake of the play itself, such as a
// definition that cannot be published, fails the test.
type Stage struct {
	*sim.World
	testing.TB
	Engine  *engine.Engine
	View    *view.View
	Catalog *catalog.Catalog
	workers []*worker.Worker

	// Clock is what whoever is at work takes for the time; nil is the world's clock.
	Clock func() time.Time
	// Enter, if it is set, is called by a worker that is about to call a block.
	Enter func()
	// Release is the version of the programs that are at work, as the items that
	// they write carry it; 0 is that of this binary.
	Release func() int

	// Script says what a block does when it is called; nil, or an outcome that is
	// nil, is success.
	Script func(Call) *Outcome
	// Called is every call of a block, in order.
	Called []Call
}

// Caller is who asks for everything.
var Caller = workflow.Caller{Tenant: "acme", Actor: "ann"}

// Call is one call of a block.
type Call struct {
	Job     string // its id
	Kind    workflow.JobKind
	Step    string
	Entity  string // id, "" for a global call
	Attempt int
	Fence   string
	Result  json.RawMessage // of the job to undo

	Parameters json.RawMessage
	Execution  string
	Pure       bool
	Repeatable bool
}

// Outcome is what comes of a call.
type Outcome struct {
	Fail      string          // the code of the failure, "" for success
	Retryable bool            // of a failure
	Result    json.RawMessage // of a success
	Set       map[string]any  // attributes of the entity that a success asks to be set
	Found     []string        // devices that an acquire returns
	Die       bool            // the worker dies in the middle of the block
	Meanwhile func()          // what happens in the world during the call
}

// Options are thresholds in which small plays meet every part of the protocol:
// packs of two from three jobs on.
func Options() engine.Options {
	return engine.Options{
		Policy: lifecycle.Policy{
			Poll: time.Minute, LockWait: time.Hour, StartWait: 24 * time.Hour, MessageLife: 24 * time.Hour,
			PackSize: 2, PackFrom: 3, MaxSteps: 100,
		},
		Delivery: delivery.Limits{
			Skew: 2 * time.Second, Grace: 5 * time.Second, Poll: time.Minute, MaxTakeovers: maxClaims,
			MessageLife: 24 * time.Hour, Unclaimed: time.Hour, Stuck: 12 * time.Minute, ChainBytes: 64 << 10, Parallel: 1,
		},
		JobTimeout: 30 * time.Second, ReserveAfter: 2, Parallel: 1, Inline: 100, MaxEntities: 20_000,
		MaxResults: 1 << 20, BindingLife: 24 * time.Hour, Stalled: time.Hour, Tries: 12,
	}
}

// Silence is how long a stage's polling workers may be silent.
var Silence = roster.Silence{Unreachable: 2 * time.Minute, Offline: 6 * time.Minute, Forget: 24 * time.Hour}

// New makes a stage. The pool "default" has a queue.
func New(tb testing.TB, seed uint64, o engine.Options) *Stage {
	s := &Stage{World: sim.New(seed), TB: tb}
	s.MakePool("default")
	s.Engine = engine.New(engine.World{
		Now:   s.clock,
		NewID: func() string { return s.NewID() },
		Nonce: func() string { return s.Nonce() },
		Pause: func(int) {},
		Open:  s.ports,
		Log:   slog.New(slog.NewTextHandler(io.Discard, nil)),
	}, o, "test")
	s.Crew(1)
	s.View = view.New(s.Engine, 1)
	s.Catalog = catalog.New(func() catalog.World {
		v := s.Open()
		return catalog.World{Registry: v.Registry, Schedules: v.Schedules, Board: v.Board}
	}, func() time.Time { return s.Now() })
	tb.Cleanup(func() {
		if tb.Failed() {
			trace := s.Trace()
			tb.Logf("seed %d, last calls %v", s.Seed(), trace[max(0, len(trace)-80):])
		}
	})
	return s
}

// Sequel begins anew in a world of another seed in which the same things are
// published. The engine stays warm.
func (s *Stage) Sequel(seed uint64) {
	s.World, s.Called = s.World.Sequel(seed), nil
}

func (s *Stage) ports() port.Ports {
	v := s.open()
	return port.Ports{Store: v.Store, Locks: v.Locks, Packs: v.Packs, Board: v.Board, Registry: v.Registry, Workers: v.Workers, Schedules: v.Schedules, Meter: v.Meter}
}

func (s *Stage) clock() time.Time {
	if s.Clock != nil {
		return s.Clock()
	}
	return s.Now()
}

// open is a view of the world for a program of the present release.
func (s *Stage) open() sim.View {
	v := s.Open()
	if s.Release != nil {
		v.Store.Release(s.Release())
	}
	return v
}

// Without runs something that no fault disturbs.
func (s *Stage) Without(do func()) {
	kept := s.Faults
	s.Faults = nil
	defer func() { s.Faults = kept }()
	do()
}

// Block registers a block of package p.
func (s *Stage) Block(b workflow.Block) {
	s.Helper()
	b.Package, b.Version = "p", "1.0.0"
	s.Without(func() {
		if _, err := s.Catalog.RegisterBlock(context.Background(), Caller, b); err != nil {
			s.Fatal(err)
		}
	})
	s.offer(b)
}

// Blocks registers one block of each nature.
func (s *Stage) Blocks() {
	s.Block(workflow.Block{Name: "pure", Pure: true})
	s.Block(workflow.Block{Name: "again", Idempotent: true, Reversible: true})
	s.Block(workflow.Block{Name: "once", Reversible: true})
	s.Block(workflow.Block{Name: "harmless", Reversible: true, UndoHarmless: true})
	s.Block(workflow.Block{Name: "forever"})
}

// Publish publishes workflow p/NAME:1.0.0 from what follows its head.
func (s *Stage) Publish(name, rest string) {
	s.Helper()
	source := fmt.Sprintf("package: p\nname: %s\nversion: 1.0.0\nseedEntity: device\n%s", name, rest)
	s.Without(func() {
		if _, _, err := s.Catalog.Publish(context.Background(), Caller, []byte(source), false); err != nil {
			s.Fatalf("%v\n%s", err, source)
		}
	})
}

// Devices imports entities of type device.
func (s *Stage) Devices(ids ...string) {
	s.Helper()
	s.Without(func() {
		for _, id := range ids {
			e := workflow.Entity{Type: "device", ID: id, Groups: []string{"all"}, Attributes: json.RawMessage(fmt.Sprintf(`{"name":%q}`, id))}
			if _, err := s.Catalog.PutEntity(context.Background(), Caller, e); err != nil {
				s.Fatal(err)
			}
		}
	})
}

// Names are n ids of devices in their order.
func Names(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("d%03d", i))
	}
	return ids
}

// Request asks for a run of workflow p/NAME over devices.
func Request(name string, ids ...string) views.StartRequest {
	r := views.StartRequest{Workflow: "p/" + name}
	if len(ids) > 0 {
		r.ExecuteOnParameters = &workflow.Selector{IDs: ids}
	}
	return r
}

// Start starts a run, as a client does that repeats its request until it is
// answered.
func (s *Stage) Start(name string, ids ...string) string {
	s.Helper()
	return s.StartWith(Request(name, ids...))
}

// StartWith starts a run as a request asks, which is repeated until it is
// answered.
func (s *Stage) StartWith(req views.StartRequest) string {
	s.Helper()
	req.IdempotencyKey = s.Nonce()
	var id string
	for range 50 {
		err := s.attempt(func() error {
			x, _, err := s.Engine.Start(context.Background(), Caller, req)
			if err == nil {
				id = x.ID
			}
			return err
		})
		if err == nil {
			return id
		}
		if !errors.Is(err, errCrashed) && !workflow.Is(err, workflow.CodeUnavailable) {
			s.Fatal(err)
		}
	}
	s.Fatal("it cannot be started")
	return ""
}

// Load is a run as it is stored.
func (s *Stage) Load(id string) (x *workflow.Execution) {
	s.Helper()
	s.Without(func() {
		var err error
		if x, err = s.open().Store.Load(context.Background(), Caller.Tenant, id); err != nil {
			s.Fatal(err)
		}
	})
	return x
}
