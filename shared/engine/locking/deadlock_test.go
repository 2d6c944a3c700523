package locking_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// newChild makes a run that parent, which has its locks, has started and waits for.
func (b *fixture) newChild(parent *workflow.Execution) *workflow.Execution {
	b.Helper()
	x := b.newExecution()
	b.update(x, func(x *workflow.Execution) {
		x.Parent = &workflow.Parent{Execution: parent.ID, Root: parent.Age(), Depth: 1}
	})
	b.update(parent, func(p *workflow.Execution) {
		p.State, p.Wait = sm.ExecutionWaiting, &workflow.Wait{Kind: workflow.WaitChild, Child: x.ID}
	})
	return x
}

// setBlocked makes x sleep until by lets go of the entity.
func (b *fixture) setBlocked(x, by *workflow.Execution, id string, reservation bool) {
	b.Helper()
	b.update(x, func(x *workflow.Execution) {
		x.State = sm.ExecutionScheduled
		x.BlockedBy = &workflow.BlockedBy{Entity: keys(id)[0], Execution: by.ID, Epoch: by.Epoch, Reservation: reservation}
	})
}

func (b *fixture) update(x *workflow.Execution, change func(*workflow.Execution)) {
	b.Helper()
	next := x.Clone()
	change(next)
	next.Version, next.Commit = x.Version+1, b.Nonce()
	if _, ok, err := b.ports.Store.Commit(b.ctx, x.Version, next, false); err != nil || !ok {
		b.Fatal(ok, err)
	}
	*x = *next
}

func (b *fixture) wantDeadlocked(x *workflow.Execution, want bool) {
	b.Helper()
	got, err := locking.Deadlocked(b.ctx, b.ports.Store, x)
	if err != nil || got != want {
		b.Errorf("deadlocked: %v, %v; want %v", got, err, want)
	}
}

// Mistake 8: a run that holds locks waits for one that still has to lock.
func TestDeadlocked_ChildWaitsForParent(t *testing.T) {
	b := newFixture(t)
	parent := b.newHolder("a")
	child := b.newChild(parent)
	b.setBlocked(child, parent, "a", false)
	b.wantDeadlocked(child, true)
}

func TestDeadlocked_GrandchildWaitsForRoot(t *testing.T) {
	b := newFixture(t)
	root := b.newHolder("a")
	child := b.newChild(root)
	b.commitState(child, sm.ExecutionRunning)
	grandchild := b.newChild(child)
	if grandchild.Age() != root.ID {
		t.Errorf("the grandchild is as old as %s", grandchild.Age())
	}
	b.setBlocked(grandchild, root, "a", false)
	b.wantDeadlocked(grandchild, true)
}

// Two parents, each holding what the other's child wants: the first of the
// children to be stored sees no circle yet, the second does.
func TestDeadlocked_TwoParentsAndChildren(t *testing.T) {
	b := newFixture(t)
	one, two := b.newHolder("a"), b.newHolder("b")
	ofOne, ofTwo := b.newChild(one), b.newChild(two)
	b.setBlocked(ofOne, two, "b", false)
	b.wantDeadlocked(ofOne, false)
	b.setBlocked(ofTwo, one, "a", false)
	b.wantDeadlocked(ofTwo, true)
	b.commitState(ofTwo, sm.ExecutionFailedSafeAck)
	b.wantDeadlocked(ofOne, false)
}

// A reservation is waited for like a lock: an older run has reserved what the
// child wants, and waits for the child's parent itself.
func TestDeadlocked_ThroughReservation(t *testing.T) {
	b := newFixture(t)
	older, parent := b.newExecution(), b.newHolder("a")
	child := b.newChild(parent)
	b.setBlocked(older, parent, "a", false)
	b.setBlocked(child, older, "b", true)
	b.wantDeadlocked(child, true)
	b.commitState(older, sm.ExecutionRunning) // it has its locks: its reservation is void
	b.setBlocked(b.newChild(older), parent, "a", false)
	b.wantDeadlocked(child, false)
}

