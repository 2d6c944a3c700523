package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// forgetting are definitions that start executions for which they do not wait.
func forgetting(s *harness.Harness, items, window string) {
	s.Publish("site", siteYAML)
	s.Publish("w", "config: {timeout: 1h}\n"+strings.Replace(setYAML(`items: "${`+items+`}", maxInFlight: `+window), "dispatch", "fireAndForget", 1))
	s.Publish("one", "config: {timeout: 1h}\n"+strings.NewReplacer("p/child:1", "p/site:1", "mode: dispatch}", "mode: fireAndForget}, parameters: {name: n, number: 0}").Replace(parentYAML))
}

// theOnly returns the id of the only execution that exists.
func theOnly(s *harness.Harness) (id string) {
	s.Helper()
	all := s.States(harness.Caller.Tenant)
	for id = range all {
	}
	if len(all) != 1 {
		s.Fatalf("executions: %v", all)
	}
	return id
}

// cancelAll cancels an execution.
func cancelAll(s *harness.Harness, id string) {
	s.Helper()
	if _, err := s.Engine.Cancel(context.Background(), harness.Caller, id, cancelRequest(true)); err != nil {
		s.Fatal(err)
	}
}

// A handler that has read an open step stalls before it creates an execution in fire-and-forget
// mode. Meanwhile the starter is cancelled, and reports that the execution was not started. It
// never begins.
func TestForgotten_OfALateHandlerDoesNotBegin(t *testing.T) {
	for name, one := range map[string]bool{"of a set": false, "alone": true} {
		s := newHarness(t, 0)
		watchFamily(s)
		forgetting(s, names(3), "2")
		definition := "w"
		if one {
			definition = "one"
		}
		s.Faults = faults.Next("store.count_descendant", faults.CrashBefore) // the starter dies
		faults.CatchCrash(func() { s.Start(definition) })
		id := theOnly(s)
		late := s.StartTask("late", func() {
			_ = s.Engine.Advance(context.Background(), workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: id})
		})
		if !late.RunUntil("store.create") {
			t.Fatal("the late handler creates nothing")
		}
		cancelAll(s, id)
		s.Drain()
		x := s.ExpectState(id, sm.ExecutionCancelledAck)
		late.Finish()
		settle(s)
		if r := x.StepRuns[0]; r.Counts.NotExecuted != r.Jobs || len(s.BlockCalls) > 0 {
			t.Errorf("%s: %d jobs, %+v, and %d calls", name, r.Jobs, r.Counts, len(s.BlockCalls))
		}
	}
}

// begun returns how many of the executions that another one has started have begun.
func begun(s *harness.Harness) (n int) {
	s.Helper()
	for id := range s.States(harness.Caller.Tenant) {
		if x := s.Load(id); x.Parent != nil && !lifecycle.NeverBegins(x) {
			n++
		}
	}
	return n
}

// A step that is closed learns at once, by messages, which of the executions that it has started do not
// begin.
func TestForgotten_TheStarterIsTold(t *testing.T) {
	for _, definition := range []string{"w", "one"} {
		s := newHarness(t, 0)
		watchFamily(s)
		forgetting(s, names(5), "2")
		begin := s.StartTask("start", func() { s.Start(definition) })
		if !begin.RunPast("store.create") || !begin.RunPast("store.create") {
			t.Fatal("nothing was started")
		}
		id := ""
		for other := range s.States(harness.Caller.Tenant) {
			if s.Load(other).Parent == nil {
				id = other
			}
		}
		cancelAll(s, id)
		s.ExpectState(id, sm.ExecutionCancelling)
		began := s.Now()
		for s.Deliver() {
		}
		if x := s.ExpectState(id, sm.ExecutionCancelledAck); s.Now().Sub(began) > time.Minute/2 || x.StepRuns[0].Counts.OK > 0 {
			t.Errorf("%s: it took %s, %+v", definition, s.Now().Sub(began), x.StepRuns[0].Counts)
		}
		begin.Finish()
	}
}

