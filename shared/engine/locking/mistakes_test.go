package locking_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// The tests of this file are the mistakes that break the protocol, by the
// numbers of docs/protocols/locks.md: each fails if its mistake is made. The
// mistakes in the run's own transitions (2, 3, 5 and 12) are tested where those
// are committed, in the engine.

// Mistake 1: only a smaller epoch of one's own is free. A stale handler would
// overwrite the lock that its own newer self has taken.
func TestMistake01LargerEpochOfMineIsNotFree(t *testing.T) {
	b := newBench(t)
	x := b.run()
	staleHandler, answer := b.handler("stale", b.ask(x, 0, "a"))
	b.before(staleHandler, "locks.read")
	b.to(x, sm.ExecutionScheduled)
	b.to(x, sm.ExecutionLocking)
	b.tokens(b.acquire(b.ask(x, 0, "a")), map[string]int64{"a": 1})
	held := b.item("a")
	staleHandler.Finish()
	if !answer.Stale {
		t.Errorf("the stale handler was told %+v", *answer)
	}
	if now := b.item("a"); !reflect.DeepEqual(now, held) {
		t.Errorf("the stale handler wrote %+v over %+v", now, held)
	}
}

// Mistake 4: registering without the condition that the holder still holds. The
// holder ends in between, and the waiter would sleep for ever.
func TestMistake04RegisteringWithAHolderThatEnds(t *testing.T) {
	b := newBench(t)
	y, x := b.holder("a"), b.run()
	waiter, answer := b.handler("waiter", b.ask(x, 0, "a"))
	b.before(waiter, "store.await_holder")
	b.to(y, sm.ExecutionCompletedAck)
	waiter.Finish()
	b.tokens(*answer, map[string]int64{"a": 2})
}

// Mistake 4 again: the holder has let go and holds anew, at another epoch.
func TestMistake04RegisteringWithAHolderThatHoldsAnew(t *testing.T) {
	b := newBench(t)
	y, x := b.holder("a"), b.run()
	waiter, answer := b.handler("waiter", b.ask(x, 0, "a"))
	b.before(waiter, "store.await_holder")
	b.to(y, sm.ExecutionScheduled)
	b.to(y, sm.ExecutionLocking)
	b.tokens(b.acquire(b.ask(y, 0, "a")), map[string]int64{"a": 2})
	waiter.Finish()
	b.conflict(*answer, x, y, false)
}

// Mistake 6: no look at oneself after a failed write. The run has gone on
// without this handler, which would register and reserve in its name for ever.
func TestMistake06SelfAfterAFailedReservation(t *testing.T) {
	b := newBench(t)
	older, y, x := b.run(), b.holder("a"), b.run()
	staleHandler, answer := b.handler("stale", b.ask(x, 1, "a"))
	b.before(staleHandler, "locks.reserve")
	b.to(x, sm.ExecutionCancelledAck)
	if ok, err := b.view.Locks.Reserve(b.ctx, "t", keys("a")[0], workflow.Reservation{Execution: older.ID, Age: older.ID}, ""); !ok || err != nil {
		t.Fatal(ok, err)
	}
	staleHandler.Finish()
	if !answer.Stale || slices.Contains(b.waiters(y), x.ID) {
		t.Errorf("answered %+v, waiters %v", *answer, b.waiters(y))
	}
}

func TestMistake06SelfAfterAFailedTake(t *testing.T) {
	b := newBench(t)
	x := b.run()
	staleHandler, answer := b.handler("stale", b.ask(x, 0, "a"))
	b.before(staleHandler, "locks.take")
	b.to(x, sm.ExecutionFailedSafe)
	b.to(x, sm.ExecutionFailedSafeAck)
	y := b.holder("a")
	b.to(y, sm.ExecutionCompletedAck) // the entity is free, and x is over
	staleHandler.Finish()
	if l := b.item("a"); !answer.Stale || l.Owner != y.ID {
		t.Errorf("answered %+v, the lock is %+v", *answer, l)
	}
}

