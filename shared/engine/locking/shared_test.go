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

// sharing is the same ask by a run that shares.
func sharing(ask locking.Ask) locking.Ask {
	ask.Mode = workflow.LockShared
	return ask
}

// sharer makes a run that shares entities with whoever comes.
func (b *bench) sharer(ids ...string) *workflow.Execution {
	b.Helper()
	x := b.run()
	if a := b.acquire(sharing(b.ask(x, 0, ids...))); len(a.Tokens) != len(ids) {
		b.Fatalf("got %+v", a)
	}
	b.to(x, sm.ExecutionRunning)
	return x
}

func (b *bench) holds(id string, x *workflow.Execution, want bool) {
	b.Helper()
	item := b.item(id)
	if _, ok := item.Held(x.ID, x.Epoch); ok != want {
		b.Errorf("%s held by %s at epoch %d: %v, want %v; the item is %+v", id, x.ID, x.Epoch, ok, want, item)
	}
}

// Those who share do so at the same time, each with a token of its own, and need
// no read for each other.
func TestSharing(t *testing.T) {
	b := newBench(t)
	one, two := b.sharer("a"), b.run()
	calls := b.Calls()
	b.tokens(b.acquire(sharing(b.ask(two, 0, "a"))), map[string]int64{"a": 2})
	if n := b.Calls() - calls; n != 2 {
		t.Errorf("joining took %d calls, want a read and a write", n)
	}
	b.holds("a", one, true)
	b.holds("a", two, true)
}

// Who wants it alone waits for each of them, registered with one at a time.
func TestAloneAfterAllWhoShare(t *testing.T) {
	b := newBench(t)
	one, two, x := b.sharer("a"), b.sharer("a"), b.run()
	b.conflict(b.acquire(b.ask(x, 0, "a")), x, one, false)
	b.to(one, sm.ExecutionCompletedAck)
	b.conflict(b.acquire(b.ask(x, 1, "a")), x, two, false)
	b.to(two, sm.ExecutionCompletedAck)
	b.tokens(b.acquire(b.ask(x, 2, "a")), map[string]int64{"a": 4}) // two joins and a reservation before it
	if l := b.item("a"); l.Mode != "" || l.Holders != nil {
		t.Errorf("the lock is %+v", l)
	}
}

func TestSharingAfterWhoHoldsAlone(t *testing.T) {
	b := newBench(t)
	y, x := b.holder("a"), b.run()
	b.conflict(b.acquire(sharing(b.ask(x, 0, "a"))), x, y, false)
	b.to(y, sm.ExecutionCompletedAck)
	b.tokens(b.acquire(sharing(b.ask(x, 1, "a"))), map[string]int64{"a": 2})
}

// Without the reservation a run that wants it alone would wait for ever behind
// those that come and go. It keeps the younger ones out, not the older.
func TestReservationKeepsSharersOut(t *testing.T) {
	b := newBench(t)
	older, one, x, younger := b.run(), b.sharer("a"), b.run(), b.run()
	b.acquire(b.ask(x, 1, "a"))
	b.to(x, sm.ExecutionScheduled)
	b.conflict(b.acquire(sharing(b.ask(younger, 0, "a"))), younger, x, true)
	b.tokens(b.acquire(sharing(b.ask(older, 0, "a"))), map[string]int64{"a": 3})
	b.to(older, sm.ExecutionCompletedAck)
	b.to(one, sm.ExecutionCompletedAck)
	b.to(x, sm.ExecutionLocking)
	b.tokens(b.acquire(b.ask(x, 2, "a")), map[string]int64{"a": 4})
}

// A reservation that comes between reading and joining stands.
func TestJoiningMeetsAReservation(t *testing.T) {
	b := newBench(t)
	one, x, younger := b.sharer("a"), b.run(), b.run()
	late, answer := b.handler("late", sharing(b.ask(younger, 0, "a")))
	b.before(late, "locks.join")
	b.conflict(b.acquire(b.ask(x, 1, "a")), x, one, false)
	late.Finish()
	b.conflict(*answer, younger, x, true)
}

// The first mistake of sharing: joining over an entry of a later epoch of one's
// own. The run's own newer hold vanishes, and somebody takes the entity alone.
func TestSharingMistakeJoiningOverALaterEpoch(t *testing.T) {
	b := newBench(t)
	b.sharer("a")
	x := b.run()
	staleHandler, answer := b.handler("stale", sharing(b.ask(x, 0, "a")))
	b.before(staleHandler, "locks.join")
	b.to(x, sm.ExecutionScheduled)
	b.to(x, sm.ExecutionLocking)
	b.tokens(b.acquire(sharing(b.ask(x, 0, "a"))), map[string]int64{"a": 2})
	b.to(x, sm.ExecutionRunning)
	staleHandler.Finish()
	if !answer.Stale {
		t.Errorf("the stale handler was told %+v", *answer)
	}
	b.holds("a", x, true)
}