// A cancel or a timeout comes between any two calls of the handler that starts executions. Each of
// them either counts as not executed and does not begin, or counts as started and begins. A retry
// starts the others, and none a second time.
func TestForgotten_CountsThoseThatBegin(t *testing.T) {
	for _, definition := range []string{"w", "one"} {
		for _, cancelled := range []bool{true, false} {
			for at := 0; ; at++ {
				s := newHarness(t, 0)
				watchFamily(s)
				forgetting(s, names(5), "2")
				begin := s.StartTask("start", func() { s.Start(definition) })
				for range at {
					begin.Step()
				}
				if begin.Done() {
					break
				}
				id := ""
				for other, state := range s.States(harness.Caller.Tenant) {
					if s.Load(other).Parent == nil && !sm.Terminal(state) {
						id = other
					}
				}
				if id == "" || s.Load(id).LastStepRun() == nil {
					continue
				}
				if cancelled {
					cancelAll(s, id)
				} else {
					s.Advance(2 * time.Hour)
					if err := s.Engine.Advance(context.Background(), workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: id}); err != nil {
						t.Fatal(err)
					}
				}
				if at%2 == 0 {
					s.Drain()
				}
				begin.Finish()
				settle(s)
				x := s.Load(id)
				r := &x.StepRuns[0]
				if n := begun(s); r.Counts.OK != n || r.Counts.NotExecuted != r.Jobs-n {
					t.Errorf("%s: call %d (%s): %s with %+v, and %d have begun", definition, at, x.Cause, x.State, r.Counts, n)
				}
				if x.State != sm.ExecutionFailedSafeAck {
					continue
				}
				_, err := s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{Entities: "failed"})
				if definition == "one" && r.Counts.OK == 1 && workflow.Is(err, workflow.CodeIllegalTransition) {
					continue // nobody has asked for a second one
				}
				if err != nil {
					t.Fatal(err)
				}
				settle(s)
				if n := begun(s); s.Load(id).State != sm.ExecutionCompletedAck || n != r.Jobs {
					t.Errorf("%s: call %d: %s after the retry, and %d have begun for %d items", definition, at, s.Load(id).State, n, r.Jobs)
				}
			}
		}
	}
}

// An execution that has begun counts as started, whatever becomes of it before its step ends.
func TestForgotten_FailureOfAStartedOneIsNotItsStarters(t *testing.T) {
	s := newHarness(t, 0)
	forgetting(s, names(4), "2")
	s.Script = failCalls("work EXECUTE")
	begin := s.StartTask("start", func() { s.Start("w") })
	if !begin.RunPast("store.create") || !begin.RunPast("sender.send_wakeups") {
		t.Fatal("nothing was started")
	}
	s.Drain()
	begin.Finish()
	settle(s)
	for id := range s.States(harness.Caller.Tenant) {
		if x := s.Load(id); x.Parent == nil {
			if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.StepRuns[0].Counts.OK != 4 {
				t.Errorf("%+v", x.StepRuns[0].Counts)
			}
		}
	}
}

// Once every item has its execution, or was refused one, all of them begin, also if the step fails
// because of those that were refused.
func TestForgotten_SomeWereRefused(t *testing.T) {
	s := newHarness(t, 0)
	watchFamily(s)
	s.Publish("site", "parameters: {properties: {number: {maximum: 2}}}\n"+siteYAML)
	s.Publish("w", strings.Replace(setYAML(`items: "${`+names(4)+`}"`), "dispatch", "fireAndForget", 1))
	var id string
	begin := s.StartTask("start", func() { id = s.Start("w") })
	if !begin.RunUntil("sender.send_wakeups") {
		t.Fatal("nothing was started")
	}
	for other := range s.States(harness.Caller.Tenant) {
		if x := s.Load(other); x.Parent == nil {
			id = other
		}
	}
	advance(s, id)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.StepRuns[0].Counts.OK != 3 || begun(s) != 3 {
		t.Errorf("%+v", x.StepRuns[0].Counts)
	}
	begin.Finish()
	settle(s)
	if len(s.BlockCalls) != 3 {
		t.Errorf("%d calls", len(s.BlockCalls))
	}
}

// An execution in fire-and-forget mode can be retried, whatever has become of its starter.
func TestForgotten_IsTriedAgainByItself(t *testing.T) {
	s := newHarness(t, 0)
	watchFamily(s)
	forgetting(s, names(2), "1")
	s.Script = failCalls("work EXECUTE")
	begin := s.StartTask("start", func() { s.Start("w") })
	if !begin.RunPast("store.create") || !begin.RunPast("sender.send_wakeups") {
		t.Fatal("nothing was started")
	}
	s.Drain()
	var id, child string
	for other := range s.States(harness.Caller.Tenant) {
		if x := s.Load(other); x.Parent == nil {
			id = other
		} else {
			child = other
		}
	}
	s.ExpectState(child, sm.ExecutionFailedSafeAck)
	cancelAll(s, id)
	begin.Finish()
	s.Drain()
	if x := s.ExpectState(id, sm.ExecutionCancelledAck); x.StepRuns[0].Counts.OK != 1 || x.StepRuns[0].Counts.NotExecuted != 1 {
		t.Errorf("%+v", x.StepRuns[0].Counts)
	}
	s.Script = nil
	if _, err := s.Engine.Retry(context.Background(), harness.Caller, child, views.RetryRequest{}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(child, sm.ExecutionCompletedAck)
}
