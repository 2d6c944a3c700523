package locking_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// crowd is a world of runs that lock alone or share, of which some start another
// and wait for it, and of handlers of them that stop for ever or for long between
// any two calls. Messages come twice or never; an alarm starts another handler of
// whatever is not done.
type crowd struct {
	*bench
	wants  map[string]want
	ids    []string
	tasks  []*fate.Task
	inbox  []string
	faults int // one call in so many; 0 for a world that has recovered

	highest map[string]int64 // the last token of each entity, and of those who had it alone
	alone   map[string]int64
}

// want is what one run is about.
type want struct {
	mode  workflow.LockMode
	keys  []string
	child string
}

func newCrowd(t *testing.T, seed uint64) *crowd {
	w := sim.New(seed)
	c := &crowd{
		bench: &bench{t, w, w.Open(), t.Context()}, wants: map[string]want{},
		highest: map[string]int64{}, alone: map[string]int64{},
	}
	entities := 1 + c.Draw(3)
	for i := range entities {
		// Runs of long ago have left their entries.
		if n := []int{0, 0, 7, 8, 62, 63, 64}[c.Draw(7)]; n > 0 {
			keep := map[string]workflow.Holder{}
			for len(keep) < n-1 {
				keep[c.NewID()] = workflow.Holder{Epoch: 1}
			}
			k := keys(fmt.Sprint("e", i))[0]
			if _, ok, err := c.view.Locks.Share(c.ctx, "t", k, workflow.Sharer{Execution: c.NewID(), Epoch: 1}, keep, 0); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
	}
	for range 2 + c.Draw(6) {
		x := &workflow.Execution{Schema: 1, Tenant: "t", ID: c.NewID(), State: sm.ExecutionScheduled, Version: 1, Commit: c.Nonce()}
		wish := c.wish(entities)
		if c.Draw(4) == 0 {
			wish.child = c.NewID()
			c.wants[wish.child] = c.wish(entities)
		}
		c.wants[x.ID] = wish
		if ok, err := c.view.Store.Create(c.ctx, x); err != nil || !ok {
			t.Fatal(ok, err)
		}
		c.ids = append(c.ids, x.ID)
		c.inbox = append(c.inbox, x.ID)
	}
	return c
}

func (c *crowd) wish(entities int) (w want) {
	if c.Draw(2) == 0 {
		w.mode = workflow.LockShared
	}
	for i := range entities {
		if c.Draw(3) > 0 || (i == entities-1 && len(w.keys) == 0) {
			w.keys = append(w.keys, fmt.Sprint("e", i))
		}
	}
	return w
}

// handle is one handler of one run. It ends when the run sleeps or is over, or
// when it meets an error: the alarm starts another.
func (c *crowd) handle(id string) {
	v := c.Open()
	for {
		x, err := v.Store.Load(c.ctx, "t", id)
		if err != nil {
			return
		}
		next := x.Clone()
		wish, release, rest := c.wants[id], false, false
		switch x.State {
		case sm.ExecutionScheduled:
			if b := x.BlockedBy; b != nil {
				sleep, deadlock, err := c.await(v, x)
				if err != nil || (sleep && !deadlock) {
					return
				}
				if deadlock {
					next.State, release = sm.ExecutionFailedSafeAck, true
					break
				}
			}
			next.State, next.Epoch, next.BlockedBy = sm.ExecutionLocking, x.Epoch+1, nil
		case sm.ExecutionLocking:
			got, err := lockerOf(v).Acquire(c.ctx, locking.Ask{
				Tenant: "t", Execution: id, Epoch: x.Epoch, Age: x.Age(), Passes: x.Awaited(), Mode: wish.mode,
				Conflicts: x.Conflicts, Keys: keys(wish.keys...), Now: c.Now(),
			})
			switch {
			case err != nil:
				return
			case got.Stale:
				continue
			case got.Conflict != nil:
				next.State, next.BlockedBy, release = sm.ExecutionScheduled, got.Conflict, true
				next.Conflicts++
				rest = x.Parent == nil
			default:
				next.State = sm.ExecutionRunning
				for k, token := range got.Tokens {
					next.Scope.Inline = append(next.Scope.Inline, workflow.Held{Key: k, Token: token})
				}
			}
		case sm.ExecutionRunning:
			if wish.child != "" {
				next.State, next.Wait = sm.ExecutionWaiting, &workflow.Wait{Kind: workflow.WaitChild, Child: wish.child}
				break
			}
			next.State, release = sm.ExecutionCompletedAck, true
		case sm.ExecutionWaiting:
			child := &workflow.Execution{
				Schema: 1, Tenant: "t", ID: wish.child, State: sm.ExecutionScheduled, Version: 1, Commit: "born",
				Parent: &workflow.Parent{Execution: id, Root: id, Depth: 1, Waits: true},
			}
			if _, err := v.Store.Create(c.ctx, child); err != nil {
				return
			}
			heads, err := v.Store.Heads(c.ctx, "t", []string{wish.child})
			if err != nil {
				return
			}
			if !sm.Acknowledged(heads[wish.child].State) {
				c.inbox = append(c.inbox, wish.child)
				return
			}
			next.State, next.Wait, release = sm.ExecutionCompletedAck, nil, true
		default:
			return
		}
		next.Version, next.Commit = x.Version+1, c.Nonce()
		waiters, ok, err := v.Store.Commit(c.ctx, x.Version, next, release)
		if err != nil {
			return
		}
		if ok {
			c.inbox = append(c.inbox, waiters...)
		}
		if ok && rest {
			return
		}
	}
}

func (c *crowd) await(v sim.View, x *workflow.Execution) (sleep, deadlock bool, err error) {
	if b := x.BlockedBy; b.Reservation {
		sleep, err = v.Store.AwaitReserver(c.ctx, "t", b.Execution, x.ID)
	} else {
		sleep, err = v.Store.AwaitHolder(c.ctx, "t", b.Execution, b.Epoch, x.ID)
	}
	if err == nil && sleep && x.Parent != nil {
		deadlock, err = locking.Deadlocked(c.ctx, v.Store, x)
	}
	return sleep, deadlock, err
}

func (c *crowd) Fatalf(format string, args ...any) {
	c.Helper()
	c.T.Fatalf("seed %d: "+format, append([]any{c.Seed()}, args...)...)
}

// judge wants every run that has its locks to be where the items say who holds
// them, and nobody beside who holds alone.
func (c *crowd) judge() {
	holders := map[string][]string{}
	alone := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(c.wants)) {
		x, err := c.view.Store.Load(c.ctx, "t", id)
		if err != nil || (x.State != sm.ExecutionRunning && x.State != sm.ExecutionWaiting) {
			continue
		}
		for _, h := range x.Scope.Inline {
			e := h.Key.ID
			item := c.item(e)
			if held, ok := item.Held(id, x.Epoch); !ok || held.Token != h.Token {
				c.Fatalf("%s runs at epoch %d with token %d of %s, whose item is %+v", id, x.Epoch, h.Token, e, item)
			}
			holders[e] = append(holders[e], id)
			alone[e] = alone[e] || c.wants[id].mode != workflow.LockShared
		}
	}
	for e, ids := range holders {
		if alone[e] && len(ids) > 1 {
			c.Fatalf("%s is held by %v, and by one of them alone", e, ids)
		}
		for _, id := range ids {
			token := c.item(e).Token
			if h, ok := c.item(e).Holders[id]; ok {
				token = h.Token
			}
			if c.wants[id].mode == workflow.LockShared {
				if token <= c.alone[e] {
					c.Fatalf("%s shares %s with token %d after %d", id, e, token, c.alone[e])
				}
			} else {
				if token < c.highest[e] {
					c.Fatalf("%s has %s with token %d after %d", id, e, token, c.highest[e])
				}
				c.alone[e] = token
			}
			c.highest[e] = max(c.highest[e], token)
		}
	}
}

