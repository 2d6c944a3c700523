package locking_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

const minToken = 1000

// acquireAfterRestore acquires as an engine does after a restore of the tables.
func (f *fixture) acquireAfterRestore(req locking.Request) locking.Result {
	f.Helper()
	l := lockerOf(f.Open())
	l.MinFencingToken = minToken
	a, err := l.Acquire(f.ctx, req)
	if err != nil {
		f.Fatal(err)
	}
	return a
}

// Tokens that were issued before a restore and have been lost are never issued again,
// for entities with and without a lock item.
func TestLocker_TokensAfterRestoreExceedMinimum(t *testing.T) {
	f := newFixture(t)
	y := f.newHolder("a")
	f.commitState(y, sm.ExecutionCompletedAck)
	x := f.newExecution()
	f.wantTokens(f.acquireAfterRestore(f.request(x, 0, "a", "b")), map[string]int64{"a": minToken + 1, "b": minToken + 1})
	f.commitState(x, sm.ExecutionCompletedAck)
	f.wantTokens(f.acquireAfterRestore(f.request(f.newExecution(), 0, "a")), map[string]int64{"a": minToken + 2})

	shared := f.request(f.newExecution(), 0, "c")
	shared.Mode = workflow.LockShared
	f.wantTokens(f.acquireAfterRestore(shared), map[string]int64{"c": minToken + 1})
}

// A lock from before the restore is never the execution's own: neither at the same epoch,
// which may come a second time, nor at a later one, which has been lost.
func TestLocker_LocksFromBeforeRestoreAreNotOwn(t *testing.T) {
	f := newFixture(t)
	x := f.newExecution()
	f.wantTokens(f.acquire(f.request(x, 0, "a")), map[string]int64{"a": 1})
	f.wantTokens(f.acquireAfterRestore(f.request(x, 0, "a")), map[string]int64{"a": minToken + 1})

	ahead := f.request(x, 0, "b")
	ahead.Epoch++
	if ok, err := f.Open().Locks.Take(f.ctx, "t", keys("b")[0], workflow.LockRequest{Execution: x.ID, Epoch: ahead.Epoch, Now: f.Now()}, 0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	f.wantTokens(f.acquireAfterRestore(f.request(x, 0, "b")), map[string]int64{"b": minToken + 1})
}

// The owner's item may have been restored to an earlier moment than the lock item. Such a
// lock is free, since its epoch has been lost.
func TestLocker_LocksOfLostEpochsAreFree(t *testing.T) {
	f := newFixture(t)
	y, x := f.newExecution(), f.newExecution()
	if ok, err := f.Open().Locks.Take(f.ctx, "t", keys("a")[0], workflow.LockRequest{Execution: y.ID, Epoch: y.Epoch + 1, Now: f.Now()}, 0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	f.wantTokens(f.acquireAfterRestore(f.request(x, 0, "a")), map[string]int64{"a": minToken + 1})
}

// A lock that is held stays held.
func TestLocker_HeldLocksSurviveRestore(t *testing.T) {
	f := newFixture(t)
	y, x := f.newHolder("a"), f.newExecution()
	before := f.lockItem("a")
	a := f.acquireAfterRestore(f.request(x, 0, "a"))
	f.wantConflict(a, x, y, false)
	if now := f.lockItem("a"); now.Revision != before.Revision || now.Owner != y.ID {
		t.Errorf("the lock changed from %+v to %+v", before, now)
	}
}

// Raising the revision is safe to repeat, as after a lost reply or when another
// execution did it first.
func TestLocker_LostRaise(t *testing.T) {
	f := newFixture(t)
	x := f.newExecution()
	f.Faults = faults.Next("locks.raise_revision", faults.Repeated)
	f.wantTokens(f.acquireAfterRestore(f.request(x, 0, "a")), map[string]int64{"a": minToken + 1})
}
