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
	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// street is some runs that want some entities, each of them alone or shared, and
// the handlers of these runs that are under way.
type street struct {
	*rapid.T
	ctx    context.Context
	items  // as they are, for the judge
	gate   *gate
	tenant string
	locker locking.Locker
	wants  map[string]want
	ids    []string // in the order of their age
	keys   []workflow.EntityKey
	open   []handler
	inbox  []string // runs that somebody has sent a message to
	nonces int

	// alarms are the runs to which something has happened that only their alarm
	// can mend. Whatever else waits must be woken by a message.
	alarms map[string]bool

	before map[workflow.EntityKey]workflow.Lock
	device map[workflow.EntityKey]int64 // the highest token it has seen
}

// want is what a run wants.
type want struct {
	mode workflow.LockMode
	keys []workflow.EntityKey
}

// handler is a handler of a run.
type handler struct {
	*fate.Task
	run string
}

var tenants int

func newStreet(t *rapid.T, a adapter) *street {
	tenants++
	s := &street{
		T: t, ctx: t.Context(), items: a.open(), gate: &gate{}, tenant: fmt.Sprint("locks", tenants),
		wants: map[string]want{}, alarms: map[string]bool{},
		before: map[workflow.EntityKey]workflow.Lock{}, device: map[workflow.EntityKey]int64{},
	}
	s.gate.lost = func(waiters []string) {
		for _, id := range waiters {
			s.alarms[id] = true
		}
	}
	s.locker = locking.Locker{Store: store{s.store, s.gate}, Locks: locks{s.locks, s.gate}, Parallel: 1, ReserveAfter: 2}
	for i := range rapid.IntRange(1, 3).Draw(t, "entities") {
		s.keys = append(s.keys, workflow.EntityKey{Type: "device", ID: fmt.Sprint("e", i)})
	}
	for i := range rapid.IntRange(2, 4).Draw(t, "runs") {
		id := fmt.Sprint("x", i)
		keys := rapid.SliceOfNDistinct(rapid.SampledFrom(s.keys), 1, -1, rapid.ID).Draw(t, id+" wants")
		mode := rapid.SampledFrom([]workflow.LockMode{"", "", workflow.LockShared}).Draw(t, "as")
		s.ids, s.wants[id] = append(s.ids, id), want{mode, keys}
		x := &workflow.Execution{Schema: 1, Tenant: s.tenant, ID: id, State: sm.ExecutionScheduled, Version: 1, Commit: s.nonce()}
		if ok, err := s.store.Create(s.ctx, x); err != nil || !ok {
			t.Fatal(ok, err)
		}
		s.inbox = append(s.inbox, id)
	}
	return s
}

func (s *street) nonce() string {
	s.nonces++
	return "n" + strconv.Itoa(s.nonces)
}

// handle is one handler of one run: it goes on until the run sleeps, works or is
// over, or until it meets an error.
func (s *street) handle(id string) {
	if err := s.handled(id); err != nil {
		s.alarms[id] = true
	}
}

