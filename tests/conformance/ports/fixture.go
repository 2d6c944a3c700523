// Package ports is the conformance kit of the engine's and the worker's ports: what
// every implementation must do, whatever it keeps its items in. The tests of
// package ports_test run it on DynamoDB and SQS, those of shared/sim on the
// simulation. Each file tests the port it is named for; claims.go is the worker's
// side of packs.
//
// The kit uses times in whole milliseconds, the precision that an implementation must
// keep.
package ports

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Implementation is one implementation of the ports.
type Implementation struct {
	Store     port.Store
	Locks     port.Locks
	Packs     port.Packs
	Claims    worker.Packs
	Registry  port.Registry
	Schedules port.Schedules
	Workers   port.Workers
	Rows      port.Rows

	// LoseReply performs the next write and drops its reply.
	LoseReply func()
}

// Open opens an implementation for one test. Implementations may share their items:
// each test has its own tenant.
type Open func(t *testing.T) Implementation

// compareRawJSON compares JSON as one value instead of byte by byte.
var compareRawJSON = cmp.Comparer(func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })

// baseTime is the time of everything in the kit.
var baseTime = time.Date(2026, 11, 21, 5, 15, 10, 123_000_000, time.UTC)

// fixture is an implementation with a tenant for one test.
type fixture struct {
	*testing.T
	Implementation
	ctx    context.Context
	tenant string
}

func (s *fixture) loseReply() {
	s.Helper()
	s.LoseReply()
}

// runParallel runs tests in parallel, each on its own fixture.
func runParallel(t *testing.T, open Open, tests map[string]func(s *fixture)) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			test(&fixture{t, open(t), ctx, "t" + uuid.NewString()[:8]})
		})
	}
}

func must[T any](s *fixture) func(v T, err error) T {
	return func(v T, err error) T {
		s.Helper()
		if err != nil {
			s.Fatal(err)
		}
		return v
	}
}

func (s *fixture) noError(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// wantApplied fails the test unless a conditional write was applied as expected.
func (s *fixture) wantApplied(expected bool) func(ok bool, err error) {
	s.Helper()
	return func(ok bool, err error) {
		s.Helper()
		if err != nil {
			s.Fatal(err)
		}
		if ok != expected {
			s.Fatalf("applied %v, want %v", ok, expected)
		}
	}
}

func (s *fixture) wantCode(err error, code workflow.Code) {
	s.Helper()
	if !workflow.Is(err, code) {
		s.Fatalf("got error %v, want code %s", err, code)
	}
}

const racers = 20

// race runs try in 20 goroutines and returns those that succeeded.
func (s *fixture) race(try func(i int) (bool, error)) (winners []int) {
	s.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range racers {
		wg.Go(func() {
			<-start
			ok, err := try(i)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				s.Errorf("racer %d: %v", i, err)
			}
			if ok {
				winners = append(winners, i)
			}
		})
	}
	close(start)
	wg.Wait()
	return winners
}

func (s *fixture) oneWinner(try func(i int) (bool, error)) int {
	s.Helper()
	winners := s.race(try)
	if len(winners) != 1 {
		s.Fatalf("%d of %d succeeded, want 1: %v", len(winners), racers, winners)
	}
	return winners[0]
}

