package locking_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Each test of this file guards against one fault that would break the lock protocol,
// by the numbers of docs/protocols/locks.md. Faults in the transitions of the execution
// itself (2, 3, 5 and 12) are tested in the engine, which commits them.

// Fault 1: treating the execution's own lock of a later epoch as free. A stale handler
// would overwrite the lock that a newer handler of the same execution has taken.
func TestLocker_OwnLaterEpochIsNotFree(t *testing.T) {
	f := newFixture(t)
	x := f.newExecution()
	staleHandler, result := f.handler("stale", f.request(x, 0, "a"))
	f.waitBefore(staleHandler, "locks.read")
	f.commitState(x, sm.ExecutionScheduled)
	f.commitState(x, sm.ExecutionLocking)
	f.wantTokens(f.acquire(f.request(x, 0, "a")), map[string]int64{"a": 1})
	held := f.lockItem("a")
	staleHandler.Finish()
	if !result.Stale {
		t.Errorf("the stale handler got %+v", *result)
	}
	if now := f.lockItem("a"); !reflect.DeepEqual(now, held) {
		t.Errorf("the stale handler wrote %+v over %+v", now, held)
	}
}

// Fault 4: registering without the condition that the holder still holds. If the holder
// ends in between, the waiter would wait for ever.
func TestLocker_HolderEndsBeforeRegistration(t *testing.T) {
	f := newFixture(t)
	y, x := f.newHolder("a"), f.newExecution()
	waiter, result := f.handler("waiter", f.request(x, 0, "a"))
	f.waitBefore(waiter, "store.add_holder_waiter")
	f.commitState(y, sm.ExecutionCompletedAck)
	waiter.Finish()
	f.wantTokens(*result, map[string]int64{"a": 2})
}

// Fault 4: the holder releases and takes the lock again at another epoch.
func TestLocker_HolderRelocksBeforeRegistration(t *testing.T) {
	f := newFixture(t)
	y, x := f.newHolder("a"), f.newExecution()
	waiter, result := f.handler("waiter", f.request(x, 0, "a"))
	f.waitBefore(waiter, "store.add_holder_waiter")
	f.commitState(y, sm.ExecutionScheduled)
	f.commitState(y, sm.ExecutionLocking)
	f.wantTokens(f.acquire(f.request(y, 0, "a")), map[string]int64{"a": 2})
	waiter.Finish()
	f.wantConflict(*result, x, y, false)
}

// Fault 6: not reading the execution's own state after a failed write. A stale handler
// would register and reserve for an execution that has already moved on.
func TestLocker_ChecksOwnEpochAfterFailedReservation(t *testing.T) {
	f := newFixture(t)
	older, y, x := f.newExecution(), f.newHolder("a"), f.newExecution()
	staleHandler, result := f.handler("stale", f.request(x, 1, "a"))
	f.waitBefore(staleHandler, "locks.reserve")
	f.commitState(x, sm.ExecutionCancelledAck)
	if ok, err := f.ports.Locks.Reserve(f.ctx, "t", keys("a")[0], workflow.Reservation{Execution: older.ID, Age: older.ID}, ""); !ok || err != nil {
		t.Fatal(ok, err)
	}
	staleHandler.Finish()
	if !result.Stale || slices.Contains(f.waiters(y), x.ID) {
		t.Errorf("got %+v, waiters %v", *result, f.waiters(y))
	}
}

func TestLocker_ChecksOwnEpochAfterFailedTake(t *testing.T) {
	f := newFixture(t)
	x := f.newExecution()
	staleHandler, result := f.handler("stale", f.request(x, 0, "a"))
	f.waitBefore(staleHandler, "locks.take")
	f.commitState(x, sm.ExecutionFailedSafe)
	f.commitState(x, sm.ExecutionFailedSafeAck)
	y := f.newHolder("a")
	f.commitState(y, sm.ExecutionCompletedAck) // the entity is free, and x has ended
	staleHandler.Finish()
	if l := f.lockItem("a"); !result.Stale || l.Owner != y.ID {
		t.Errorf("got %+v, the lock is %+v", *result, l)
	}
}

