package locking_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// bench is a world with runs that do nothing but lock.
type bench struct {
	*testing.T
	*sim.World
	view sim.View
	ctx  context.Context
}

func newBench(t *testing.T) *bench {
	w := sim.New(1)
	return &bench{t, w, w.Open(), t.Context()}
}

func keys(ids ...string) (all []workflow.EntityKey) {
	for _, id := range ids {
		all = append(all, workflow.EntityKey{Type: "device", ID: id})
	}
	return all
}

// run makes a run that locks at epoch 1. Later ones are younger.
func (b *bench) run() *workflow.Execution {
	b.Helper()
	x := &workflow.Execution{Schema: 1, Tenant: "t", ID: b.NewID(), State: sm.ExecutionLocking, Epoch: 1, Version: 1, Commit: b.Nonce()}
	if ok, err := b.view.Store.Create(b.ctx, x); err != nil || !ok {
		b.Fatal(ok, err)
	}
	return x
}

// to commits the run in another state, and returns whom that wakes.
func (b *bench) to(x *workflow.Execution, state sm.ExecutionState) []string {
	b.Helper()
	next := x.Clone()
	next.State, next.Version, next.Commit = state, x.Version+1, b.Nonce()
	if state == sm.ExecutionLocking {
		next.Epoch++
	}
	waiters, ok, err := b.view.Store.Commit(b.ctx, x.Version, next, !sm.Holding(state))
	if err != nil || !ok {
		b.Fatal(ok, err)
	}
	*x = *next
	return waiters
}

// ask is what a handler asks that sees x as it is now.
func (b *bench) ask(x *workflow.Execution, conflicts int, ids ...string) locking.Ask {
	return locking.Ask{Tenant: "t", Execution: x.ID, Epoch: x.Epoch, Conflicts: conflicts, Keys: keys(ids...), Now: b.Now()}
}

func lockerOf(v sim.View) *locking.Locker {
	return &locking.Locker{Store: v.Store, Locks: v.Locks, Parallel: 1, ReserveAfter: 2}
}

func (b *bench) acquire(ask locking.Ask) locking.Answer {
	b.Helper()
	a, err := lockerOf(b.Open()).Acquire(b.ctx, ask)
	if err != nil {
		b.Fatal(err)
	}
	return a
}

// handler is a task that acquires; its answer is there once it is over.
func (b *bench) handler(name string, ask locking.Ask) (*fate.Task, *locking.Answer) {
	a := &locking.Answer{}
	return b.Task(name, func() { *a = b.acquire(ask) }), a
}

// holds makes a run that holds entities.
func (b *bench) holder(ids ...string) *workflow.Execution {
	b.Helper()
	x := b.run()
	if a := b.acquire(b.ask(x, 0, ids...)); len(a.Tokens) != len(ids) {
		b.Fatalf("got %+v", a)
	}
	b.to(x, sm.ExecutionRunning)
	return x
}

func (b *bench) item(id string) workflow.Lock {
	b.Helper()
	k := keys(id)
	items, err := b.view.Locks.Read(b.ctx, "t", k)
	if err != nil {
		b.Fatal(err)
	}
	return items[k[0]]
}

func (b *bench) waiters(x *workflow.Execution) []string {
	b.Helper()
	got, err := b.view.Store.Load(b.ctx, "t", x.ID)
	if err != nil {
		b.Fatal(err)
	}
	return got.Waiters
}

// before fails the test unless the task stands before such a call.
func (b *bench) before(t *fate.Task, call string) {
	b.Helper()
	if !t.Until(call) {
		b.Fatalf("the handler has ended without a %s; calls: %v", call, b.Trace())
	}
}

// conflict wants the waiter to have met by, and to be registered with it.
func (b *bench) conflict(a locking.Answer, waiter, by *workflow.Execution, reservation bool) {
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

func (b *bench) tokens(a locking.Answer, want map[string]int64) {
	b.Helper()
	got := map[string]int64{}
	for k, n := range a.Tokens {
		got[k.ID] = n
	}
	if diff := cmp.Diff(want, got); diff != "" || a.Conflict != nil || a.Stale {
		b.Fatalf("answered %+v: %s", a, diff)
	}
}
