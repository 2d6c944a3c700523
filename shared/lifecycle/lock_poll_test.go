package lifecycle_test

import (
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A blocked execution polls while the waiter set of what blocks it is full. The longer it has waited,
// the longer the pause. A wake-up in between, which changes nothing, does not reschedule an early timer.
func TestDecide_PollOfAFullWaiterSet(t *testing.T) {
	for name, test := range map[string]struct {
		waited      time.Duration
		due         time.Duration // its timer, from now
		full        bool
		early, late time.Duration // when it asks again
		delayed     bool
	}{
		"registered":                {waited: time.Minute, due: 0, early: policy.PollInterval, late: policy.PollInterval},
		"the timer fires":           {waited: time.Second, due: 0, full: true, early: 2500 * time.Millisecond, late: 10 * time.Second, delayed: true},
		"after a time":              {waited: 40 * time.Second, due: 0, full: true, early: 5 * time.Second, late: 20 * time.Second, delayed: true},
		"after a very long time":    {waited: 30 * time.Minute, due: 0, full: true, early: policy.PollInterval / 4, late: policy.PollInterval, delayed: true},
		"woken before a near timer": {waited: time.Second, due: 9 * time.Second, full: true, early: 9 * time.Second, late: 9 * time.Second},
		"woken before a late timer": {waited: time.Second, due: 50 * time.Second, full: true, early: 2500 * time.Millisecond, late: 10 * time.Second, delayed: true},
	} {
		t.Run(name, func(t *testing.T) {
			x := &workflow.Execution{
				ID: "x", State: sm.ExecutionScheduled, Version: 3, Epoch: 1, Try: 1, LockSince: startTime.Add(-test.waited), DueAt: startTime.Add(test.due),
				BlockedBy: &workflow.BlockedBy{Entity: workflow.EntityKey{Type: "device", ID: "a"}, Execution: "y", Epoch: 1},
			}
			d, err := lifecycle.Decide(x, lifecycle.Facts{Blocker: &lifecycle.Blocker{Registered: true, WaiterSetFull: test.full}}, policy, startTime)
			if err != nil {
				t.Fatal(err)
			}
			next := x
			if d.Next != nil {
				next = d.Next
			}
			if in := next.DueAt.Sub(startTime); in < test.early || in > test.late || d.DelayedWakeup != test.delayed || !d.Idle {
				t.Errorf("it asks again in %s, by a message of its own: %t", in, d.DelayedWakeup)
			}
		})
	}
}
