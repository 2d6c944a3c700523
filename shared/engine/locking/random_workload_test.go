package locking_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// workload is a simulated world of executions with exclusive or shared locks. Some
// start a child and wait for it. Their handlers may crash or pause between any two
// calls. Wake-ups are delivered twice or never; a timer starts another handler for every
// execution that has not ended.
type workload struct {
	*fixture
	demands map[string]lockDemand
	ids     []string
	tasks   []*faults.Task
	inbox   []string
	faults  int // one call in this many fails; 0 means none

	highest   map[string]int64 // the last token of each entity
	exclusive map[string]int64 // the last token of each entity that was held exclusively
}

// lockDemand is the locks that one execution wants, and the child it starts.
type lockDemand struct {
	mode  workflow.LockMode
	keys  []string
	child string
}

func newWorkload(t *testing.T, seed uint64) *workload {
	w := sim.New(seed)
	c := &workload{
		fixture: &fixture{t, w, w.Open(), t.Context()}, demands: map[string]lockDemand{},
		highest: map[string]int64{}, exclusive: map[string]int64{},
	}
	entities := 1 + c.IntN(3)
	for i := range entities {
		// Earlier executions have left entries.
		if n := []int{0, 0, 7, 8, 62, 63, 64}[c.IntN(7)]; n > 0 {
			keep := map[string]workflow.Holder{}
			for len(keep) < n-1 {
				keep[c.NewID()] = workflow.Holder{Epoch: 1}
			}
			k := keys(fmt.Sprint("e", i))[0]
			if _, ok, err := c.ports.Locks.Share(c.ctx, "t", k, workflow.LockRequest{Execution: c.NewID(), Epoch: 1}, keep, 0); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
	}
	for range 2 + c.IntN(6) {
		x := &workflow.Execution{Schema: 1, Tenant: "t", ID: c.NewID(), State: sm.ExecutionScheduled, Version: 1, Commit: c.Nonce()}
		demand := c.drawDemand(entities)
		if c.IntN(4) == 0 {
			demand.child = c.NewID()
			c.demands[demand.child] = c.drawDemand(entities)
		}
		c.demands[x.ID] = demand
		if ok, err := c.ports.Store.Create(c.ctx, x); err != nil || !ok {
			t.Fatal(ok, err)
		}
		c.ids = append(c.ids, x.ID)
		c.inbox = append(c.inbox, x.ID)
	}
	return c
}

func (c *workload) drawDemand(entities int) (w lockDemand) {
	if c.IntN(2) == 0 {
		w.mode = workflow.LockShared
	}
	for i := range entities {
		if c.IntN(3) > 0 || (i == entities-1 && len(w.keys) == 0) {
			w.keys = append(w.keys, fmt.Sprint("e", i))
		}
	}
	return w
}

// handle is one handler of one execution. It ends when the execution waits or has ended,
// or on an error; then the timer starts another handler.
func (c *workload) handle(id string) {
	v := c.Open()
	for {
		x, err := v.Store.Load(c.ctx, "t", id)
		if err != nil {
			return
		}
		next := x.Clone()
		demand, release, idle := c.demands[id], false, false
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
			got, err := lockerOf(v).Acquire(c.ctx, locking.Request{
				Tenant: "t", Execution: id, Epoch: x.Epoch, Age: x.Root(), IgnoreReservations: x.Awaited(), Mode: demand.mode,
				Conflicts: x.Conflicts, Keys: keys(demand.keys...), Now: c.Now(),
			})
			switch {
			case err != nil:
				return
			case got.Stale:
				continue
			case got.Conflict != nil:
				next.State, next.BlockedBy, release = sm.ExecutionScheduled, got.Conflict, true
				next.Conflicts++
				idle = x.Parent == nil
			default:
				next.State = sm.ExecutionRunning
				for k, token := range got.Tokens {
					next.Scope.Inline = append(next.Scope.Inline, workflow.ScopeEntity{Key: k, Token: token})
				}
			}
		case sm.ExecutionRunning:
			if demand.child != "" {
				next.State, next.Wait = sm.ExecutionWaiting, &workflow.Wait{Kind: workflow.WaitChild, Child: demand.child}
				next.StepRuns = []workflow.StepRun{{Seq: 1, Status: sm.StepRunning, Child: &workflow.Child{ID: demand.child, Mode: workflow.ModeDispatch}}}
				break
			}
			next.State, release = sm.ExecutionCompletedAck, true
		case sm.ExecutionWaiting:
			child := &workflow.Execution{
				Schema: 1, Tenant: "t", ID: demand.child, State: sm.ExecutionScheduled, Version: 1, Commit: "created",
				Parent: &workflow.Parent{Execution: id, StepRunSeq: 1, Root: id, Depth: 1, Waits: true},
			}
			if _, err := v.Store.Create(c.ctx, child); err != nil {
				return
			}
			heads, err := v.Store.Heads(c.ctx, "t", []string{demand.child})
			if err != nil {
				return
			}
			if !sm.Acknowledged(heads[demand.child].State) {
				c.inbox = append(c.inbox, demand.child)
				return
			}
			next.State, next.Wait, release = sm.ExecutionCompletedAck, nil, true
		default:
			return
		}
		next.Version, next.Commit = x.Version+1, c.Nonce()
		waiters, ok, err := v.Store.Commit(c.ctx, x.Version, next, workflow.CommitOptions{Release: release})
		if err != nil {
			return
		}
		if ok {
			c.inbox = append(c.inbox, waiters...)
		}
		if ok && idle {
			return
		}
	}
}

