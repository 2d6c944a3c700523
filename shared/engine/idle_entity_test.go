package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// Many executions that change one entity, more than an execution can have waiters, take turns
// without long pauses: those that are not registered poll, each at another moment, and a reserver that
// is not registered is woken by the executions that its reservation blocks.
func TestLocks_EntityIsNotIdleWhileManyWait(t *testing.T) {
	for name, test := range map[string]struct {
		held time.Duration // how long the first one holds the entity
		idle int           // seconds
	}{
		"all at once":       {idle: 15},
		"after a long wait": {held: 30 * time.Minute, idle: 60},
	} {
		t.Run(name, func(t *testing.T) { testTurns(t, test.held, test.idle) })
	}
}

func testTurns(t *testing.T, held time.Duration, most int) {
	const executions = 200
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.ImportDevices("d000")
	s.Publish("w", "steps: [{label: one, functionBlock: p/again:1, runOn: device}]\n")
	s.Publish("first", "steps: [{label: one, wait: {for: 30m}}, {label: two, functionBlock: p/again:1, runOn: device}]\n")
	ended := func() (n int) {
		for _, state := range s.States(harness.Caller.Tenant) {
			if sm.Terminal(state) {
				n++
			}
		}
		return n
	}
	if held > 0 {
		s.Start("first", "d000")
	}
	var ids []string
	for range executions {
		ids = append(ids, s.Start("w", "d000"))
	}
	// Everything that messages alone bring about happens at one moment. After it the device is
	// free, and executions that still wait do so for a timer.
	idle := 0 // seconds
	for second := 1; ; second++ {
		s.Drain()
		n := ended()
		if n >= executions {
			break
		}
		if held == 0 || n > 0 {
			idle++
		}
		if idle > 600 {
			t.Fatalf("%d of %d executions have ended", n, executions)
		}
		s.Advance(time.Second)
		if second%60 == 0 {
			s.Sweep()
		}
	}
	var writes, reads []float64 // units of the executions table
	for _, id := range ids {
		cost := s.Load(id).Cost
		writes, reads = append(writes, cost.WriteUnits[topology.TableExecutions]), append(reads, cost.ReadUnits[topology.TableExecutions])
	}
	slices.Sort(writes)
	slices.Sort(reads)
	t.Logf("%d executions: the device was free for %d s while executions waited; half of them took %.0f write units and %.0f read units at most, all of them %.0f and %.0f",
		executions, idle, writes[executions/2], reads[executions/2], writes[executions-1], reads[executions-1])
	if idle > most {
		t.Errorf("the device was free for %d s while executions waited, want %d at most", idle, most)
	}
	s.CheckInvariants()
}

// An execution that finds an entity free that an older one has reserved wakes that one, which may not
// be registered. It then reads strongly how what blocked it stands, also if its own timer is overdue.
func TestLocks_ReserverIsWoken(t *testing.T) {
	for _, overdue := range []bool{false, true} {
		o := harness.Options()
		o.ReserveAfter = 1
		s := harness.New(t, 1, o)
		s.MaxWaiters = 1
		s.RegisterBlocks()
		s.ImportDevices("d000")
		s.Publish("w", "steps: [{label: one, functionBlock: p/again:1, runOn: device}]\n")
		s.Publish("first", "steps: [{label: one, wait: {for: 30m}}, {label: two, functionBlock: p/again:1, runOn: device}]\n")
		first, gone := s.Start("first", "d000"), s.Start("w", "d000")
		s.Drain()
		if _, err := s.Engine.Cancel(t.Context(), harness.Caller, gone, views.CancelRequest{}); err != nil { // it stays in the set of waiters
			t.Fatal(err)
		}
		s.Faults = func(c faults.Call) faults.Fault {
			if c.Name == "sender.send_wakeups" { // the delayed message of its timer
				return faults.Broken
			}
			return faults.None
		}
		reserver := s.Start("w", "d000")
		s.Drain()
		s.Faults = nil
		if _, err := s.Engine.Resume(t.Context(), harness.Caller, first, ""); err != nil {
			t.Fatal(err)
		}
		s.Drain()
		s.ExpectState(first, sm.ExecutionCompletedAck)
		x := s.ExpectState(reserver, sm.ExecutionScheduled)
		if overdue {
			s.Advance(x.DueAt.Sub(s.Now()) + time.Second)
		}
		s.Faults = func(c faults.Call) faults.Fault {
			if c.Name == "store.heads_weakly" {
				return faults.Stale
			}
			return faults.None
		}
		last := s.Start("w", "d000")
		s.Drain()
		s.ExpectState(reserver, sm.ExecutionCompletedAck)
		s.ExpectState(last, sm.ExecutionCompletedAck)
	}
}
