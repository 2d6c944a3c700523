package locking_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/faults"
)

// The tests of this file are the mistakes that break the protocol, by the
// numbers of docs/protocols/locks.md: each fails if its mistake is made. The
// mistakes in the run's own transitions (2, 3, 5 and 12) are tested where those
// are committed, in the engine.

// Mistake 1: only a smaller epoch of one's own is free. A stale handler would
// overwrite the lock that its own newer self has taken.
func TestLocker_OwnLaterEpochIsNotFree(t *testing.T) {
	b := newFixture(t)
	x := b.newExecution()
	staleHandler, answer := b.handler("stale", b.request(x, 0, "a"))
	b.waitBefore(staleHandler, "locks.read")
	b.commitState(x, sm.ExecutionScheduled)
	b.commitState(x, sm.ExecutionLocking)
	b.wantTokens(b.acquire(b.request(x, 0, "a")), map[string]int64{"a": 1})
	held := b.lockItem("a")
	staleHandler.Finish()
	if !answer.Stale {
		t.Errorf("the stale handler was told %+v", *answer)
	}
	if now := b.lockItem("a"); !reflect.DeepEqual(now, held) {
		t.Errorf("the stale handler wrote %+v over %+v", now, held)
	}
}

// Mistake 4: registering without the condition that the holder still holds. The
// holder ends in between, and the waiter would sleep for ever.
func TestLocker_HolderEndsBeforeRegistration(t *testing.T) {
	b := newFixture(t)
	y, x := b.newHolder("a"), b.newExecution()
	waiter, answer := b.handler("waiter", b.request(x, 0, "a"))
	b.waitBefore(waiter, "store.add_holder_waiter")
	b.commitState(y, sm.ExecutionCompletedAck)
	waiter.Finish()
	b.wantTokens(*answer, map[string]int64{"a": 2})
}

// Mistake 4 again: the holder has let go and holds anew, at another epoch.
func TestLocker_HolderRelocksBeforeRegistration(t *testing.T) {
	b := newFixture(t)
	y, x := b.newHolder("a"), b.newExecution()
	waiter, answer := b.handler("waiter", b.request(x, 0, "a"))
	b.waitBefore(waiter, "store.add_holder_waiter")
	b.commitState(y, sm.ExecutionScheduled)
	b.commitState(y, sm.ExecutionLocking)
	b.wantTokens(b.acquire(b.request(y, 0, "a")), map[string]int64{"a": 2})
	waiter.Finish()
	b.wantConflict(*answer, x, y, false)
}

// Mistake 6: no look at oneself after a failed write. The run has gone on
// without this handler, which would register and reserve in its name for ever.
func TestLocker_ChecksOwnEpochAfterFailedReservation(t *testing.T) {
	b := newFixture(t)
	older, y, x := b.newExecution(), b.newHolder("a"), b.newExecution()
	staleHandler, answer := b.handler("stale", b.request(x, 1, "a"))
	b.waitBefore(staleHandler, "locks.reserve")
	b.commitState(x, sm.ExecutionCancelledAck)
	if ok, err := b.ports.Locks.Reserve(b.ctx, "t", keys("a")[0], workflow.Reservation{Execution: older.ID, Age: older.ID}, ""); !ok || err != nil {
		t.Fatal(ok, err)
	}
	staleHandler.Finish()
	if !answer.Stale || slices.Contains(b.waiters(y), x.ID) {
		t.Errorf("answered %+v, waiters %v", *answer, b.waiters(y))
	}
}

func TestLocker_ChecksOwnEpochAfterFailedTake(t *testing.T) {
	b := newFixture(t)
	x := b.newExecution()
	staleHandler, answer := b.handler("stale", b.request(x, 0, "a"))
	b.waitBefore(staleHandler, "locks.take")
	b.commitState(x, sm.ExecutionFailedSafe)
	b.commitState(x, sm.ExecutionFailedSafeAck)
	y := b.newHolder("a")
	b.commitState(y, sm.ExecutionCompletedAck) // the entity is free, and x is over
	staleHandler.Finish()
	if l := b.lockItem("a"); !answer.Stale || l.Owner != y.ID {
		t.Errorf("answered %+v, the lock is %+v", *answer, l)
	}
}