func TestMistake06SelfAfterAFailedRegistration(t *testing.T) {
	b := newBench(t)
	y, x := b.holder("a"), b.run()
	staleHandler, answer := b.handler("stale", b.ask(x, 0, "a"))
	b.before(staleHandler, "store.await_holder")
	b.to(x, sm.ExecutionCancelledAck)
	b.to(y, sm.ExecutionCompletedAck)
	staleHandler.Finish()
	if l := b.item("a"); !answer.Stale || l.Owner != y.ID {
		t.Errorf("answered %+v, the lock is %+v", *answer, l)
	}
}

// Mistake 7: a reservation that depends on the owner. It stands whoever holds
// the entity by then.
func TestMistake07ReservingWhateverTheOwner(t *testing.T) {
	b := newBench(t)
	x, y, z := b.run(), b.holder("a"), b.run()
	waiter, answer := b.handler("waiter", b.ask(x, 1, "a"))
	b.before(waiter, "locks.reserve")
	b.to(y, sm.ExecutionCompletedAck)
	b.tokens(b.acquire(b.ask(z, 0, "a")), map[string]int64{"a": 2})
	waiter.Finish()
	if l := b.item("a"); l.Res != x.ID {
		t.Errorf("the lock is %+v, want it reserved by %s", l, x.ID)
	}
	b.conflict(*answer, x, z, false)
}

// Mistake 7 again: only who has slept reserves. A take that was lost is a
// conflict too, and so is a failed registration: with the next one, the run
// reserves.
func TestMistake07LostTakesCount(t *testing.T) {
	b := newBench(t)
	x, y := b.run(), b.run()
	loser, answer := b.handler("loser", b.ask(x, 0, "a"))
	b.before(loser, "locks.take")
	b.acquire(b.ask(y, 0, "a"))
	loser.Finish()
	b.conflict(*answer, x, y, false)
	if l := b.item("a"); l.Res != x.ID {
		t.Errorf("the lock is %+v, want it reserved by %s", l, x.ID)
	}
}

// Mistake 7 once more: a run that is always too late for a take, and finds the
// lock free again each time, meets no holder. From the second time on it reserves,
// and nobody younger is quicker any more.
func TestMistake07LostTakesReserve(t *testing.T) {
	b := newBench(t)
	x, y, z := b.run(), b.run(), b.run()
	loser, answer := b.handler("loser", b.ask(x, 0, "a"))
	for _, quicker := range []*workflow.Execution{y, z} {
		b.before(loser, "locks.take")
		b.acquire(b.ask(quicker, 0, "a"))
		b.to(quicker, sm.ExecutionCompletedAck)
		loser.Step()
	}
	b.before(loser, "locks.read")
	if l := b.item("a"); l.Res != x.ID {
		t.Errorf("the lock is %+v, want it reserved by %s", l, x.ID)
	}
	younger := b.run()
	b.conflict(b.acquire(b.ask(younger, 0, "a")), younger, x, true)
	loser.Finish()
	b.tokens(*answer, map[string]int64{"a": 4})
}

func TestMistake07FailedRegistrationsCount(t *testing.T) {
	b := newBench(t)
	x, y, z := b.run(), b.holder("a"), b.run()
	loser, answer := b.handler("loser", b.ask(x, 0, "a"))
	b.before(loser, "store.await_holder")
	b.to(y, sm.ExecutionCompletedAck)
	b.acquire(b.ask(z, 0, "a"))
	loser.Finish()
	b.conflict(*answer, x, z, false)
	if l := b.item("a"); l.Res != x.ID {
		t.Errorf("the lock is %+v, want it reserved by %s", l, x.ID)
	}
}

