package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/scheduler"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// However often a process sweeps and however slowly executions are advanced, the
// lifecycle queue stays short, and every execution ends. A process that remembers what
// it has sent sends each wake-up once within its lease.
func TestSweeper_BoundsQueueDepth(t *testing.T) {
	const (
		executions = 1200
		advanced   = 40   // executions a second
		maxDepth   = 2200 // the depth beyond which nothing more is sent, and what one sweep may add
	)
	for name, remembers := range map[string]bool{"one process": true, "a new process for each sweep": false} {
		t.Run(name, func(t *testing.T) {
			s := harness.New(t, 1, harness.Options())
			s.RegisterBlocks()
			s.Publish("w", "steps: [{label: one, functionBlock: p/pure:1, runOn: device}]\n")
			begin := s.Now().Add(time.Hour)
			ids := make([]string, executions)
			for i := range ids {
				req := harness.NewStartRequest("w") // over no device, so that there are no jobs
				req.NotBefore = begin
				ids[i] = s.StartWith(req)
			}
			s.Advance(time.Hour)
			s.LifecycleQueue().Purge() // the timers alone wake them
			sweeper := scheduler.NewSweeper(s.Engine, harness.LivenessTimeouts, s.Shards)
			sent := 0
			for second := 0; ; second++ {
				if !remembers {
					sweeper = scheduler.NewSweeper(s.Engine, harness.LivenessTimeouts, s.Shards)
				}
				swept, err := sweeper.Sweep(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				sent += swept.WakeupsSent
				if n := s.LifecycleQueue().Len(); n > maxDepth {
					t.Fatalf("%d messages are queued after %d s", n, second)
				}
				for range advanced {
					s.Deliver()
				}
				if _, due := s.NextTimer(); !due && s.LifecycleQueue().Len() == 0 {
					break
				}
				if second > 4*executions/advanced {
					t.Fatalf("not at an end after %d s, %d messages queued", second, s.LifecycleQueue().Len())
				}
				s.Advance(time.Second)
			}
			for _, id := range ids {
				if x := s.Load(id); x.State != statemachines.ExecutionCompletedAck {
					t.Fatalf("%s is in %s", id, x.State)
				}
			}
			if remembers && sent != executions {
				t.Errorf("sent %d wake-ups to %d executions", sent, executions)
			}
		})
	}
}

// A wake-up is sent again after its lease, or at once if the timer has moved.
func TestSweeper_RepeatsWakeupAfterLease(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	due := []workflow.Wakeup{{Tenant: "t", Execution: "x", DueAt: s.Now()}}
	wakeups, sent := map[string]int{}, 0
	e := *s.Engine
	e.OpenPorts = stuckPorts(s, &due, wakeups, &sent)
	sweeper := scheduler.NewSweeper(&e, harness.LivenessTimeouts, 1)
	var at []string
	for second := range 120 {
		if second == 70 {
			due[0].DueAt = s.Now()
		}
		swept, err := sweeper.Sweep(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if swept.WakeupsSent > 0 {
			at = append(at, fmt.Sprint(second))
		}
		s.Advance(time.Second)
	}
	if got := fmt.Sprint(at); got != "[0 45 70 115]" {
		t.Errorf("sent after %s seconds", got)
	}
}