func TestLocker_ChecksOwnEpochAfterFailedRegistration(t *testing.T) {
	b := newFixture(t)
	y, x := b.newHolder("a"), b.newExecution()
	staleHandler, answer := b.handler("stale", b.request(x, 0, "a"))
	b.waitBefore(staleHandler, "store.add_holder_waiter")
	b.commitState(x, sm.ExecutionCancelledAck)
	b.commitState(y, sm.ExecutionCompletedAck)
	staleHandler.Finish()
	if l := b.lockItem("a"); !answer.Stale || l.Owner != y.ID {
		t.Errorf("answered %+v, the lock is %+v", *answer, l)
	}
}

// Mistake 7: a reservation that depends on the owner. It stands whoever holds
// the entity by then.
func TestLocker_ReservesWhoeverOwns(t *testing.T) {
	b := newFixture(t)
	x, y, z := b.newExecution(), b.newHolder("a"), b.newExecution()
	waiter, answer := b.handler("waiter", b.request(x, 1, "a"))
	b.waitBefore(waiter, "locks.reserve")
	b.commitState(y, sm.ExecutionCompletedAck)
	b.wantTokens(b.acquire(b.request(z, 0, "a")), map[string]int64{"a": 2})
	waiter.Finish()
	if l := b.lockItem("a"); l.Reserver != x.ID {
		t.Errorf("the lock is %+v, want it reserved by %s", l, x.ID)
	}
	b.wantConflict(*answer, x, z, false)
}

// Mistake 7 again: only who has slept reserves. A take that was lost is a
// conflict too, and so is a failed registration: with the next one, the run
// reserves.
func TestLocker_LostTakesCountAsConflicts(t *testing.T) {
	b := newFixture(t)
	x, y := b.newExecution(), b.newExecution()
	loser, answer := b.handler("loser", b.request(x, 0, "a"))
	b.waitBefore(loser, "locks.take")
	b.acquire(b.request(y, 0, "a"))
	loser.Finish()
	b.wantConflict(*answer, x, y, false)
	if l := b.lockItem("a"); l.Reserver != x.ID {
		t.Errorf("the lock is %+v, want it reserved by %s", l, x.ID)
	}
}

// Mistake 7 once more: a run that is always too late for a take, and finds the
// lock free again each time, meets no holder. From the second time on it reserves,
// and nobody younger is quicker any more.
func TestLocker_ReservesAfterRepeatedLostTakes(t *testing.T) {
	b := newFixture(t)
	x, y, z := b.newExecution(), b.newExecution(), b.newExecution()
	loser, answer := b.handler("loser", b.request(x, 0, "a"))
	for _, quicker := range []*workflow.Execution{y, z} {
		b.waitBefore(loser, "locks.take")
		b.acquire(b.request(quicker, 0, "a"))
		b.commitState(quicker, sm.ExecutionCompletedAck)
		loser.Step()
	}
	b.waitBefore(loser, "locks.read")
	if l := b.lockItem("a"); l.Reserver != x.ID {
		t.Errorf("the lock is %+v, want it reserved by %s", l, x.ID)
	}
	younger := b.newExecution()
	b.wantConflict(b.acquire(b.request(younger, 0, "a")), younger, x, true)
	loser.Finish()
	b.wantTokens(*answer, map[string]int64{"a": 4})
}

func TestLocker_FailedRegistrationsCountAsConflicts(t *testing.T) {
	b := newFixture(t)
	x, y, z := b.newExecution(), b.newHolder("a"), b.newExecution()
	loser, answer := b.handler("loser", b.request(x, 0, "a"))
	b.waitBefore(loser, "store.add_holder_waiter")
	b.commitState(y, sm.ExecutionCompletedAck)
	b.acquire(b.request(z, 0, "a"))
	loser.Finish()
	b.wantConflict(*answer, x, z, false)
	if l := b.lockItem("a"); l.Reserver != x.ID {
		t.Errorf("the lock is %+v, want it reserved by %s", l, x.ID)
	}
}

