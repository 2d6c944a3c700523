package protocol_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/faults"
)

// lockFixture is some runs that want some entities, each of them alone or shared, and
// the handlers of these runs that are under way.
type lockFixture struct {
	*rapid.T
	ctx         context.Context
	stores      // as they are, for the judge
	interceptor *interceptor
	tenant      string
	locker      locking.Locker
	requests    map[string]lockRequest
	ids         []string // in the order of their age
	keys        []workflow.EntityKey
	handlers    []lockHandler
	inbox       []string // runs that somebody has sent a message to
	nonces      int

	// timersNeeded are the runs to which something has happened that only their alarm
	// can mend. Whatever else waits must be woken by a message.
	timersNeeded map[string]bool

	previous     map[workflow.EntityKey]workflow.Lock
	highestToken map[workflow.EntityKey]int64 // the highest token it has seen
}

// lockRequest is what a run wants.
type lockRequest struct {
	mode workflow.LockMode
	keys []workflow.EntityKey
}

// lockHandler is a handler of a run.
type lockHandler struct {
	*faults.Task
	execution string
}

var tenants int

func newLockFixture(t *rapid.T, a adapter) *lockFixture {
	tenants++
	s := &lockFixture{
		T: t, ctx: t.Context(), stores: a.open(), interceptor: &interceptor{}, tenant: fmt.Sprint("locks", tenants),
		requests: map[string]lockRequest{}, timersNeeded: map[string]bool{},
		previous: map[workflow.EntityKey]workflow.Lock{}, highestToken: map[workflow.EntityKey]int64{},
	}
	s.interceptor.waitersLost = func(waiters []string) {
		for _, id := range waiters {
			s.timersNeeded[id] = true
		}
	}
	s.locker = locking.Locker{Store: interceptedStore{s.store, s.interceptor}, Locks: interceptedLocks{s.locks, s.interceptor}, Parallel: 1, ReserveAfter: 2}
	for i := range rapid.IntRange(1, 3).Draw(t, "entities") {
		s.keys = append(s.keys, workflow.EntityKey{Type: "device", ID: fmt.Sprint("e", i)})
	}
	for i := range rapid.IntRange(2, 4).Draw(t, "runs") {
		id := fmt.Sprint("x", i)
		keys := rapid.SliceOfNDistinct(rapid.SampledFrom(s.keys), 1, -1, rapid.ID).Draw(t, id+" wants")
		mode := rapid.SampledFrom([]workflow.LockMode{"", "", workflow.LockShared}).Draw(t, "as")
		s.ids, s.requests[id] = append(s.ids, id), lockRequest{mode, keys}
		x := &workflow.Execution{Schema: 1, Tenant: s.tenant, ID: id, State: sm.ExecutionScheduled, Version: 1, Commit: s.nonce()}
		if ok, err := s.store.Create(s.ctx, x); err != nil || !ok {
			t.Fatal(ok, err)
		}
		s.inbox = append(s.inbox, id)
	}
	return s
}

func (s *lockFixture) nonce() string {
	s.nonces++
	return "n" + strconv.Itoa(s.nonces)
}

// runHandler is one handler of one run: it goes on until the run sleeps, works or is
// over, or until it meets an error.
func (s *lockFixture) runHandler(id string) {
	if err := s.advance(id); err != nil {
		s.timersNeeded[id] = true
	}
}

func (s *lockFixture) advance(id string) error {
	for {
		x, err := s.locker.Store.Load(s.ctx, s.tenant, id)
		if err != nil {
			return err
		}
		next, release, sleeps := x.Clone(), false, false
		switch x.State {
		case sm.ExecutionScheduled:
			if x.BlockedBy != nil {
				if sleep, err := s.awaitBlocker(x); err != nil || sleep {
					return err
				}
			}
			next.State, next.Epoch, next.BlockedBy = sm.ExecutionLocking, x.Epoch+1, nil
		case sm.ExecutionLocking:
			got, err := s.locker.Acquire(s.ctx, locking.Request{
				Tenant: s.tenant, Execution: id, Epoch: x.Epoch, Mode: s.requests[id].mode,
				Conflicts: x.Conflicts, Keys: s.requests[id].keys, Now: time.UnixMilli(1_800_000_000_000),
			})
			switch {
			case err != nil:
				return err
			case got.Stale:
				continue
			case got.Conflict != nil:
				next.State, next.BlockedBy, release, sleeps = sm.ExecutionScheduled, got.Conflict, true, true
				next.Conflicts++
			default:
				next.State, next.Scope.Inline = sm.ExecutionRunning, nil
				for _, key := range s.requests[id].keys {
					next.Scope.Inline = append(next.Scope.Inline, workflow.ScopeEntity{Key: key, Token: got.Tokens[key]})
				}
			}
		default:
			return nil
		}
		ok, err := s.commit(x, next, release)
		if err != nil || ok && sleeps {
			return err
		}
	}
}

func (s *lockFixture) awaitBlocker(x *workflow.Execution) (sleep bool, err error) {
	if b := x.BlockedBy; b.Reservation {
		return s.locker.Store.AddReserverWaiter(s.ctx, s.tenant, b.Execution, x.ID)
	}
	return s.locker.Store.AddHolderWaiter(s.ctx, s.tenant, x.BlockedBy.Execution, x.BlockedBy.Epoch, x.ID)
}

// commit moves a run, and sends a message to whoever waited for what it lets go.
func (s *lockFixture) commit(x, next *workflow.Execution, release bool) (bool, error) {
	next.Version, next.Commit = x.Version+1, s.nonce()
	waiters, ok, err := s.locker.Store.Commit(s.ctx, x.Version, next, release)
	if err == nil && ok {
		s.inbox = append(s.inbox, waiters...)
	}
	return ok, err
}

