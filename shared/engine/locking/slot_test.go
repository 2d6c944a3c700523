package locking_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

var slotKey = workflow.SlotKey("p/w", "")

// slotRequest is a request with a limit of live executions.
func (f *fixture) slotRequest(x *workflow.Execution, limit, conflicts int, ids ...string) locking.Request {
	req := f.request(x, conflicts, ids...)
	req.Slot = &workflow.Slot{Key: slotKey, Limit: limit}
	return req
}

// newLive makes an execution that is live within the limit.
func (f *fixture) newLive(limit int) *workflow.Execution {
	f.Helper()
	x := f.newExecution()
	if a := f.acquire(f.slotRequest(x, limit, 0)); len(a.Tokens) != 1 {
		f.Fatalf("got %+v", a)
	}
	f.commitState(x, sm.ExecutionRunning)
	return x
}

func (f *fixture) slotHolders() int {
	f.Helper()
	items, err := f.ports.Locks.Read(f.ctx, "t", []workflow.EntityKey{slotKey}, true)
	if err != nil {
		f.Fatal(err)
	}
	return len(items[slotKey].Holders)
}

// wantFull checks that the result is a conflict with all of the live executions, and that the waiter
// is registered with each of them.
func (f *fixture) wantFull(a locking.Result, waiter *workflow.Execution, live ...*workflow.Execution) {
	f.Helper()
	if a.Conflict == nil || len(a.Conflict.Holders()) != len(live) {
		f.Fatalf("got %+v, want a conflict with %d executions", a, len(live))
	}
	for i, one := range a.Conflict.Holders() {
		if one.Execution != live[i].ID || one.Epoch != live[i].Epoch || !slices.Contains(f.waiters(live[i]), waiter.ID) {
			f.Errorf("conflict %d is with %+v; %s waits for %v", i, one, live[i].ID, f.waiters(live[i]))
		}
	}
}

// R79: no more executions are live than the limit allows. The waiting ones are registered with all
// live ones, and any of these that ends frees a slot. Entries of ended executions take none.
func TestSlot_LimitsLiveExecutions(t *testing.T) {
	f := newFixture(t)
	one, two, x := f.newLive(2), f.newLive(2), f.newExecution()
	f.wantFull(f.acquire(f.slotRequest(x, 2, 0, "a")), x, one, two)
	if item := f.lockItem("a"); item.Revision != 0 {
		t.Errorf("it took an entity although there is no room: %+v", item)
	}
	if waiting := f.commitState(two, sm.ExecutionCompletedAck); !slices.Contains(waiting, x.ID) {
		t.Errorf("the end wakes %v", waiting)
	}
	if a := f.acquire(f.slotRequest(x, 2, 1, "a")); len(a.Tokens) != 2 {
		t.Errorf("with room for it: %+v", a)
	}
	f.commitState(x, sm.ExecutionRunning)
	late := f.newExecution()
	f.wantFull(f.acquire(f.slotRequest(late, 2, 0)), late, one, x)
	f.commitState(one, sm.ExecutionCompletedAck)
	f.commitState(x, sm.ExecutionCompletedAck)
	f.newLive(2) // both entries on the item are of executions that have ended
	f.newLive(2)
	if n := f.slotHolders(); n != 2 {
		t.Errorf("%d entries, want those of the two that are live", n)
	}
}

// An execution requests its slot again at a later epoch: its older entry does not count.
func TestSlot_OwnOlderEntryTakesNoRoom(t *testing.T) {
	f := newFixture(t)
	f.newLive(2)
	x := f.newExecution()
	f.acquire(f.slotRequest(x, 2, 0))
	f.commitState(x, sm.ExecutionScheduled)
	f.commitState(x, sm.ExecutionLocking)
	if a := f.acquire(f.slotRequest(x, 2, 0)); len(a.Tokens) != 1 || f.slotHolders() != 2 {
		t.Errorf("got %+v with %d entries", a, f.slotHolders())
	}
	stale, result := f.handler("stale", f.slotRequest(x, 2, 0))
	f.commitState(x, sm.ExecutionScheduled)
	f.commitState(x, sm.ExecutionLocking)
	f.acquire(f.slotRequest(x, 2, 0))
	if stale.Finish(); !result.Stale {
		t.Errorf("a stale handler got %+v", *result)
	}
}

// One of those that are live ends between the read and the registration with it: there is room, though
// the other registration succeeded.
func TestSlot_OneEndsBeforeRegistration(t *testing.T) {
	for end := range 2 {
		f := newFixture(t)
		live := []*workflow.Execution{f.newLive(2), f.newLive(2)}
		x := f.newExecution()
		waiter, result := f.handler("waiter", f.slotRequest(x, 2, 0))
		f.waitBefore(waiter, "store.add_holder_waiter")
		f.commitState(live[end], sm.ExecutionCompletedAck)
		waiter.Finish()
		if len(result.Tokens) != 1 {
			t.Errorf("execution %d ended: got %+v", end, *result)
		}
	}
}