func (c *workload) await(v sim.View, x *workflow.Execution) (sleep, deadlock bool, err error) {
	if b := x.BlockedBy; b.Reservation {
		_, sleep, err = v.Store.AddReserverWaiter(c.ctx, "t", b.Execution, x.ID)
	} else {
		_, sleep, err = v.Store.AddHolderWaiter(c.ctx, "t", *b, x.ID)
	}
	if err == nil && sleep && x.Parent != nil {
		var blocked []string
		blocked, err = locking.Deadlocked(c.ctx, v.Store, x)
		if last := len(blocked) - 1; last >= 0 && blocked[last] == x.ID {
			deadlock = true
			c.inbox = append(c.inbox, blocked[:last]...)
		} else if last >= 0 {
			c.inbox = append(c.inbox, blocked[last])
		}
	}
	return sleep, deadlock, err
}

func (c *workload) Fatalf(format string, args ...any) {
	c.Helper()
	c.T.Fatalf("seed %d: "+format, append([]any{c.Seed()}, args...)...)
}

// checkInvariants checks that the lock items name every execution that has its locks,
// that an exclusive holder is the only one, and that tokens grow.
func (c *workload) checkInvariants() {
	holders := map[string][]string{}
	exclusive := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(c.demands)) {
		x, err := c.ports.Store.Load(c.ctx, "t", id)
		if err != nil || (x.State != sm.ExecutionRunning && x.State != sm.ExecutionWaiting) {
			continue
		}
		for _, h := range x.Scope.Inline {
			e := h.Key.ID
			item := c.lockItem(e)
			if held, ok := item.HolderOf(id, x.Epoch); !ok || held.Token != h.Token {
				c.Fatalf("%s is running at epoch %d with token %d of %s, but the item is %+v", id, x.Epoch, h.Token, e, item)
			}
			holders[e] = append(holders[e], id)
			exclusive[e] = exclusive[e] || c.demands[id].mode != workflow.LockShared
		}
	}
	for e, ids := range holders {
		if exclusive[e] && len(ids) > 1 {
			c.Fatalf("%s is held by %v, by one of them exclusively", e, ids)
		}
		for _, id := range ids {
			token := c.lockItem(e).Token
			if h, ok := c.lockItem(e).Holders[id]; ok {
				token = h.Token
			}
			if c.demands[id].mode == workflow.LockShared {
				if token <= c.exclusive[e] {
					c.Fatalf("%s shares %s with token %d after %d", id, e, token, c.exclusive[e])
				}
			} else {
				if token < c.highest[e] {
					c.Fatalf("%s has %s with token %d after %d", id, e, token, c.highest[e])
				}
				c.exclusive[e] = token
			}
			c.highest[e] = max(c.highest[e], token)
		}
	}
}

// simulate runs until every execution has ended.
func (c *workload) simulate(r *rand.Rand) {
	c.Faults = func(call faults.Call) faults.Fault {
		if c.faults == 0 || call.Task == "" || r.IntN(c.faults) > 0 {
			return faults.None
		}
		if (call.Name == "locks.read_weakly" || call.Name == "store.heads_weakly") && r.IntN(2) == 0 {
			return faults.Stale
		}
		return []faults.Fault{faults.LostReply, faults.Throttled, faults.Repeated}[r.IntN(3)]
	}
	var at *faults.Task
	for n, timers := 0, 0; ; n++ {
		if n == 1500 {
			c.faults = 0 // no more faults
		}
		for len(c.inbox) > 0 {
			id := c.inbox[0]
			c.inbox = c.inbox[1:]
			copies := 1
			if c.faults > 0 {
				copies = r.IntN(3)
			}
			for range copies {
				c.tasks = append(c.tasks, c.StartTask(id, func() { c.handle(id) }))
			}
		}
		c.tasks = slices.DeleteFunc(c.tasks, (*faults.Task).Done)
		if len(c.tasks) == 0 {
			if timers++; timers > 200 {
				c.Fatalf("not ended after 200 timers: %v", c.States("t"))
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
		if at == nil || at.Done() || r.IntN(6) == 0 { // the other handlers pause meanwhile
			at = c.tasks[r.IntN(len(c.tasks))]
		}
		if c.faults > 0 && r.IntN(c.faults) == 0 {
			at.Kill()
			continue
		}
		at.Step()
		c.checkInvariants()
		if n > 40000 {
			c.Fatalf("not ended after 40000 calls: %v", c.States("t"))
		}
	}
}

// TestLocker_RandomWorkloads checks that under random faults an exclusive holder is always
// the only one, tokens grow from holder to holder, and every execution ends, if need be
// by the deadlock check.
func TestLocker_RandomWorkloads(t *testing.T) {
	for seed := range uint64(300) {
		c := newWorkload(t, seed)
		r := rand.New(rand.NewPCG(seed, 7))
		c.faults = []int{0, 40, 12}[seed%3]
		c.simulate(r)
	}
}
