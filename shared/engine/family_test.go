package engine_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
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

// parentYAML starts a child and waits for it.
const parentYAML = `steps:
  - {label: go, workflowReference: {workflow: p/child:1, mode: dispatch}}
  - {label: after, functionBlock: p/pure:1, runOn: global}
`

// waitingYAML is a child that waits for a day, and then works.
const waitingYAML = `steps:
  - {label: pause, wait: {for: 24h}}
  - {label: work, functionBlock: p/once:1, runOn: global}
`

// watchFamily fails the test when something of a child happens after its parent's step has ended.
func watchFamily(s *harness.Harness) {
	s.Observer = &harness.FamilyObserver{Fail: func(problem string) { s.Error(problem) }}
}

// childOf returns the id of the first child that an execution has started.
func childOf(s *harness.Harness, id string) string {
	s.Helper()
	x := s.Load(id)
	for i := range x.StepRuns {
		if c := x.StepRuns[i].Child; c != nil {
			return c.ID
		}
	}
	s.Fatalf("%s has started nothing", id)
	return ""
}

func cancelRequest(cascade bool) views.CancelRequest {
	return views.CancelRequest{Reason: "no longer needed", Cascade: &cascade}
}

// A cancelled parent ends after its child, which learns of the cancel although it waits for a day.
func TestFamily_CancelReachesTheChildFirst(t *testing.T) {
	s := newHarness(t, 0)
	watchFamily(s)
	s.Publish("child", waitingYAML)
	s.Publish("w", parentYAML)
	id := s.Start("w")
	s.Drain()
	child := childOf(s, id)
	s.ExpectState(child, sm.ExecutionWaiting)
	if _, err := s.Engine.Cancel(context.Background(), harness.Caller, id, cancelRequest(true)); err != nil {
		t.Fatal(err)
	}
	s.ExpectState(id, sm.ExecutionCancelling)
	s.Drain()
	p, c := s.ExpectState(id, sm.ExecutionCancelledAck), s.ExpectState(child, sm.ExecutionCancelledAck)
	if p.EndedAt.Before(c.EndedAt) || c.Cancellation.Source != "parent" || !strings.Contains(c.Reason, id) {
		t.Errorf("the parent ended at %s, the child at %s: %+v", p.EndedAt, c.EndedAt, c.Cancellation)
	}
}

// The message to the child is lost: the timer of the parent sends it again.
func TestFamily_CancelReachesTheChildThoughItsMessageIsLost(t *testing.T) {
	s := newHarness(t, 0)
	watchFamily(s)
	s.Publish("child", waitingYAML)
	s.Publish("w", parentYAML)
	id := s.Start("w")
	s.Drain()
	child := childOf(s, id)
	s.Faults = faults.Next("sender.send_wakeups", faults.CrashBefore)
	faults.CatchCrash(func() { _, _ = s.Engine.Cancel(context.Background(), harness.Caller, id, cancelRequest(true)) })
	s.RunUntilIdle(time.Hour)
	s.ExpectState(id, sm.ExecutionCancelledAck)
	s.ExpectState(child, sm.ExecutionCancelledAck)
}

// A handler that has read an open step stalls before it creates the child. The parent is cancelled
// meanwhile, finds no child, and ends. The child that is created later does nothing.
func TestFamily_ChildOfALateHandlerDoesNotBegin(t *testing.T) {
	s := newHarness(t, 0)
	watchFamily(s)
	s.Publish("child", "steps: [{label: work, functionBlock: p/once:1, runOn: global}]\n")
	s.Publish("w", parentYAML)
	s.Faults = faults.Next("store.count_descendant", faults.CrashBefore) // the starter dies
	var id string
	faults.CatchCrash(func() { id = s.Start("w") })
	for x := range s.States(harness.Caller.Tenant) {
		id = x
	}
	late := s.StartTask("late", func() {
		_ = s.Engine.Advance(context.Background(), workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: id})
	})
	if !late.RunUntil("store.create") {
		t.Fatal("the late handler creates nothing")
	}
	if _, err := s.Engine.Cancel(context.Background(), harness.Caller, id, cancelRequest(true)); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	s.ExpectState(id, sm.ExecutionCancelledAck)
	late.Finish()
	settle(s)
	if x := s.ExpectState(childOf(s, id), sm.ExecutionCancelledAck); len(s.BlockCalls) > 0 || x.Cancellation.Source != "parent" {
		t.Errorf("%d calls, cancelled by %+v", len(s.BlockCalls), x.Cancellation)
	}
}

