package locking_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// sharedRequest is the same ask by a run that shares.
func sharedRequest(ask locking.Request) locking.Request {
	ask.Mode = workflow.LockShared
	return ask
}

// newSharer makes a run that shares entities with whoever comes.
func (b *fixture) newSharer(ids ...string) *workflow.Execution {
	b.Helper()
	x := b.newExecution()
	if a := b.acquire(sharedRequest(b.request(x, 0, ids...))); len(a.Tokens) != len(ids) {
		b.Fatalf("got %+v", a)
	}
	b.commitState(x, sm.ExecutionRunning)
	return x
}

func (b *fixture) wantHeld(id string, x *workflow.Execution, want bool) {
	b.Helper()
	item := b.lockItem(id)
	if _, ok := item.HolderOf(x.ID, x.Epoch); ok != want {
		b.Errorf("%s held by %s at epoch %d: %v, want %v; the item is %+v", id, x.ID, x.Epoch, ok, want, item)
	}
}

// Those who share do so at the same time, each with a token of its own, and need
// no read for each other.
func TestLocker_SharesLock(t *testing.T) {
	b := newFixture(t)
	one, two := b.newSharer("a"), b.newExecution()
	calls := b.CallCount()
	b.wantTokens(b.acquire(sharedRequest(b.request(two, 0, "a"))), map[string]int64{"a": 2})
	if n := b.CallCount() - calls; n != 2 {
		t.Errorf("joining took %d calls, want a read and a write", n)
	}
	b.wantHeld("a", one, true)
	b.wantHeld("a", two, true)
}

// Who wants it alone waits for each of them, registered with one at a time.
func TestLocker_ExclusiveWaitsForAllSharers(t *testing.T) {
	b := newFixture(t)
	one, two, x := b.newSharer("a"), b.newSharer("a"), b.newExecution()
	b.wantConflict(b.acquire(b.request(x, 0, "a")), x, one, false)
	b.commitState(one, sm.ExecutionCompletedAck)
	b.wantConflict(b.acquire(b.request(x, 1, "a")), x, two, false)
	b.commitState(two, sm.ExecutionCompletedAck)
	b.wantTokens(b.acquire(b.request(x, 2, "a")), map[string]int64{"a": 4}) // two joins and a reservation before it
	if l := b.lockItem("a"); l.Mode != "" || l.Holders != nil {
		t.Errorf("the lock is %+v", l)
	}
}

func TestLocker_SharedWaitsForExclusive(t *testing.T) {
	b := newFixture(t)
	y, x := b.newHolder("a"), b.newExecution()
	b.wantConflict(b.acquire(sharedRequest(b.request(x, 0, "a"))), x, y, false)
	b.commitState(y, sm.ExecutionCompletedAck)
	b.wantTokens(b.acquire(sharedRequest(b.request(x, 1, "a"))), map[string]int64{"a": 2})
}

// Without the reservation a run that wants it alone would wait for ever behind
// those that come and go. It keeps the younger ones out, not the older.
func TestLocker_ReservationBlocksYoungerSharers(t *testing.T) {
	b := newFixture(t)
	older, one, x, younger := b.newExecution(), b.newSharer("a"), b.newExecution(), b.newExecution()
	b.acquire(b.request(x, 1, "a"))
	b.commitState(x, sm.ExecutionScheduled)
	b.wantConflict(b.acquire(sharedRequest(b.request(younger, 0, "a"))), younger, x, true)
	b.wantTokens(b.acquire(sharedRequest(b.request(older, 0, "a"))), map[string]int64{"a": 3})
	b.commitState(older, sm.ExecutionCompletedAck)
	b.commitState(one, sm.ExecutionCompletedAck)
	b.commitState(x, sm.ExecutionLocking)
	b.wantTokens(b.acquire(b.request(x, 2, "a")), map[string]int64{"a": 4})
}