func TestLocker_ChecksOwnEpochAfterFailedRegistration(t *testing.T) {
	f := newFixture(t)
	y, x := f.newHolder("a"), f.newExecution()
	staleHandler, result := f.handler("stale", f.request(x, 0, "a"))
	f.waitBefore(staleHandler, "store.add_holder_waiter")
	f.commitState(x, sm.ExecutionCancelledAck)
	f.commitState(y, sm.ExecutionCompletedAck)
	staleHandler.Finish()
	if l := f.lockItem("a"); !result.Stale || l.Owner != y.ID {
		t.Errorf("got %+v, the lock is %+v", *result, l)
	}
}

// Fault 7: a reservation on the condition of the owner. It must be written whoever holds the entity
// by then.
func TestLocker_ReservesWhoeverOwns(t *testing.T) {
	f := newFixture(t)
	x, y, z := f.newExecution(), f.newHolder("a"), f.newExecution()
	waiter, result := f.handler("waiter", f.request(x, 1, "a"))
	f.waitBefore(waiter, "locks.reserve")
	f.commitState(y, sm.ExecutionCompletedAck)
	f.wantTokens(f.acquire(f.request(z, 0, "a")), map[string]int64{"a": 2})
	waiter.Finish()
	if l := f.lockItem("a"); l.Reserver != x.ID {
		t.Errorf("the lock is %+v, want it reserved by %s", l, x.ID)
	}
	f.wantConflict(*result, x, z, false)
}

// Fault 7: reserving only after a wait. A lost take and a failed registration count as
// conflicts too, so the execution reserves at the next one.
func TestLocker_LostTakesCountAsConflicts(t *testing.T) {
	f := newFixture(t)
	x, y := f.newExecution(), f.newExecution()
	loser, result := f.handler("loser", f.request(x, 0, "a"))
	f.waitBefore(loser, "locks.take")
	f.acquire(f.request(y, 0, "a"))
	loser.Finish()
	f.wantConflict(*result, x, y, false)
	if l := f.lockItem("a"); l.Reserver != x.ID {
		t.Errorf("the lock is %+v, want it reserved by %s", l, x.ID)
	}
}

// Fault 7: never reserving because there is never a holder. An execution that loses each
// take and then finds the lock free again reserves from the second time on, which keeps
// younger executions out.
func TestLocker_ReservesAfterRepeatedLostTakes(t *testing.T) {
	f := newFixture(t)
	x, y, z := f.newExecution(), f.newExecution(), f.newExecution()
	loser, result := f.handler("loser", f.request(x, 0, "a"))
	for _, winner := range []*workflow.Execution{y, z} {
		f.waitBefore(loser, "locks.take")
		f.acquire(f.request(winner, 0, "a"))
		f.commitState(winner, sm.ExecutionCompletedAck)
		loser.Step()
	}
	f.waitBefore(loser, "locks.read")
	if l := f.lockItem("a"); l.Reserver != x.ID {
		t.Errorf("the lock is %+v, want it reserved by %s", l, x.ID)
	}
	younger := f.newExecution()
	f.wantConflict(f.acquire(f.request(younger, 0, "a")), younger, x, true)
	loser.Finish()
	f.wantTokens(*result, map[string]int64{"a": 4})
}

func TestLocker_FailedRegistrationsCountAsConflicts(t *testing.T) {
	f := newFixture(t)
	x, y, z := f.newExecution(), f.newHolder("a"), f.newExecution()
	loser, result := f.handler("loser", f.request(x, 0, "a"))
	f.waitBefore(loser, "store.add_holder_waiter")
	f.commitState(y, sm.ExecutionCompletedAck)
	f.acquire(f.request(z, 0, "a"))
	loser.Finish()
	f.wantConflict(*result, x, z, false)
	if l := f.lockItem("a"); l.Reserver != x.ID {
		t.Errorf("the lock is %+v, want it reserved by %s", l, x.ID)
	}
}

