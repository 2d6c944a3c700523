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

// sharedRequest is the same request for shared locks.
func sharedRequest(req locking.Request) locking.Request {
	req.Mode = workflow.LockShared
	return req
}

// newSharer makes an execution that holds shared locks of entities.
func (f *fixture) newSharer(ids ...string) *workflow.Execution {
	f.Helper()
	x := f.newExecution()
	if a := f.acquire(sharedRequest(f.request(x, 0, ids...))); len(a.Tokens) != len(ids) {
		f.Fatalf("got %+v", a)
	}
	f.commitState(x, sm.ExecutionRunning)
	return x
}

func (f *fixture) wantHeld(id string, x *workflow.Execution, want bool) {
	f.Helper()
	item := f.lockItem(id)
	if _, ok := item.HolderOf(x.ID, x.Epoch); ok != want {
		f.Errorf("%s held by %s at epoch %d: %v, want %v; the item is %+v", id, x.ID, x.Epoch, ok, want, item)
	}
}

// Several executions share a lock, each with its own token, without reading each
// other's states.
func TestLocker_SharesLock(t *testing.T) {
	f := newFixture(t)
	one, two := f.newSharer("a"), f.newExecution()
	calls := f.CallCount()
	f.wantTokens(f.acquire(sharedRequest(f.request(two, 0, "a"))), map[string]int64{"a": 2})
	if n := f.CallCount() - calls; n != 2 {
		t.Errorf("joining took %d calls, want a read and a write", n)
	}
	f.wantHeld("a", one, true)
	f.wantHeld("a", two, true)
}

// An exclusive request waits for all sharers, and registers with one at a time.
func TestLocker_ExclusiveWaitsForAllSharers(t *testing.T) {
	f := newFixture(t)
	one, two, x := f.newSharer("a"), f.newSharer("a"), f.newExecution()
	f.wantConflict(f.acquire(f.request(x, 0, "a")), x, one, false)
	f.commitState(one, sm.ExecutionCompletedAck)
	f.wantConflict(f.acquire(f.request(x, 1, "a")), x, two, false)
	f.commitState(two, sm.ExecutionCompletedAck)
	f.wantTokens(f.acquire(f.request(x, 2, "a")), map[string]int64{"a": 4}) // two joins and a reservation before it
	if l := f.lockItem("a"); l.Mode != "" || l.Holders != nil {
		t.Errorf("the lock is %+v", l)
	}
}

func TestLocker_SharedWaitsForExclusive(t *testing.T) {
	f := newFixture(t)
	y, x := f.newHolder("a"), f.newExecution()
	f.wantConflict(f.acquire(sharedRequest(f.request(x, 0, "a"))), x, y, false)
	f.commitState(y, sm.ExecutionCompletedAck)
	f.wantTokens(f.acquire(sharedRequest(f.request(x, 1, "a"))), map[string]int64{"a": 2})
}

// Without its reservation, an exclusive request could wait for ever while sharers come
// and go. The reservation keeps younger sharers out, but not older ones.
func TestLocker_ReservationBlocksYoungerSharers(t *testing.T) {
	f := newFixture(t)
	older, one, x, younger := f.newExecution(), f.newSharer("a"), f.newExecution(), f.newExecution()
	f.acquire(f.request(x, 1, "a"))
	f.commitState(x, sm.ExecutionScheduled)
	f.wantConflict(f.acquire(sharedRequest(f.request(younger, 0, "a"))), younger, x, true)
	f.wantTokens(f.acquire(sharedRequest(f.request(older, 0, "a"))), map[string]int64{"a": 3})
	f.commitState(older, sm.ExecutionCompletedAck)
	f.commitState(one, sm.ExecutionCompletedAck)
	f.commitState(x, sm.ExecutionLocking)
	f.wantTokens(f.acquire(f.request(x, 2, "a")), map[string]int64{"a": 4})
}

// A reservation that is written between reading and joining prevents the join.
func TestLocker_JoinLosesToReservation(t *testing.T) {
	f := newFixture(t)
	one, x, younger := f.newSharer("a"), f.newExecution(), f.newExecution()
	late, result := f.handler("late", sharedRequest(f.request(younger, 0, "a")))
	f.waitBefore(late, "locks.join")
	f.wantConflict(f.acquire(f.request(x, 1, "a")), x, one, false)
	late.Finish()
	f.wantConflict(*result, younger, x, true)
}