func (s *street) handled(id string) error {
	for {
		x, err := s.locker.Store.Load(s.ctx, s.tenant, id)
		if err != nil {
			return err
		}
		next, release, sleeps := x.Clone(), false, false
		switch x.State {
		case sm.ExecutionScheduled:
			if x.BlockedBy != nil {
				if sleep, err := s.await(x); err != nil || sleep {
					return err
				}
			}
			next.State, next.Epoch, next.BlockedBy = sm.ExecutionLocking, x.Epoch+1, nil
		case sm.ExecutionLocking:
			got, err := s.locker.Acquire(s.ctx, locking.Ask{
				Tenant: s.tenant, Execution: id, Epoch: x.Epoch, Mode: s.wants[id].mode,
				Conflicts: x.Conflicts, Keys: s.wants[id].keys, Now: time.UnixMilli(1_800_000_000_000),
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
				for _, key := range s.wants[id].keys {
					next.Scope.Inline = append(next.Scope.Inline, workflow.Held{Key: key, Token: got.Tokens[key]})
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

func (s *street) await(x *workflow.Execution) (sleep bool, err error) {
	if b := x.BlockedBy; b.Reservation {
		return s.locker.Store.AwaitReserver(s.ctx, s.tenant, b.Execution, x.ID)
	}
	return s.locker.Store.AwaitHolder(s.ctx, s.tenant, x.BlockedBy.Execution, x.BlockedBy.Epoch, x.ID)
}

// commit moves a run, and sends a message to whoever waited for what it lets go.
func (s *street) commit(x, next *workflow.Execution, release bool) (bool, error) {
	next.Version, next.Commit = x.Version+1, s.nonce()
	waiters, ok, err := s.locker.Store.Commit(s.ctx, x.Version, next, release)
	if err == nil && ok {
		s.inbox = append(s.inbox, waiters...)
	}
	return ok, err
}

// verb is what an operator, or the end of its work, does to a run.
func (s *street) verb(id string, do func(x, next *workflow.Execution) (release bool)) {
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
		s.alarms[id] = true
	} else if ok && next.State == sm.ExecutionScheduled {
		s.inbox = append(s.inbox, id)
	}
}

func (s *street) end(id string) {
	s.verb(id, func(x, next *workflow.Execution) bool {
		if x.State == sm.ExecutionRunning {
			next.State = sm.ExecutionCompletedAck
		}
		return true
	})
}

func (s *street) cancel(id string) {
	s.verb(id, func(x, next *workflow.Execution) bool {
		if !sm.Acknowledged(x.State) {
			next.State, next.BlockedBy = sm.ExecutionFailedSafeAck, nil
		}
		return true
	})
}

func (s *street) retry(id string) {
	s.verb(id, func(x, next *workflow.Execution) bool {
		if x.State == sm.ExecutionFailedSafeAck {
			next.State, next.Conflicts = sm.ExecutionScheduled, 0
		}
		return false
	})
}

// begin lets a handler of a run stand before its first call.
func (s *street) begin(id string, work func(id string)) {
	s.open = append(s.open, handler{s.gate.Task(id, func() { work(id) }), id})
}

// moves are what may happen next.
func (s *street) moves() []move {
	s.open = slices.DeleteFunc(s.open, func(h handler) bool { return h.Over() })
	atWork, sent := len(s.open) > 0, len(s.inbox) > 0
	one := func(r *rapid.T) handler { return pick(r, "handler", s.open) }
	message := func(r *rapid.T, keep bool) string {
		i := rapid.IntRange(0, len(s.inbox)-1).Draw(r, "message")
		to := s.inbox[i]
		if !keep {
			s.inbox = slices.Delete(s.inbox, i, i+1)
		}
		return to
	}
	verb := func(work func(string)) func(*rapid.T) {
		return func(r *rapid.T) { s.begin(pick(r, "run", s.ids), work) }
	}
	return []move{
		{"calls", atWork, func(r *rapid.T) {
			h := one(r)
			for range rapid.IntRange(1, 5).Draw(r, "of them") {
				h.Step()
			}
		}},
		{"to its end", atWork, func(r *rapid.T) { one(r).Finish() }},
		{"message", sent, func(r *rapid.T) { s.begin(message(r, false), s.handle) }},
		{"message twice", sent, func(r *rapid.T) { s.begin(message(r, true), s.handle) }},
		{"alarm", true, verb(s.handle)},
		{"end", true, verb(s.end)},
		{"fault", atWork, func(r *rapid.T) {
			h := one(r)
			s.gate.fault = rapid.SampledFrom([]fate.Fault{fate.LostReply, fate.Throttled, fate.Repeated}).Draw(r, "fault")
			h.Step()
		}},
		{"death", atWork, func(r *rapid.T) {
			h := one(r)
			h.Kill()
			s.alarms[h.run] = true
		}},
		{"message lost", sent, func(r *rapid.T) { s.alarms[message(r, false)] = true }},
		{"cancel", true, verb(s.cancel)},
		{"retry", true, verb(s.retry)},
	}
}

// drain lets everything happen that is still to: who is at work comes to an end,
// who holds ends, messages and the alarms of what was struck arrive. No other
// alarm rings: who is forgotten now waits for ever.
func (s *street) drain() {
	s.gate.fault = fate.None
	for _, h := range s.open {
		h.Finish()
		s.judge()
	}
	for range 300 {
		to := append(slices.Clone(s.inbox), slices.Sorted(maps.Keys(s.alarms))...)
		s.inbox = nil
		clear(s.alarms)
		for _, x := range s.load() {
			if x.State == sm.ExecutionRunning && len(to) == 0 {
				s.end(x.ID)
				to = append(to, x.ID)
				break
			}
		}
		if len(to) == 0 {
			for _, x := range s.load() {
				if !sm.Acknowledged(x.State) {
					s.Fatalf("%s is forgotten: it is %s, blocked by %+v, and nobody will tell it anything", x.ID, x.State, x.BlockedBy)
				}
			}
			return
		}
		for _, id := range to {
			s.handle(id)
		}
		s.judge()
	}
	s.Fatalf("it never comes to an end")
}

// TestLocks: whatever happens to handlers, messages and replies, over whichever
// adapter, the laws of locks_judge_test.go hold after each action, and everybody
// ends without any alarm but those of the runs that something has happened to.
func TestLocks(t *testing.T) {
	play(t, func(t *rapid.T, a adapter) {
		s := newStreet(t, a)
		defer func() {
			for _, h := range s.open {
				h.Kill()
			}
		}()
		repeat(t, s.judge, s.moves)
		s.drain()
	})
}