// An older run that waits for the parent may have reserved what the child wants:
// to wait for it would be to wait for oneself. So the child passes it, alone or
// sharing, and the run that only started it does not have to be waited for.
func TestLocker_AwaitedChildIgnoresReservations(t *testing.T) {
	for _, mode := range []workflow.LockMode{workflow.LockExclusive, workflow.LockShared} {
		b := newFixture(t)
		older := b.newExecution()
		parent := b.newHolder("a")
		b.setBlocked(older, parent, "a", false)
		if mode == workflow.LockShared {
			other := b.newExecution()
			ask := b.request(other, 0, "b")
			ask.Mode = mode
			b.acquire(ask)
			b.commitState(other, sm.ExecutionRunning)
		}
		if ok, err := b.ports.Locks.Reserve(b.ctx, "t", keys("b")[0], workflow.Reservation{Execution: older.ID, Age: older.Age()}, ""); !ok || err != nil {
			t.Fatal(ok, err)
		}
		child := b.newChild(parent)
		b.update(child, func(x *workflow.Execution) { x.State, x.Epoch = sm.ExecutionLocking, x.Epoch+1 })
		ask := b.request(child, 0, "b")
		ask.Mode, ask.Age = mode, child.Age()
		b.wantConflict(b.acquire(ask), child, older, true)
		ask.IgnoreReservations = true
		if a := b.acquire(ask); len(a.Tokens) != 1 {
			t.Errorf("%s: %+v", mode, a)
		}
	}
}

// What is no circle: a holder that works, one that has let go, one that waits for
// something else, one that does not wait for the run it has started.
func TestDeadlocked_PlainWaiting(t *testing.T) {
	b := newFixture(t)
	parent, other := b.newHolder("a"), b.newHolder("b")
	child := b.newChild(parent)
	b.wantDeadlocked(child, false)
	b.setBlocked(child, other, "b", false)
	b.wantDeadlocked(child, false)

	b.update(other, func(x *workflow.Execution) {
		x.State, x.Wait = sm.ExecutionWaiting, &workflow.Wait{Kind: workflow.WaitInput}
	})
	b.wantDeadlocked(child, false)

	b.setBlocked(child, parent, "a", false)
	b.wantDeadlocked(child, true)
	b.update(parent, func(p *workflow.Execution) {
		p.StepRuns = []workflow.StepRun{{Seq: 1, Child: &workflow.Child{ID: child.ID, Mode: workflow.ModeFireAndForget}}}
	})
	b.wantDeadlocked(child, false) // about to be forgotten
	b.update(parent, func(p *workflow.Execution) { p.State, p.Wait = sm.ExecutionRunning, nil })
	b.wantDeadlocked(child, false) // forgotten
	b.update(parent, func(p *workflow.Execution) {
		p.State, p.Epoch = sm.ExecutionWaiting, p.Epoch+1
		p.Wait = &workflow.Wait{Kind: workflow.WaitChild, Child: child.ID}
	})
	b.wantDeadlocked(child, false) // an operator has unlocked the parent

	missing := &workflow.Execution{ID: b.NewID(), Epoch: 1}
	b.setBlocked(child, missing, "a", false)
	b.wantDeadlocked(child, false)
	b.setBlocked(child, child, "a", false) // its rounds ran out
	b.wantDeadlocked(child, false)
}

// The walk ends, be the chain as long as it likes or a circle of others.
func TestDeadlocked_ChainIsBounded(t *testing.T) {
	b := newFixture(t)
	x := b.newHolder("a")
	first := b.newChild(x)
	for range 100 {
		y := b.newHolder("a" + x.ID)
		b.setBlocked(b.newChild(x), y, "a"+x.ID, false)
		x = y
	}
	calls := b.CallCount()
	b.setBlocked(first, x, "z", false)
	b.wantDeadlocked(first, false)

	one, two := b.newHolder("b"), b.newHolder("c")
	ofOne, ofTwo := b.newChild(one), b.newChild(two)
	b.setBlocked(ofOne, two, "c", false)
	b.setBlocked(ofTwo, one, "b", false)
	b.setBlocked(first, one, "b", false)
	b.wantDeadlocked(first, false) // not its own circle: one of the two ends
	if n := b.CallCount() - calls; n > 150 {
		t.Errorf("%d calls", n)
	}
}