// First fault of sharing: a join overwrites the execution's own entry of a later epoch. The lock of
// the newer handler would be lost, and another execution could take the entity exclusively.
func TestLocker_JoinKeepsOwnLaterEpoch(t *testing.T) {
	f := newFixture(t)
	f.newSharer("a")
	x := f.newExecution()
	staleHandler, result := f.handler("stale", sharedRequest(f.request(x, 0, "a")))
	f.waitBefore(staleHandler, "locks.join")
	f.commitState(x, sm.ExecutionScheduled)
	f.commitState(x, sm.ExecutionLocking)
	f.wantTokens(f.acquire(sharedRequest(f.request(x, 0, "a"))), map[string]int64{"a": 2})
	f.commitState(x, sm.ExecutionRunning)
	staleHandler.Finish()
	if !result.Stale {
		t.Errorf("the stale handler got %+v", *result)
	}
	f.wantHeld("a", x, true)
}

// The same for a handler that reads the lock only afterwards.
func TestLocker_SharedOwnLaterEpochIsNotFree(t *testing.T) {
	f := newFixture(t)
	x := f.newExecution()
	staleHandler, result := f.handler("stale", sharedRequest(f.request(x, 0, "a")))
	f.commitState(x, sm.ExecutionScheduled)
	f.commitState(x, sm.ExecutionLocking)
	f.wantTokens(f.acquire(sharedRequest(f.request(x, 0, "a"))), map[string]int64{"a": 1})
	held := f.lockItem("a")
	staleHandler.Finish()
	if now := f.lockItem("a"); !result.Stale || !reflect.DeepEqual(now, held) {
		t.Errorf("the stale handler got %+v; the lock is %+v, was %+v", *result, now, held)
	}
}

// Second fault: a join does not raise the revision. An execution that read the lock
// before could take it exclusively although another one has joined.
func TestLocker_JoinRaisesRevision(t *testing.T) {
	f := newFixture(t)
	one, joins, x := f.newSharer("a"), f.newExecution(), f.newExecution()
	f.commitState(one, sm.ExecutionCompletedAck)
	exclusive, result := f.handler("exclusive", f.request(x, 0, "a"))
	f.waitBefore(exclusive, "locks.take") // it has read that no holder is live
	f.wantTokens(f.acquire(sharedRequest(f.request(joins, 0, "a"))), map[string]int64{"a": 2})
	f.commitState(joins, sm.ExecutionRunning)
	exclusive.Finish()
	f.wantConflict(*result, x, joins, false)
	f.wantHeld("a", joins, true)
}

// fillHolders gives the entity n holders, all of them dead except live.
func (f *fixture) fillHolders(id string, n int, live *workflow.Execution) {
	f.Helper()
	keep := map[string]workflow.Holder{}
	for len(keep) < n-1 {
		keep[f.NewID()] = workflow.Holder{Epoch: 1}
	}
	item := f.lockItem(id)
	s := workflow.LockRequest{Execution: live.ID, Epoch: live.Epoch, Now: f.Now()}
	if _, ok, err := f.ports.Locks.Share(f.ctx, "t", item.Entity, s, keep, item.Revision); !ok || err != nil {
		f.Fatal(ok, err)
	}
}

// Third fault: removing holders that were not found dead.
func TestLocker_PrunesOnlyDeadHolders(t *testing.T) {
	for _, n := range []int{1, 7, 8, 20, workflow.MaxHolders - 1, workflow.MaxHolders} {
		f := newFixture(t)
		live, x := f.newExecution(), f.newExecution()
		f.commitState(live, sm.ExecutionRunning)
		f.fillHolders("a", n, live)
		a := f.acquire(sharedRequest(f.request(x, 0, "a")))
		if len(a.Tokens) != 1 {
			t.Fatalf("with %d holders: %+v", n, a)
		}
		f.wantHeld("a", live, true)
		f.wantHeld("a", x, true)
		if m := len(f.lockItem("a").Holders); n >= 8 && m > n+1-min(n-1, 8) {
			t.Errorf("%d holders became %d, too few were removed", n, m)
		}
	}
}

