package engine_test

import (
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/faults"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

const (
	day       = 24 * time.Hour
	retention = 40 * day
)

// newRetentionHarness is a stage whose runs are not kept for ever.
func newRetentionHarness(t *testing.T, devices int) *harness.Harness {
	o := harness.Options()
	o.Policy.Retention = retention
	s := harness.New(t, 1, o)
	s.RegisterBlocks()
	s.ImportDevices(harness.DeviceIDs(devices)...)
	return s
}

// partDiscardTimes are the moments from which on the parts of a run beside its state item may
// be dropped.
func partDiscardTimes(s *harness.Harness, x *workflow.Execution) []time.Time {
	times := []time.Time{s.DiscardedAt(workflow.StepRunKey{Tenant: x.Tenant, Execution: x.ID}, 0)}
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

// assertKept checks that nothing of a run may be dropped.
func assertKept(s *harness.Harness, id, when string) {
	s.Helper()
	x := s.Load(id)
	for i, at := range partDiscardTimes(s, x) {
		if !x.DiscardedAt.IsZero() || !at.IsZero() {
			s.Errorf("%s: the run is to be dropped at %v, its part %d at %v", when, x.DiscardedAt, i, at)
		}
	}
}

// assertDiscarded checks that all of a run is dropped, the state item first, and that
// nobody has anything to do with it any more.
func assertDiscarded(s *harness.Harness, id string) {
	s.Helper()
	x := s.Load(id)
	if x.DiscardedAt.IsZero() || !x.DueAt.IsZero() {
		s.Fatalf("the run is dropped at %v, and looked at again at %v", x.DiscardedAt, x.DueAt)
	}
	for i, at := range partDiscardTimes(s, x) {
		if at.Before(x.DiscardedAt) {
			s.Errorf("part %d is dropped at %v, and the run was given up at %v", i, at, x.DiscardedAt)
		}
	}
	s.WithoutFaults(func() {
		if _, err := s.Query.Execution(s.Context(), harness.Caller, id); !workflow.Is(err, workflow.CodeNotFound) {
			s.Errorf("it is still shown: %v", err)
		}
	})
}

// assertNotPartlyDiscarded checks that a run of which a part may be dropped can neither be seen nor tried
// again.
func assertNotPartlyDiscarded(s *harness.Harness, id string) {
	s.Helper()
	x := s.Load(id)
	for i, at := range partDiscardTimes(s, x) {
		if !at.IsZero() && x.DiscardedAt.IsZero() {
			s.Errorf("part %d may be dropped of a run that can be tried again", i)
		}
	}
}

// A run is given up when its retention is over, and cannot come back then.
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
		t.Errorf("it is looked at next at %v, and its retention is over at %v", ended.DueAt, want)
	}
	s.RunFor(39 * day)
	assertKept(s, id, "before its time")

	// A process that dies between any two lines leaves the rest to the alarm.
	for n := 0; s.Load(id).DiscardedAt.IsZero() && n < 50; n++ {
		died := false
		s.Faults = func(c faults.Call) faults.Fault {
			if (c.Name == "packs.discard" || c.Name == "store.discard" || c.Name == "store.commit") && !died {
				died = true
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
		t.Errorf("a retry of what is being removed is answered with %v", err)
	}
	version := s.Load(id).Version
	s.RunFor(30 * day)
	if now := s.Load(id).Version; now != version {
		t.Errorf("it has been written again: version %d, then %d", version, now)
	}
	// Others find the locks free that it has left behind.
	other := s.Start("w", "d000")
	s.RunFor(time.Hour)
	s.ExpectState(other, sm.ExecutionCompletedAck)
}

// A run that is tried again is kept anew from its next end on.
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

// A run that somebody has to look at stays, and so does what it has started, for
// which it would ask again and start it twice.
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
	assertKept(s, child, "of a run that is not acknowledged")
	s.WithoutFaults(func() {
		if _, err := s.Engine.Acknowledge(s.Context(), harness.Caller, id, "seen"); err != nil {
			t.Fatal(err)
		}
	})
	s.RunFor(2 * day)
	assertDiscarded(s, child)
	assertKept(s, id, "two days after somebody has looked")
	s.RunFor(retention)
	assertDiscarded(s, id)
}

// Without a retention nothing is dropped, and nobody looks at what has ended.
func TestRetention_ZeroKeepsForever(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one once device"))
	id := s.Start("w", "d000")
	s.RunFor(400 * day)
	if x := s.ExpectState(id, sm.ExecutionCompletedAck); !x.DueAt.IsZero() {
		t.Errorf("it is looked at at %v", x.DueAt)
	}
	assertKept(s, id, "without a retention")
}
