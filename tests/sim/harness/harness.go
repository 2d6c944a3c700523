// Package harness runs the real engine, catalog, queries and worker on package sim, with scripted
// blocks and a driver that delivers messages, fires timers and moves the clock. Everything happens
// in one goroutine and depends only on the world's seed.
//
// harness.go puts the parts together, driver.go delivers and sweeps, worker.go connects the SDK's
// worker to scripted blocks, and checks.go checks what must hold for every execution.
package harness

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/engine/query"
	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/token"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Harness is an engine in a simulated world. A mistake in the test itself, such as a definition
// that cannot be published, fails the test.
type Harness struct {
	*sim.World
	testing.TB
	Engine  *engine.Engine
	Query   *query.Service
	Catalog *catalog.Catalog
	workers []*worker.Worker

	// Clock is the clock of engine and workers; nil is the world's clock.
	Clock func() time.Time
	// BeforeBlock, if set, is called before a worker calls a block.
	BeforeBlock func()
	// ProgramVersion returns the version that programs write to items, see
	// sim.Store.SetProgramVersion; nil means that of this binary.
	ProgramVersion func() int

	// Receiver returns the status with which a receiver of events answers; nil means 200. Receipts
	// are what the receivers have accepted, DeadDeliveries what was given up.
	Receiver       func(Received) (status int, err error)
	Receipts       []Received
	DeadDeliveries []sim.Message

	// Script decides the outcome of a block's call. A nil Script or outcome means success.
	Script func(BlockCall) *Outcome
	// Region is the region that the workers serve.
	Region string
	// BlockCalls are all calls of blocks, in order.
	BlockCalls []BlockCall
	// Endpoints are the stage's endpoints, as the catalog knows them.
	Endpoints workflow.Endpoints
	// Secrets are the values of every tenant's secrets, by name.
	Secrets map[string]string
	// Sealed opens sealed parameters; nil opens none.
	Sealed worker.SealedSource
	// ItemsTolerated is how many items may fail in each step with foreach, by label.
	ItemsTolerated map[string]int
	// MaxSetBytes bounds the set of the entities that are undone; 0 means as much as for all
	// entities.
	MaxSetBytes int

	blocks map[string]workflow.Block // those of the workers, by package/name
}

// TriggerSecret is the value of all secrets of triggers. It is public.
const TriggerSecret = "only for the tests"

// testTokenKeys returns the keys of resume tokens. They are public.
var testTokenKeys = sync.OnceValues(func() (token.Keys, error) {
	return token.ParseKeys([]byte(`{"current":"test","keys":{"test":"` + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("test"), 8)) + `"}}`))
})

// Caller makes all requests.
var Caller = workflow.Caller{Tenant: "acme", Actor: "ann"}

// BlockCall is one call of a block.
type BlockCall struct {
	Job     string // ID
	Kind    workflow.JobKind
	Step    string
	Block   string // package/name
	Entity  string // ID, "" for a global call
	Attempt int
	Fence   string
	Result  json.RawMessage // of the job to roll back

	Resume     *workflow.Resume // how the wait that the block had asked for ended
	Parameters json.RawMessage
	Attributes json.RawMessage // of the entity
	Execution  string
	Pure       bool
	Repeatable bool

	Checkpoints map[string]json.RawMessage // saved by the job before
}

// Outcome is the outcome of a block's call.
type Outcome struct {
	FailCode      string              // code of the failure, "" for success
	Retryable     bool                // of a failure
	FailMessage   string              // of a failure
	FailDetails   any                 // of a failure that is retryable
	Result        json.RawMessage     // of a success
	SetAttributes map[string]any      // attributes of the entity that a success sets
	Updates       []workflow.Update   // updates of other entities that a success asks for
	Next          string              // step with which the execution continues after a success
	Acquired      []string            // devices that an acquire returns
	Wait          *workflow.AskedWait // the wait that a success asks for
	Break         bool                // a success returns BREAK
	Crash         bool                // the worker crashes during the call
	During        func()              // called during the call, unless nil
	Log           string              // what the block logs, "" for nothing

	// Saves are what the block saves before anything else, each under its own key. Saved is called
	// with those that it knows to be stored.
	Saves []string
	Saved func(key string)
}

