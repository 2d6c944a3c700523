package locking_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

const floor = 1000

// restored asks as an engine does that knows of a restore.
func (b *bench) restored(ask locking.Ask) locking.Answer {
	b.Helper()
	l := lockerOf(b.Open())
	l.Floor = floor
	a, err := l.Acquire(b.ctx, ask)
	if err != nil {
		b.Fatal(err)
	}
	return a
}

// Tokens that were given out before the tables were set back, and that these have
// forgotten, are never given out again: of entities with a lock item, and without.
func TestTokensAfterARestoreAreBeyondTheFloor(t *testing.T) {
	b := newBench(t)
	y := b.holder("a")
	b.to(y, sm.ExecutionCompletedAck)
	x := b.run()
	b.tokens(b.restored(b.ask(x, 0, "a", "b")), map[string]int64{"a": floor + 1, "b": floor + 1})
	b.to(x, sm.ExecutionCompletedAck)
	b.tokens(b.restored(b.ask(b.run(), 0, "a")), map[string]int64{"a": floor + 2})

	shared := b.ask(b.run(), 0, "c")
	shared.Mode = workflow.LockShared
	b.tokens(b.restored(shared), map[string]int64{"c": floor + 1})
}

// What stands in a lock item since before the restore is nobody's own: not at the
// same epoch, which comes again, and not at a later one, of a future that is gone.
func TestNothingFromBeforeARestoreIsOnesOwn(t *testing.T) {
	b := newBench(t)
	x := b.run()
	b.tokens(b.acquire(b.ask(x, 0, "a")), map[string]int64{"a": 1})
	b.tokens(b.restored(b.ask(x, 0, "a")), map[string]int64{"a": floor + 1})

	ahead := b.ask(x, 0, "b")
	ahead.Epoch++
	if ok, err := b.Open().Locks.Take(b.ctx, "t", keys("b")[0], x.ID, ahead.Epoch, 0, b.Now()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	b.tokens(b.restored(b.ask(x, 0, "b")), map[string]int64{"b": floor + 1})
}

// A lock of a run whose own item was set back further than the lock's is free: the
// run is not going to come to that epoch.
func TestLocksOfEpochsThatAreGoneAreFree(t *testing.T) {
	b := newBench(t)
	y, x := b.run(), b.run()
	if ok, err := b.Open().Locks.Take(b.ctx, "t", keys("a")[0], y.ID, y.Epoch+1, 0, b.Now()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	b.tokens(b.restored(b.ask(x, 0, "a")), map[string]int64{"a": floor + 1})
}

// What is held stays held.
func TestHeldLocksSurviveARestore(t *testing.T) {
	b := newBench(t)
	y, x := b.holder("a"), b.run()
	before := b.item("a")
	a := b.restored(b.ask(x, 0, "a"))
	b.conflict(a, x, y, false)
	if now := b.item("a"); now.Rev != before.Rev || now.Owner != y.ID {
		t.Errorf("%+v became %+v", before, now)
	}
}

// A raise whose reply is lost, or that another was quicker with, is found done.
func TestRaisesThatAreLost(t *testing.T) {
	b := newBench(t)
	x := b.run()
	b.Faults = fate.Next("locks.raise", fate.Repeated)
	b.tokens(b.restored(b.ask(x, 0, "a")), map[string]int64{"a": floor + 1})
}