// A reservation that comes between reading and joining stands.
func TestLocker_JoinLosesToReservation(t *testing.T) {
	b := newFixture(t)
	one, x, younger := b.newSharer("a"), b.newExecution(), b.newExecution()
	late, answer := b.handler("late", sharedRequest(b.request(younger, 0, "a")))
	b.waitBefore(late, "locks.join")
	b.wantConflict(b.acquire(b.request(x, 1, "a")), x, one, false)
	late.Finish()
	b.wantConflict(*answer, younger, x, true)
}

// The first mistake of sharing: joining over an entry of a later epoch of one's
// own. The run's own newer hold vanishes, and somebody takes the entity alone.
func TestLocker_JoinKeepsOwnLaterEpoch(t *testing.T) {
	b := newFixture(t)
	b.newSharer("a")
	x := b.newExecution()
	staleHandler, answer := b.handler("stale", sharedRequest(b.request(x, 0, "a")))
	b.waitBefore(staleHandler, "locks.join")
	b.commitState(x, sm.ExecutionScheduled)
	b.commitState(x, sm.ExecutionLocking)
	b.wantTokens(b.acquire(sharedRequest(b.request(x, 0, "a"))), map[string]int64{"a": 2})
	b.commitState(x, sm.ExecutionRunning)
	staleHandler.Finish()
	if !answer.Stale {
		t.Errorf("the stale handler was told %+v", *answer)
	}
	b.wantHeld("a", x, true)
}

// The same for a handler that reads only then.
func TestLocker_SharedOwnLaterEpochIsNotFree(t *testing.T) {
	b := newFixture(t)
	x := b.newExecution()
	staleHandler, answer := b.handler("stale", sharedRequest(b.request(x, 0, "a")))
	b.commitState(x, sm.ExecutionScheduled)
	b.commitState(x, sm.ExecutionLocking)
	b.wantTokens(b.acquire(sharedRequest(b.request(x, 0, "a"))), map[string]int64{"a": 1})
	held := b.lockItem("a")
	staleHandler.Finish()
	if now := b.lockItem("a"); !answer.Stale || !reflect.DeepEqual(now, held) {
		t.Errorf("the stale handler was told %+v and made %+v of %+v", *answer, now, held)
	}
}

// The second: joining without raising the revision. Who has read the lock before
// takes it alone, past the one that has joined.
func TestLocker_JoinRaisesRevision(t *testing.T) {
	b := newFixture(t)
	one, joins, x := b.newSharer("a"), b.newExecution(), b.newExecution()
	b.commitState(one, sm.ExecutionCompletedAck)
	alone, answer := b.handler("alone", b.request(x, 0, "a"))
	b.waitBefore(alone, "locks.take") // it has read that nobody lives
	b.wantTokens(b.acquire(sharedRequest(b.request(joins, 0, "a"))), map[string]int64{"a": 2})
	b.commitState(joins, sm.ExecutionRunning)
	alone.Finish()
	b.wantConflict(*answer, x, joins, false)
	b.wantHeld("a", joins, true)
}

// The third: removing holders that were not read as dead. fill makes the entity
// one of many holders, all but the given one dead.
func (b *fixture) fillHolders(id string, n int, live *workflow.Execution) {
	b.Helper()
	keep := map[string]workflow.Holder{}
	for len(keep) < n-1 {
		keep[b.NewID()] = workflow.Holder{Epoch: 1}
	}
	item := b.lockItem(id)
	s := workflow.LockRequest{Execution: live.ID, Epoch: live.Epoch, Now: b.Now()}
	if _, ok, err := b.ports.Locks.Share(b.ctx, "t", item.Entity, s, keep, item.Revision); !ok || err != nil {
		b.Fatal(ok, err)
	}
}

func TestLocker_PrunesOnlyDeadHolders(t *testing.T) {
	for _, n := range []int{1, 7, 8, 20, workflow.MaxHolders - 1, workflow.MaxHolders} {
		b := newFixture(t)
		live, x := b.newExecution(), b.newExecution()
		b.commitState(live, sm.ExecutionRunning)
		b.fillHolders("a", n, live)
		a := b.acquire(sharedRequest(b.request(x, 0, "a")))
		if len(a.Tokens) != 1 {
			t.Fatalf("among %d holders: %+v", n, a)
		}
		b.wantHeld("a", live, true)
		b.wantHeld("a", x, true)
		if m := len(b.lockItem("a").Holders); n >= 8 && m > n+1-min(n-1, 8) {
			t.Errorf("%d holders became %d, none was removed", n, m)
		}
	}
}

