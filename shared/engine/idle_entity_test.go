package engine_test

import (
	"testing"
	"time"

	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// Many executions that change one entity, more than an execution can have waiters, take turns
// without pauses: a reserver that is nobody's waiter is woken by the executions that its
// reservation blocks.
func TestLocks_EntityIsNotIdleWhileManyWait(t *testing.T) {
	const executions = 200
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.ImportDevices("d000")
	s.Publish("w", "steps: [{label: one, functionBlock: p/again:1, runOn: device}]\n")
	ids := make([]string, executions)
	for i := range ids {
		ids[i] = s.Start("w", "d000")
	}
	ended := func() (n int) {
		for _, state := range s.States(harness.Caller.Tenant) {
			if sm.Terminal(state) {
				n++
			}
		}
		return n
	}
	// Everything that messages alone bring about happens at one moment. After it the device is
	// free, and executions that still wait do so for a timer.
	pauses := 0
	for ; ; pauses++ {
		s.Drain()
		n := ended()
		if n == executions {
			break
		}
		if pauses == 60 {
			t.Fatalf("%d of %d executions have ended after %d pauses", n, executions, pauses)
		}
		s.Advance(time.Minute)
		s.Sweep()
	}
	if pauses > executions/64 { // an execution has at most 64 waiters, and their timers wake the others
		t.Errorf("the device was free while executions waited, %d times", pauses)
	}
	s.CheckInvariants()
}