// A child that has failed is tried again just before its parent closes the step: the parent waits
// for it, and the child ends.
func TestFamily_RetryBeforeTheStepIsClosed(t *testing.T) {
	s := newHarness(t, 0)
	watchFamily(s)
	s.Publish("child", "steps: [{label: work, functionBlock: p/pure:1, runOn: global}, {label: pause, wait: {for: 24h}}]\n")
	s.Publish("w", parentYAML)
	s.Script = failCalls("work EXECUTE")
	id := s.Start("w")
	s.DrainPacks()
	child := childOf(s, id)
	for s.Load(child).State != sm.ExecutionFailedSafeAck {
		if !s.Deliver() {
			t.Fatalf("the child is %s", s.Load(child).State)
		}
	}
	s.Script = nil
	late := s.StartTask("parent", func() {
		_ = s.Engine.Advance(context.Background(), workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: id})
	})
	if !late.RunUntil("store.commit") {
		t.Fatal("the parent does not close its step")
	}
	if _, err := s.Engine.Retry(context.Background(), harness.Caller, child, views.RetryRequest{Reason: "repaired"}); err != nil {
		t.Fatal(err)
	}
	late.Finish()
	s.Drain()
	x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if c := s.ExpectState(child, sm.ExecutionCancelledAck); x.StepRuns[0].Child.State != c.State || x.EndedAt.Before(c.EndedAt) {
		t.Errorf("the parent has %+v", x.StepRuns[0].Child)
	}
	_, err := s.Engine.Retry(context.Background(), harness.Caller, child, views.RetryRequest{})
	if err == nil {
		t.Error("a cancelled child was retried")
	}
}

// Once the parent no longer waits, a retry of its child is refused, because the parent would not
// learn the outcome.
func TestFamily_NoRetryAfterTheStep(t *testing.T) {
	s := newHarness(t, 0)
	watchFamily(s)
	s.Publish("child", "steps: [{label: work, functionBlock: p/pure:1, runOn: global}]\n")
	s.Publish("w", parentYAML)
	s.Script = failCalls("work EXECUTE")
	id := s.Start("w")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	child := childOf(s, id)
	_, err := s.Engine.Retry(context.Background(), harness.Caller, child, views.RetryRequest{})
	if !workflow.Is(err, workflow.CodeIllegalTransition) || !strings.Contains(err.Error(), id) {
		t.Errorf("a retry after the end of the parent: %v", err)
	}
	s.Script = nil
	if _, err := s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.LastStepRun().Status != sm.StepCompleted || x.StepRuns[1].Child.ID == child {
		t.Errorf("%+v", x.StepRuns[1].Child)
	}
}

