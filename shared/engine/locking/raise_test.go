package locking_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/faults"
)

const minToken = 1000

// acquireAfterRestore asks as an engine does that knows of a restore.
func (b *fixture) acquireAfterRestore(ask locking.Request) locking.Result {
	b.Helper()
	l := lockerOf(b.Open())
	l.MinFencingToken = minToken
	a, err := l.Acquire(b.ctx, ask)
	if err != nil {
		b.Fatal(err)
	}
	return a
}

// Tokens that were given out before the tables were set back, and that these have
// forgotten, are never given out again: of entities with a lock item, and without.
func TestLocker_TokensAfterRestoreExceedMinimum(t *testing.T) {
	b := newFixture(t)
	y := b.newHolder("a")
	b.commitState(y, sm.ExecutionCompletedAck)
	x := b.newExecution()
	b.wantTokens(b.acquireAfterRestore(b.request(x, 0, "a", "b")), map[string]int64{"a": minToken + 1, "b": minToken + 1})
	b.commitState(x, sm.ExecutionCompletedAck)
	b.wantTokens(b.acquireAfterRestore(b.request(b.newExecution(), 0, "a")), map[string]int64{"a": minToken + 2})

	shared := b.request(b.newExecution(), 0, "c")
	shared.Mode = workflow.LockShared
	b.wantTokens(b.acquireAfterRestore(shared), map[string]int64{"c": minToken + 1})
}

// What stands in a lock item since before the restore is nobody's own: not at the
// same epoch, which comes again, and not at a later one, of a future that is gone.
func TestLocker_LocksFromBeforeRestoreAreNotOwn(t *testing.T) {
	b := newFixture(t)
	x := b.newExecution()
	b.wantTokens(b.acquire(b.request(x, 0, "a")), map[string]int64{"a": 1})
	b.wantTokens(b.acquireAfterRestore(b.request(x, 0, "a")), map[string]int64{"a": minToken + 1})

	ahead := b.request(x, 0, "b")
	ahead.Epoch++
	if ok, err := b.Open().Locks.Take(b.ctx, "t", keys("b")[0], x.ID, ahead.Epoch, 0, b.Now()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	b.wantTokens(b.acquireAfterRestore(b.request(x, 0, "b")), map[string]int64{"b": minToken + 1})
}

// A lock of a run whose own item was set back further than the lock's is free: the
// run is not going to come to that epoch.
func TestLocker_LocksOfLostEpochsAreFree(t *testing.T) {
	b := newFixture(t)
	y, x := b.newExecution(), b.newExecution()
	if ok, err := b.Open().Locks.Take(b.ctx, "t", keys("a")[0], y.ID, y.Epoch+1, 0, b.Now()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	b.wantTokens(b.acquireAfterRestore(b.request(x, 0, "a")), map[string]int64{"a": minToken + 1})
}

// What is held stays held.
func TestLocker_HeldLocksSurviveRestore(t *testing.T) {
	b := newFixture(t)
	y, x := b.newHolder("a"), b.newExecution()
	before := b.lockItem("a")
	a := b.acquireAfterRestore(b.request(x, 0, "a"))
	b.wantConflict(a, x, y, false)
	if now := b.lockItem("a"); now.Revision != before.Revision || now.Owner != y.ID {
		t.Errorf("%+v became %+v", before, now)
	}
}

// A raise whose reply is lost, or that another was quicker with, is found done.
func TestLocker_LostRaise(t *testing.T) {
	b := newFixture(t)
	x := b.newExecution()
	b.Faults = faults.Next("locks.raise_revision", faults.Repeated)
	b.wantTokens(b.acquireAfterRestore(b.request(x, 0, "a")), map[string]int64{"a": minToken + 1})
}
