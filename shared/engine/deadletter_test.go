package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

func deadLetterWakeup(id string, n int) workflow.Wakeup {
	key := workflow.StepRunKey{Tenant: harness.Caller.Tenant, Execution: id, Ordinal: 1, Seq: 1}.Pack(0, 1)
	return workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: id, DeadLetter: &workflow.DeadLetter{
		MessageID: fmt.Sprint("m", n), Queue: "jobs-default", Pack: &key, Step: "go", Reason: "unavailable: no", ReceiveCount: 20,
	}}
}

// deadLetterNotices returns the events of dead letters in an execution's history.
func deadLetterNotices(s *harness.Harness, id string) (all []workflow.Event) {
	for _, e := range s.History(id) {
		if e.Type == lifecycle.EventMessageDeadLettered {
			all = append(all, e)
		}
	}
	return all
}

func startGlobalExecution(t *testing.T, seed uint64) (*harness.Harness, string) {
	s := harness.New(t, seed, harness.Options())
	s.RegisterBlocks()
	s.Publish("w", "steps:\n  - {label: go, functionBlock: p/pure:1, runOn: global}\n")
	return s, s.Start("w")
}

func advanceWith(t *testing.T, s *harness.Harness, l workflow.Wakeup) {
	t.Helper()
	s.WithoutFaults(func() {
		if err := s.Engine.Advance(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	})
}

// A dead letter is recorded once, with its reason, and nothing else about the execution
// changes, whether it has ended or not.
func TestRecordDeadLetter_WritesOneNotice(t *testing.T) {
	s, id := startGlobalExecution(t, 1)
	for _, ended := range []bool{false, true} {
		if ended {
			s.RunUntilIdle(time.Hour)
		}
		before, recorded := s.Load(id), len(deadLetterNotices(s, id))
		for range 3 {
			advanceWith(t, s, deadLetterWakeup(id, recorded+1))
		}
		after := s.Load(id)
		if got := deadLetterNotices(s, id); len(got) != recorded+1 || got[recorded].Step != "go" || got[recorded].Layer != "step" || got[recorded].From != "" || got[recorded].To != "" ||
			string(got[recorded].Data) != fmt.Sprintf(`{"message":"m%d","pack":"%s/1.1/0.0.1","queue":"jobs-default","reason":"unavailable: no","receives":20}`, recorded+1, id) {
			t.Fatalf("ended %v: %+v", ended, got)
		}
		if after.State != before.State || !after.DueAt.Equal(before.DueAt) || after.Version != before.Version+1 || after.Sequence != before.Sequence+1 || after.StepRunSeq != before.StepRunSeq {
			t.Errorf("ended %v: %+v became %+v", ended, before, after)
		}
	}
	if !s.RunUntilIdle(time.Hour) {
		t.Fatal("the execution does not end")
	}
	s.ExpectState(id, sm.ExecutionCompletedAck)
	s.CheckInvariants()
	advanceWith(t, s, deadLetterWakeup("00000000-0000-7000-8000-000000000000", 1)) // of no execution: nothing to write or to repeat
}

// A provisional dead letter is dropped if a worker has claimed the pack.
func TestRecordDeadLetter_IgnoresProvisionalOfClaimedPack(t *testing.T) {
	s, id := startGlobalExecution(t, 1)
	l := deadLetterWakeup(id, 1)
	stepRun := s.Load(id).StepRuns[0]
	l.DeadLetter.Pack.StepRunOrdinal, l.DeadLetter.Pack.StepRunSeq = stepRun.Ordinal, stepRun.Seq
	l.DeadLetter.Provisional = true
	advanceWith(t, s, l)
	if got := deadLetterNotices(s, id); len(got) != 1 {
		t.Fatalf("the pack is unclaimed, notices %+v", got)
	}
	s.RunUntilIdle(time.Hour)
	l.DeadLetter.MessageID = "m2"
	advanceWith(t, s, l)
	if got := deadLetterNotices(s, id); len(got) != 1 {
		t.Errorf("the pack has ended, notices %+v", got)
	}
}

// The history holds at most 50 notices, its pages included, and a notice that was paged
// out is not written again.
func TestRecordDeadLetter_LimitsNotices(t *testing.T) {
	s, id := startGlobalExecution(t, 1)
	for n := range 80 {
		advanceWith(t, s, deadLetterWakeup(id, n))
	}
	advanceWith(t, s, deadLetterWakeup(id, 0))
	calls := len(s.Trace())
	advanceWith(t, s, deadLetterWakeup(id, 49)) // the newest notice
	for _, c := range s.Trace()[calls:] {
		if c.Name == "store.load_events" {
			t.Error("stored pages are read although the notice is in the state item")
		}
	}
	seen := map[string]bool{}
	for _, e := range deadLetterNotices(s, id) {
		if seen[string(e.Data)] {
			t.Errorf("written twice: %s", e.Data)
		}
		seen[string(e.Data)] = true
	}
	if x := s.Load(id); len(seen) != 50 || x.PagedThrough == 0 {
		t.Errorf("%d notices, %d events paged out", len(seen), x.PagedThrough)
	}
	s.RunUntilIdle(time.Hour)
	s.CheckInvariants()
}

// A dead letter that is reported several times at once, under faults and while the
// execution advances, is in the history once, and the execution still completes.
func TestRecordDeadLetter_ConcurrentReportsWriteOnce(t *testing.T) {
	for seed := range uint64(100) {
		s, id := startGlobalExecution(t, seed)
		s.Faults = faults.Randomly(rand.New(rand.NewPCG(seed, 3)), 15,
			faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated)
		var tasks []*faults.Task
		for i := range 3 {
			tasks = append(tasks, s.StartTask(fmt.Sprint("record ", i), func() { _ = s.Engine.Advance(t.Context(), deadLetterWakeup(id, i/2)) }))
		}
		tasks = append(tasks, s.StartTask("advance", func() {
			_ = s.Engine.Advance(t.Context(), workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: id})
		}))
		s.Interleave(tasks...)
		s.Faults = nil
		for n := range 2 {
			advanceWith(t, s, deadLetterWakeup(id, n))
		}
		if got := deadLetterNotices(s, id); len(got) != 2 {
			t.Fatalf("seed %d: %+v", seed, got)
		}
		if !s.RunUntilIdle(48 * time.Hour) {
			t.Fatalf("seed %d: the execution does not end", seed)
		}
		s.ExpectState(id, sm.ExecutionCompletedAck)
		s.CheckInvariants()
	}
}