// Who comes between reading and writing is not removed either, by no way of
// writing: one that joins anew, and one read as dead that holds anew.
func TestLocker_KeepsHoldersThatJoinedSinceRead(t *testing.T) {
	for _, n := range []int{8, workflow.MaxHolders} {
		b := newFixture(t)
		y, z, x := b.newExecution(), b.newExecution(), b.newExecution()
		b.commitState(y, sm.ExecutionScheduled)
		b.fillHolders("a", n, y)
		joins, answer := b.handler("joins", sharedRequest(b.request(x, 0, "a")))
		b.waitBefore(joins, map[bool]string{true: "locks.share", false: "locks.join"}[n == workflow.MaxHolders])
		b.commitState(y, sm.ExecutionLocking)
		for _, r := range []*workflow.Execution{y, z} {
			if a := b.acquire(sharedRequest(b.request(r, 0, "a"))); len(a.Tokens) != 1 {
				t.Fatalf("%+v", a)
			}
			b.commitState(r, sm.ExecutionRunning)
		}
		joins.Finish()
		if len(answer.Tokens) != 1 {
			t.Errorf("%+v", *answer)
		}
		b.wantHeld("a", y, true)
		b.wantHeld("a", z, true)
		b.wantHeld("a", x, true)
	}
}

// More than 64 wait.
func TestLocker_SharersAreBounded(t *testing.T) {
	b := newFixture(t)
	var first *workflow.Execution
	for range workflow.MaxHolders {
		x := b.newSharer("a")
		if first == nil {
			first = x
		}
	}
	x := b.newExecution()
	b.wantConflict(b.acquire(sharedRequest(b.request(x, 0, "a"))), x, first, false)
	b.commitState(first, sm.ExecutionCompletedAck)
	if a := b.acquire(sharedRequest(b.request(x, 1, "a"))); len(a.Tokens) != 1 {
		t.Errorf("%+v", a)
	}
}

// A lost reply to any write of sharing is an error, and no obstacle to whoever
// goes on from there.
func TestLocker_TwoHandlersOfOneExecutionShare(t *testing.T) {
	b := newFixture(t)
	b.newSharer("b")
	x := b.newExecution()
	one, first := b.handler("one", sharedRequest(b.request(x, 0, "a", "b")))
	two, second := b.handler("two", sharedRequest(b.request(x, 0, "a", "b")))
	b.waitBefore(one, "locks.share")
	b.waitBefore(two, "locks.share")
	one.Finish()
	two.Finish()
	b.wantTokens(*first, map[string]int64{"a": 1, "b": 2})
	b.wantTokens(*second, map[string]int64{"a": 1, "b": 2})
}

// A run that another started is as old as the outermost that started it: it
// reserves as that, and passes what its kin has reserved.
func TestLocker_ChildHasAgeOfRoot(t *testing.T) {
	b := newFixture(t)
	root, middle, y := b.newExecution(), b.newExecution(), b.newHolder("a")
	child, sibling := b.newExecution(), b.newExecution()
	ofRoot := func(ask locking.Request) locking.Request { ask.Age = root.ID; return ask }

	b.acquire(b.request(middle, 1, "a"))
	b.wantConflict(b.acquire(ofRoot(b.request(child, 1, "a"))), child, y, false)
	if l := b.lockItem("a"); l.Reserver != child.ID || l.ReserverAge != root.ID {
		t.Fatalf("the lock is %+v, want it reserved by the child at its root's age", l)
	}
	b.commitState(y, sm.ExecutionCompletedAck)
	b.wantConflict(b.acquire(b.request(middle, 2, "a")), middle, child, true)
	b.wantTokens(b.acquire(ofRoot(b.request(sibling, 0, "a"))), map[string]int64{"a": 4})
	b.commitState(sibling, sm.ExecutionCompletedAck)
	b.wantTokens(b.acquire(b.request(root, 0, "a")), map[string]int64{"a": 5})
}