// The same for a handler that reads only then.
func TestSharingMistakeLaterEpochIsNotFree(t *testing.T) {
	b := newBench(t)
	x := b.run()
	staleHandler, answer := b.handler("stale", sharing(b.ask(x, 0, "a")))
	b.to(x, sm.ExecutionScheduled)
	b.to(x, sm.ExecutionLocking)
	b.tokens(b.acquire(sharing(b.ask(x, 0, "a"))), map[string]int64{"a": 1})
	held := b.item("a")
	staleHandler.Finish()
	if now := b.item("a"); !answer.Stale || !reflect.DeepEqual(now, held) {
		t.Errorf("the stale handler was told %+v and made %+v of %+v", *answer, now, held)
	}
}

// The second: joining without raising the revision. Who has read the lock before
// takes it alone, past the one that has joined.
func TestSharingMistakeRevisionNotRaised(t *testing.T) {
	b := newBench(t)
	one, joins, x := b.sharer("a"), b.run(), b.run()
	b.to(one, sm.ExecutionCompletedAck)
	alone, answer := b.handler("alone", b.ask(x, 0, "a"))
	b.before(alone, "locks.take") // it has read that nobody lives
	b.tokens(b.acquire(sharing(b.ask(joins, 0, "a"))), map[string]int64{"a": 2})
	b.to(joins, sm.ExecutionRunning)
	alone.Finish()
	b.conflict(*answer, x, joins, false)
	b.holds("a", joins, true)
}

// The third: removing holders that were not read as dead. fill makes the entity
// one of many holders, all but the given one dead.
func (b *bench) fill(id string, n int, live *workflow.Execution) {
	b.Helper()
	keep := map[string]workflow.Holder{}
	for len(keep) < n-1 {
		keep[b.NewID()] = workflow.Holder{Epoch: 1}
	}
	item := b.item(id)
	s := workflow.Sharer{Execution: live.ID, Epoch: live.Epoch, Now: b.Now()}
	if _, ok, err := b.view.Locks.Share(b.ctx, "t", item.Entity, s, keep, item.Rev); !ok || err != nil {
		b.Fatal(ok, err)
	}
}

func TestSharingMistakePruningTheUnread(t *testing.T) {
	for _, n := range []int{1, 7, 8, 20, workflow.MaxHolders - 1, workflow.MaxHolders} {
		b := newBench(t)
		live, x := b.run(), b.run()
		b.to(live, sm.ExecutionRunning)
		b.fill("a", n, live)
		a := b.acquire(sharing(b.ask(x, 0, "a")))
		if len(a.Tokens) != 1 {
			t.Fatalf("among %d holders: %+v", n, a)
		}
		b.holds("a", live, true)
		b.holds("a", x, true)
		if m := len(b.item("a").Holders); n >= 8 && m > n+1-min(n-1, 8) {
			t.Errorf("%d holders became %d, none was removed", n, m)
		}
	}
}

// Who comes between reading and writing is not removed either, by no way of
// writing: one that joins anew, and one read as dead that holds anew.
func TestSharingMistakePruningWhoCameSince(t *testing.T) {
	for _, n := range []int{8, workflow.MaxHolders} {
		b := newBench(t)
		y, z, x := b.run(), b.run(), b.run()
		b.to(y, sm.ExecutionScheduled)
		b.fill("a", n, y)
		joins, answer := b.handler("joins", sharing(b.ask(x, 0, "a")))
		b.before(joins, map[bool]string{true: "locks.share", false: "locks.join"}[n == workflow.MaxHolders])
		b.to(y, sm.ExecutionLocking)
		for _, r := range []*workflow.Execution{y, z} {
			if a := b.acquire(sharing(b.ask(r, 0, "a"))); len(a.Tokens) != 1 {
				t.Fatalf("%+v", a)
			}
			b.to(r, sm.ExecutionRunning)
		}
		joins.Finish()
		if len(answer.Tokens) != 1 {
			t.Errorf("%+v", *answer)
		}
		b.holds("a", y, true)
		b.holds("a", z, true)
		b.holds("a", x, true)
	}
}

// More than 64 wait.
func TestSharersAreBounded(t *testing.T) {
	b := newBench(t)
	var first *workflow.Execution
	for range workflow.MaxHolders {
		x := b.sharer("a")
		if first == nil {
			first = x
		}
	}
	x := b.run()
	b.conflict(b.acquire(sharing(b.ask(x, 0, "a"))), x, first, false)
	b.to(first, sm.ExecutionCompletedAck)
	if a := b.acquire(sharing(b.ask(x, 1, "a"))); len(a.Tokens) != 1 {
		t.Errorf("%+v", a)
	}
}

// A lost reply to any write of sharing is an error, and no obstacle to whoever
// goes on from there.
func TestTwoHandlersOfOneRunShareTogether(t *testing.T) {
	b := newBench(t)
	b.sharer("b")
	x := b.run()
	one, first := b.handler("one", sharing(b.ask(x, 0, "a", "b")))
	two, second := b.handler("two", sharing(b.ask(x, 0, "a", "b")))
	b.before(one, "locks.share")
	b.before(two, "locks.share")
	one.Finish()
	two.Finish()
	b.tokens(*first, map[string]int64{"a": 1, "b": 2})
	b.tokens(*second, map[string]int64{"a": 1, "b": 2})
}