// Holders that join between the read and the write are kept, both by a join and by a
// share: a new holder, and one that was found dead and has locked again.
func TestLocker_KeepsHoldersThatJoinedSinceRead(t *testing.T) {
	for _, n := range []int{8, workflow.MaxHolders} {
		f := newFixture(t)
		y, z, x := f.newExecution(), f.newExecution(), f.newExecution()
		f.commitState(y, sm.ExecutionScheduled)
		f.fillHolders("a", n, y)
		joins, result := f.handler("joins", sharedRequest(f.request(x, 0, "a")))
		f.waitBefore(joins, map[bool]string{true: "locks.share", false: "locks.join"}[n == workflow.MaxHolders])
		f.commitState(y, sm.ExecutionLocking)
		for _, r := range []*workflow.Execution{y, z} {
			if a := f.acquire(sharedRequest(f.request(r, 0, "a"))); len(a.Tokens) != 1 {
				t.Fatalf("%+v", a)
			}
			f.commitState(r, sm.ExecutionRunning)
		}
		joins.Finish()
		if len(result.Tokens) != 1 {
			t.Errorf("%+v", *result)
		}
		f.wantHeld("a", y, true)
		f.wantHeld("a", z, true)
		f.wantHeld("a", x, true)
	}
}

// A lock has at most 64 sharers; the next one waits.
func TestLocker_SharersAreBounded(t *testing.T) {
	f := newFixture(t)
	var first *workflow.Execution
	for range workflow.MaxHolders {
		x := f.newSharer("a")
		if first == nil {
			first = x
		}
	}
	x := f.newExecution()
	f.wantConflict(f.acquire(sharedRequest(f.request(x, 0, "a"))), x, first, false)
	f.commitState(first, sm.ExecutionCompletedAck)
	if a := f.acquire(sharedRequest(f.request(x, 1, "a"))); len(a.Tokens) != 1 {
		t.Errorf("%+v", a)
	}
}

// Two handlers of the same execution share a lock with the same token.
func TestLocker_TwoHandlersOfOneExecutionShare(t *testing.T) {
	f := newFixture(t)
	f.newSharer("b")
	x := f.newExecution()
	one, first := f.handler("one", sharedRequest(f.request(x, 0, "a", "b")))
	two, second := f.handler("two", sharedRequest(f.request(x, 0, "a", "b")))
	f.waitBefore(one, "locks.share")
	f.waitBefore(two, "locks.share")
	one.Finish()
	two.Finish()
	f.wantTokens(*first, map[string]int64{"a": 1, "b": 2})
	f.wantTokens(*second, map[string]int64{"a": 1, "b": 2})
}

// A child execution has the age of its root. It reserves with that age, and ignores
// reservations of executions of the same root.
func TestLocker_ChildHasAgeOfRoot(t *testing.T) {
	f := newFixture(t)
	root, middle, y := f.newExecution(), f.newExecution(), f.newHolder("a")
	child, sibling := f.newExecution(), f.newExecution()
	withRootAge := func(req locking.Request) locking.Request { req.Age = root.ID; return req }

	f.acquire(f.request(middle, 1, "a"))
	f.wantConflict(f.acquire(withRootAge(f.request(child, 1, "a"))), child, y, false)
	if l := f.lockItem("a"); l.Reserver != child.ID || l.ReserverAge != root.ID {
		t.Fatalf("the lock is %+v, want it reserved by the child with the age of the root", l)
	}
	f.commitState(y, sm.ExecutionCompletedAck)
	f.wantConflict(f.acquire(f.request(middle, 2, "a")), middle, child, true)
	f.wantTokens(f.acquire(withRootAge(f.request(sibling, 0, "a"))), map[string]int64{"a": 4})
	f.commitState(sibling, sm.ExecutionCompletedAck)
	f.wantTokens(f.acquire(f.request(root, 0, "a")), map[string]int64{"a": 5})
}

// A reservation is void once its execution has its locks. It does not become valid again
// after a retry by an operator, since the execution has to take locks again first.
func TestLocker_ReservationEndsWithLocking(t *testing.T) {
	f := newFixture(t)
	y, x, younger := f.newHolder("a"), f.newExecution(), f.newExecution()
	f.acquire(f.request(x, 1, "a"))
	f.commitState(y, sm.ExecutionCompletedAck)
	f.wantConflict(f.acquire(f.request(younger, 0, "a")), younger, x, true)
	f.commitState(x, sm.ExecutionRunning) // without this entity, which it no longer wants
	f.wantTokens(f.acquire(f.request(younger, 1, "a")), map[string]int64{"a": 3})
}