// Two that join for the last place at the same time: one gets it.
func TestSlot_LastPlaceIsTakenOnce(t *testing.T) {
	for _, dead := range []bool{false, true} {
		f := newFixture(t)
		live := f.newLive(2)
		if dead { // the item is full of entries, one of them of an execution that has ended
			f.commitState(f.newLive(2), sm.ExecutionCompletedAck)
		}
		x, y := f.newExecution(), f.newExecution()
		call := "locks.join"
		if dead {
			call = "locks.share"
		}
		first, got := f.handler("first", f.slotRequest(x, 2, 0))
		f.waitBefore(first, call)
		if a := f.acquire(f.slotRequest(y, 2, 0)); len(a.Tokens) != 1 {
			t.Fatalf("got %+v", a)
		}
		f.commitState(y, sm.ExecutionRunning)
		first.Finish()
		f.wantFull(*got, x, live, y)
		if n := f.slotHolders(); n != 2 {
			t.Errorf("dead %v: %d entries", dead, n)
		}
	}
}

// A slot is held until somebody has acknowledged its execution, whatever that has released since. A
// waiting execution learns if all live ones wait for a person.
func TestSlot_IsHeldUntilAcknowledged(t *testing.T) {
	f := newFixture(t)
	one, x := f.newLive(1), f.newExecution()
	next := one.Clone()
	next.State, next.Kept, next.Narrowed, next.Version, next.Commit = sm.ExecutionFailedUnsafe, &workflow.Places{}, 1, one.Version+1, f.Nonce()
	if _, ok, err := f.ports.Store.Commit(f.ctx, one.Version, next, workflow.CommitOptions{Release: true}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	*one = *next
	a := f.acquire(f.slotRequest(x, 1, 0))
	if f.wantFull(a, x, one); !a.Conflict.NeedsPerson {
		t.Errorf("got %+v", a.Conflict)
	}
	f.commitState(one, sm.ExecutionFailedUnsafeAck)
	if a := f.acquire(f.slotRequest(x, 1, 1)); len(a.Tokens) != 1 {
		t.Errorf("after it was acknowledged: %+v", a)
	}
}

// As long as one of the live executions needs nobody, the waiting one does not wait for a person.
func TestSlot_NeedsAPersonIfAllDo(t *testing.T) {
	for broken := range 2 {
		f := newFixture(t)
		all := []*workflow.Execution{f.newLive(2), f.newLive(2)}
		f.commitState(all[broken], sm.ExecutionFailedUnsafe)
		if a := f.acquire(f.slotRequest(f.newExecution(), 2, 0)); a.Conflict == nil || a.Conflict.NeedsPerson {
			t.Errorf("execution %d waits for a person: %+v", broken, a.Conflict)
		}
	}
}

// An older execution that has lost before is next, and a request that skips locked entities does
// not skip a limit.
func TestSlot_OldestIsNext(t *testing.T) {
	f := newFixture(t)
	old := f.newExecution()
	live := f.newLive(1)
	f.wantFull(f.acquire(f.slotRequest(old, 1, 1)), old, live)
	f.commitState(old, sm.ExecutionScheduled)
	f.commitState(live, sm.ExecutionCompletedAck)
	young := f.slotRequest(f.newExecution(), 1, 0)
	young.SkipLocked = true
	if a := f.acquire(young); a.Conflict == nil || !a.Conflict.Reservation || a.Conflict.Execution != old.ID {
		t.Errorf("a younger one got %+v", a)
	}
	f.commitState(old, sm.ExecutionLocking)
	if a := f.acquire(f.slotRequest(old, 1, 2)); len(a.Tokens) != 1 {
		t.Errorf("the older one got %+v", a)
	}
}

// Whatever calls fail or are lost, no more are live than may be, and all of them get their turn.
func TestSlot_HoldsUnderRandomFaults(t *testing.T) {
	for seed := range uint64(300) {
		f := newFixture(t)
		random := rand.New(rand.NewPCG(seed, 17))
		limit := 1 + random.IntN(3)
		var all []*workflow.Execution
		for range 6 {
			all = append(all, f.newExecution())
		}
		live := map[string]*workflow.Execution{}
		conflicts, done := map[string]int{}, 0
		for step := 0; done < len(all); step++ {
			if step > 4000 {
				t.Fatalf("seed %d: %d of %d have had their turn", seed, done, len(all))
			}
			x := all[random.IntN(len(all))]
			switch {
			case x.State == sm.ExecutionCompletedAck:
			case live[x.ID] != nil:
				if random.IntN(3) == 0 {
					f.commitState(x, sm.ExecutionCompletedAck)
					delete(live, x.ID)
					done++
				}
			case x.State == sm.ExecutionScheduled:
				f.commitState(x, sm.ExecutionLocking)
			default:
				f.Faults = faults.Randomly(random, 10, faults.LostReply, faults.Throttled)
				a, err := lockerOf(f.Open()).Acquire(f.ctx, f.slotRequest(x, limit, conflicts[x.ID], "e"+string(rune('0'+random.IntN(2)))))
				f.Faults = nil
				switch {
				case err != nil || a.Stale:
				case a.Conflict != nil:
					conflicts[x.ID]++
					f.commitState(x, sm.ExecutionScheduled)
				default:
					f.commitState(x, sm.ExecutionRunning)
					if live[x.ID] = x; len(live) > limit {
						t.Fatalf("seed %d: %d are live, and %d may be", seed, len(live), limit)
					}
				}
			}
		}
	}
}
