package locking_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// newChild makes a child execution that parent, which keeps its locks, waits for.
func (f *fixture) newChild(parent *workflow.Execution) *workflow.Execution {
	f.Helper()
	x := f.newExecution()
	f.update(x, func(x *workflow.Execution) {
		x.Parent = &workflow.Parent{Execution: parent.ID, Root: parent.Age(), Depth: 1}
	})
	f.update(parent, func(p *workflow.Execution) {
		p.State, p.Wait = sm.ExecutionWaiting, &workflow.Wait{Kind: workflow.WaitChild, Child: x.ID}
	})
	return x
}

// setBlocked makes x wait for a lock that by holds or has reserved.
func (f *fixture) setBlocked(x, by *workflow.Execution, id string, reservation bool) {
	f.Helper()
	f.update(x, func(x *workflow.Execution) {
		x.State = sm.ExecutionScheduled
		x.BlockedBy = &workflow.BlockedBy{Entity: keys(id)[0], Execution: by.ID, Epoch: by.Epoch, Reservation: reservation}
	})
}

func (f *fixture) update(x *workflow.Execution, change func(*workflow.Execution)) {
	f.Helper()
	next := x.Clone()
	change(next)
	next.Version, next.Commit = x.Version+1, f.Nonce()
	if _, ok, err := f.ports.Store.Commit(f.ctx, x.Version, next, workflow.CommitOptions{}); err != nil || !ok {
		f.Fatal(ok, err)
	}
	*x = *next
}

func (f *fixture) wantDeadlocked(x *workflow.Execution, want bool) {
	f.Helper()
	got, err := locking.Deadlocked(f.ctx, f.ports.Store, x)
	if err != nil || got != want {
		f.Errorf("deadlocked: %v, %v; want %v", got, err, want)
	}
}

// Fault 8: an execution that holds locks waits for one that still has to take them.
func TestDeadlocked_ChildWaitsForParent(t *testing.T) {
	f := newFixture(t)
	parent := f.newHolder("a")
	child := f.newChild(parent)
	f.setBlocked(child, parent, "a", false)
	f.wantDeadlocked(child, true)
}

func TestDeadlocked_GrandchildWaitsForRoot(t *testing.T) {
	f := newFixture(t)
	root := f.newHolder("a")
	child := f.newChild(root)
	f.commitState(child, sm.ExecutionRunning)
	grandchild := f.newChild(child)
	if grandchild.Age() != root.ID {
		t.Errorf("the grandchild has the age of %s, want that of the root", grandchild.Age())
	}
	f.setBlocked(grandchild, root, "a", false)
	f.wantDeadlocked(grandchild, true)
}

// Two parents each hold what the other's child wants. The first child to be stored sees
// no cycle yet, the second does.
func TestDeadlocked_TwoParentsAndChildren(t *testing.T) {
	f := newFixture(t)
	one, two := f.newHolder("a"), f.newHolder("b")
	ofOne, ofTwo := f.newChild(one), f.newChild(two)
	f.setBlocked(ofOne, two, "b", false)
	f.wantDeadlocked(ofOne, false)
	f.setBlocked(ofTwo, one, "a", false)
	f.wantDeadlocked(ofTwo, true)
	f.commitState(ofTwo, sm.ExecutionFailedSafeAck)
	f.wantDeadlocked(ofOne, false)
}

// Waiting for a reservation is like waiting for a lock: an older execution has reserved
// what the child wants, and waits for the child's parent itself.
func TestDeadlocked_ThroughReservation(t *testing.T) {
	f := newFixture(t)
	older, parent := f.newExecution(), f.newHolder("a")
	child := f.newChild(parent)
	f.setBlocked(older, parent, "a", false)
	f.setBlocked(child, older, "b", true)
	f.wantDeadlocked(child, true)
	f.commitState(older, sm.ExecutionRunning) // it has its locks, so its reservation is void
	f.setBlocked(f.newChild(older), parent, "a", false)
	f.wantDeadlocked(child, false)
}