// A child whose updates have still to be written is not over.
func TestFamily_WaitsUntilTheChildHasSettled(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("child", "steps: [{label: work, functionBlock: p/again:1, runOn: device}]\n")
	s.Publish("w", `steps:
  - {label: go, workflowReference: {workflow: p/child:1, mode: dispatch, executeOnParameters: {type: device, ids: [d000]}}}
`)
	s.Script = func(harness.BlockCall) *harness.Outcome {
		return &harness.Outcome{SetAttributes: map[string]any{"seen": true}}
	}
	s.Faults = faults.Every(faults.Throttled, "registry.replace_entity")
	id := s.Start("w")
	s.RunFor(5 * time.Minute)
	child := childOf(s, id)
	if c := s.Load(child); c.State != sm.ExecutionCompleted {
		t.Fatalf("the child is %s", c.State)
	}
	if x := s.Load(id); x.State != sm.ExecutionWaiting || x.StepRuns[0].Closing {
		t.Errorf("the parent is %s", x.State)
	}
	s.Faults = nil
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// A child continues without its parent if the cancel does not cascade, or if the definition
// abandons it; and it can be retried.
func TestFamily_LetGo(t *testing.T) {
	for name, yaml := range map[string]string{"no cascade": parentYAML, "abandon": strings.Replace(parentYAML, "mode: dispatch", "mode: dispatch, onParentClose: abandon", 1)} {
		s := newHarness(t, 0)
		s.Publish("child", strings.Replace(waitingYAML, "p/once", "p/forever", 1))
		s.Publish("w", yaml)
		id := s.Start("w")
		s.Drain()
		if _, err := s.Engine.Cancel(context.Background(), harness.Caller, id, cancelRequest(name == "abandon")); err != nil {
			t.Fatal(err)
		}
		s.Drain()
		x := s.ExpectState(id, sm.ExecutionCancelledAck)
		if !x.StepRuns[0].LetGo || x.Schema != workflow.SchemaVersion {
			t.Errorf("%s: let go: %v, schema %d", name, x.StepRuns[0].LetGo, x.Schema)
		}
		child := childOf(s, id)
		s.ExpectState(child, sm.ExecutionWaiting)
		s.Script = failCalls("work EXECUTE")
		settle(s)
		s.ExpectState(child, sm.ExecutionFailedUnsafe)
		s.Script = nil
		if x, err := s.Engine.Retry(context.Background(), harness.Caller, child, views.RetryRequest{}); err != nil || x.State != sm.ExecutionRunning {
			t.Errorf("%s: retry: %v", name, err)
		}
		settle(s)
		s.ExpectState(child, sm.ExecutionCompletedAck)
	}
}

// A child that nobody waits for begins, although its parent is done with the step by then.
func TestFamily_FireAndForgetBeginsAfterItsParentsEnd(t *testing.T) {
	s := newHarness(t, 0)
	watchFamily(s)
	s.Publish("child", "steps: [{label: work, functionBlock: p/pure:1, runOn: global}]\n")
	s.Publish("w", strings.Replace(parentYAML, "mode: dispatch", "mode: fireAndForget", 1))
	id := ""
	begin := s.StartTask("start", func() { id = s.Start("w") })
	if !begin.RunPast("store.create") || !begin.RunPast("store.create") {
		t.Fatal("nothing was started")
	}
	for other := range s.States(harness.Caller.Tenant) {
		if s.Load(other).Parent == nil {
			id = other
		}
	}
	advance(s, id)
	if x := s.Load(id); x.StepRuns[0].Status != sm.StepCompleted {
		t.Fatalf("%s: %+v", x.State, x.StepRuns[0])
	}
	begin.Finish()
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	c := s.ExpectState(childOf(s, id), sm.ExecutionCompletedAck)
	if states := s.ExecutionStates(c.ID); c.Awaited() || states[0] != string(sm.ExecutionNew) {
		t.Errorf("%v", states)
	}
}

// If a step times out and the definition handles that, its child is cancelled first.
func TestFamily_StepTimeoutIsHandledAfterTheChild(t *testing.T) {
	s := newHarness(t, 0)
	watchFamily(s)
	s.Publish("child", waitingYAML)
	s.Publish("w", `steps:
  - {label: go, stepTimeout: 10m, workflowReference: {workflow: p/child:1, mode: dispatch}, onFailure: sorry, next: end}
  - {label: sorry, functionBlock: p/pure:1, runOn: global, parameters: {why: "${steps.go.error.code}"}}
`)
	id := s.Start("w")
	s.RunFor(20 * time.Minute)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	c := s.ExpectState(childOf(s, id), sm.ExecutionCancelledAck)
	if x.StepRuns[0].EndedAt.Before(c.EndedAt) || len(s.BlockCalls) != 1 || string(s.BlockCalls[0].Parameters) != `{"why":"TIMEOUT"}` {
		t.Errorf("the step ended at %s, the child at %s: %+v", x.StepRuns[0].EndedAt, c.EndedAt, s.BlockCalls)
	}
}

// threeLevelsYAML starts what starts the child.
const threeLevelsYAML = "steps: [{label: down, workflowReference: {workflow: p/w:1, mode: dispatch}}]\n"

// A failure, and a cancel, pass through every level, and nothing of a family happens after its end,
// whichever call fails.
func TestFamily_SurvivesFaultAtEveryCall(t *testing.T) {
	s := newHarness(t, 0)
	watchFamily(s)
	s.Publish("child", "steps: [{label: work, functionBlock: p/pure:1, runOn: global}, {label: pause, wait: {for: 10m}}]\n")
	s.Publish("w", parentYAML)
	s.Publish("top", threeLevelsYAML)
	for _, cancelled := range []bool{true, false} {
		play := func() {
			var id string
			for range 10 {
				req := harness.NewStartRequest("top")
				req.IdempotencyKey = "once"
				var err error
				if !faults.CatchCrash(func() {
					var x *workflow.Execution
					if x, _, err = s.Engine.Start(context.Background(), harness.Caller, req); err == nil {
						id = x.ID
					}
				}) && err == nil {
					break
				}
			}
			s.RunUntilIdle(2 * time.Minute)
			if cancelled {
				for range 10 {
					var err error
					if !faults.CatchCrash(func() {
						_, err = s.Engine.Cancel(context.Background(), harness.Caller, id, cancelRequest(true))
					}) && !workflow.Is(err, workflow.CodeUnavailable) {
						break
					}
				}
			}
			if !s.RunUntilIdle(4 * time.Hour) {
				s.Errorf("they do not end: %v", s.States(harness.Caller.Tenant))
			}
			s.Faults = nil
			s.CheckInvariants()
			want := sm.ExecutionCompletedAck
			if cancelled {
				want = sm.ExecutionCancelledAck
			}
			if got := s.States(harness.Caller.Tenant); len(got) != 3 || got[id] != want {
				s.Errorf("%v", got)
			}
		}
		s.Reset(1)
		before := s.CallCount()
		watchFamily(s)
		play()
		calls := s.CallCount() - before
		if t.Failed() || calls < 60 {
			t.Fatalf("%d calls without faults", calls)
		}
		for _, fault := range []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled} {
			for n := 1; n <= calls; n++ {
				if n%3 != 0 && (fault == faults.LostReply || fault == faults.Throttled) {
					continue
				}
				s.Reset(1)
				watchFamily(s)
				s.Faults = faults.At(n, fault)
				if play(); t.Failed() {
					t.Fatalf("cancelled %v: at call %d of %d: %s", cancelled, n, calls, fault)
				}
			}
		}
	}
}

