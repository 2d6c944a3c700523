package engine_test

import (
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

const (
	day       = 24 * time.Hour
	retention = 40 * day
)

// newRetentionHarness discards executions 40 days after their end.
func newRetentionHarness(t *testing.T, devices int) *harness.Harness {
	o := harness.Options()
	o.Policy.Retention = retention
	s := harness.New(t, 1, o)
	s.RegisterBlocks()
	s.ImportDevices(harness.DeviceIDs(devices)...)
	return s
}

// partDiscardTimes returns from when on the parts of an execution outside its state item may be
// deleted; zero for a part that is kept.
func partDiscardTimes(s *harness.Harness, x *workflow.Execution) []time.Time {
	times := []time.Time{s.PartsDiscardedAt(x.Tenant, x.ID)}
	for _, r := range x.StepRuns {
		if !r.HasJobs() {
			continue
		}
		for shard := range r.Shards() {
			times = append(times, s.DiscardedAt(workflow.StepRunKey{Tenant: x.Tenant, Execution: x.ID, Ordinal: r.Ordinal, Seq: r.Seq}, shard))
		}
	}
	return times
}

// assertKept checks that no part of an execution is marked for deletion.
func assertKept(s *harness.Harness, id, when string) {
	s.Helper()
	x := s.Load(id)
	for i, at := range partDiscardTimes(s, x) {
		if !x.DiscardedAt.IsZero() || !at.IsZero() {
			s.Errorf("%s: the execution is discarded at %v, its part %d at %v", when, x.DiscardedAt, i, at)
		}
	}
}

// assertDiscarded checks that all parts of an execution are discarded, the state item
// first, and that it has no timer and cannot be queried.
func assertDiscarded(s *harness.Harness, id string) {
	s.Helper()
	x := s.Load(id)
	if x.DiscardedAt.IsZero() || !x.DueAt.IsZero() {
		s.Fatalf("the execution is discarded at %v, and its timer is at %v", x.DiscardedAt, x.DueAt)
	}
	for i, at := range partDiscardTimes(s, x) {
		if at.Before(x.DiscardedAt) {
			s.Errorf("part %d is discarded at %v, before the execution at %v", i, at, x.DiscardedAt)
		}
	}
	s.WithoutFaults(func() {
		if _, err := s.Query.Execution(s.Context(), harness.Caller, id); !workflow.Is(err, workflow.CodeNotFound) {
			s.Errorf("the view still exists: %v", err)
		}
	})
}

// assertNotPartlyDiscarded checks that an execution with a discarded part is discarded
// itself, so that it can neither be queried nor retried.
func assertNotPartlyDiscarded(s *harness.Harness, id string) {
	s.Helper()
	x := s.Load(id)
	for i, at := range partDiscardTimes(s, x) {
		if !at.IsZero() && x.DiscardedAt.IsZero() {
			s.Errorf("part %d is discarded, but the execution is not", i)
		}
	}
}

// An execution is discarded when its retention is over, and cannot be retried then.
func TestRetention_DiscardsExpiredExecution(t *testing.T) {
	s := newRetentionHarness(t, 5)
	s.Publish("w", stepsYAML("one again device", "two once device"))
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "two" && c.Kind == workflow.JobExecute && c.Entity == "d003" {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(5)...)
	s.RunFor(10 * time.Minute)
	ended := s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if want := ended.EndedAt.Add(retention); ended.DueAt.Before(want) || ended.DueAt.After(want.Add(time.Hour)) {
		t.Errorf("its timer is at %v, its retention ends at %v", ended.DueAt, want)
	}
	s.RunFor(39 * day)
	assertKept(s, id, "before its time")

	// A process that crashes between any two lines leaves the rest to the timer.
	for n := 0; s.Load(id).DiscardedAt.IsZero() && n < 50; n++ {
		crashed := false
		s.Faults = func(c faults.Call) faults.Fault {
			if (c.Name == "packs.discard" || c.Name == "store.discard" || c.Name == "store.commit") && !crashed {
				crashed = true
				return []faults.Fault{faults.CrashAfter, faults.CrashBefore, faults.LostReply, faults.None}[n%4]
			}
			return faults.None
		}
		s.RunFor(12 * time.Hour)
		assertNotPartlyDiscarded(s, id)
	}
	s.Faults = nil
	s.RunFor(day)
	assertDiscarded(s, id)

	var err error
	s.WithoutFaults(func() {
		_, err = s.Engine.Retry(s.Context(), harness.Caller, id, views.RetryRequest{Reason: "again"})
	})
	if !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("a retry of a discarded execution returns %v", err)
	}
	version := s.Load(id).Version
	s.RunFor(30 * day)
	if now := s.Load(id).Version; now != version {
		t.Errorf("the execution was written again: version %d, then %d", version, now)
	}
	// Other executions find its locks free.
	other := s.Start("w", "d000")
	s.RunFor(time.Hour)
	s.ExpectState(other, sm.ExecutionCompletedAck)
}

// After a retry, the retention begins again with the next end.
func TestRetention_RestartsAfterRetry(t *testing.T) {
	s := newRetentionHarness(t, 1)
	s.Publish("w", stepsYAML("one once device"))
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Kind == workflow.JobRollback {
			return nil
		}
		return &harness.Outcome{FailCode: "REFUSED"}
	}
	id := s.Start("w", "d000")
	s.RunFor(39 * day)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	s.Script = nil
	s.WithoutFaults(func() {
		if _, err := s.Engine.Retry(s.Context(), harness.Caller, id, views.RetryRequest{Reason: "again"}); err != nil {
			t.Fatal(err)
		}
	})
	s.RunFor(39 * day)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	assertKept(s, id, "40 days after its first end")
	s.RunFor(2 * day)
	assertDiscarded(s, id)
}

// An execution that waits for an acknowledge stays, and so do its children: if it looked
// for a child that is gone, it would start it again.
func TestRetention_WaitsForAcknowledgeAndParent(t *testing.T) {
	s := newRetentionHarness(t, 1)
	s.Publish("child", stepsYAML("one pure global"))
	s.Publish("w", `steps:
  - {label: sub, workflowReference: {workflow: "p/child:1", mode: fireAndForget}}
  - {label: two, functionBlock: p/forever:1, runOn: device}
  - {label: three, functionBlock: p/pure:1, runOn: global}
`)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "three" {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	id := s.Start("w", "d000")
	s.RunFor(60 * day)
	x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
	child := x.StepRuns[0].Child.ID
	s.ExpectState(child, sm.ExecutionCompletedAck)
	assertKept(s, id, "unacknowledged")
	assertKept(s, child, "before its parent is acknowledged")
	s.WithoutFaults(func() {
		if _, err := s.Engine.Acknowledge(s.Context(), harness.Caller, id, "seen"); err != nil {
			t.Fatal(err)
		}
	})
	s.RunFor(2 * day)
	assertDiscarded(s, child)
	assertKept(s, id, "two days after the acknowledge")
	s.RunFor(retention)
	assertDiscarded(s, id)
}

// Without a retention nothing is discarded, and ended executions have no timer.
func TestRetention_ZeroKeepsForever(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one once device"))
	id := s.Start("w", "d000")
	s.RunFor(400 * day)
	if x := s.ExpectState(id, sm.ExecutionCompletedAck); !x.DueAt.IsZero() {
		t.Errorf("its timer is at %v", x.DueAt)
	}
	assertKept(s, id, "without a retention")
}