// An older execution that waits for the parent may have reserved what the child wants.
// If the child waited for it, it would wait for itself. So a child that is awaited
// ignores reservations, for exclusive and shared locks alike.
func TestLocker_AwaitedChildIgnoresReservations(t *testing.T) {
	for _, mode := range []workflow.LockMode{workflow.LockExclusive, workflow.LockShared} {
		f := newFixture(t)
		older := f.newExecution()
		parent := f.newHolder("a")
		f.setBlocked(older, parent, "a", false)
		if mode == workflow.LockShared {
			other := f.newExecution()
			req := f.request(other, 0, "b")
			req.Mode = mode
			f.acquire(req)
			f.commitState(other, sm.ExecutionRunning)
		}
		if ok, err := f.ports.Locks.Reserve(f.ctx, "t", keys("b")[0], workflow.Reservation{Execution: older.ID, Age: older.Age()}, ""); !ok || err != nil {
			t.Fatal(ok, err)
		}
		child := f.newChild(parent)
		f.update(child, func(x *workflow.Execution) { x.State, x.Epoch = sm.ExecutionLocking, x.Epoch+1 })
		req := f.request(child, 0, "b")
		req.Mode, req.Age = mode, child.Age()
		f.wantConflict(f.acquire(req), child, older, true)
		req.IgnoreReservations = true
		if a := f.acquire(req); len(a.Tokens) != 1 {
			t.Errorf("%s: %+v", mode, a)
		}
	}
}

// These are not deadlocks: a holder that is running, one that has released, one that
// waits for something else, and one that does not wait for its child.
func TestDeadlocked_PlainWaiting(t *testing.T) {
	f := newFixture(t)
	parent, other := f.newHolder("a"), f.newHolder("b")
	child := f.newChild(parent)
	f.wantDeadlocked(child, false)
	f.setBlocked(child, other, "b", false)
	f.wantDeadlocked(child, false)

	f.update(other, func(x *workflow.Execution) {
		x.State, x.Wait = sm.ExecutionWaiting, &workflow.Wait{Kind: workflow.WaitInput}
	})
	f.wantDeadlocked(child, false)

	f.setBlocked(child, parent, "a", false)
	f.wantDeadlocked(child, true)
	f.update(parent, func(p *workflow.Execution) {
		p.StepRuns = []workflow.StepRun{{Seq: 1, Child: &workflow.Child{ID: child.ID, Mode: workflow.ModeFireAndForget}}}
	})
	f.wantDeadlocked(child, false) // a fire-and-forget child
	f.update(parent, func(p *workflow.Execution) { p.State, p.Wait = sm.ExecutionRunning, nil })
	f.wantDeadlocked(child, false) // the parent does not wait any more
	f.update(parent, func(p *workflow.Execution) {
		p.State, p.Epoch = sm.ExecutionWaiting, p.Epoch+1
		p.Wait = &workflow.Wait{Kind: workflow.WaitChild, Child: child.ID}
	})
	f.wantDeadlocked(child, false) // an operator has unlocked the parent

	missing := &workflow.Execution{ID: f.NewID(), Epoch: 1}
	f.setBlocked(child, missing, "a", false)
	f.wantDeadlocked(child, false)
	f.setBlocked(child, child, "a", false) // its rounds ran out
	f.wantDeadlocked(child, false)
}

// The check is bounded, for a long chain and for a cycle of other executions.
func TestDeadlocked_ChainIsBounded(t *testing.T) {
	f := newFixture(t)
	x := f.newHolder("a")
	first := f.newChild(x)
	for range 100 {
		y := f.newHolder("a" + x.ID)
		f.setBlocked(f.newChild(x), y, "a"+x.ID, false)
		x = y
	}
	calls := f.CallCount()
	f.setBlocked(first, x, "z", false)
	f.wantDeadlocked(first, false)

	one, two := f.newHolder("b"), f.newHolder("c")
	ofOne, ofTwo := f.newChild(one), f.newChild(two)
	f.setBlocked(ofOne, two, "c", false)
	f.setBlocked(ofTwo, one, "b", false)
	f.setBlocked(first, one, "b", false)
	f.wantDeadlocked(first, false) // not its own cycle: one of the other two will end
	if n := f.CallCount() - calls; n > 150 {
		t.Errorf("%d calls, want at most 150", n)
	}
}