// The event of a dead letter belongs to no layer's state machine, so nothing takes it
// for a transition.
func TestDeadLetterNotices_BelongToNoLayer(t *testing.T) {
	for _, m := range sm.Machines() {
		if slices.Contains(m.Events, lifecycle.EventMessageDeadLettered) {
			t.Errorf("the machine of layer %s has the event", m.Layer)
		}
	}
}

// Recording a dead letter keeps the failure streak, which may have the same cause, even
// if the handler crashes right after the commit.
func TestRecordDeadLetter_KeepsFailureStreak(t *testing.T) {
	for _, fault := range []faults.Fault{faults.None, faults.CrashBefore, faults.CrashAfter, faults.Throttled} {
		s, id := startGlobalExecution(t, 1)
		x := s.Load(id)
		since := workflow.FailureStreak{Since: s.Now().Add(-time.Hour), Count: 7, Reason: "no"}
		s.WithoutFaults(func() {
			if _, err := s.Open().Store.RecordFailureStreak(t.Context(), x.Tenant, id, x.Version, x.FailureStreak, since); err != nil {
				t.Fatal(err)
			}
		})
		committed := false
		s.Faults = func(c faults.Call) faults.Fault {
			if after := committed; after {
				return fault // at whatever follows the commit
			}
			committed = c.Name == "store.commit"
			return faults.None
		}
		faults.CatchCrash(func() { _ = s.Engine.Advance(t.Context(), deadLetterWakeup(id, 1)) })
		s.Faults = nil
		if got := s.Load(id).FailureStreak; len(deadLetterNotices(s, id)) != 1 || got == nil || !got.Since.Equal(since.Since) || got.Count != 7 {
			t.Errorf("%v: %d notices, failure streak %+v", fault, len(deadLetterNotices(s, id)), got)
		}
	}
}