// Entities that others hold or have reserved are skipped, and the others are taken.
func TestLocker_SkipLocked(t *testing.T) {
	f := newFixture(t)
	older, y, x := f.newExecution(), f.newHolder("a", "d"), f.newExecution()
	f.acquire(f.request(older, 1, "d"))
	f.commitState(older, sm.ExecutionScheduled)
	z := f.newHolder("b")
	z2 := f.newSharer("c")
	skip := f.request(x, 0, "a", "b", "c", "d", "e")
	skip.SkipLocked = true
	got := f.acquire(skip)
	f.wantTokens(got, map[string]int64{"e": 1})
	var skipped []string
	for _, by := range got.Skipped {
		skipped = append(skipped, by.Entity.ID+" "+by.Execution)
	}
	if want := []string{"a " + y.ID, "b " + z.ID, "c " + z2.ID, "d " + y.ID}; !slices.Equal(skipped, want) {
		t.Errorf("skipped %v, want %v", skipped, want)
	}
	f.commitState(y, sm.ExecutionCompletedAck)
	got = f.acquire(skip)
	f.wantTokens(got, map[string]int64{"a": 2, "e": 1})
	if by := got.Skipped[len(got.Skipped)-1]; by.Execution != older.ID || !by.Reservation {
		t.Errorf("skipped for %+v, want the reservation of the older execution", by)
	}
	if n := len(f.waiters(z)); n != 0 {
		t.Errorf("an execution that skips locked entities is registered as a waiter")
	}
}

// After a lost take the lock is evaluated again, and skipped if it is held now.
func TestLocker_SkipLockedRechecksLostTakes(t *testing.T) {
	f := newFixture(t)
	x := f.newExecution()
	skip := f.request(x, 0, "a", "b")
	skip.SkipLocked = true
	slow, result := f.handler("slow", skip)
	f.waitBefore(slow, "locks.take")
	y := f.newHolder("a")
	slow.Finish()
	f.wantTokens(*result, map[string]int64{"b": 1})
	if len(result.Skipped) != 1 || result.Skipped[0].Execution != y.ID || result.Skipped[0].Entity.ID != "a" {
		t.Errorf("skipped %+v", result.Skipped)
	}
}

func TestLocker_SkipLockedEverything(t *testing.T) {
	f := newFixture(t)
	f.newHolder("a", "b")
	skip := f.request(f.newExecution(), 5, "a", "b")
	skip.SkipLocked = true
	got := f.acquire(skip)
	if len(got.Tokens) != 0 || len(got.Skipped) != 2 || got.Conflict != nil || got.Stale {
		t.Errorf("got %+v", got)
	}
}

// An exclusive lock costs one weak read and one write for each entity.
func TestLocker_ExclusiveCost(t *testing.T) {
	f := newFixture(t)
	x := f.newExecution()
	v := f.Open()
	var ids []string
	for i := range 10 {
		ids = append(ids, fmt.Sprint(i))
	}
	if _, err := lockerOf(v).Acquire(f.ctx, f.request(x, 0, ids...)); err != nil {
		t.Fatal(err)
	}
	c := v.Meter.Take()
	if c.ReadUnits["locks"] != 5 || c.WriteUnits["locks"] != 10 || c.ReadUnits["executions"]+c.WriteUnits["executions"] != 0 {
		t.Errorf("ten locks cost %+v", c)
	}
}

// The previous holders of the locks are reported, whoever takes the locks meanwhile, and to each
// handler of the execution. An execution that joins a shared lock may have read it long before, so
// it reads it again under the lock.
func TestLocker_SaysWhoTookTheLocksBefore(t *testing.T) {
	key := workflow.EntityKey{Type: "device", ID: "a"}
	since := func(got locking.Result, x *workflow.Execution) []string {
		others, _ := got.Recent[key].Since(x.ID, 0)
		return others
	}
	f := newFixture(t)
	first := f.newSharer("a")
	x := f.newExecution()
	req := sharedRequest(f.request(x, 0, "a"))
	req.Recent = true
	joining, result := f.handler("joining", req)
	f.waitBefore(joining, "locks.join")
	f.commitState(first, sm.ExecutionCompletedAck)
	between := f.newHolder("a")
	f.commitState(between, sm.ExecutionCompletedAck)
	f.newSharer("a")
	joining.Finish()
	if got := since(*result, x); !slices.Equal(got, []string{between.ID}) {
		t.Errorf("the join says %v, want %s", got, between.ID)
	}
	f = newFixture(t)
	between = f.newHolder("a")
	f.commitState(between, sm.ExecutionCompletedAck)
	x = f.newExecution()
	for range 2 { // two handlers at the same epoch: the second finds the lock of the first
		req = f.request(x, 0, "a")
		req.Recent = true
		if got := since(f.acquire(req), x); !slices.Equal(got, []string{between.ID}) {
			t.Errorf("the take says %v, want %s", got, between.ID)
		}
	}
	if got := f.acquire(f.request(x, 0, "a")); got.Recent != nil {
		t.Errorf("nobody has asked, and %v is said", got.Recent)
	}
}
