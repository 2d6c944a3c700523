package engine_test

import (
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

const (
	day       = 24 * time.Hour
	retention = 40 * day
)

// forgetful is a stage whose runs are not kept for ever.
func forgetful(t *testing.T, devices int) *stage.Stage {
	o := stage.Options()
	o.Policy.Retention = retention
	s := stage.New(t, 1, o)
	s.Blocks()
	s.Devices(stage.Names(devices)...)
	return s
}

// parts are the moments from which on the parts of a run beside its state item may
// be dropped.
func parts(s *stage.Stage, x *workflow.Execution) []time.Time {
	moments := []time.Time{s.DiscardedAt(workflow.RunKey{Tenant: x.Tenant, Execution: x.ID}, 0)}
	for _, r := range x.Runs {
		if !r.HasJobs() {
			continue
		}
		for shard := range r.Shards() {
			moments = append(moments, s.DiscardedAt(workflow.RunKey{Tenant: x.Tenant, Execution: x.ID, Visit: r.Visit, RunSeq: r.RunSeq}, shard))
		}
	}
	return moments
}

// kept checks that nothing of a run may be dropped.
func kept(s *stage.Stage, id, when string) {
	s.Helper()
	x := s.Load(id)
	for i, at := range parts(s, x) {
		if !x.DiscardAt.IsZero() || !at.IsZero() {
			s.Errorf("%s: the run is to be dropped at %v, its part %d at %v", when, x.DiscardAt, i, at)
		}
	}
}

// discarded checks that all of a run is dropped, the state item first, and that
// nobody has anything to do with it any more.
func discarded(s *stage.Stage, id string) {
	s.Helper()
	x := s.Load(id)
	if x.DiscardAt.IsZero() || !x.DueAt.IsZero() {
		s.Fatalf("the run is dropped at %v, and looked at again at %v", x.DiscardAt, x.DueAt)
	}
	for i, at := range parts(s, x) {
		if at.Before(x.DiscardAt) {
			s.Errorf("part %d is dropped at %v, and the run was given up at %v", i, at, x.DiscardAt)
		}
	}
	s.Without(func() {
		if _, err := s.View.Execution(s.Context(), stage.Caller, id); !workflow.Is(err, workflow.CodeNotFound) {
			s.Errorf("it is still shown: %v", err)
		}
	})
}

// whole checks that a run of which a part may be dropped can neither be seen nor tried
// again.
func whole(s *stage.Stage, id string) {
	s.Helper()
	x := s.Load(id)
	for i, at := range parts(s, x) {
		if !at.IsZero() && x.DiscardAt.IsZero() {
			s.Errorf("part %d may be dropped of a run that can be tried again", i)
		}
	}
}

// A run is given up when its retention is over, and cannot come back then.
func TestRetention(t *testing.T) {
	s := forgetful(t, 5)
	s.Publish("w", steps("one again device", "two once device"))
	s.Script = func(c stage.Call) *stage.Outcome {
		if c.Step == "two" && c.Kind == workflow.JobExecute && c.Entity == "d003" {
			return &stage.Outcome{Fail: "REFUSED"}
		}
		return nil
	}
	id := s.Start("w", stage.Names(5)...)
	s.Tick(10 * time.Minute)
	ended := s.Ends(id, sm.ExecutionFailedSafeAck)
	if want := ended.EndedAt.Add(retention); ended.DueAt.Before(want) || ended.DueAt.After(want.Add(time.Hour)) {
		t.Errorf("it is looked at next at %v, and its retention is over at %v", ended.DueAt, want)
	}
	s.Tick(39 * day)
	kept(s, id, "before its time")

	// A process that dies between any two lines leaves the rest to the alarm.
	for n := 0; s.Load(id).DiscardAt.IsZero() && n < 50; n++ {
		died := false
		s.Faults = func(c fate.Call) fate.Fault {
			if (c.Name == "packs.discard" || c.Name == "store.discard" || c.Name == "store.commit") && !died {
				died = true
				return []fate.Fault{fate.CrashAfter, fate.CrashBefore, fate.LostReply, fate.None}[n%4]
			}
			return fate.None
		}
		s.Tick(12 * time.Hour)
		whole(s, id)
	}
	s.Faults = nil
	s.Tick(day)
	discarded(s, id)

	var err error
	s.Without(func() {
		_, err = s.Engine.Retry(s.Context(), stage.Caller, id, views.RetryRequest{Reason: "again"})
	})
	if !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("a retry of what is being removed is answered with %v", err)
	}
	version := s.Load(id).Version
	s.Tick(30 * day)
	if now := s.Load(id).Version; now != version {
		t.Errorf("it has been written again: version %d, then %d", version, now)
	}
	// Others find the locks free that it has left behind.
	other := s.Start("w", "d000")
	s.Tick(time.Hour)
	s.Ends(other, sm.ExecutionCompletedAck)
}

// A run that is tried again is kept anew from its next end on.
func TestRetentionBeginsAnew(t *testing.T) {
	s := forgetful(t, 1)
	s.Publish("w", steps("one once device"))
	s.Script = func(c stage.Call) *stage.Outcome {
		if c.Kind == workflow.JobRollback {
			return nil
		}
		return &stage.Outcome{Fail: "REFUSED"}
	}
	id := s.Start("w", "d000")
	s.Tick(39 * day)
	s.Ends(id, sm.ExecutionFailedSafeAck)
	s.Script = nil
	s.Without(func() {
		if _, err := s.Engine.Retry(s.Context(), stage.Caller, id, views.RetryRequest{Reason: "again"}); err != nil {
			t.Fatal(err)
		}
	})
	s.Tick(39 * day)
	s.Ends(id, sm.ExecutionCompletedAck)
	kept(s, id, "40 days after its first end")
	s.Tick(2 * day)
	discarded(s, id)
}

// A run that somebody has to look at stays, and so does what it has started, for
// which it would ask again and start it twice.
func TestRetentionWaitsForPeopleAndParents(t *testing.T) {
	s := forgetful(t, 1)
	s.Publish("child", steps("one pure global"))
	s.Publish("w", `steps:
  - {label: sub, workflowReference: {workflow: "p/child:1", mode: fireAndForget}}
  - {label: two, functionBlock: p/forever:1, runOn: device}
  - {label: three, functionBlock: p/pure:1, runOn: global}
`)
	s.Script = func(c stage.Call) *stage.Outcome {
		if c.Step == "three" {
			return &stage.Outcome{Fail: "REFUSED"}
		}
		return nil
	}
	id := s.Start("w", "d000")
	s.Tick(60 * day)
	x := s.Ends(id, sm.ExecutionFailedUnsafe)
	child := x.Runs[0].Child.ID
	s.Ends(child, sm.ExecutionCompletedAck)
	kept(s, id, "unacknowledged")
	kept(s, child, "of a run that is not acknowledged")
	s.Without(func() {
		if _, err := s.Engine.Acknowledge(s.Context(), stage.Caller, id, "seen"); err != nil {
			t.Fatal(err)
		}
	})
	s.Tick(2 * day)
	discarded(s, child)
	kept(s, id, "two days after somebody has looked")
	s.Tick(retention)
	discarded(s, id)
}

// Without a retention nothing is dropped, and nobody looks at what has ended.
func TestKeptForEver(t *testing.T) {
	s := open(t, 1)
	s.Publish("w", steps("one once device"))
	id := s.Start("w", "d000")
	s.Tick(400 * day)
	if x := s.Ends(id, sm.ExecutionCompletedAck); !x.DueAt.IsZero() {
		t.Errorf("it is looked at at %v", x.DueAt)
	}
	kept(s, id, "without a retention")
}