// A first conflict does not reserve: who takes its time does not block others.
func TestFirstConflictDoesNotReserve(t *testing.T) {
	b := newBench(t)
	y, x := b.holder("a"), b.run()
	b.conflict(b.acquire(b.ask(x, 0, "a")), x, y, false)
	if l := b.item("a"); l.Res != "" {
		t.Errorf("reserved: %+v", l)
	}
	b.conflict(b.acquire(b.ask(x, 1, "a")), x, y, false)
	if l := b.item("a"); l.Res != x.ID {
		t.Errorf("not reserved: %+v", l)
	}
}

// Younger runs respect a reservation, older ones do not need to, and it is void
// once its run is over.
func TestReservations(t *testing.T) {
	b := newBench(t)
	older, y, x, younger := b.run(), b.holder("a"), b.run(), b.run()
	b.acquire(b.ask(x, 1, "a"))
	b.to(y, sm.ExecutionCompletedAck)
	b.conflict(b.acquire(b.ask(younger, 0, "a")), younger, x, true)
	b.tokens(b.acquire(b.ask(older, 0, "a")), map[string]int64{"a": 3})
	b.to(older, sm.ExecutionCompletedAck)
	b.to(x, sm.ExecutionScheduled) // sleeping, it keeps its reservation
	b.conflict(b.acquire(b.ask(younger, 0, "a")), younger, x, true)
	b.to(x, sm.ExecutionCancelledAck)
	b.tokens(b.acquire(b.ask(younger, 0, "a")), map[string]int64{"a": 4})
}

// A reservation that was read as over is replaced, even by a younger run.
func TestVoidReservationIsReplaced(t *testing.T) {
	b := newBench(t)
	y, x, younger := b.holder("a"), b.run(), b.run()
	b.acquire(b.ask(x, 1, "a"))
	b.to(x, sm.ExecutionCancelledAck)
	b.conflict(b.acquire(b.ask(younger, 1, "a")), younger, y, false)
	if l := b.item("a"); l.Res != younger.ID {
		t.Errorf("the lock is %+v, want it reserved by %s", l, younger.ID)
	}
}

// Mistake 9: an epoch that is reset, or an item that is made anew. Tokens grow
// from holder to holder, and what a run took at an earlier epoch is nobody's.
func TestMistake09TokensOnlyGrow(t *testing.T) {
	b := newBench(t)
	last := int64(0)
	x := b.run()
	for range 3 {
		y := b.holder("a")
		b.to(y, sm.ExecutionCompletedAck)
		a := b.acquire(b.ask(x, 0, "a"))
		token := a.Tokens[keys("a")[0]]
		if token <= last {
			t.Fatalf("token %d after %d", token, last)
		}
		last = token
		b.to(x, sm.ExecutionScheduled)
		b.to(x, sm.ExecutionLocking)
	}
	// x holds nothing of what it took before: somebody else may have it.
	b.holder("a")
}

// Mistake 10: the owner read before the lock item, or remembered from an earlier
// round.
func TestMistake10OwnersAreReadAfterLocksEveryTime(t *testing.T) {
	b := newBench(t)
	y, x := b.holder("a"), b.run()
	waiter, answer := b.handler("waiter", b.ask(x, 0, "a"))
	for round := range 2 {
		if waiter.Before() != "locks.read" {
			t.Fatalf("round %d begins with %s", round, waiter.Before())
		}
		waiter.Step()
		if waiter.Before() != "store.heads" {
			t.Fatalf("in round %d, %s follows the locks", round, waiter.Before())
		}
		b.before(waiter, "store.await_holder")
		if round == 1 {
			break
		}
		b.to(y, sm.ExecutionCompletedAck)
		y = b.holder("a")
		waiter.Step() // the registration fails
		waiter.Step() // the run looks at itself
		if waiter.Over() {
			t.Fatalf("answered %+v", *answer)
		}
	}
	waiter.Finish()
	b.conflict(*answer, x, y, false)
}

// Mistake 11: "not holding" as an open list. A state of a newer binary holds.
func TestMistake11StatesOfTheFutureHold(t *testing.T) {
	b := newBench(t)
	y, x := b.holder("a"), b.run()
	b.to(y, "HIBERNATING")
	b.conflict(b.acquire(b.ask(x, 0, "a")), x, y, false)
}

