package locking_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// child makes a run that parent, which has its locks, has started and waits for.
func (b *bench) child(parent *workflow.Execution) *workflow.Execution {
	b.Helper()
	x := b.run()
	b.store(x, func(x *workflow.Execution) {
		x.Parent = &workflow.Parent{Execution: parent.ID, Root: parent.Age(), Depth: 1}
	})
	b.store(parent, func(p *workflow.Execution) {
		p.State, p.Wait = sm.ExecutionWaiting, &workflow.Wait{Kind: workflow.WaitChild, Child: x.ID}
	})
	return x
}

// blocked makes x sleep until by lets go of the entity.
func (b *bench) blocked(x, by *workflow.Execution, id string, reservation bool) {
	b.Helper()
	b.store(x, func(x *workflow.Execution) {
		x.State = sm.ExecutionScheduled
		x.BlockedBy = &workflow.BlockedBy{Entity: keys(id)[0], Execution: by.ID, Epoch: by.Epoch, Reservation: reservation}
	})
}

func (b *bench) store(x *workflow.Execution, change func(*workflow.Execution)) {
	b.Helper()
	next := x.Clone()
	change(next)
	next.Version, next.Commit = x.Version+1, b.Nonce()
	if _, ok, err := b.view.Store.Commit(b.ctx, x.Version, next, false); err != nil || !ok {
		b.Fatal(ok, err)
	}
	*x = *next
}

func (b *bench) deadlocked(x *workflow.Execution, want bool) {
	b.Helper()
	got, err := locking.Deadlocked(b.ctx, b.view.Store, x)
	if err != nil || got != want {
		b.Errorf("deadlocked: %v, %v; want %v", got, err, want)
	}
}

// Mistake 8: a run that holds locks waits for one that still has to lock.
func TestMistake08ChildWaitsForItsParent(t *testing.T) {
	b := newBench(t)
	parent := b.holder("a")
	child := b.child(parent)
	b.blocked(child, parent, "a", false)
	b.deadlocked(child, true)
}

func TestMistake08GrandchildWaitsForTheRoot(t *testing.T) {
	b := newBench(t)
	root := b.holder("a")
	child := b.child(root)
	b.to(child, sm.ExecutionRunning)
	grandchild := b.child(child)
	if grandchild.Age() != root.ID {
		t.Errorf("the grandchild is as old as %s", grandchild.Age())
	}
	b.blocked(grandchild, root, "a", false)
	b.deadlocked(grandchild, true)
}

// Two parents, each holding what the other's child wants: the first of the
// children to be stored sees no circle yet, the second does.
func TestMistake08TwoFamilies(t *testing.T) {
	b := newBench(t)
	one, two := b.holder("a"), b.holder("b")
	ofOne, ofTwo := b.child(one), b.child(two)
	b.blocked(ofOne, two, "b", false)
	b.deadlocked(ofOne, false)
	b.blocked(ofTwo, one, "a", false)
	b.deadlocked(ofTwo, true)
	b.to(ofTwo, sm.ExecutionFailedSafeAck)
	b.deadlocked(ofOne, false)
}

// A reservation is waited for like a lock: an older run has reserved what the
// child wants, and waits for the child's parent itself.
func TestMistake08ThroughAReservation(t *testing.T) {
	b := newBench(t)
	older, parent := b.run(), b.holder("a")
	child := b.child(parent)
	b.blocked(older, parent, "a", false)
	b.blocked(child, older, "b", true)
	b.deadlocked(child, true)
	b.to(older, sm.ExecutionRunning) // it has its locks: its reservation is void
	b.blocked(b.child(older), parent, "a", false)
	b.deadlocked(child, false)
}

// An older run that waits for the parent may have reserved what the child wants:
// to wait for it would be to wait for oneself. So the child passes it, alone or
// sharing, and the run that only started it does not have to be waited for.
func TestMistake08ReservationsArePassed(t *testing.T) {
	for _, mode := range []workflow.LockMode{workflow.LockExclusive, workflow.LockShared} {
		b := newBench(t)
		older := b.run()
		parent := b.holder("a")
		b.blocked(older, parent, "a", false)
		if mode == workflow.LockShared {
			other := b.run()
			ask := b.ask(other, 0, "b")
			ask.Mode = mode
			b.acquire(ask)
			b.to(other, sm.ExecutionRunning)
		}
		if ok, err := b.view.Locks.Reserve(b.ctx, "t", keys("b")[0], workflow.Reservation{Execution: older.ID, Age: older.Age()}, ""); !ok || err != nil {
			t.Fatal(ok, err)
		}
		child := b.child(parent)
		b.store(child, func(x *workflow.Execution) { x.State, x.Epoch = sm.ExecutionLocking, x.Epoch+1 })
		ask := b.ask(child, 0, "b")
		ask.Mode, ask.Age = mode, child.Age()
		b.conflict(b.acquire(ask), child, older, true)
		ask.Passes = true
		if a := b.acquire(ask); len(a.Tokens) != 1 {
			t.Errorf("%s: %+v", mode, a)
		}
	}
}

// What is no circle: a holder that works, one that has let go, one that waits for
// something else, one that does not wait for the run it has started.
func TestWaitingIsNoDeadlock(t *testing.T) {
	b := newBench(t)
	parent, other := b.holder("a"), b.holder("b")
	child := b.child(parent)
	b.deadlocked(child, false)
	b.blocked(child, other, "b", false)
	b.deadlocked(child, false)

	b.store(other, func(x *workflow.Execution) {
		x.State, x.Wait = sm.ExecutionWaiting, &workflow.Wait{Kind: workflow.WaitInput}
	})
	b.deadlocked(child, false)

	b.blocked(child, parent, "a", false)
	b.deadlocked(child, true)
	b.store(parent, func(p *workflow.Execution) {
		p.Runs = []workflow.StepRun{{RunSeq: 1, Child: &workflow.Child{ID: child.ID, Mode: workflow.ModeFireAndForget}}}
	})
	b.deadlocked(child, false) // about to be forgotten
	b.store(parent, func(p *workflow.Execution) { p.State, p.Wait = sm.ExecutionRunning, nil })
	b.deadlocked(child, false) // forgotten
	b.store(parent, func(p *workflow.Execution) {
		p.State, p.Epoch = sm.ExecutionWaiting, p.Epoch+1
		p.Wait = &workflow.Wait{Kind: workflow.WaitChild, Child: child.ID}
	})
	b.deadlocked(child, false) // an operator has unlocked the parent

	missing := &workflow.Execution{ID: b.NewID(), Epoch: 1}
	b.blocked(child, missing, "a", false)
	b.deadlocked(child, false)
	b.blocked(child, child, "a", false) // its rounds ran out
	b.deadlocked(child, false)
}

// The walk ends, be the chain as long as it likes or a circle of others.
func TestWalkIsBounded(t *testing.T) {
	b := newBench(t)
	x := b.holder("a")
	first := b.child(x)
	for range 100 {
		y := b.holder("a" + x.ID)
		b.blocked(b.child(x), y, "a"+x.ID, false)
		x = y
	}
	calls := b.Calls()
	b.blocked(first, x, "z", false)
	b.deadlocked(first, false)

	one, two := b.holder("b"), b.holder("c")
	ofOne, ofTwo := b.child(one), b.child(two)
	b.blocked(ofOne, two, "c", false)
	b.blocked(ofTwo, one, "b", false)
	b.blocked(first, one, "b", false)
	b.deadlocked(first, false) // not its own circle: one of the two ends
	if n := b.Calls() - calls; n > 150 {
		t.Errorf("%d calls", n)
	}
}