// The first conflict does not reserve, so an execution that waits once does not block
// others.
func TestLocker_FirstConflictDoesNotReserve(t *testing.T) {
	f := newFixture(t)
	y, x := f.newHolder("a"), f.newExecution()
	f.wantConflict(f.acquire(f.request(x, 0, "a")), x, y, false)
	if l := f.lockItem("a"); l.Reserver != "" {
		t.Errorf("reserved: %+v", l)
	}
	f.wantConflict(f.acquire(f.request(x, 1, "a")), x, y, false)
	if l := f.lockItem("a"); l.Reserver != x.ID {
		t.Errorf("not reserved: %+v", l)
	}
}

// A reservation blocks younger executions but not older ones. It is void once its
// execution has ended.
func TestLocker_YoungerExecutionsRespectReservations(t *testing.T) {
	f := newFixture(t)
	older, y, x, younger := f.newExecution(), f.newHolder("a"), f.newExecution(), f.newExecution()
	f.acquire(f.request(x, 1, "a"))
	f.commitState(y, sm.ExecutionCompletedAck)
	f.wantConflict(f.acquire(f.request(younger, 0, "a")), younger, x, true)
	f.wantTokens(f.acquire(f.request(older, 0, "a")), map[string]int64{"a": 3})
	f.commitState(older, sm.ExecutionCompletedAck)
	f.commitState(x, sm.ExecutionScheduled) // while it waits, it keeps its reservation
	f.wantConflict(f.acquire(f.request(younger, 0, "a")), younger, x, true)
	f.commitState(x, sm.ExecutionCancelledAck)
	f.wantTokens(f.acquire(f.request(younger, 0, "a")), map[string]int64{"a": 4})
}

// A void reservation is replaced, even by a younger execution.
func TestLocker_ReplacesVoidReservation(t *testing.T) {
	f := newFixture(t)
	y, x, younger := f.newHolder("a"), f.newExecution(), f.newExecution()
	f.acquire(f.request(x, 1, "a"))
	f.commitState(x, sm.ExecutionCancelledAck)
	f.wantConflict(f.acquire(f.request(younger, 1, "a")), younger, y, false)
	if l := f.lockItem("a"); l.Reserver != younger.ID {
		t.Errorf("the lock is %+v, want it reserved by %s", l, younger.ID)
	}
}

// The result says if the execution is not registered: the waiter set was full when it was read, or has
// been filled since.
func TestLocker_ReportsFullWaiterSet(t *testing.T) {
	for name, test := range map[string]struct {
		free bool // nobody holds the entity, and an older execution has reserved it
		call string
	}{
		"of the holder":   {call: "store.add_holder_waiter"},
		"of the reserver": {free: true, call: "store.add_reserver_waiter"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.MaxWaiters = 2
			y, older := f.newHolder("a"), f.newExecution()
			f.acquire(f.request(older, 1, "a")) // reserves, and waits for y
			by := y
			if test.free {
				f.commitState(y, sm.ExecutionCompletedAck)
				f.commitState(older, sm.ExecutionScheduled)
				by = older
				first := f.newExecution()
				f.wantConflict(f.acquire(f.request(first, 0, "a")), first, by, true)
			}
			late, last, next := f.newExecution(), f.newExecution(), f.newExecution()
			handler, result := f.handler("late", f.request(late, 0, "a"))
			f.waitBefore(handler, test.call)
			f.wantConflict(f.acquire(f.request(last, 0, "a")), last, by, test.free)
			handler.Finish()
			for _, got := range []locking.Result{*result, f.acquire(f.request(next, 0, "a"))} {
				if !got.WaiterSetFull || got.Conflict == nil || got.Conflict.Execution != by.ID {
					t.Errorf("the waiter set is full, and the result is %+v", got)
				}
			}
			if got := f.acquire(f.request(last, 0, "a")); got.WaiterSetFull {
				t.Errorf("it is a waiter, and the result is %+v", got)
			}
			if n := len(f.waiters(by)); n != 2 {
				t.Errorf("%d waiters", n)
			}
		})
	}
}

