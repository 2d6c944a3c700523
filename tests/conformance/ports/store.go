package ports

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Store checks a port.Store.
func Store(t *testing.T, open Open) {
	runParallel(t, open, map[string]func(s *fixture){
		"an execution is read as it was written": func(s *fixture) {
			x := s.createExecution(sm.ExecutionRunning)
			s.wantSame(x, must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID)))
			next, waiters := s.commitState(x, sm.ExecutionError, false)
			if waiters != nil {
				s.Errorf("waiters %v without a release", waiters)
			}
			s.wantSame(next, must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID)))
			bare := &workflow.Execution{Schema: workflow.SchemaVersion, Tenant: s.tenant, ID: newID(), State: sm.ExecutionNew, Version: 1, Commit: "c", CreatedAt: baseTime}
			s.wantApplied(true)(s.Store.Create(s.ctx, bare))
			s.wantSame(bare, must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, bare.ID)))
		},
		"events are published by one at a time, and only from where they were": func(s *fixture) {
			id := newID()
			check := func(sequence int64, by string) {
				s.Helper()
				if got := must[workflow.ObservedThrough](s)(s.Store.ObservedThrough(s.ctx, s.tenant, id)); got.Sequence != sequence || got.By != by {
					s.Errorf("published as far as %+v, want %d by %q", got, sequence, by)
				}
			}
			until := baseTime.Add(time.Minute)
			lease := func(seen int64, by string, now time.Time, ok bool) {
				s.Helper()
				s.wantApplied(ok)(s.Store.LeaseObserved(s.ctx, s.tenant, id, seen, by, now, until))
			}
			move := func(seen, to int64, ok bool) {
				s.Helper()
				s.wantApplied(ok)(s.Store.MoveObserved(s.ctx, s.tenant, id, seen, to))
			}
			check(0, "")
			lease(1, "a", baseTime, false)
			lease(0, "a", baseTime, true)
			lease(0, "a", baseTime, true) // its reply was lost
			lease(0, "b", baseTime, false)
			check(0, "a")
			lease(0, "b", until.Add(time.Millisecond), true)
			check(0, "b")
			move(1, 3, false)
			move(0, 3, true) // also by one whose time is over
			move(0, 3, true) // its reply was lost
			move(0, 4, false)
			check(3, "")
			lease(3, "c", baseTime, true)
			s.loseReply()
			move(3, 5, true)
			check(5, "")
		},
		"a missing execution is not found": func(s *fixture) {
			_, err := s.Store.Load(s.ctx, s.tenant, newID())
			s.wantCode(err, workflow.CodeNotFound)
			x := s.createExecution(sm.ExecutionNew)
			_, err = s.Store.Load(s.ctx, s.tenant+"2", x.ID)
			s.wantCode(err, workflow.CodeNotFound)
			_, ok, err := s.Store.Commit(s.ctx, 1, nextVersion(s.newExecution(sm.ExecutionNew), sm.ExecutionValid), workflow.CommitOptions{})
			s.wantApplied(false)(ok, err)
		},
		"a newer schema is rejected": func(s *fixture) {
			x := s.newExecution(sm.ExecutionRunning)
			x.Schema = workflow.SchemaVersion + 1
			s.wantApplied(true)(s.Store.Create(s.ctx, x))
			_, err := s.Store.Load(s.ctx, s.tenant, x.ID)
			s.wantCode(err, workflow.CodeUnavailable)
			older := s.createExecution(sm.ExecutionRunning)
			found, newer, err := s.Store.LoadMany(s.ctx, s.tenant, []string{newID(), x.ID, older.ID})
			if err != nil || !slices.Equal(newer, []string{x.ID}) || len(found) != 1 || found[0].ID != older.ID {
				s.Errorf("of a newer version and one of this: %v, %v, %v", found, newer, err)
			}
			heads := must[map[string]workflow.OwnerStatus](s)(s.Store.Heads(s.ctx, s.tenant, []string{x.ID}))
			if heads[x.ID].State != x.State {
				s.Errorf("the head of a newer version is %v", heads)
			}
			ids := []string{newID(), x.ID, older.ID}
			if diff := cmp.Diff(must[map[string]workflow.OwnerStatus](s)(s.Store.Heads(s.ctx, s.tenant, ids)), must[map[string]workflow.OwnerStatus](s)(s.Store.HeadsWeakly(s.ctx, s.tenant, ids))); diff != "" {
				s.Errorf("read weakly: %s", diff)
			}
		},
		"descendants are counted once and limited": func(s *fixture) {
			root, other := newID(), newID()
			s.oneWinner(func(i int) (bool, error) { // each of another child
				return s.Store.CountDescendants(s.ctx, s.tenant, root, strconv.Itoa(i), 1, 1)
			})
			for _, c := range []struct {
				root, child string
				n, limit    int
				want        bool
			}{
				{root, "b", 1, 1, false}, {root, "b", 1, 3, true}, {root, "b", 1, 3, true}, {root, "c", 1, 3, true},
				{root, "d", 1, 3, false}, {root, "b", 1, 1, true}, {other, "d", 1, 3, true}, {root, "d", 1, 4, true},
				{other, "set", 5, 5, false}, {other, "set", 5, 6, true}, {other, "set", 5, 6, true}, {other, "e", 1, 6, false}, {newID(), "set", 5, 4, false},
			} {
				if ok := must[bool](s)(s.Store.CountDescendants(s.ctx, s.tenant, c.root, c.child, max(1, c.n), c.limit)); ok != c.want {
					s.Errorf("%+v: %v", c, ok)
				}
			}
			_, err := s.Store.Load(s.ctx, s.tenant, root)
			s.wantCode(err, workflow.CodeNotFound)
		},
		"one of many concurrent creates succeeds": func(s *fixture) {
			id := newID()
			all := make([]*workflow.Execution, racers)
			won := s.oneWinner(func(i int) (bool, error) {
				all[i] = s.newExecution(sm.ExecutionNew)
				all[i].ID = id
				return s.Store.Create(s.ctx, all[i])
			})
			s.wantSame(all[won], must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, id)))
		},
		"one of many concurrent commits succeeds": func(s *fixture) {
			x := s.createExecution(sm.ExecutionScheduled)
			all := make([]*workflow.Execution, racers)
			won := s.oneWinner(func(i int) (bool, error) {
				all[i] = nextVersion(x, sm.ExecutionLocking)
				_, ok, err := s.Store.Commit(s.ctx, x.Version, all[i], workflow.CommitOptions{})
				return ok, err
			})
			s.wantSame(all[won], must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID)))
		},
		"a create with a lost reply is recognised": func(s *fixture) {
			x := s.newExecution(sm.ExecutionNew)
			s.loseReply()
			s.wantApplied(true)(s.Store.Create(s.ctx, x))
			other := s.newExecution(sm.ExecutionNew)
			other.ID = x.ID
			s.wantApplied(false)(s.Store.Create(s.ctx, other))
		},
		"a commit with a lost reply is recognised": func(s *fixture) {
			x := s.createExecution(sm.ExecutionRunning)
			s.wantWaiter(true, x.ID, x.Epoch, newID())
			next := nextVersion(x, sm.ExecutionCompletedAck)
			s.loseReply()
			_, ok, err := s.Store.Commit(s.ctx, x.Version, next, workflow.CommitOptions{Release: true})
			s.wantApplied(true)(ok, err)
			got := must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID))
			s.wantSame(next, got)
			_, ok, err = s.Store.Commit(s.ctx, x.Version, nextVersion(x, sm.ExecutionError), workflow.CommitOptions{})
			s.wantApplied(false)(ok, err)
		},
		"waiters survive commits and do not disturb them": func(s *fixture) {
			x := s.createExecution(sm.ExecutionRunning)
			a, b := newID(), newID()
			s.wantWaiter(true, x.ID, x.Epoch, a)
			x, _ = s.commitState(x, sm.ExecutionWaiting, false) // a waiter does not raise the version
			s.wantWaiter(true, x.ID, x.Epoch, b)
			s.wantWaiter(true, x.ID, x.Epoch, b)
			got := must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID))
			s.wantSameSet(got.Waiters, a, b)
			_, waiters := s.commitState(got, sm.ExecutionCompletedAck, true) // the waiters that were read are not written back
			s.wantSameSet(waiters, a, b)
			if after := must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID)); len(after.Waiters) != 0 {
				s.Errorf("still waiting: %v", after.Waiters)
			}
		},
		"a failure streak belongs to one version": func(s *fixture) {
			x := s.createExecution(sm.ExecutionRunning)
			streak := workflow.FailureStreak{Since: baseTime, Count: 3, Reason: "no \"luck\"", Revision: 7}
			record := func(want bool, id string, version int64, before *workflow.FailureStreak, next workflow.FailureStreak) {
				s.Helper()
				if ok := must[bool](s)(s.Store.RecordFailureStreak(s.ctx, s.tenant, id, version, before, next)); ok != want {
					s.Errorf("recorded %+v: %v", next, ok)
				}
			}
			record(false, x.ID, x.Version+1, nil, streak) // another version
			if got := must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID)); got.FailureStreak != nil {
				s.Errorf("stored the streak of another version: %+v", got.FailureStreak)
			}
			record(true, x.ID, x.Version, nil, streak)
			second := streak
			second.Count, second.Revision = 4, 8
			record(false, x.ID, x.Version, nil, second)     // another one has counted since
			record(false, x.ID, x.Version, &second, second) // or has counted another failure
			got := must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID))
			if got.Version != x.Version || got.FailureStreak == nil || *got.FailureStreak != streak {
				s.Errorf("read %+v", got.FailureStreak)
			}
			x, _ = s.commitState(got, sm.ExecutionRunning, false) // a commit keeps the streak of what it commits
			if got := must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID)); got.Version != x.Version || got.FailureStreak == nil || *got.FailureStreak != streak {
				s.Errorf("kept %+v", got.FailureStreak)
			}
			x.FailureStreak = nil
			x, _ = s.commitState(x, sm.ExecutionWaiting, false)
			s.wantSame(x, must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID)))
			record(false, newID(), 1, nil, streak) // a missing execution

			record(true, x.ID, x.Version, nil, second)
			another := workflow.FailureStreak{Since: baseTime.Add(time.Hour), Revision: second.Revision} // as another release reads it
			record(true, x.ID, x.Version, &another, workflow.FailureStreak{Since: baseTime, Count: 1})
			record(false, x.ID, x.Version, &another, streak)
			record(true, x.ID, x.Version, &workflow.FailureStreak{}, streak) // without a revision, as a previous release leaves it
			record(false, x.ID, x.Version, &workflow.FailureStreak{}, second)
			record(false, x.ID, x.Version-1, &streak, workflow.FailureStreak{}) // another version
			if got := must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID)); got.FailureStreak == nil {
				s.Errorf("the streak of another version is cleared")
			}
			record(true, x.ID, x.Version, &streak, workflow.FailureStreak{})
			s.wantSame(x, must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID)))
		},
		"waiters are released exactly once": func(s *fixture) {
			x := s.createExecution(sm.ExecutionRunning)
			var expected []string
			for range 10 {
				expected = append(expected, newID())
				s.wantWaiter(true, x.ID, x.Epoch, expected[len(expected)-1])
			}
			var mu sync.Mutex
			var woken []string
			s.oneWinner(func(int) (bool, error) {
				waiters, ok, err := s.Store.Commit(s.ctx, x.Version, nextVersion(x, sm.ExecutionCompletedAck), workflow.CommitOptions{Release: true})
				mu.Lock()
				defer mu.Unlock()
				woken = append(woken, waiters...)
				return ok, err
			})
			s.wantSameSet(woken, expected...)
			if got := must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID)); len(got.Waiters) != 0 {
				s.Errorf("still waiting: %v", got.Waiters)
			}
		},
		"no waiter is lost between registration and release": func(s *fixture) {
			x := s.createExecution(sm.ExecutionRunning)
			var mu sync.Mutex
			var registered, woken []string
			s.race(func(i int) (bool, error) {
				if i == racers/2 {
					waiters, ok, err := s.Store.Commit(s.ctx, x.Version, nextVersion(x, sm.ExecutionCompletedAck), workflow.CommitOptions{Release: true})
					woken = waiters
					return ok, err
				}
				me := newID()
				_, ok, err := s.Store.AddHolderWaiter(s.ctx, s.tenant, workflow.BlockedBy{Execution: x.ID, Epoch: x.Epoch}, me)
				mu.Lock()
				defer mu.Unlock()
				if ok {
					registered = append(registered, me)
				}
				return ok, err
			})
			s.wantSameSet(woken, registered...)
		},
		"waiters register only with a live execution": func(s *fixture) {
			for _, state := range sm.ExecutionStates() {
				x := s.createExecution(state)
				s.wantWaiter(sm.HoldsLocks(state), x.ID, x.Epoch, newID())
				s.wantWaiter(false, x.ID, x.Epoch-1, newID())
				s.wantWaiter(false, x.ID, x.Epoch+1, newID())
				s.wantReserverWaiter(workflow.OwnerStatus{State: state}.Reserves(), x.ID)
			}
			s.wantWaiter(false, newID(), 0, newID())
			s.wantReserverWaiter(false, newID())
		},
		"what decides about locks is read whole": func(s *fixture) {
			x := s.createExecution(sm.ExecutionRunning)
			read := func() workflow.OwnerStatus {
				return must[map[string]workflow.OwnerStatus](s)(s.Store.Heads(s.ctx, s.tenant, []string{x.ID}))[x.ID]
			}
			for _, kept := range []*workflow.Places{new(workflow.NewPlaces(1, 3)), new(workflow.NewPlaces()), nil} {
				next := nextVersion(x, sm.ExecutionFailedUnsafe)
				if next.Kept, next.Narrowed = kept, x.Narrowed+1; kept == nil {
					next.Narrowed = 0
				}
				_, ok, err := s.Store.Commit(s.ctx, x.Version, next, workflow.CommitOptions{})
				s.wantApplied(true)(ok, err)
				x = next
				if diff := cmp.Diff(x.OwnerStatus(), read()); diff != "" {
					s.Errorf("kept %v: %s", kept, diff)
				}
				s.wantSame(x, must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID)))
			}
			waits := nextVersion(x, sm.ExecutionScheduled)
			waits.BlockedBy = &workflow.BlockedBy{Execution: newID(), Epoch: 4, Place: 3, Narrowed: 2, NeedsPerson: true}
			_, ok, err := s.Store.Commit(s.ctx, x.Version, waits, workflow.CommitOptions{})
			s.wantApplied(true)(ok, err)
			x = waits
			s.wantSame(x, must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID)))
			if got := read(); !got.AwaitsPerson {
				s.Errorf("an execution that waits for an operator is read as %+v", got)
			}
			x, _ = s.commitState(x, sm.ExecutionLocking, false)
			s.wantSame(x, must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID)))
		},
		"a waiter registers only if nothing was released since it read": func(s *fixture) {
			x := s.createExecution(sm.ExecutionRunning)
			by := workflow.BlockedBy{Execution: x.ID, Epoch: x.Epoch, Place: 2}
			var waiters []string
			register := func(expected bool, narrowed int64) {
				s.Helper()
				by.Narrowed = narrowed
				waiter, room := newID(), len(waiters) < workflow.MaxWaiters
				if expected && room {
					waiters = append(waiters, waiter)
				}
				holder, ok, err := s.Store.AddHolderWaiter(s.ctx, s.tenant, by, waiter)
				s.wantApplied(expected)(ok, err)
				slices.Sort(waiters)
				slices.Sort(holder.FullWaiterSet)
				want := x.OwnerStatus().WithWaiters(waiters, workflow.MaxWaiters)
				if diff := cmp.Diff(want, holder); diff != "" && ok {
					s.Error(diff)
				}
				if ok && holder.RejectsWaiter(waiter) == room {
					s.Errorf("%+v rejects %s: %t", holder, waiter, room)
				}
				if head := must[map[string]workflow.OwnerStatus](s)(s.Store.Heads(s.ctx, s.tenant, []string{x.ID}))[x.ID]; head.RejectsWaiter(waiter) != holder.RejectsWaiter(waiter) && ok {
					s.Errorf("read as %+v, and registered with %+v", head, holder)
				}
			}
			register(true, 0)
			register(false, 1)
			for n := range int64(2) {
				next := nextVersion(x, sm.ExecutionFailedUnsafe)
				next.Kept, next.Narrowed = new(workflow.NewPlaces(1, 2)), n+1
				_, ok, err := s.Store.Commit(s.ctx, x.Version, next, workflow.CommitOptions{Release: true})
				s.wantApplied(true)(ok, err)
				x, waiters = next, nil
				register(false, n)
				register(true, n+1)
				register(false, 0)
			}
			for range workflow.MaxWaiters { // a full set changes nothing about that
				register(true, 2)
			}
			register(false, 1)
		},
		"no waiter registers with a reserver that waits for an operator": func(s *fixture) {
			x := s.createExecution(sm.ExecutionScheduled)
			next := nextVersion(x, sm.ExecutionScheduled)
			next.BlockedBy = &workflow.BlockedBy{Execution: newID(), Epoch: 4}
			_, ok, err := s.Store.Commit(s.ctx, x.Version, next, workflow.CommitOptions{})
			s.wantApplied(true)(ok, err)
			s.wantReserverWaiter(true, x.ID)
			x, next = next, nextVersion(next, sm.ExecutionScheduled)
			next.BlockedBy = &workflow.BlockedBy{Execution: newID(), Epoch: 4, NeedsPerson: true}
			_, ok, err = s.Store.Commit(s.ctx, x.Version, next, workflow.CommitOptions{})
			s.wantApplied(true)(ok, err)
			s.wantReserverWaiter(false, x.ID)
			x, next = next, nextVersion(next, sm.ExecutionLocking)
			next.BlockedBy = nil
			_, ok, err = s.Store.Commit(s.ctx, x.Version, next, workflow.CommitOptions{})
			s.wantApplied(true)(ok, err)
			s.wantReserverWaiter(true, x.ID)
		},
		"an unknown state counts as live": func(s *fixture) {
			x := s.createExecution("HIBERNATING")
			s.wantWaiter(true, x.ID, x.Epoch, newID())
			s.wantReserverWaiter(true, x.ID)
			if head := must[map[string]workflow.OwnerStatus](s)(s.Store.Heads(s.ctx, s.tenant, []string{x.ID}))[x.ID]; !head.Holds(x.Epoch, 0) || !head.Reserves() {
				s.Errorf("status %+v is not live", head)
			}
		},
		"an execution has at most 64 waiters": func(s *fixture) {
			x := s.createExecution(sm.ExecutionRunning)
			for range 70 {
				s.wantWaiter(true, x.ID, x.Epoch, newID())
			}
			s.wantWaiter(false, x.ID, x.Epoch+1, newID())
			if got := must[*workflow.Execution](s)(s.Store.Load(s.ctx, s.tenant, x.ID)); len(got.Waiters) != 64 {
				s.Errorf("%d waiters, want 64", len(got.Waiters))
			}
		},
		"many heads and executions are read at once": func(s *fixture) {
			var ids []string
			want := map[string]workflow.OwnerStatus{}
			for i := range 230 {
				id := newID()
				ids = append(ids, id)
				want[id] = workflow.OwnerStatus{}
				if i%2 == 0 {
					x := s.newExecution(sm.ExecutionLocked)
					x.ID, x.Epoch = id, int64(i)
					s.wantApplied(true)(s.Store.Create(s.ctx, x))
					want[id] = workflow.OwnerStatus{State: sm.ExecutionLocked, Epoch: int64(i)}
				}
			}
			if diff := cmp.Diff(want, must[map[string]workflow.OwnerStatus](s)(s.Store.Heads(s.ctx, s.tenant, append(ids, ids[0])))); diff != "" {
				s.Error(diff)
			}
			many, newer, err := s.Store.LoadMany(s.ctx, s.tenant, ids)
			if len(many) != 115 || len(newer) > 0 || err != nil {
				s.Fatalf("%d loaded, want 115; %v, %v", len(many), newer, err)
			}
			for i, x := range many {
				if x.ID != ids[2*i] || x.Epoch != int64(2*i) {
					s.Errorf("item %d is %s", i, x.ID)
				}
			}
		},
		"lists by state are newest first, or oldest first, in pages": func(s *fixture) {
			var ids []string
			for range 25 {
				ids = append(ids, s.createExecution(sm.ExecutionWaiting).ID)
			}
			other := s.createExecution(sm.ExecutionWaiting)
			s.commitState(other, sm.ExecutionError, false)
			for _, order := range []workflow.Order{workflow.OrderOldest, workflow.OrderNewest} {
				var got []string
				for from := ""; ; {
					page := must[[]string](s)(s.Store.ListByState(s.ctx, s.tenant, sm.ExecutionWaiting, from, order, 10))
					if got = append(got, page...); len(page) < 10 {
						break
					}
					from = page[len(page)-1]
				}
				if diff := cmp.Diff(ids, got); diff != "" {
					s.Errorf("order %d: %s", order, diff)
				}
				slices.Reverse(ids)
			}
		},
		"every state is listed": func(s *fixture) {
			for _, state := range sm.ExecutionStates() {
				x := s.createExecution(sm.ExecutionScheduled)
				x, _ = s.commitState(x, state, false)
				listed := must[[]string](s)(s.Store.ListByState(s.ctx, s.tenant, sm.ListedAs(state), "", workflow.OrderNewest, 1))
				if x.Unlisted() {
					listed = must[[]string](s)(s.Store.ListUnlisted(s.ctx, s.tenant, baseTime))
					listed = slices.DeleteFunc(listed, func(id string) bool { return id != x.ID })
				}
				if len(listed) != 1 || listed[0] != x.ID {
					s.Errorf("in %s: %v are listed as %s", state, listed, sm.ListedAs(state))
				}
			}
		},
		"executions that have just begun are listed by their timers": func(s *fixture) {
			var byTimer, byState []string
			for i := range 25 {
				x := s.newExecution(sm.ExecutionLocking)
				switch x.DueAt = x.CreatedAt.Add(workflow.UnlistedFor); i % 3 {
				case 1:
					x.DueAt = x.DueAt.Add(time.Millisecond)
				case 2:
					x.DueAt = time.Time{}
				}
				s.wantApplied(true)(s.Store.Create(s.ctx, x))
				if i%3 == 0 {
					byTimer = append(byTimer, x.ID)
				} else {
					byState = append(byState, x.ID)
				}
			}
			got := must[[]string](s)(s.Store.ListUnlisted(s.ctx, s.tenant, baseTime))
			slices.Sort(got)
			if diff := cmp.Diff(byTimer, got); diff != "" {
				s.Errorf("by timer: %s", diff)
			}
			got = must[[]string](s)(s.Store.ListByState(s.ctx, s.tenant, sm.ExecutionRunning, "", workflow.OrderOldest, 100))
			if diff := cmp.Diff(byState, got); diff != "" {
				s.Errorf("by state: %s", diff)
			}
		},
		"an execution that ends is listed where it ended": func(s *fixture) {
			x := s.newExecution(sm.ExecutionRunning)
			s.wantApplied(true)(s.Store.Create(s.ctx, x))
			x.DueAt = time.Time{}
			s.commitState(x, sm.ExecutionCompletedAck, true)
			if got := must[[]string](s)(s.Store.ListUnlisted(s.ctx, s.tenant, baseTime)); len(got) != 0 {
				s.Errorf("%v listed by timer", got)
			}
			for state, want := range map[sm.ExecutionState]int{sm.ExecutionRunning: 0, sm.ExecutionCompletedAck: 1} {
				if got := must[[]string](s)(s.Store.ListByState(s.ctx, s.tenant, state, "", workflow.OrderNewest, 10)); len(got) != want {
					s.Errorf("%v listed as %s", got, state)
				}
			}
		},
		"due executions are listed, the oldest timer first": func(s *fixture) {
			// All tenants share the index; the test skips other tenants.
			start := baseTime.AddDate(-10, 0, 0)
			want := map[string]time.Time{}
			var later *workflow.Execution
			for i := range 12 {
				x := s.newExecution(sm.ExecutionRunning)
				x.DueAt = start.Add(time.Duration(i) * time.Second)
				s.wantApplied(true)(s.Store.Create(s.ctx, x))
				switch i {
				case 10:
					later = x // due after now
				case 11:
					x.DueAt = time.Time{} // no timer
					s.commitState(x, sm.ExecutionCompletedAck, true)
				default:
					want[x.ID] = x.DueAt
				}
			}
			found := 0
			for shard := range topology.DueShards {
				var last time.Time
				for _, wakeup := range s.dueBetween(shard, time.Time{}, start.Add(9*time.Second), 2) {
					at, due := want[wakeup.Execution]
					if !due || at.Before(last) || !wakeup.DueAt.Equal(at) {
						s.Errorf("%s is not due, or out of order (%v)", wakeup.Execution, wakeup.Execution == later.ID)
					}
					last = at
					found++
				}
			}
			since, until := start.Add(3*time.Second), start.Add(5*time.Second)
			between := 0
			for shard := range topology.DueShards {
				for _, wakeup := range s.dueBetween(shard, since, until, 1) {
					if between++; wakeup.DueAt.Before(since) || wakeup.DueAt.After(until) {
						s.Errorf("%s is due at %s", wakeup.Execution, wakeup.DueAt)
					}
				}
				if list := must[workflow.List[workflow.Wakeup]](s)(s.Store.DueExecutions(s.ctx, shard, until, since, workflow.Page{})); len(list.Items) > 0 {
					s.Errorf("found %+v in an empty interval", list.Items)
				}
			}
			if between != 3 {
				s.Errorf("%d due in the interval, want 3", between)
			}
			_, err := s.Store.DueExecutions(s.ctx, 0, time.Time{}, baseTime, workflow.Page{Token: "not ours"})
			s.wantCode(err, workflow.CodeInvalid)
			if found != len(want) {
				s.Errorf("%d due, want %d", found, len(want))
			}
		},
		"tenants whose names look like keys stay apart": func(s *fixture) {
			x := s.createExecution(sm.ExecutionRunning)
			y := x.Clone()
			y.Tenant, y.ID, y.Commit = s.tenant+"#0%23", x.ID, uuid.NewString()
			s.wantApplied(true)(s.Store.Create(s.ctx, y))
			s.wantSame(y, must[*workflow.Execution](s)(s.Store.Load(s.ctx, y.Tenant, y.ID)))
			got := must[[]string](s)(s.Store.ListUnlisted(s.ctx, y.Tenant, baseTime))
			if fmt.Sprint(got) != fmt.Sprint([]string{x.ID}) {
				s.Errorf("listed %v", got)
			}
		},
	})
}

// dueBetween reads all pages of a shard, and returns the wake-ups of the fixture's tenant.
func (s *fixture) dueBetween(shard int, since, until time.Time, limit int) (due []workflow.Wakeup) {
	s.Helper()
	for page := (workflow.Page{Limit: limit}); ; {
		list := must[workflow.List[workflow.Wakeup]](s)(s.Store.DueExecutions(s.ctx, shard, since, until, page))
		if len(list.Items) > limit {
			s.Fatalf("%d items on a page of %d", len(list.Items), limit)
		}
		for _, wakeup := range list.Items {
			if wakeup.Tenant == s.tenant {
				due = append(due, wakeup)
			}
		}
		if page.Token = list.NextToken; page.Token == "" {
			return due
		}
	}
}

func (s *fixture) wantSame(want, got *workflow.Execution) {
	s.Helper()
	// ItemBytes depends on the store.
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(workflow.Execution{}, "ItemBytes")); diff != "" {
		s.Error(diff)
	}
}

func (s *fixture) wantSameSet(got []string, want ...string) {
	s.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		s.Errorf("got %v, want %v", got, want)
	}
}