// Whatever the order of handlers that stall, retries and cancels of parents and children, and
// whatever fails: nothing of a child happens after its parent's step, and all end.
func TestFamily_UnderRandomFaults(t *testing.T) {
	retried, cancelled := 0, 0
	for seed := range uint64(300) {
		s := harness.New(t, seed, harness.Options())
		s.RegisterBlocks()
		s.Publish("child", "steps: [{label: work, functionBlock: p/pure:1, runOn: global}]\n")
		s.Publish("w", parentYAML)
		s.Publish("top", threeLevelsYAML)
		random := rand.New(rand.NewPCG(seed, 11))
		watchFamily(s)
		s.Faults = faults.Randomly(random, 60, faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated)
		s.Script = func(harness.BlockCall) *harness.Outcome {
			if random.IntN(4) > 0 {
				return &harness.Outcome{FailCode: "REFUSED"}
			}
			return nil
		}
		faults.CatchCrash(func() { _, _, _ = s.Engine.Start(context.Background(), harness.Caller, harness.NewStartRequest("top")) })
		var tasks []*faults.Task
		for n := range 30 {
			states := s.States(harness.Caller.Tenant)
			some := ""
			for _, x := range slices.Sorted(maps.Keys(states)) {
				some = x
				if random.IntN(2) == 0 {
					break
				}
			}
			name := fmt.Sprintf("task %d", n)
			switch random.IntN(20) {
			case 0:
				tasks = append(tasks, s.StartTask(name, func() {
					if _, err := s.Engine.Cancel(context.Background(), harness.Caller, some, cancelRequest(true)); err == nil {
						cancelled++
					}
				}))
			case 1, 2, 3:
				for _, x := range slices.Sorted(maps.Keys(states)) {
					if states[x] == sm.ExecutionFailedSafeAck {
						some = x
					}
				}
				tasks = append(tasks, s.StartTask(name, func() {
					if _, err := s.Engine.Retry(context.Background(), harness.Caller, some, views.RetryRequest{Entities: "all"}); err == nil {
						retried++
					}
				}))
			case 4, 5, 6, 7:
				tasks = append(tasks, s.StartTask(name, func() {
					_ = s.Engine.Advance(context.Background(), workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: some})
				}))
			default:
				faults.CatchCrash(func() { s.Deliver() })
			}
			for _, task := range tasks {
				for range random.IntN(4) {
					if !task.Done() {
						task.Step()
					}
				}
			}
		}
		for _, task := range tasks {
			if random.IntN(3) == 0 && !task.Done() {
				task.Kill()
			}
		}
		faults.Interleave(random.IntN, tasks...)
		for _, task := range tasks {
			task.Finish()
		}
		if !s.RunUntilIdle(2 * time.Hour) {
			s.Errorf("seed %d: they do not end: %v", seed, s.States(harness.Caller.Tenant))
		}
		s.Faults = nil
		for id := range s.States(harness.Caller.Tenant) {
			if x := s.Load(id); !lifecycle.IsOver(x) {
				s.Errorf("seed %d: %s is in %s", seed, id, x.State)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if retried < 20 || cancelled < 20 {
		t.Errorf("%d retries, %d cancels", retried, cancelled)
	}
}

// A child that is abandoned because its parent has failed may change something at any time: the
// parent is not safe, and one that handles the failure has not wholly succeeded.
func TestFamily_LeavesNothingSafeBehind(t *testing.T) {
	child := "steps: [{label: work, functionBlock: p/forever:1, runOn: global}, {label: pause, wait: {for: 24h}}, {label: more, functionBlock: p/forever:1, runOn: global}]\n"
	for handled, want := range map[string]workflow.Outcome{"": workflow.OutcomeFailedUnsafe, ", onFailure: sorry, next: end": workflow.OutcomePartial} {
		s := newHarness(t, 0)
		s.Publish("child", child)
		s.Publish("w", "steps:\n  - {label: go, stepTimeout: 10m, workflowReference: {workflow: p/child:1, mode: dispatch, onParentClose: abandon}"+handled+"}\n  - {label: sorry, functionBlock: p/pure:1, runOn: global}\n")
		id := s.Start("w")
		s.RunFor(30 * time.Minute)
		x := s.Load(id)
		if x.Outcome() != want || x.StepRuns[0].Pure || x.StepRuns[0].Counts.Unsent > 0 {
			t.Errorf("%q: %s %s, %+v", handled, x.State, x.Outcome(), x.StepRuns[0])
		}
		if c := s.ExpectState(childOf(s, id), sm.ExecutionWaiting); c.Schema != workflow.SchemaVersion {
			t.Errorf("the child has schema %d", c.Schema)
		}
		settle(s)
	}
}

// What a child asks a person changes in every ancestor when the child asks something else, and
// costs no event of them.
func TestFamily_ShowsWhatIsAskedNow(t *testing.T) {
	s := newHarness(t, 0)
	s.Publish("leaf", "steps:\n  - {label: lab, wait: {input: {title: Reboot the lab?}}}\n  - {label: core, wait: {input: {title: Reboot the core?}}}\n")
	s.Publish("mid", "steps: [{label: go, workflowReference: {workflow: p/leaf:1, mode: dispatch}}]\n")
	s.Publish("w", "steps: [{label: go, workflowReference: {workflow: p/mid:1, mode: dispatch}}]\n")
	id := s.Start("w")
	s.Drain()
	mid := childOf(s, id)
	leaf := childOf(s, mid)
	events := s.Load(id).Sequence
	for _, x := range []string{id, mid} {
		if w := s.Load(x).Wait; w.Kind != workflow.WaitChildInput || w.Reason != "Reboot the lab?" || s.Load(x).Needs() != workflow.SchemaVersion {
			t.Errorf("%+v", w)
		}
	}
	for x, asks := range map[string]string{id: mid, mid: leaf} {
		if err := answerStep(t, s, x, "go", "{}", ""); err == nil || !strings.Contains(err.Error(), "answer execution "+asks) {
			t.Errorf("an answer for the execution above is refused with %v", err)
		}
	}
	if err := answerStep(t, s, leaf, "lab", "{}", ""); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	for _, x := range []string{id, mid} {
		if w := s.Load(x).Wait; w.Kind != workflow.WaitChildInput || w.Reason != "Reboot the core?" {
			t.Errorf("%+v", w)
		}
	}
	if now := s.Load(id).Sequence; now != events {
		t.Errorf("%d events, then %d", events, now)
	}
}
