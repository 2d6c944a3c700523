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
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// lockFixture is executions that lock entities, each exclusively or shared, and their
// handlers that are under way.
type lockFixture struct {
	*rapid.T
	ctx         context.Context
	stores      // not intercepted, for the checks
	interceptor *interceptor
	tenant      string
	locker      locking.Locker
	requests    map[string]lockRequest
	ids         []string // oldest first
	keys        []workflow.EntityKey
	handlers    []lockHandler
	inbox       []string // executions that a message was sent to
	nonces      int

	// timersNeeded are the executions to which a fault happened that only their timer
	// repairs. All others must be woken by a message.
	timersNeeded map[string]bool

	previous     map[workflow.EntityKey]workflow.Lock
	highestToken map[workflow.EntityKey]int64 // the highest token that the device has seen
}

// lockRequest is what an execution locks.
type lockRequest struct {
	mode workflow.LockMode
	keys []workflow.EntityKey
}

// lockHandler is a handler of an execution.
type lockHandler struct {
	*faults.Task
	execution string
}

var tenants int

func newLockFixture(t *rapid.T, a adapter) *lockFixture {
	tenants++
	f := &lockFixture{
		T: t, ctx: t.Context(), stores: a.open(), interceptor: &interceptor{}, tenant: fmt.Sprint("locks", tenants),
		requests: map[string]lockRequest{}, timersNeeded: map[string]bool{},
		previous: map[workflow.EntityKey]workflow.Lock{}, highestToken: map[workflow.EntityKey]int64{},
	}
	f.interceptor.waitersLost = func(waiters []string) {
		for _, id := range waiters {
			f.timersNeeded[id] = true
		}
	}
	f.locker = locking.Locker{Store: interceptedStore{f.store, f.interceptor}, Locks: interceptedLocks{f.locks, f.interceptor}, Parallel: 1, ReserveAfter: 2}
	for i := range rapid.IntRange(1, 3).Draw(t, "entities") {
		f.keys = append(f.keys, workflow.EntityKey{Type: "device", ID: fmt.Sprint("e", i)})
	}
	for i := range rapid.IntRange(2, 4).Draw(t, "executions") {
		id := fmt.Sprint("x", i)
		keys := rapid.SliceOfNDistinct(rapid.SampledFrom(f.keys), 1, -1, rapid.ID).Draw(t, id+" locks")
		mode := rapid.SampledFrom([]workflow.LockMode{"", "", workflow.LockShared}).Draw(t, "mode")
		f.ids, f.requests[id] = append(f.ids, id), lockRequest{mode, keys}
		x := &workflow.Execution{Schema: 1, Tenant: f.tenant, ID: id, State: sm.ExecutionScheduled, Version: 1, Commit: f.nonce()}
		if ok, err := f.store.Create(f.ctx, x); err != nil || !ok {
			t.Fatal(ok, err)
		}
		f.inbox = append(f.inbox, id)
	}
	return f
}

func (f *lockFixture) nonce() string {
	f.nonces++
	return "n" + strconv.Itoa(f.nonces)
}

// runHandler is one handler of one execution: it advances the execution until it is
// blocked, running or over, or until a call fails.
func (f *lockFixture) runHandler(id string) {
	if err := f.advance(id); err != nil {
		f.timersNeeded[id] = true
	}
}

func (f *lockFixture) advance(id string) error {
	for {
		x, err := f.locker.Store.Load(f.ctx, f.tenant, id)
		if err != nil {
			return err
		}
		next, release, blocked := x.Clone(), false, false
		switch x.State {
		case sm.ExecutionScheduled:
			if x.BlockedBy != nil {
				if waiting, err := f.awaitBlocker(x); err != nil || waiting {
					return err
				}
			}
			next.State, next.Epoch, next.BlockedBy = sm.ExecutionLocking, x.Epoch+1, nil
		case sm.ExecutionLocking:
			got, err := f.locker.Acquire(f.ctx, locking.Request{
				Tenant: f.tenant, Execution: id, Epoch: x.Epoch, Mode: f.requests[id].mode,
				Conflicts: x.Conflicts, Keys: f.requests[id].keys, Now: time.UnixMilli(1_800_000_000_000),
			})
			switch {
			case err != nil:
				return err
			case got.Stale:
				continue
			case got.Conflict != nil:
				next.State, next.BlockedBy, release, blocked = sm.ExecutionScheduled, got.Conflict, true, true
				next.Conflicts++
			default:
				next.State, next.Scope.Inline = sm.ExecutionRunning, nil
				for _, key := range f.requests[id].keys {
					next.Scope.Inline = append(next.Scope.Inline, workflow.ScopeEntity{Key: key, Token: got.Tokens[key]})
				}
			}
		default:
			return nil
		}
		ok, err := f.commit(x, next, release)
		if err != nil || ok && blocked {
			return err
		}
	}
}

func (f *lockFixture) awaitBlocker(x *workflow.Execution) (waiting bool, err error) {
	if b := x.BlockedBy; b.Reservation {
		_, waiting, err = f.locker.Store.AddReserverWaiter(f.ctx, f.tenant, b.Execution, x.ID)
		return waiting, err
	}
	_, waiting, err = f.locker.Store.AddHolderWaiter(f.ctx, f.tenant, *x.BlockedBy, x.ID)
	return waiting, err
}