// transition is what an operator, or the end of its work, does to a run.
func (s *lockFixture) transition(id string, do func(x, next *workflow.Execution) (release bool)) {
	x, err := s.locker.Store.Load(s.ctx, s.tenant, id)
	if err != nil {
		return // whoever asked for it asks again
	}
	next := x.Clone()
	release := do(x, next)
	if next.State == x.State {
		return
	}
	ok, err := s.commit(x, next, release)
	if err != nil {
		s.timersNeeded[id] = true
	} else if ok && next.State == sm.ExecutionScheduled {
		s.inbox = append(s.inbox, id)
	}
}

func (s *lockFixture) end(id string) {
	s.transition(id, func(x, next *workflow.Execution) bool {
		if x.State == sm.ExecutionRunning {
			next.State = sm.ExecutionCompletedAck
		}
		return true
	})
}

func (s *lockFixture) cancel(id string) {
	s.transition(id, func(x, next *workflow.Execution) bool {
		if !sm.Acknowledged(x.State) {
			next.State, next.BlockedBy = sm.ExecutionFailedSafeAck, nil
		}
		return true
	})
}

func (s *lockFixture) retry(id string) {
	s.transition(id, func(x, next *workflow.Execution) bool {
		if x.State == sm.ExecutionFailedSafeAck {
			next.State, next.Conflicts = sm.ExecutionScheduled, 0
		}
		return false
	})
}

// startTask lets a handler of a run stand before its first call.
func (s *lockFixture) startTask(id string, work func(id string)) {
	s.handlers = append(s.handlers, lockHandler{s.interceptor.StartTask(id, func() { work(id) }), id})
}

// actions are what may happen next.
func (s *lockFixture) actions() []action {
	s.handlers = slices.DeleteFunc(s.handlers, func(h lockHandler) bool { return h.Done() })
	atWork, sent := len(s.handlers) > 0, len(s.inbox) > 0
	one := func(r *rapid.T) lockHandler { return draw(r, "handler", s.handlers) }
	message := func(r *rapid.T, keep bool) string {
		i := rapid.IntRange(0, len(s.inbox)-1).Draw(r, "message")
		to := s.inbox[i]
		if !keep {
			s.inbox = slices.Delete(s.inbox, i, i+1)
		}
		return to
	}
	verb := func(work func(string)) func(*rapid.T) {
		return func(r *rapid.T) { s.startTask(draw(r, "run", s.ids), work) }
	}
	return []action{
		{"calls", atWork, func(r *rapid.T) {
			h := one(r)
			for range rapid.IntRange(1, 5).Draw(r, "of them") {
				h.Step()
			}
		}},
		{"to its end", atWork, func(r *rapid.T) { one(r).Finish() }},
		{"message", sent, func(r *rapid.T) { s.startTask(message(r, false), s.runHandler) }},
		{"message twice", sent, func(r *rapid.T) { s.startTask(message(r, true), s.runHandler) }},
		{"alarm", true, verb(s.runHandler)},
		{"end", true, verb(s.end)},
		{"fault", atWork, func(r *rapid.T) {
			h := one(r)
			s.interceptor.fault = rapid.SampledFrom([]faults.Fault{faults.LostReply, faults.Throttled, faults.Repeated}).Draw(r, "fault")
			h.Step()
		}},
		{"death", atWork, func(r *rapid.T) {
			h := one(r)
			h.Kill()
			s.timersNeeded[h.execution] = true
		}},
		{"message lost", sent, func(r *rapid.T) { s.timersNeeded[message(r, false)] = true }},
		{"cancel", true, verb(s.cancel)},
		{"retry", true, verb(s.retry)},
	}
}

// drain lets everything happen that is still to: who is at work comes to an end,
// who holds ends, messages and the alarms of what was struck arrive. No other
// alarm rings: who is forgotten now waits for ever.
func (s *lockFixture) drain() {
	s.interceptor.fault = faults.None
	for _, h := range s.handlers {
		h.Finish()
		s.checkInvariants()
	}
	for range 300 {
		to := append(slices.Clone(s.inbox), slices.Sorted(maps.Keys(s.timersNeeded))...)
		s.inbox = nil
		clear(s.timersNeeded)
		for _, x := range s.loadAll() {
			if x.State == sm.ExecutionRunning && len(to) == 0 {
				s.end(x.ID)
				to = append(to, x.ID)
				break
			}
		}
		if len(to) == 0 {
			for _, x := range s.loadAll() {
				if !sm.Acknowledged(x.State) {
					s.Fatalf("%s is forgotten: it is %s, blocked by %+v, and nobody will tell it anything", x.ID, x.State, x.BlockedBy)
				}
			}
			return
		}
		for _, id := range to {
			s.runHandler(id)
		}
		s.checkInvariants()
	}
	s.Fatalf("it never comes to an end")
}

// TestLocking_KeepsInvariantsUnderFaults: whatever happens to handlers, messages and replies, over whichever
// adapter, the laws of locks_judge_test.go hold after each action, and everybody
// ends without any alarm but those of the runs that something has happened to.
func TestLocking_KeepsInvariantsUnderFaults(t *testing.T) {
	runOnAdapters(t, func(t *rapid.T, a adapter) {
		s := newLockFixture(t, a)
		defer func() {
			for _, h := range s.handlers {
				h.Kill()
			}
		}()
		runActions(t, s.checkInvariants, s.actions)
		s.drain()
	})
}