// Address is the address at which people reach the service.
const Address = "https://lockstep.example"

// Options returns options with small thresholds, so that few entities exercise every part of the
// protocol: packs of two, from three jobs on.
func Options() engine.Options {
	return engine.Options{
		Policy: lifecycle.Policy{
			PollInterval: time.Minute, LockTimeout: time.Hour, StartTimeout: 24 * time.Hour, MessageLifetime: 24 * time.Hour,
			PackSize: 2, MinPackedJobs: 3, MaxStepRuns: 100,
		},
		Dispatch: dispatch.Limits{
			Skew: 2 * time.Second, Grace: 5 * time.Second, RedispatchInterval: time.Minute, MaxTakeovers: maxClaims,
			MessageLife: 24 * time.Hour, Unclaimed: time.Hour, Stuck: 12 * time.Minute, ChainBytes: 64 << 10, Parallel: 1,
		},
		JobTimeout: 30 * time.Second, ReserveAfter: 2, Parallelism: 1, InlineMaxEntities: 100, MaxEntities: 20_000, MaxDescendants: 100,
		Address: Address, MaxResultBytes: 1 << 20, MaxPlanCost: 1_000_000, IdempotencyKeyTTL: 24 * time.Hour, StallTimeout: time.Hour, MaxConflictRetries: 12,
	}
}

// LivenessTimeouts are the timeouts of polling workers.
var LivenessTimeouts = workers.LivenessTimeouts{Unreachable: 2 * time.Minute, Offline: 6 * time.Minute, Forget: 24 * time.Hour}

// New makes a harness. The pool "default" has a queue.
func New(tb testing.TB, seed uint64, o engine.Options) *Harness {
	s := &Harness{World: sim.New(seed), TB: tb, blocks: map[string]workflow.Block{}}
	s.PoolQueue("default")
	s.Engine = engine.New(engine.Deps{
		Now:       s.clock,
		NewID:     func() string { return s.NewID() },
		Nonce:     func() string { return s.Nonce() },
		Backoff:   func(int) {},
		OpenPorts: s.ports,
		TokenKeys: func(context.Context) (token.Keys, error) { return testTokenKeys() },
		Secret:    func(context.Context, string, string) (string, error) { return TriggerSecret, nil },
		Log:       slog.New(slog.NewTextHandler(io.Discard, nil)),
	}, o, "test")
	s.SetWorkerCount(1)
	s.Query = query.New(s.Engine, 1)
	s.Catalog = catalog.New(func() catalog.Ports {
		v := s.Open()
		return catalog.Ports{Locks: s.Query, LockItems: v.Locks, Registry: v.Registry, Schedules: v.Schedules, Sender: v.Sender, Endpoints: s.Endpoints}
	}, func() time.Time { return s.Now() })
	s.Catalog.Subscribing = catalog.Subscribing{
		NewID: func() string { return s.NewID() },
		Seal: func(_ context.Context, secret []byte) ([]byte, error) {
			keys, err := testTokenKeys()
			if err != nil {
				return nil, err
			}
			return keys.Seal(secret)
		},
		Age: 30 * time.Second, Skew: 2 * time.Second,
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			trace := s.Trace()
			tb.Logf("seed %d, last calls %v", s.Seed(), trace[max(0, len(trace)-80):])
		}
	})
	return s
}

// Reset continues in a new world with another seed and the same registry. The engine keeps
// its caches.
func (s *Harness) Reset(seed uint64) {
	s.World, s.BlockCalls = s.World.CloneRegistry(seed), nil
}

func (s *Harness) ports() port.Ports {
	v := s.openView()
	return port.Ports{Store: v.Store, Locks: v.Locks, Packs: v.Packs, Sender: v.Sender, Registry: v.Registry, Workers: v.Workers, Schedules: v.Schedules, Rows: v.Rows, Meter: v.Meter}
}