// A run that another started is as old as the outermost that started it: it
// reserves as that, and passes what its kin has reserved.
func TestAgeOfTheRoot(t *testing.T) {
	b := newBench(t)
	root, middle, y := b.run(), b.run(), b.holder("a")
	child, sibling := b.run(), b.run()
	ofRoot := func(ask locking.Ask) locking.Ask { ask.Age = root.ID; return ask }

	b.acquire(b.ask(middle, 1, "a"))
	b.conflict(b.acquire(ofRoot(b.ask(child, 1, "a"))), child, y, false)
	if l := b.item("a"); l.Res != child.ID || l.ResAge != root.ID {
		t.Fatalf("the lock is %+v, want it reserved by the child at its root's age", l)
	}
	b.to(y, sm.ExecutionCompletedAck)
	b.conflict(b.acquire(b.ask(middle, 2, "a")), middle, child, true)
	b.tokens(b.acquire(ofRoot(b.ask(sibling, 0, "a"))), map[string]int64{"a": 4})
	b.to(sibling, sm.ExecutionCompletedAck)
	b.tokens(b.acquire(b.ask(root, 0, "a")), map[string]int64{"a": 5})
}

// A reservation is void once its run has its locks, and what it left behind does
// not come back when an operator has it retried: it has to lock again first.
func TestReservationOfARunThatHasItsLocks(t *testing.T) {
	b := newBench(t)
	y, x, younger := b.holder("a"), b.run(), b.run()
	b.acquire(b.ask(x, 1, "a"))
	b.to(y, sm.ExecutionCompletedAck)
	b.conflict(b.acquire(b.ask(younger, 0, "a")), younger, x, true)
	b.to(x, sm.ExecutionRunning) // without the entity: it no longer wants it
	b.tokens(b.acquire(b.ask(younger, 1, "a")), map[string]int64{"a": 3})
}

// What others hold or have reserved is left out, and the rest is taken.
func TestSkipping(t *testing.T) {
	b := newBench(t)
	older, y, x := b.run(), b.holder("a", "d"), b.run()
	b.acquire(b.ask(older, 1, "d"))
	b.to(older, sm.ExecutionScheduled)
	z := b.holder("b")
	z2 := b.sharer("c")
	skip := b.ask(x, 0, "a", "b", "c", "d", "e")
	skip.Skip = true
	got := b.acquire(skip)
	b.tokens(got, map[string]int64{"e": 1})
	var dropped []string
	for _, by := range got.Dropped {
		dropped = append(dropped, by.Entity.ID+" "+by.Execution)
	}
	if want := []string{"a " + y.ID, "b " + z.ID, "c " + z2.ID, "d " + y.ID}; !slices.Equal(dropped, want) {
		t.Errorf("dropped %v, want %v", dropped, want)
	}
	b.to(y, sm.ExecutionCompletedAck)
	got = b.acquire(skip)
	b.tokens(got, map[string]int64{"a": 2, "e": 1})
	if by := got.Dropped[len(got.Dropped)-1]; by.Execution != older.ID || !by.Reservation {
		t.Errorf("dropped for %+v, want for the older run's reservation", by)
	}
	if n := len(b.waiters(z)); n != 0 {
		t.Errorf("a run that skips waits for nobody, but is registered")
	}
}

// A take that is lost is judged again: whoever was quicker holds it now.
func TestSkippingJudgesLostTakesAgain(t *testing.T) {
	b := newBench(t)
	x := b.run()
	skip := b.ask(x, 0, "a", "b")
	skip.Skip = true
	slow, answer := b.handler("slow", skip)
	b.before(slow, "locks.take")
	y := b.holder("a")
	slow.Finish()
	b.tokens(*answer, map[string]int64{"b": 1})
	if len(answer.Dropped) != 1 || answer.Dropped[0].Execution != y.ID || answer.Dropped[0].Entity.ID != "a" {
		t.Errorf("dropped %+v", answer.Dropped)
	}
}

func TestSkippingEverything(t *testing.T) {
	b := newBench(t)
	b.holder("a", "b")
	skip := b.ask(b.run(), 5, "a", "b")
	skip.Skip = true
	got := b.acquire(skip)
	if len(got.Tokens) != 0 || len(got.Dropped) != 2 || got.Conflict != nil || got.Stale {
		t.Errorf("got %+v", got)
	}
}

// An exclusive lock costs what it did: a read and a write for each entity.
func TestCostAlone(t *testing.T) {
	b := newBench(t)
	x := b.run()
	v := b.Open()
	var ids []string
	for i := range 10 {
		ids = append(ids, fmt.Sprint(i))
	}
	if _, err := lockerOf(v).Acquire(b.ctx, b.ask(x, 0, ids...)); err != nil {
		t.Fatal(err)
	}
	c := v.Meter.Take()
	if c.ReadUnits["locks"] != 10 || c.WriteUnits["locks"] != 10 || c.ReadUnits["executions"]+c.WriteUnits["executions"] != 0 {
		t.Errorf("ten locks cost %+v", c)
	}
}