// A first conflict does not reserve: who takes its time does not block others.
func TestLocker_FirstConflictDoesNotReserve(t *testing.T) {
	b := newFixture(t)
	y, x := b.newHolder("a"), b.newExecution()
	b.wantConflict(b.acquire(b.request(x, 0, "a")), x, y, false)
	if l := b.lockItem("a"); l.Reserver != "" {
		t.Errorf("reserved: %+v", l)
	}
	b.wantConflict(b.acquire(b.request(x, 1, "a")), x, y, false)
	if l := b.lockItem("a"); l.Reserver != x.ID {
		t.Errorf("not reserved: %+v", l)
	}
}

// Younger runs respect a reservation, older ones do not need to, and it is void
// once its run is over.
func TestLocker_YoungerExecutionsRespectReservations(t *testing.T) {
	b := newFixture(t)
	older, y, x, younger := b.newExecution(), b.newHolder("a"), b.newExecution(), b.newExecution()
	b.acquire(b.request(x, 1, "a"))
	b.commitState(y, sm.ExecutionCompletedAck)
	b.wantConflict(b.acquire(b.request(younger, 0, "a")), younger, x, true)
	b.wantTokens(b.acquire(b.request(older, 0, "a")), map[string]int64{"a": 3})
	b.commitState(older, sm.ExecutionCompletedAck)
	b.commitState(x, sm.ExecutionScheduled) // sleeping, it keeps its reservation
	b.wantConflict(b.acquire(b.request(younger, 0, "a")), younger, x, true)
	b.commitState(x, sm.ExecutionCancelledAck)
	b.wantTokens(b.acquire(b.request(younger, 0, "a")), map[string]int64{"a": 4})
}

// A reservation that was read as over is replaced, even by a younger run.
func TestLocker_ReplacesVoidReservation(t *testing.T) {
	b := newFixture(t)
	y, x, younger := b.newHolder("a"), b.newExecution(), b.newExecution()
	b.acquire(b.request(x, 1, "a"))
	b.commitState(x, sm.ExecutionCancelledAck)
	b.wantConflict(b.acquire(b.request(younger, 1, "a")), younger, y, false)
	if l := b.lockItem("a"); l.Reserver != younger.ID {
		t.Errorf("the lock is %+v, want it reserved by %s", l, younger.ID)
	}
}

// Mistake 9: an epoch that is reset, or an item that is made anew. Tokens grow
// from holder to holder, and what a run took at an earlier epoch is nobody's.
func TestLocker_TokensOnlyGrow(t *testing.T) {
	b := newFixture(t)
	last := int64(0)
	x := b.newExecution()
	for range 3 {
		y := b.newHolder("a")
		b.commitState(y, sm.ExecutionCompletedAck)
		a := b.acquire(b.request(x, 0, "a"))
		token := a.Tokens[keys("a")[0]]
		if token <= last {
			t.Fatalf("token %d after %d", token, last)
		}
		last = token
		b.commitState(x, sm.ExecutionScheduled)
		b.commitState(x, sm.ExecutionLocking)
	}
	// x holds nothing of what it took before: somebody else may have it.
	b.newHolder("a")
}

// Mistake 10: the owner read before the lock item, or remembered from an earlier
// round.
func TestLocker_ReadsOwnersAfterLocksEveryRound(t *testing.T) {
	b := newFixture(t)
	y, x := b.newHolder("a"), b.newExecution()
	waiter, answer := b.handler("waiter", b.request(x, 0, "a"))
	for round := range 2 {
		if waiter.NextCall() != "locks.read" {
			t.Fatalf("round %d begins with %s", round, waiter.NextCall())
		}
		waiter.Step()
		if waiter.NextCall() != "store.heads" {
			t.Fatalf("in round %d, %s follows the locks", round, waiter.NextCall())
		}
		b.waitBefore(waiter, "store.add_holder_waiter")
		if round == 1 {
			break
		}
		b.commitState(y, sm.ExecutionCompletedAck)
		y = b.newHolder("a")
		waiter.Step() // the registration fails
		waiter.Step() // the run looks at itself
		if waiter.Done() {
			t.Fatalf("answered %+v", *answer)
		}
	}
	waiter.Finish()
	b.wantConflict(*answer, x, y, false)
}

// Mistake 11: "not holding" as an open list. A state of a newer binary holds.
func TestLocker_UnknownStatesHold(t *testing.T) {
	b := newFixture(t)
	y, x := b.newHolder("a"), b.newExecution()
	b.commitState(y, "HIBERNATING")
	b.wantConflict(b.acquire(b.request(x, 0, "a")), x, y, false)
}