func (s *Harness) clock() time.Time {
	if s.Clock != nil {
		return s.Clock()
	}
	return s.Now()
}

// openView opens a view for a program of the present version.
func (s *Harness) openView() sim.View {
	v := s.Open()
	if s.ProgramVersion != nil {
		v.Store.SetProgramVersion(s.ProgramVersion())
	}
	return v
}

// WithoutFaults calls do with faults switched off.
func (s *Harness) WithoutFaults(do func()) {
	kept := s.Faults
	s.Faults = nil
	defer func() { s.Faults = kept }()
	do()
}

// RegisterBlock registers a block, in package p if it names none.
func (s *Harness) RegisterBlock(b workflow.Block) {
	s.Helper()
	b.Package, b.Version = cmp.Or(b.Package, "p"), "1.0.0"
	s.WithoutFaults(func() {
		if _, err := s.Catalog.RegisterBlock(context.Background(), Caller, b); err != nil {
			s.Fatal(err)
		}
	})
	s.addToWorkers(b)
}

// RegisterBlocks registers one block for each combination of traits, see traitsByBlock.
func (s *Harness) RegisterBlocks() {
	s.AddHTTPStep()
	s.RegisterBlock(workflow.Block{Name: "pure", Pure: true})
	s.RegisterBlock(workflow.Block{Name: "again", Idempotent: true, Reversible: true})
	s.RegisterBlock(workflow.Block{Name: "once", Reversible: true})
	s.RegisterBlock(workflow.Block{Name: "harmless", Reversible: true, UndoHarmless: true})
	s.RegisterBlock(workflow.Block{Name: "forever"})
}

// Publish publishes workflow p/NAME:1.0.0. rest is the definition after its head.
func (s *Harness) Publish(name, rest string) {
	s.Helper()
	source := fmt.Sprintf("package: p\nname: %s\nversion: 1.0.0\nseedEntity: device\n%s", name, rest)
	s.WithoutFaults(func() {
		if _, _, err := s.Catalog.Publish(context.Background(), Caller, []byte(source), false); err != nil {
			s.Fatalf("%v\n%s", err, source)
		}
	})
}

// ImportDevices imports entities of type device.
func (s *Harness) ImportDevices(ids ...string) {
	s.Helper()
	s.WithoutFaults(func() {
		for _, id := range ids {
			e := workflow.Entity{Type: "device", ID: id, Groups: []string{"all"}, Attributes: json.RawMessage(fmt.Sprintf(`{"name":%q}`, id))}
			if _, err := s.Catalog.PutEntity(context.Background(), Caller, e); err != nil {
				s.Fatal(err)
			}
		}
	})
}

// DeviceIDs returns the IDs of the first n devices.
func DeviceIDs(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("d%03d", i))
	}
	return ids
}

// NewStartRequest makes a request to execute workflow p/NAME on devices.
func NewStartRequest(name string, ids ...string) views.StartRequest {
	r := views.StartRequest{Workflow: "p/" + name}
	if len(ids) > 0 {
		r.ExecuteOnParameters = &workflow.Selector{IDs: ids}
	}
	return r
}

// Start starts an execution. It repeats the request until it gets an answer, as clients do.
func (s *Harness) Start(name string, ids ...string) string {
	s.Helper()
	return s.StartWith(NewStartRequest(name, ids...))
}

// StartWith is Start with any request.
func (s *Harness) StartWith(req views.StartRequest) string {
	s.Helper()
	req.IdempotencyKey = s.Nonce()
	var id string
	for range 50 {
		err := s.runHandler(func() error {
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
	s.Fatal("start was not answered in 50 attempts")
	return ""
}

// Load reads an execution.
func (s *Harness) Load(id string) (x *workflow.Execution) {
	s.Helper()
	s.WithoutFaults(func() {
		var err error
		if x, err = s.openView().Store.Load(context.Background(), Caller.Tenant, id); err != nil {
			s.Fatal(err)
		}
	})
	return x
}