// newID is an execution id; later calls return greater ones.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// newExecution is an execution with a value in every field.
func (s *fixture) newExecution(state statemachines.ExecutionState) *workflow.Execution {
	id := newID()
	at := func(n int) time.Time { return baseTime.Add(time.Duration(n) * 17 * time.Millisecond) }
	return &workflow.Execution{
		Schema: workflow.SchemaVersion, EngineVersion: "0.1.0", Tenant: s.tenant, ID: id,
		State: state, Version: 1, Epoch: 3, Try: 1, Commit: uuid.NewString(),
		Workflow: workflow.Ref{Package: "fleet", Name: "upgrade_firmware", Version: "1.0.0"},
		Blocks:   map[string]string{"fleet/upgrade:1": "1.2.0"},
		Input: workflow.Input{
			Parameters: json.RawMessage(`{"version":"17.3"}`),
			Selector:   &workflow.Selector{Type: "device", IDs: []string{"sw-007"}},
		},
		CreatedAt: at(0), StartedAt: at(1), CreatedBy: "ann", Labels: map[string]string{"site": "b"},
		Scope: workflow.Scope{
			Counts:    map[string]int{"device": 1},
			Inline:    []workflow.ScopeEntity{{Key: workflow.EntityKey{Type: "device", ID: "sw-007"}, Token: 8, Attributes: json.RawMessage(`{"a":1}`)}},
			HeldEpoch: 3,
		},
		Conflicts: 1,
		BlockedBy: &workflow.BlockedBy{Entity: workflow.EntityKey{Type: "device", ID: "sw-007"}, Execution: newID(), Epoch: 2, Since: at(2)},
		LockSince: at(2), StepRunSeq: 1,
		StepRuns: []workflow.StepRun{{
			Seq: 1, Label: "upgrade", Ordinal: 1, Kind: workflow.JobExecute, Status: statemachines.StepRunning, EnteredAt: at(3),
			Block: "fleet/upgrade:1.2.0", Pool: "default", Idempotent: true, Jobs: 1, PackSize: 1, MaxAttempts: 3, DispatchedAt: at(3),
			Counts: workflow.Counts{Failed: 1, Failure: &workflow.Failure{Code: "HTTP_500", Message: "no", Retryable: true}},
		}},
		DueAt: at(100), Cause: workflow.CauseStepFailed, Reason: "no",
		Error:        &workflow.Failure{Code: "HTTP_500", Message: "no", Step: "upgrade", Entity: "device/sw-007", Details: json.RawMessage(`{"status":500}`)},
		Cancellation: &workflow.Cancellation{Source: "user", Reason: "stop", By: "bob", At: at(5)},
		Events:       makeEvents(4, 3), Sequence: 6, PagedThrough: 3,
		Cost: workflow.Cost{WriteUnits: map[string]float64{"executions": 2}, ReadUnits: map[string]float64{"locks": 0.5}, DynamoRequests: 3, QueueRequests: 0.1, Invocations: 1},
	}
}

// createExecution stores an execution in a state and returns it.
func (s *fixture) createExecution(state statemachines.ExecutionState) *workflow.Execution {
	s.Helper()
	x := s.newExecution(state)
	s.wantApplied(true)(s.Store.Create(s.ctx, x))
	return x
}

// wantWaiter fails the test unless a waiter is, or is not, added to a holder that has
// released no entity.
func (s *fixture) wantWaiter(expected bool, holder string, epoch int64, waiter string) {
	s.Helper()
	_, ok, err := s.Store.AddHolderWaiter(s.ctx, s.tenant, workflow.BlockedBy{Execution: holder, Epoch: epoch}, waiter)
	s.wantApplied(expected)(ok, err)
}

func (s *fixture) wantReserverWaiter(expected bool, reserver string) {
	s.Helper()
	_, ok, err := s.Store.AddReserverWaiter(s.ctx, s.tenant, reserver, newID())
	s.wantApplied(expected)(ok, err)
}

// commitState commits x in another state.
func (s *fixture) commitState(x *workflow.Execution, to statemachines.ExecutionState, release bool) (*workflow.Execution, []string) {
	s.Helper()
	next := nextVersion(x, to)
	waiters, ok, err := s.Store.Commit(s.ctx, x.Version, next, workflow.CommitOptions{Release: release})
	s.wantApplied(true)(ok, err)
	return next, waiters
}

func nextVersion(x *workflow.Execution, to statemachines.ExecutionState) *workflow.Execution {
	next := x.Clone()
	next.State, next.Version, next.Commit = to, x.Version+1, uuid.NewString()
	return next
}

// makeEvents makes n events from a sequence number on, of all layers; together they
// use all fields.
func makeEvents(first int64, n int) []workflow.Event {
	var all []workflow.Event
	for i := range n {
		e := workflow.Event{Sequence: first + int64(i), At: baseTime.Add(time.Duration(i%3) * time.Millisecond)}
		switch e.Sequence % 3 {
		case 0:
			e.Layer, e.Type, e.From, e.To, e.Actor = "execution", "lock.requested", "SCHEDULED", "LOCKING", "ann"
		case 1:
			e.Layer, e.Type, e.From, e.To, e.Step = "step", "step.entered", "PENDING", "RUNNING", "upgrade"
			e.Data = json.RawMessage(fmt.Sprintf(`{"jobs":%d}`, i))
		case 2:
			e.Layer, e.Type, e.Entity, e.From, e.To = "workflow", "odd", "device/sw-007", "RUNNING", "COMPLETED"
		}
		all = append(all, e)
	}
	return all
}