// commit commits an execution, and sends a message to the waiters for what it releases.
func (f *lockFixture) commit(x, next *workflow.Execution, release bool) (bool, error) {
	next.Version, next.Commit = x.Version+1, f.nonce()
	waiters, ok, err := f.locker.Store.Commit(f.ctx, x.Version, next, workflow.CommitOptions{Release: release})
	if err == nil && ok {
		f.inbox = append(f.inbox, waiters...)
	}
	return ok, err
}

// transition changes an execution as a command, or the end of its last step, does.
func (f *lockFixture) transition(id string, do func(x, next *workflow.Execution) (release bool)) {
	x, err := f.locker.Store.Load(f.ctx, f.tenant, id)
	if err != nil {
		return // the caller would send the command again
	}
	next := x.Clone()
	release := do(x, next)
	if next.State == x.State {
		return
	}
	ok, err := f.commit(x, next, release)
	if err != nil {
		f.timersNeeded[id] = true
	} else if ok && next.State == sm.ExecutionScheduled {
		f.inbox = append(f.inbox, id)
	}
}

func (f *lockFixture) end(id string) {
	f.transition(id, func(x, next *workflow.Execution) bool {
		if x.State == sm.ExecutionRunning {
			next.State = sm.ExecutionCompletedAck
		}
		return true
	})
}

func (f *lockFixture) cancel(id string) {
	f.transition(id, func(x, next *workflow.Execution) bool {
		if !sm.Acknowledged(x.State) {
			next.State, next.BlockedBy = sm.ExecutionFailedSafeAck, nil
		}
		return true
	})
}

func (f *lockFixture) retry(id string) {
	f.transition(id, func(x, next *workflow.Execution) bool {
		if x.State == sm.ExecutionFailedSafeAck {
			next.State, next.Conflicts = sm.ExecutionScheduled, 0
		}
		return false
	})
}

// startTask starts a handler, which pauses before its first call.
func (f *lockFixture) startTask(id string, work func(id string)) {
	f.handlers = append(f.handlers, lockHandler{f.interceptor.StartTask(id, func() { work(id) }), id})
}

// actions are what can happen next.
func (f *lockFixture) actions() []action {
	f.handlers = slices.DeleteFunc(f.handlers, func(h lockHandler) bool { return h.Done() })
	underWay, sent := len(f.handlers) > 0, len(f.inbox) > 0
	one := func(r *rapid.T) lockHandler { return draw(r, "handler", f.handlers) }
	message := func(r *rapid.T, keep bool) string {
		i := rapid.IntRange(0, len(f.inbox)-1).Draw(r, "message")
		to := f.inbox[i]
		if !keep {
			f.inbox = slices.Delete(f.inbox, i, i+1)
		}
		return to
	}
	start := func(work func(string)) func(*rapid.T) {
		return func(r *rapid.T) { f.startTask(draw(r, "execution", f.ids), work) }
	}
	return []action{
		{"step handler", underWay, func(r *rapid.T) {
			h := one(r)
			for range rapid.IntRange(1, 5).Draw(r, "calls") {
				h.Step()
			}
		}},
		{"finish handler", underWay, func(r *rapid.T) { one(r).Finish() }},
		{"deliver message", sent, func(r *rapid.T) { f.startTask(message(r, false), f.runHandler) }},
		{"deliver message twice", sent, func(r *rapid.T) { f.startTask(message(r, true), f.runHandler) }},
		{"timer", true, start(f.runHandler)},
		{"end", true, start(f.end)},
		{"fault", underWay, func(r *rapid.T) {
			h := one(r)
			f.interceptor.fault = rapid.SampledFrom([]faults.Fault{faults.LostReply, faults.Throttled, faults.Repeated}).Draw(r, "fault")
			h.Step()
		}},
		{"kill handler", underWay, func(r *rapid.T) {
			h := one(r)
			h.Kill()
			f.timersNeeded[h.execution] = true
		}},
		{"lose message", sent, func(r *rapid.T) { f.timersNeeded[message(r, false)] = true }},
		{"cancel", true, start(f.cancel)},
		{"retry", true, start(f.retry)},
	}
}

// drain finishes everything: handlers, running executions, messages, and the timers of
// executions that had a fault. No other timer fires, so that an execution that nothing
// wakes is found.
func (f *lockFixture) drain() {
	f.interceptor.fault = faults.None
	for _, h := range f.handlers {
		h.Finish()
		f.checkInvariants()
	}
	for range 300 {
		to := append(slices.Clone(f.inbox), slices.Sorted(maps.Keys(f.timersNeeded))...)
		f.inbox = nil
		clear(f.timersNeeded)
		for _, x := range f.loadAll() {
			if x.State == sm.ExecutionRunning && len(to) == 0 {
				f.end(x.ID)
				to = append(to, x.ID)
				break
			}
		}
		if len(to) == 0 {
			for _, x := range f.loadAll() {
				if !sm.Acknowledged(x.State) {
					f.Fatalf("%s is forgotten: it is %s, blocked by %+v, and nothing will wake it", x.ID, x.State, x.BlockedBy)
				}
			}
			return
		}
		for _, id := range to {
			f.runHandler(id)
		}
		f.checkInvariants()
	}
	f.Fatalf("the executions do not end")
}

// Whatever happens to handlers, messages and replies, the invariants hold after each
// action, and every execution ends without the timers of executions that had no fault.
func TestLocking_KeepsInvariantsUnderFaults(t *testing.T) {
	runOnAdapters(t, func(t *rapid.T, a adapter) {
		f := newLockFixture(t, a)
		defer func() {
			for _, h := range f.handlers {
				h.Kill()
			}
		}()
		runActions(t, f.checkInvariants, f.actions)
		f.drain()
	})
}
