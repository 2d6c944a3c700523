package locking_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// fixture is a simulated world with executions that only take locks.
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

// newExecution makes an execution that is locking at epoch 1. Each is younger than the
// ones before.
func (f *fixture) newExecution() *workflow.Execution {
	f.Helper()
	x := &workflow.Execution{Schema: 1, Tenant: "t", ID: f.NewID(), State: sm.ExecutionLocking, Epoch: 1, Version: 1, Commit: f.Nonce()}
	if ok, err := f.ports.Store.Create(f.ctx, x); err != nil || !ok {
		f.Fatal(ok, err)
	}
	return x
}

// commitState commits the execution in another state, and returns the waiters to wake.
func (f *fixture) commitState(x *workflow.Execution, state sm.ExecutionState) []string {
	f.Helper()
	next := x.Clone()
	next.State, next.Version, next.Commit = state, x.Version+1, f.Nonce()
	if state == sm.ExecutionLocking {
		next.Epoch++
	}
	waiters, ok, err := f.ports.Store.Commit(f.ctx, x.Version, next, workflow.CommitOptions{Release: !sm.HoldsLocks(state)})
	if err != nil || !ok {
		f.Fatal(ok, err)
	}
	*x = *next
	return waiters
}

// request returns the request of a handler that has read x as it is now.
func (f *fixture) request(x *workflow.Execution, conflicts int, ids ...string) locking.Request {
	return locking.Request{Tenant: "t", Execution: x.ID, Epoch: x.Epoch, Conflicts: conflicts, Keys: keys(ids...), Now: f.Now()}
}

func lockerOf(v sim.View) *locking.Locker {
	return &locking.Locker{Store: v.Store, Locks: v.Locks, Parallel: 1, ReserveAfter: 2}
}

func (f *fixture) acquire(req locking.Request) locking.Result {
	f.Helper()
	a, err := lockerOf(f.Open()).Acquire(f.ctx, req)
	if err != nil {
		f.Fatal(err)
	}
	return a
}

// handler starts a task that acquires locks; the result is set when the task has ended.
func (f *fixture) handler(name string, req locking.Request) (*faults.Task, *locking.Result) {
	a := &locking.Result{}
	return f.StartTask(name, func() { *a = f.acquire(req) }), a
}

// newHolder makes an execution that holds the locks of entities.
func (f *fixture) newHolder(ids ...string) *workflow.Execution {
	f.Helper()
	x := f.newExecution()
	if a := f.acquire(f.request(x, 0, ids...)); len(a.Tokens) != len(ids) {
		f.Fatalf("got %+v", a)
	}
	f.commitState(x, sm.ExecutionRunning)
	return x
}

func (f *fixture) lockItem(id string) workflow.Lock {
	f.Helper()
	k := keys(id)
	items, err := f.ports.Locks.Read(f.ctx, "t", k, true)
	if err != nil {
		f.Fatal(err)
	}
	return items[k[0]]
}

func (f *fixture) waiters(x *workflow.Execution) []string {
	f.Helper()
	got, err := f.ports.Store.Load(f.ctx, "t", x.ID)
	if err != nil {
		f.Fatal(err)
	}
	return got.Waiters
}

// waitBefore runs the task until just before the named call, and fails the test if the
// task ends first.
func (f *fixture) waitBefore(t *faults.Task, call string) {
	f.Helper()
	if !t.RunUntil(call) {
		f.Fatalf("the handler ended without calling %s; calls: %v", call, f.Trace())
	}
}

// wantConflict checks that the result is a conflict with by, and that waiter is
// registered with it.
func (f *fixture) wantConflict(a locking.Result, waiter, by *workflow.Execution, reservation bool) {
	f.Helper()
	switch c := a.Conflict; {
	case c == nil || a.Stale || a.Tokens != nil:
		f.Fatalf("got %+v, want a conflict", a)
	case c.Execution != by.ID || c.Reservation != reservation || (!reservation && c.Epoch != by.Epoch):
		f.Fatalf("conflict with %+v, want %s at epoch %d, reservation %v", c, by.ID, by.Epoch, reservation)
	}
	if !slices.Contains(f.waiters(by), waiter.ID) || a.WaiterSetFull {
		f.Errorf("%s is not registered with %s", waiter.ID, by.ID)
	}
}

func (f *fixture) wantTokens(a locking.Result, want map[string]int64) {
	f.Helper()
	got := map[string]int64{}
	for k, n := range a.Tokens {
		got[k.ID] = n
	}
	if diff := cmp.Diff(want, got); diff != "" || a.Conflict != nil || a.Stale {
		f.Fatalf("got %+v: %s", a, diff)
	}
}