// A reservation is void once its run has its locks, and what it left behind does
// not come back when an operator has it retried: it has to lock again first.
func TestLocker_ReservationEndsWithLocking(t *testing.T) {
	b := newFixture(t)
	y, x, younger := b.newHolder("a"), b.newExecution(), b.newExecution()
	b.acquire(b.request(x, 1, "a"))
	b.commitState(y, sm.ExecutionCompletedAck)
	b.wantConflict(b.acquire(b.request(younger, 0, "a")), younger, x, true)
	b.commitState(x, sm.ExecutionRunning) // without the entity: it no longer wants it
	b.wantTokens(b.acquire(b.request(younger, 1, "a")), map[string]int64{"a": 3})
}

// What others hold or have reserved is left out, and the rest is taken.
func TestLocker_SkipLocked(t *testing.T) {
	b := newFixture(t)
	older, y, x := b.newExecution(), b.newHolder("a", "d"), b.newExecution()
	b.acquire(b.request(older, 1, "d"))
	b.commitState(older, sm.ExecutionScheduled)
	z := b.newHolder("b")
	z2 := b.newSharer("c")
	skip := b.request(x, 0, "a", "b", "c", "d", "e")
	skip.SkipLocked = true
	got := b.acquire(skip)
	b.wantTokens(got, map[string]int64{"e": 1})
	var dropped []string
	for _, by := range got.Skipped {
		dropped = append(dropped, by.Entity.ID+" "+by.Execution)
	}
	if want := []string{"a " + y.ID, "b " + z.ID, "c " + z2.ID, "d " + y.ID}; !slices.Equal(dropped, want) {
		t.Errorf("dropped %v, want %v", dropped, want)
	}
	b.commitState(y, sm.ExecutionCompletedAck)
	got = b.acquire(skip)
	b.wantTokens(got, map[string]int64{"a": 2, "e": 1})
	if by := got.Skipped[len(got.Skipped)-1]; by.Execution != older.ID || !by.Reservation {
		t.Errorf("dropped for %+v, want for the older run's reservation", by)
	}
	if n := len(b.waiters(z)); n != 0 {
		t.Errorf("a run that skips waits for nobody, but is registered")
	}
}

// A take that is lost is judged again: whoever was quicker holds it now.
func TestLocker_SkipLockedRechecksLostTakes(t *testing.T) {
	b := newFixture(t)
	x := b.newExecution()
	skip := b.request(x, 0, "a", "b")
	skip.SkipLocked = true
	slow, answer := b.handler("slow", skip)
	b.waitBefore(slow, "locks.take")
	y := b.newHolder("a")
	slow.Finish()
	b.wantTokens(*answer, map[string]int64{"b": 1})
	if len(answer.Skipped) != 1 || answer.Skipped[0].Execution != y.ID || answer.Skipped[0].Entity.ID != "a" {
		t.Errorf("dropped %+v", answer.Skipped)
	}
}

func TestLocker_SkipLockedEverything(t *testing.T) {
	b := newFixture(t)
	b.newHolder("a", "b")
	skip := b.request(b.newExecution(), 5, "a", "b")
	skip.SkipLocked = true
	got := b.acquire(skip)
	if len(got.Tokens) != 0 || len(got.Skipped) != 2 || got.Conflict != nil || got.Stale {
		t.Errorf("got %+v", got)
	}
}

// An exclusive lock costs what it did: a read and a write for each entity.
func TestLocker_ExclusiveCost(t *testing.T) {
	b := newFixture(t)
	x := b.newExecution()
	v := b.Open()
	var ids []string
	for i := range 10 {
		ids = append(ids, fmt.Sprint(i))
	}
	if _, err := lockerOf(v).Acquire(b.ctx, b.request(x, 0, ids...)); err != nil {
		t.Fatal(err)
	}
	c := v.Meter.Take()
	if c.ReadUnits["locks"] != 10 || c.WriteUnits["locks"] != 10 || c.ReadUnits["executions"]+c.WriteUnits["executions"] != 0 {
		t.Errorf("ten locks cost %+v", c)
	}
}
