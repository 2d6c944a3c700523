package lifecycle_test

import (
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A blocked execution that is nobody's waiter, because the set of waiters is full, asks again soon, by
// a message of its own. The longer it has waited, the later that is. A wake-up in between, which
// changes nothing, leaves an early timer as it is.
func TestDecide_TimersOfWhoIsNoWaiter(t *testing.T) {
	for name, test := range map[string]struct {
		waited      time.Duration
		due         time.Duration // its timer, from now
		full        bool
		early, late time.Duration // when it asks again
		delayed     bool
	}{
		"a waiter":                          {waited: time.Minute, due: 0, early: policy.PollInterval, late: policy.PollInterval},
		"none, its timer fires":             {waited: time.Second, due: 0, full: true, early: 2500 * time.Millisecond, late: 5 * time.Second, delayed: true},
		"none, after a time":                {waited: 40 * time.Second, due: 0, full: true, early: 5 * time.Second, late: 10 * time.Second, delayed: true},
		"none, after a very long time":      {waited: 30 * time.Minute, due: 0, full: true, early: policy.PollInterval / 2, late: policy.PollInterval, delayed: true},
		"none, woken before its timer":      {waited: time.Second, due: 4 * time.Second, full: true, early: 4 * time.Second, late: 4 * time.Second},
		"none, woken long before its timer": {waited: time.Second, due: 50 * time.Second, full: true, early: 2500 * time.Millisecond, late: 5 * time.Second, delayed: true},
	} {
		t.Run(name, func(t *testing.T) {
			x := &workflow.Execution{
				ID: "x", State: sm.ExecutionScheduled, Version: 3, Epoch: 1, Try: 1, LockSince: startTime.Add(-test.waited), DueAt: startTime.Add(test.due),
				BlockedBy: &workflow.BlockedBy{Entity: workflow.EntityKey{Type: "device", ID: "a"}, Execution: "y", Epoch: 1},
			}
			d, err := lifecycle.Decide(x, lifecycle.Facts{Blocker: &lifecycle.Blocker{Registered: true, WaitersFull: test.full}}, policy, startTime)
			if err != nil {
				t.Fatal(err)
			}
			next := x
			if d.Next != nil {
				next = d.Next
			}
			if in := next.DueAt.Sub(startTime); in < test.early || in > test.late || d.DelayTimer != test.delayed || !d.Idle {
				t.Errorf("it asks again in %s, by a message of its own: %t", in, d.DelayTimer)
			}
		})
	}
}