// Fault 9: resetting an epoch or recreating a lock item. Tokens grow from holder to
// holder, and a lock of an earlier epoch is not held.
func TestLocker_TokensOnlyGrow(t *testing.T) {
	f := newFixture(t)
	last := int64(0)
	x := f.newExecution()
	for range 3 {
		y := f.newHolder("a")
		f.commitState(y, sm.ExecutionCompletedAck)
		a := f.acquire(f.request(x, 0, "a"))
		token := a.Tokens[keys("a")[0]]
		if token <= last {
			t.Fatalf("token %d after %d", token, last)
		}
		last = token
		f.commitState(x, sm.ExecutionScheduled)
		f.commitState(x, sm.ExecutionLocking)
	}
	// x does not hold what it took at earlier epochs, so another execution can take it.
	f.newHolder("a")
}

// A first read that shows locks as they were before costs a failed write, and no more: a lock that
// only looks free is not taken, and the next read is strongly consistent.
func TestLocker_StaleFirstReadTakesNothing(t *testing.T) {
	f := newFixture(t)
	before := f.newHolder("a", "b")
	f.commitState(before, sm.ExecutionCompletedAck)
	y, x := f.newHolder("a"), f.newExecution()
	stale := 0
	f.Faults = func(c faults.Call) faults.Fault {
		if c.Name == "locks.read_weakly" {
			stale++
			return faults.Stale
		}
		return faults.None
	}
	got := f.acquire(f.request(x, 0, "a", "b"))
	f.Faults = nil
	if stale != 1 {
		t.Errorf("%d weak reads, want the first alone", stale)
	}
	f.wantConflict(got, x, y, false)
	if l := f.lockItem("a"); l.Owner != y.ID {
		t.Errorf("the lock is %+v, and %s holds it", l, y.ID)
	}
}

// Fault 10: reading the owner before the lock item, or keeping it from an earlier round.
func TestLocker_ReadsOwnersAfterLocksEveryRound(t *testing.T) {
	f := newFixture(t)
	y, x := f.newHolder("a"), f.newExecution()
	waiter, result := f.handler("waiter", f.request(x, 0, "a"))
	for round := range 2 {
		if want := []string{"locks.read_weakly", "locks.read"}[round]; waiter.NextCall() != want {
			t.Fatalf("round %d starts with %s", round, waiter.NextCall())
		}
		waiter.Step()
		if want := []string{"store.heads_weakly", "store.heads"}[round]; waiter.NextCall() != want {
			t.Fatalf("in round %d, the locks are followed by %s", round, waiter.NextCall())
		}
		f.waitBefore(waiter, "store.add_holder_waiter")
		if round == 1 {
			break
		}
		f.commitState(y, sm.ExecutionCompletedAck)
		y = f.newHolder("a")
		waiter.Step() // the registration fails
		waiter.Step() // the execution reads its own state
		if waiter.Done() {
			t.Fatalf("got %+v", *result)
		}
	}
	waiter.Finish()
	f.wantConflict(*result, x, y, false)
}

// Fault 11: treating an unknown state as one that holds no locks. A state of a newer binary holds
// them.
func TestLocker_UnknownStatesHold(t *testing.T) {
	f := newFixture(t)
	y, x := f.newHolder("a"), f.newExecution()
	f.commitState(y, "HIBERNATING")
	f.wantConflict(f.acquire(f.request(x, 0, "a")), x, y, false)
}

// No lock is taken while there is a conflict.
func TestLocker_TakesNothingOnConflict(t *testing.T) {
	f := newFixture(t)
	y, x := f.newHolder("b"), f.newExecution()
	f.wantConflict(f.acquire(f.request(x, 0, "a", "b", "c")), x, y, false)
	for _, id := range []string{"a", "c"} {
		if l := f.lockItem(id); l.Owner != "" {
			t.Errorf("%s is taken: %+v", id, l)
		}
	}
}