// Nothing is taken while any conflict is known.
func TestNothingIsTakenInConflict(t *testing.T) {
	b := newBench(t)
	y, x := b.holder("b"), b.run()
	b.conflict(b.acquire(b.ask(x, 0, "a", "b", "c")), x, y, false)
	for _, id := range []string{"a", "c"} {
		if l := b.item(id); l.Owner != "" {
			t.Errorf("%s is taken: %+v", id, l)
		}
	}
}

// What another handler of the same run has taken is as good as one's own (N6).
func TestTwoHandlersOfOneRunTakeTogether(t *testing.T) {
	b := newBench(t)
	x := b.run()
	one, first := b.handler("one", b.ask(x, 0, "a", "b"))
	two, second := b.handler("two", b.ask(x, 0, "a", "b"))
	one.Past("locks.take")
	two.Until("locks.take")
	one.Finish()
	two.Finish()
	b.tokens(*first, map[string]int64{"a": 1, "b": 1})
	b.tokens(*second, map[string]int64{"a": 1, "b": 1})
}

// A handler that dies half way leaves nothing that another could not go on from.
func TestDeathBetweenTakes(t *testing.T) {
	b := newBench(t)
	x := b.run()
	dying, _ := b.handler("dying", b.ask(x, 0, "a", "b", "c"))
	b.before(dying, "locks.take")
	dying.Step()
	dying.Kill()
	if l := b.item("a"); l.Owner != x.ID {
		t.Fatalf("the lock is %+v", l)
	}
	b.tokens(b.acquire(b.ask(x, 0, "a", "b", "c")), map[string]int64{"a": 1, "b": 1, "c": 1})
}

// A reply that is lost is an error: nobody may act on what is not known.
func TestLostReplies(t *testing.T) {
	for _, name := range []string{"locks.read", "store.heads", "locks.take", "locks.reserve", "store.await_holder"} {
		b := newBench(t)
		b.holder("a")
		x := b.run()
		b.Faults = fate.Next(name, fate.LostReply)
		v := b.Open()
		a, err := lockerOf(v).Acquire(b.ctx, b.ask(x, 1, "a", "b"))
		if name == "locks.take" {
			continue // nothing is taken in conflict
		}
		if !workflow.Is(err, workflow.CodeUnavailable) || a.Conflict != nil || a.Tokens != nil {
			t.Errorf("after a lost reply to %s: %+v, %v", name, a, err)
		}
	}
	b := newBench(t)
	x := b.run()
	b.Faults = fate.Next("locks.take", fate.LostReply)
	if a, err := lockerOf(b.Open()).Acquire(b.ctx, b.ask(x, 0, "a")); !workflow.Is(err, workflow.CodeUnavailable) || a.Tokens != nil {
		t.Errorf("after a lost reply to a take: %+v, %v", a, err)
	}
	b.tokens(b.acquire(b.ask(x, 0, "a")), map[string]int64{"a": 1})
}

// A run never rests in LOCKING: when others keep getting in the way, it comes
// back with a conflict.
func TestRoundsRunOut(t *testing.T) {
	b := newBench(t)
	x := b.run()
	loser, answer := b.handler("loser", b.ask(x, 0, "a"))
	for n := 0; !loser.Over(); n++ {
		if n > 100 {
			t.Fatal("it goes on for ever")
		}
		if loser.Before() == "locks.take" || loser.Before() == "locks.reserve" {
			y := b.run()
			item := b.item("a")
			if ok, err := b.view.Locks.Take(b.ctx, "t", item.Entity, y.ID, 1, item.Rev, b.Now()); !ok || err != nil {
				t.Fatal(ok, err)
			}
			b.to(y, sm.ExecutionCompletedAck)
		}
		loser.Step()
	}
	if answer.Conflict == nil || answer.Stale || answer.Tokens != nil {
		t.Errorf("answered %+v", *answer)
	}
}