// play goes on until everything has ended, or fails.
func (c *crowd) play(r *rand.Rand) {
	c.Faults = func(call fate.Call) fate.Fault {
		if c.faults == 0 || call.Task == "" || r.IntN(c.faults) > 0 {
			return fate.None
		}
		return []fate.Fault{fate.LostReply, fate.Throttled, fate.Repeated}[r.IntN(3)]
	}
	var at *fate.Task
	for n, alarms := 0, 0; ; n++ {
		if n == 1500 {
			c.faults = 0 // the world recovers
		}
		for len(c.inbox) > 0 {
			id := c.inbox[0]
			c.inbox = c.inbox[1:]
			copies := 1
			if c.faults > 0 {
				copies = r.IntN(3)
			}
			for range copies {
				c.tasks = append(c.tasks, c.Task(id, func() { c.handle(id) }))
			}
		}
		c.tasks = slices.DeleteFunc(c.tasks, (*fate.Task).Over)
		if len(c.tasks) == 0 {
			if alarms++; alarms > 200 {
				c.Fatalf("it never ends: %v", c.States("t"))
			}
			done := true
			for id, state := range c.States("t") {
				if !sm.Acknowledged(state) {
					done = false
					c.inbox = append(c.inbox, id)
				}
			}
			if done {
				return
			}
			slices.Sort(c.inbox)
			continue
		}
		if at == nil || at.Over() || r.IntN(6) == 0 { // others stand still meanwhile
			at = c.tasks[r.IntN(len(c.tasks))]
		}
		if c.faults > 0 && r.IntN(c.faults) == 0 {
			at.Kill()
			continue
		}
		at.Step()
		c.judge()
		if n > 40000 {
			c.Fatalf("it goes on for ever: %v", c.States("t"))
		}
	}
}

// TestCrowds: whoever locks alone and whoever shares, whatever happens to their
// handlers and messages, nobody ever holds with somebody who holds alone, tokens
// grow from holder to holder, and everyone ends, be it because it would have
// waited for itself.
func TestCrowds(t *testing.T) {
	for seed := range uint64(300) {
		c := newCrowd(t, seed)
		r := rand.New(rand.NewPCG(seed, 7))
		c.faults = []int{0, 40, 12}[seed%3]
		c.play(r)
	}
}