// A lock that another handler of the same execution has taken counts as taken (N6).
func TestLocker_TwoHandlersOfOneExecution(t *testing.T) {
	f := newFixture(t)
	x := f.newExecution()
	one, first := f.handler("one", f.request(x, 0, "a", "b"))
	two, second := f.handler("two", f.request(x, 0, "a", "b"))
	one.RunPast("locks.take")
	two.RunUntil("locks.take")
	one.Finish()
	two.Finish()
	f.wantTokens(*first, map[string]int64{"a": 1, "b": 1})
	f.wantTokens(*second, map[string]int64{"a": 1, "b": 1})
}

// After a handler has crashed halfway, another one can take the remaining locks.
func TestLocker_CrashBetweenTakes(t *testing.T) {
	f := newFixture(t)
	x := f.newExecution()
	crashing, _ := f.handler("crashing", f.request(x, 0, "a", "b", "c"))
	f.waitBefore(crashing, "locks.take")
	crashing.Step()
	crashing.Kill()
	if l := f.lockItem("a"); l.Owner != x.ID {
		t.Fatalf("the lock is %+v", l)
	}
	f.wantTokens(f.acquire(f.request(x, 0, "a", "b", "c")), map[string]int64{"a": 1, "b": 1, "c": 1})
}

// A lost reply is an error, without a conflict or tokens.
func TestLocker_LostReplies(t *testing.T) {
	for _, name := range []string{"locks.read", "store.heads", "locks.take", "locks.reserve", "store.add_holder_waiter"} {
		f := newFixture(t)
		f.newHolder("a")
		x := f.newExecution()
		f.Faults = faults.Next(name, faults.LostReply)
		v := f.Open()
		a, err := lockerOf(v).Acquire(f.ctx, f.request(x, 1, "a", "b"))
		if name == "locks.take" {
			continue // there is a conflict, so nothing is taken
		}
		if !workflow.Is(err, workflow.CodeUnavailable) || a.Conflict != nil || a.Tokens != nil {
			t.Errorf("after a lost reply to %s: %+v, %v", name, a, err)
		}
	}
	f := newFixture(t)
	x := f.newExecution()
	f.Faults = faults.Next("locks.take", faults.LostReply)
	if a, err := lockerOf(f.Open()).Acquire(f.ctx, f.request(x, 0, "a")); !workflow.Is(err, workflow.CodeUnavailable) || a.Tokens != nil {
		t.Errorf("after a lost reply to a take: %+v, %v", a, err)
	}
	f.wantTokens(f.acquire(f.request(x, 0, "a")), map[string]int64{"a": 1})
}

// An execution does not stay in LOCKING: if others win every round, it gets a conflict.
func TestLocker_RoundsRunOut(t *testing.T) {
	f := newFixture(t)
	x := f.newExecution()
	loser, result := f.handler("loser", f.request(x, 0, "a"))
	for n := 0; !loser.Done(); n++ {
		if n > 100 {
			t.Fatal("still not done after 100 calls")
		}
		if loser.NextCall() == "locks.take" || loser.NextCall() == "locks.reserve" {
			y := f.newExecution()
			item := f.lockItem("a")
			if ok, err := f.ports.Locks.Take(f.ctx, "t", item.Entity, workflow.LockRequest{Execution: y.ID, Epoch: 1, Now: f.Now()}, item.Revision); !ok || err != nil {
				t.Fatal(ok, err)
			}
			f.commitState(y, sm.ExecutionCompletedAck)
		}
		loser.Step()
	}
	if result.Conflict == nil || result.Stale || result.Tokens != nil {
		t.Errorf("got %+v", *result)
	}
}