// Nothing is taken while any conflict is known.
func TestLocker_TakesNothingOnConflict(t *testing.T) {
	b := newFixture(t)
	y, x := b.newHolder("b"), b.newExecution()
	b.wantConflict(b.acquire(b.request(x, 0, "a", "b", "c")), x, y, false)
	for _, id := range []string{"a", "c"} {
		if l := b.lockItem(id); l.Owner != "" {
			t.Errorf("%s is taken: %+v", id, l)
		}
	}
}

// What another handler of the same run has taken is as good as one's own (N6).
func TestLocker_TwoHandlersOfOneExecution(t *testing.T) {
	b := newFixture(t)
	x := b.newExecution()
	one, first := b.handler("one", b.request(x, 0, "a", "b"))
	two, second := b.handler("two", b.request(x, 0, "a", "b"))
	one.RunPast("locks.take")
	two.RunUntil("locks.take")
	one.Finish()
	two.Finish()
	b.wantTokens(*first, map[string]int64{"a": 1, "b": 1})
	b.wantTokens(*second, map[string]int64{"a": 1, "b": 1})
}

// A handler that dies half way leaves nothing that another could not go on from.
func TestLocker_CrashBetweenTakes(t *testing.T) {
	b := newFixture(t)
	x := b.newExecution()
	dying, _ := b.handler("dying", b.request(x, 0, "a", "b", "c"))
	b.waitBefore(dying, "locks.take")
	dying.Step()
	dying.Kill()
	if l := b.lockItem("a"); l.Owner != x.ID {
		t.Fatalf("the lock is %+v", l)
	}
	b.wantTokens(b.acquire(b.request(x, 0, "a", "b", "c")), map[string]int64{"a": 1, "b": 1, "c": 1})
}

// A reply that is lost is an error: nobody may act on what is not known.
func TestLocker_LostReplies(t *testing.T) {
	for _, name := range []string{"locks.read", "store.heads", "locks.take", "locks.reserve", "store.add_holder_waiter"} {
		b := newFixture(t)
		b.newHolder("a")
		x := b.newExecution()
		b.Faults = faults.Next(name, faults.LostReply)
		v := b.Open()
		a, err := lockerOf(v).Acquire(b.ctx, b.request(x, 1, "a", "b"))
		if name == "locks.take" {
			continue // nothing is taken in conflict
		}
		if !workflow.Is(err, workflow.CodeUnavailable) || a.Conflict != nil || a.Tokens != nil {
			t.Errorf("after a lost reply to %s: %+v, %v", name, a, err)
		}
	}
	b := newFixture(t)
	x := b.newExecution()
	b.Faults = faults.Next("locks.take", faults.LostReply)
	if a, err := lockerOf(b.Open()).Acquire(b.ctx, b.request(x, 0, "a")); !workflow.Is(err, workflow.CodeUnavailable) || a.Tokens != nil {
		t.Errorf("after a lost reply to a take: %+v, %v", a, err)
	}
	b.wantTokens(b.acquire(b.request(x, 0, "a")), map[string]int64{"a": 1})
}

// A run never rests in LOCKING: when others keep getting in the way, it comes
// back with a conflict.
func TestLocker_RoundsRunOut(t *testing.T) {
	b := newFixture(t)
	x := b.newExecution()
	loser, answer := b.handler("loser", b.request(x, 0, "a"))
	for n := 0; !loser.Done(); n++ {
		if n > 100 {
			t.Fatal("it goes on for ever")
		}
		if loser.NextCall() == "locks.take" || loser.NextCall() == "locks.reserve" {
			y := b.newExecution()
			item := b.lockItem("a")
			if ok, err := b.ports.Locks.Take(b.ctx, "t", item.Entity, y.ID, 1, item.Revision, b.Now()); !ok || err != nil {
				t.Fatal(ok, err)
			}
			b.commitState(y, sm.ExecutionCompletedAck)
		}
		loser.Step()
	}
	if answer.Conflict == nil || answer.Stale || answer.Tokens != nil {
		t.Errorf("answered %+v", *answer)
	}
}
