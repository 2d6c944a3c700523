package locking_test

import (
	"slices"
	"testing"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// newChild makes a child execution that parent, which keeps its locks, waits for.
func (f *fixture) newChild(parent *workflow.Execution) *workflow.Execution {
	f.Helper()
	x := f.newExecution()
	seq := parent.StepRunSeq + 1
	f.update(x, func(x *workflow.Execution) {
		x.Parent = &workflow.Parent{Execution: parent.ID, StepRunSeq: seq, Root: parent.Root(), Depth: 1, Waits: true}
	})
	f.update(parent, func(p *workflow.Execution) {
		p.State, p.Wait, p.StepRunSeq = sm.ExecutionWaiting, &workflow.Wait{Kind: workflow.WaitChild, Child: x.ID}, seq
		p.StepRuns = append(p.StepRuns, workflow.StepRun{Seq: seq, Status: sm.StepRunning, Child: &workflow.Child{ID: x.ID, Mode: workflow.ModeDispatch}})
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
	if reservation {
		_, _, err := f.ports.Store.AddReserverWaiter(f.ctx, "t", by.ID, x.ID)
		if err != nil {
			f.Fatal(err)
		}
	} else if _, _, err := f.ports.Store.AddHolderWaiter(f.ctx, "t", *x.BlockedBy, x.ID); err != nil {
		f.Fatal(err)
	}
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
	victim := ""
	if want {
		victim = x.ID
	}
	f.wantVictim(x, victim)
}

// wantVictim expects that x finds a cycle in which another execution has to end, "" for none.
func (f *fixture) wantVictim(x *workflow.Execution, want string) {
	f.Helper()
	f.load(x)
	got := ""
	blocked, err := locking.Deadlocked(f.ctx, f.ports.Store, x)
	if len(blocked) > 0 {
		got = blocked[len(blocked)-1]
	}
	if err != nil || got != want || got != "" && !slices.Contains(blocked, x.ID) {
		f.Errorf("%q has to end, %v; want %q", got, err, want)
	}
}

func (f *fixture) load(x *workflow.Execution) {
	f.Helper()
	now, err := f.ports.Store.Load(f.ctx, "t", x.ID)
	if err != nil {
		f.Fatal(err)
	}
	*x = *now
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
	if grandchild.Root() != root.ID {
		t.Errorf("the grandchild has the age of %s, want that of the root", grandchild.Root())
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

// An older execution that waits for the parent may have reserved what the child wants. If the child
// waited for it, it would wait for itself. So an awaited child ignores reservations, for exclusive
// and shared locks alike.
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
		if ok, err := f.ports.Locks.Reserve(f.ctx, "t", keys("b")[0], workflow.Reservation{Execution: older.ID, Age: older.Root()}, ""); !ok || err != nil {
			t.Fatal(ok, err)
		}
		child := f.newChild(parent)
		f.update(child, func(x *workflow.Execution) { x.State, x.Epoch = sm.ExecutionLocking, x.Epoch+1 })
		req := f.request(child, 0, "b")
		req.Mode, req.Age = mode, child.Root()
		f.wantConflict(f.acquire(req), child, older, true)
		req.IgnoreReservations = true
		if a := f.acquire(req); len(a.Tokens) != 1 {
			t.Errorf("%s: %+v", mode, a)
		}
	}
}

// These are no deadlocks: a holder that runs, one that has released, one that waits for something
// else, and one that does not wait for its child.
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
	f.update(child, func(x *workflow.Execution) { x.Parent.Waits = false })
	f.wantDeadlocked(child, false) // a fire-and-forget child
	f.update(child, func(x *workflow.Execution) { x.Parent.Waits = true })
	f.load(parent)
	f.update(parent, func(p *workflow.Execution) { p.State, p.Wait = sm.ExecutionRunning, nil })
	f.wantDeadlocked(child, true) // in another branch it is at work, but it waits for the child
	f.update(parent, func(p *workflow.Execution) { p.StepRuns[0].Closing = true })
	f.wantDeadlocked(child, false) // the parent does not wait any more
	f.update(parent, func(p *workflow.Execution) { p.StepRuns[0].Closing, p.StepRuns[0].LetGo = false, true })
	f.wantDeadlocked(child, false)
	f.update(parent, func(p *workflow.Execution) { p.StepRuns[0].LetGo, p.Epoch = false, p.Epoch+1 })
	f.wantDeadlocked(child, false) // an operator has unlocked the parent

	missing := &workflow.Execution{ID: f.NewID(), Epoch: 1}
	f.setBlocked(child, missing, "a", false)
	f.wantDeadlocked(child, false)
	f.setBlocked(child, child, "a", false) // its rounds ran out
	f.wantDeadlocked(child, false)
}

// The search is bounded: it passes a long chain and many that wait.
func TestDeadlocked_SearchIsBounded(t *testing.T) {
	f := newFixture(t)
	x := f.newHolder("a")
	first := f.newChild(x)
	for range 300 {
		y := f.newHolder("a" + x.ID)
		f.setBlocked(f.newChild(y), x, "a", false)
		x = y
	}
	calls := f.CallCount()
	f.setBlocked(first, x, "z", false)
	f.wantDeadlocked(first, false)
	if n := f.CallCount() - calls; n > 300 {
		t.Errorf("%d calls, want at most 300", n)
	}

	one, two := f.newHolder("b"), f.newHolder("c")
	ofOne, ofTwo := f.newChild(one), f.newChild(two)
	f.setBlocked(ofOne, two, "c", false)
	f.setBlocked(ofTwo, one, "b", false)
	other := f.newChild(f.newHolder("d"))
	f.setBlocked(other, one, "b", false)
	f.wantDeadlocked(other, false) // not its own circle: one of the other two will end
}

// Of two families with several children each, the one that closes the cycle finds it. Whoever finds
// it names the same victim, and children that wait for others are not in it.
func TestDeadlocked_OfSets(t *testing.T) {
	f := newFixture(t)
	one, two, free := f.newHolder("a"), f.newHolder("b"), f.newHolder("c")
	ofOne, ofTwo := []*workflow.Execution{f.newChild(one), f.newChild(one), f.newChild(one)}, []*workflow.Execution{f.newChild(two), f.newChild(two)}
	f.setBlocked(ofOne[0], free, "c", false)
	f.setBlocked(ofOne[1], two, "b", false)
	f.wantVictim(ofOne[1], "")
	f.setBlocked(ofTwo[1], one, "a", false)
	for _, x := range []*workflow.Execution{ofTwo[1], ofOne[1]} {
		f.wantVictim(x, max(ofTwo[1].ID, ofOne[1].ID))
	}
	f.wantVictim(ofOne[0], "")
	// Each that waits for a lock of its own ancestor is a circle of its own.
	for _, x := range []*workflow.Execution{ofOne[2], ofTwo[0]} {
		f.load(x)
	}
	f.setBlocked(ofOne[2], one, "a", false)
	f.wantVictim(ofOne[2], ofOne[2].ID)
	f.setBlocked(ofTwo[0], two, "b", false)
	f.wantVictim(ofTwo[0], ofTwo[0].ID)
}