// The same if each holder ends between the read and the registration. The execution is registered
// with none of them, and does not show that it waits for the last one, which no longer holds
// anything.
func TestLocker_RoundsRunOutWithEndedHolders(t *testing.T) {
	f := newFixture(t)
	holder, x := f.newHolder("a"), f.newExecution()
	loser, result := f.handler("loser", f.request(x, 0, "a"))
	for n := 0; !loser.Done(); n++ {
		if n > 100 {
			t.Fatal("still not done after 100 calls")
		}
		if loser.NextCall() == "store.add_holder_waiter" {
			f.commitState(holder, sm.ExecutionCompletedAck)
			holder = f.newExecution() // it found the lock free before x had reserved it
			item := f.lockItem("a")
			if ok, err := f.ports.Locks.Take(f.ctx, "t", item.Entity, workflow.LockRequest{Execution: holder.ID, Epoch: 1, Now: f.Now()}, item.Revision); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		loser.Step()
	}
	if c := result.Conflict; c == nil || c.Execution != x.ID || c.Entity != keys("a")[0] {
		t.Errorf("blocked by %+v", c)
	}
}

// A holder that ends unsafely between the read and the registration has woken its waiters already.
// The registration finds that an operator is needed, and tells the waiter.
func TestLocker_RegistrationTellsThatHolderNeedsPerson(t *testing.T) {
	f := newFixture(t)
	holder, x := f.newHolder("a"), f.newExecution()
	handler, got := f.handler("x", f.request(x, 0, "a"))
	f.waitBefore(handler, "store.add_holder_waiter")
	f.commitState(holder, sm.ExecutionFailedUnsafe)
	handler.Finish()
	f.wantConflict(*got, x, holder, false)
	if !got.Conflict.NeedsPerson || got.Conflict.Place != 1 {
		t.Errorf("blocked by %+v", got.Conflict)
	}
}

// A holder that releases some entities between being read and the registration may have
// released this one: the items are read again.
func TestLocker_JudgesAnewAfterRelease(t *testing.T) {
	f := newFixture(t)
	holder, x := f.newHolder("a", "b"), f.newExecution()
	handler, got := f.handler("x", f.request(x, 0, "a"))
	f.waitBefore(handler, "store.add_holder_waiter")
	next := holder.Clone()
	kept := workflow.NewPlaces(2)
	next.State, next.Version, next.Commit, next.Kept, next.Narrowed = sm.ExecutionFailedUnsafe, holder.Version+1, f.Nonce(), &kept, 1
	if _, ok, err := f.ports.Store.Commit(f.ctx, holder.Version, next, workflow.CommitOptions{Release: true}); err != nil || !ok {
		f.Fatal(ok, err)
	}
	handler.Finish()
	f.wantTokens(*got, map[string]int64{"a": 2})
	if l := f.lockItem("a"); l.Owner != x.ID || l.Place != 1 {
		t.Errorf("got %+v", l)
	}
}

// Who meets a lock that an older execution has reserved, and a holder with as many waiters as
// there is room for, writes nothing: each of these writes would change nothing.
func TestLocker_WritesNothingThatChangesNothing(t *testing.T) {
	f := newFixture(t)
	f.MaxWaiters = 1
	y, older, x := f.newHolder("a"), f.newExecution(), f.newExecution()
	f.wantConflict(f.acquire(f.request(older, 5, "a")), older, y, false)
	if l := f.lockItem("a"); l.Reserver != older.ID {
		t.Fatalf("the lock is %+v, want it reserved by %s", l, older.ID)
	}
	v := f.Open()
	for range 2 {
		got, err := lockerOf(v).Acquire(f.ctx, f.request(x, 5, "a"))
		if err != nil || got.Conflict == nil || got.Conflict.Execution != y.ID {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
	if c := v.Meter.Take(); len(c.WriteUnits) > 0 {
		t.Errorf("%v units were written", c.WriteUnits)
	}
	if waiters := f.waiters(y); len(waiters) != 1 || waiters[0] != older.ID {
		t.Errorf("waiters %v", waiters)
	}
}
