package locking_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim"
	"github.com/lockstep-run/lockstep/tests/sim/faults"
)

// fixture is a world with runs that do nothing but lock.
type fixture struct {
	*testing.T
	*sim.World
	ports sim.View
	ctx   context.Context
}

func newFixture(t *testing.T) *fixture {
	w := sim.New(1)
	return &fixture{t, w, w.Open(), t.Context()}
}

func keys(ids ...string) (all []workflow.EntityKey) {
	for _, id := range ids {
		all = append(all, workflow.EntityKey{Type: "device", ID: id})
	}
	return all
}

// newExecution makes a run that locks at epoch 1. Later ones are younger.
func (b *fixture) newExecution() *workflow.Execution {
	b.Helper()
	x := &workflow.Execution{Schema: 1, Tenant: "t", ID: b.NewID(), State: sm.ExecutionLocking, Epoch: 1, Version: 1, Commit: b.Nonce()}
	if ok, err := b.ports.Store.Create(b.ctx, x); err != nil || !ok {
		b.Fatal(ok, err)
	}
	return x
}

// commitState commits the run in another state, and returns whom that wakes.
func (b *fixture) commitState(x *workflow.Execution, state sm.ExecutionState) []string {
	b.Helper()
	next := x.Clone()
	next.State, next.Version, next.Commit = state, x.Version+1, b.Nonce()
	if state == sm.ExecutionLocking {
		next.Epoch++
	}
	waiters, ok, err := b.ports.Store.Commit(b.ctx, x.Version, next, !sm.HoldsLocks(state))
	if err != nil || !ok {
		b.Fatal(ok, err)
	}
	*x = *next
	return waiters
}

// request is what a handler asks that sees x as it is now.
func (b *fixture) request(x *workflow.Execution, conflicts int, ids ...string) locking.Request {
	return locking.Request{Tenant: "t", Execution: x.ID, Epoch: x.Epoch, Conflicts: conflicts, Keys: keys(ids...), Now: b.Now()}
}

func lockerOf(v sim.View) *locking.Locker {
	return &locking.Locker{Store: v.Store, Locks: v.Locks, Parallel: 1, ReserveAfter: 2}
}

func (b *fixture) acquire(ask locking.Request) locking.Result {
	b.Helper()
	a, err := lockerOf(b.Open()).Acquire(b.ctx, ask)
	if err != nil {
		b.Fatal(err)
	}
	return a
}

// handler is a task that acquires; its answer is there once it is over.
func (b *fixture) handler(name string, ask locking.Request) (*faults.Task, *locking.Result) {
	a := &locking.Result{}
	return b.StartTask(name, func() { *a = b.acquire(ask) }), a
}

// holds makes a run that holds entities.
func (b *fixture) newHolder(ids ...string) *workflow.Execution {
	b.Helper()
	x := b.newExecution()
	if a := b.acquire(b.request(x, 0, ids...)); len(a.Tokens) != len(ids) {
		b.Fatalf("got %+v", a)
	}
	b.commitState(x, sm.ExecutionRunning)
	return x
}

func (b *fixture) lockItem(id string) workflow.Lock {
	b.Helper()
	k := keys(id)
	items, err := b.ports.Locks.Read(b.ctx, "t", k)
	if err != nil {
		b.Fatal(err)
	}
	return items[k[0]]
}

func (b *fixture) waiters(x *workflow.Execution) []string {
	b.Helper()
	got, err := b.ports.Store.Load(b.ctx, "t", x.ID)
	if err != nil {
		b.Fatal(err)
	}
	return got.Waiters
}

// waitBefore fails the test unless the task stands before such a call.
func (b *fixture) waitBefore(t *faults.Task, call string) {
	b.Helper()
	if !t.RunUntil(call) {
		b.Fatalf("the handler has ended without a %s; calls: %v", call, b.Trace())
	}
}

// wantConflict wants the waiter to have met by, and to be registered with it.
func (b *fixture) wantConflict(a locking.Result, waiter, by *workflow.Execution, reservation bool) {
	b.Helper()
	switch c := a.Conflict; {
	case c == nil || a.Stale || a.Tokens != nil:
		b.Fatalf("answered %+v, want a conflict", a)
	case c.Execution != by.ID || c.Reservation != reservation || (!reservation && c.Epoch != by.Epoch):
		b.Fatalf("in conflict with %+v, want %s at epoch %d, reservation %v", c, by.ID, by.Epoch, reservation)
	}
	if !slices.Contains(b.waiters(by), waiter.ID) {
		b.Errorf("%s is not registered with %s", waiter.ID, by.ID)
	}
}

func (b *fixture) wantTokens(a locking.Result, want map[string]int64) {
	b.Helper()
	got := map[string]int64{}
	for k, n := range a.Tokens {
		got[k.ID] = n
	}
	if diff := cmp.Diff(want, got); diff != "" || a.Conflict != nil || a.Stale {
		b.Fatalf("answered %+v: %s", a, diff)
	}
}
