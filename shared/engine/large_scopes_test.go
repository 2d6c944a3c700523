package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// A process that handles wake-ups of several large executions concurrently keeps only as many of
// their entities in memory as fit. A wake-up that does not fit in time is requeued, without a
// failure, and small executions wait for nobody.
func TestAdvance_BoundsTheEntitiesInMemory(t *testing.T) {
	const devices = 40
	o := harness.Options()
	o.InlineMaxEntities, o.EntitiesAtOnce = 1, devices
	s := harness.New(t, 1, o)
	s.RegisterBlocks()
	all := fourDigitIDs(2*devices + 2)
	s.ImportDevices(all...)
	s.Publish("w", stepsYAML("one once device"))
	first, second, small := s.Start("w", all[:devices]...), s.Start("w", all[devices:2*devices]...), s.Start("w", all[2*devices:]...)
	s.LifecycleQueue().Purge()
	wakeup := func(id string) workflow.Wakeup { return workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: id} }

	locking := s.StartTask("first", func() { _ = s.Engine.Advance(context.Background(), wakeup(first)) })
	if !locking.RunUntil("locks.take") {
		t.Fatal("the first execution takes no locks")
	}
	taken := 0
	s.Faults = func(c faults.Call) faults.Fault {
		if c.Task == "" && (strings.HasPrefix(c.Name, "locks.") || c.Name == "store.load_scope") {
			taken++
		}
		return faults.None
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	redelivered := wakeup(second)
	redelivered.Redelivered = true
	if err := s.Engine.Advance(ctx, redelivered); err != nil || taken > 0 {
		t.Errorf("the second wake-up returns %v after %d reads of its entities", err, taken)
	}
	if s.LifecycleQueue().Len() != 1 || s.Load(second).FailureStreak != nil {
		t.Errorf("%d wake-ups were sent again, %+v", s.LifecycleQueue().Len(), s.Load(second).FailureStreak)
	}
	if err := s.Engine.Advance(context.Background(), wakeup(small)); err != nil {
		t.Error(err)
	}
	s.ExpectState(small, sm.ExecutionRunning)
	s.Faults = nil
	locking.Finish()
	s.ExpectState(first, sm.ExecutionRunning)
	s.Drain()
	for _, id := range []string{first, second, small} {
		s.ExpectState(id, sm.ExecutionCompletedAck)
	}
}

// A wake-up of a lane needs no memory before it decides. One that finds none then has tried nothing: what was
// counted before it is told by whoever has it next.
func TestAdvance_LaneWithoutMemoryIsNoAttempt(t *testing.T) {
	for i, before := range []*workflow.FailureStreak{nil, {Count: 2, Reason: "the last one failed"}, nil, {Count: 2, Reason: "the last one failed"}} {
		const devices = 40
		other := i > 1
		o := harness.Options()
		o.InlineMaxEntities, o.EntitiesAtOnce = 1, devices
		s := harness.New(t, 1, o)
		s.RegisterBlocks()
		all := fourDigitIDs(2 * devices)
		s.ImportDevices(all...)
		s.Publish("piped", "config: {executionStrategy: {parallel: true}}\n"+stepsYAML("one once device", "two once device"))
		s.Publish("w", stepsYAML("one once device"))
		first, second := s.Start("piped", all[:devices]...), s.Start("w", all[devices:]...)
		wakeup := func(id string) workflow.Wakeup { return workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: id} }
		for s.Load(first).State != sm.ExecutionRunning {
			if err := s.Engine.Advance(context.Background(), wakeup(first)); err != nil {
				t.Fatal(err)
			}
		}
		x := s.Load(first)
		if before != nil {
			before.Since = s.Now()
			if _, err := s.Open().Store.RecordFailureStreak(context.Background(), x.Tenant, first, x.Version, x.FailureStreak, *before); err != nil {
				t.Fatal(err)
			}
		}
		locking := s.StartTask("second", func() { _ = s.Engine.Advance(context.Background(), wakeup(second)) })
		if !locking.RunUntil("locks.take") {
			t.Fatal("the second execution takes no locks")
		}
		s.LifecycleQueue().Purge()
		s.Advance(s.Load(first).DueAt.Sub(s.Now()) + time.Second) // so that the lane decides

		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		lane := wakeup(first)
		lane.Lane, lane.StepRunSeq, lane.Redelivered = new(int), x.StepRuns[len(x.StepRuns)-1].Seq, true
		failed := 0
		if before != nil {
			failed = before.Count
		}
		var err error
		attempt := s.StartTask("lane", func() { err = s.Engine.Advance(ctx, lane) })
		if other { // has begun meanwhile, and ends without a word
			if !attempt.RunPast("store.record_failure_streak") || !attempt.RunUntil("store.record_failure_streak") {
				t.Fatal("the attempt is not withdrawn")
			}
			x = s.Load(first)
			counted := *x.FailureStreak
			counted.Count, counted.Revision, failed = counted.Count+1, counted.Revision+1, failed+1
			if ok, err := s.Open().Store.RecordFailureStreak(context.Background(), x.Tenant, first, x.Version, x.FailureStreak, counted); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		attempt.Finish()
		if err != nil || s.LifecycleQueue().Len() != 1 {
			t.Errorf("the wake-up returns %v, and %d are sent again", err, s.LifecycleQueue().Len())
		}
		got := s.Load(first)
		if got.Version != x.Version || (got.FailureStreak == nil) != (failed == 0) || failed > 0 && (got.FailureStreak.Count != failed || got.FailureStreak.Unfinished != other || !other && got.FailureStreak.Reason != before.Reason) {
			t.Errorf("version %d after %d, failures %+v, want %d after %+v", got.Version, x.Version, got.FailureStreak, failed, before)
		}
		locking.Finish()
		s.Drain()
		settle(s)
		s.ExpectState(first, sm.ExecutionCompletedAck)
	}
}
