package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/query"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
	"github.com/lockstep-run/lockstep/tests/sim/invariant"
)

// limitedYAML is a workflow with a limit of live executions.
func limitedYAML(limit string, steps ...string) string {
	return "parameters: {type: object}\nconfig: {concurrency: " + limit + "}\n" + stepsYAML(steps...)
}

func startByKey(s *harness.Harness, workflowName, parameters string, ids ...string) string {
	return s.StartWith(views.StartRequest{Workflow: "p/" + workflowName, Parameters: []byte(parameters), ExecuteOnParameters: &workflow.Selector{Type: "device", IDs: ids}})
}

// live returns the executions that hold locks.
func live(s *harness.Harness) (ids []string) {
	for id, state := range s.States(harness.Caller.Tenant) {
		if sm.HoldsLocks(state) && state != sm.ExecutionLocking {
			ids = append(ids, id)
		}
	}
	return ids
}

// F79: no more executions of a workflow are live than it allows. The others wait, show what for,
// and follow in the order in which they were started.
func TestConcurrency_LimitsLiveExecutions(t *testing.T) {
	s := newHarness(t, 5)
	s.Publish("w", limitedYAML("{limit: 2}", "one once device"))
	most := 0
	var order []string
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		most = max(most, len(live(s)))
		order = append(order, c.Entity)
		return nil
	}
	var ids []string
	for n := range 5 {
		ids = append(ids, s.Start("w", fmt.Sprintf("d%03d", n)))
		s.DrainWakeups()
	}
	last := s.Load(ids[4])
	if last.BlockedBy == nil || len(last.BlockedBy.Holders()) != 2 || !last.BlockedBy.Entity.IsSlot() || last.Schema != 2 {
		t.Errorf("the last one is blocked by %+v", last.BlockedBy)
	}
	v, err := query.New(s.Engine, 1).Execution(context.Background(), harness.Caller, ids[4])
	if err != nil {
		t.Fatal(err)
	}
	if w := v.Waiting; w == nil || w.Kind != workflow.WaitLock || len(w.Blockers) != 2 || *w.Blockers[0].Entity != "~run/p.w" || w.Reason == nil || !strings.Contains(*w.Reason, "at the same time: 2") {
		t.Errorf("it says that it waits for %+v", w)
	}
	settle(s)
	for _, id := range ids {
		s.ExpectState(id, sm.ExecutionCompletedAck)
	}
	if most != 2 || len(order) != 5 {
		t.Errorf("at most %d were live, in the order %v", most, order)
	}
}

// The largest limit: 64 are live, one more waits for all of them, and each end lets one in.
func TestConcurrency_LargestLimit(t *testing.T) {
	const extra = 3
	s := newHarness(t, workflow.MaxConcurrency+extra)
	s.Publish("w", limitedYAML(fmt.Sprintf("{limit: %d}", workflow.MaxConcurrency), "one once device"))
	most := 0
	s.Script = func(harness.BlockCall) *harness.Outcome {
		most = max(most, len(live(s)))
		return nil
	}
	var ids []string
	for n := range workflow.MaxConcurrency + extra {
		ids = append(ids, s.Start("w", fmt.Sprintf("d%03d", n)))
		s.DrainWakeups()
	}
	if by := s.Load(ids[len(ids)-1]).BlockedBy; by == nil || len(by.Holders()) != workflow.MaxConcurrency {
		t.Errorf("the last one is blocked by %+v", by)
	}
	settle(s)
	for _, id := range ids {
		s.ExpectState(id, sm.ExecutionCompletedAck)
	}
	if most != 64 {
		t.Errorf("%d were live", most)
	}
}

// Executions share a limit with those that have the same key.
func TestConcurrency_IsByKey(t *testing.T) {
	s := newHarness(t, 4)
	s.Publish("w", limitedYAML(`{limit: 1, key: "${parameters.customer}", onLimit: fail}`, "one once device"))
	a, b := startByKey(s, "w", `{"customer":"a"}`, "d000"), startByKey(s, "w", `{"customer":7}`, "d001")
	s.DrainWakeups()
	third := startByKey(s, "w", `{"customer":"a"}`, "d002")
	wrong := startByKey(s, "w", `{"customer":"a/b"}`, "d003")
	settle(s)
	s.ExpectState(a, sm.ExecutionCompletedAck)
	s.ExpectState(b, sm.ExecutionCompletedAck)
	if x := s.ExpectState(third, sm.ExecutionFailedSafeAck); x.Error.Code != workflow.FailureLimit || !strings.Contains(x.Error.Message, "~run/p.w.a") {
		t.Errorf("with onLimit fail: %+v", x.Error)
	}
	if x := s.ExpectState(wrong, sm.ExecutionFailedSafeAck); !strings.Contains(x.Error.Message, "concurrency.key") {
		t.Errorf("with a key that is none: %+v", x.Error)
	}
}

// An execution that ended unsafely still counts as live until somebody has acknowledged it, even if
// it keeps no entity; a waiting execution meanwhile gets the other slot. A retry and an
// acknowledgement each release what was held once.
func TestConcurrency_PlaceIsKeptUntilAcknowledged(t *testing.T) {
	for _, verb := range []string{"acknowledge", "unlock", "retry"} {
		s := newHarness(t, 4)
		s.Publish("w", limitedYAML("{limit: 2}", "one once device", "two forever global"))
		failing, entered := true, 0
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			if c.Step == "two" && c.Kind == workflow.JobExecute {
				if entered++; failing && entered == 1 {
					return &harness.Outcome{FailCode: "BROKEN"}
				}
			}
			return nil
		}
		unsafe := s.Start("w", "d000")
		settle(s)
		s.ExpectState(unsafe, sm.ExecutionFailedUnsafe)
		other := s.Start("w", "d001")
		s.DrainWakeups()
		waits := s.Start("w", "d002")
		s.DrainWakeups()
		if x := s.Load(waits); x.BlockedBy == nil || len(x.BlockedBy.Holders()) != 2 || x.BlockedBy.NeedsPerson {
			t.Fatalf("%s: it waits for %+v", verb, x.BlockedBy)
		}
		settle(s) // the healthy one ends, which makes room
		s.ExpectState(other, sm.ExecutionCompletedAck)
		s.ExpectState(waits, sm.ExecutionCompletedAck)

		blockers := []string{s.Start("w", "d001")}
		s.DrainWakeups()
		failing = false
		var err error
		switch verb {
		case "acknowledge":
			_, err = s.Engine.Acknowledge(context.Background(), harness.Caller, unsafe, "checked")
		case "unlock":
			_, err = s.Engine.Unlock(context.Background(), harness.Caller, unsafe, "checked")
		case "retry":
			_, err = s.Engine.Retry(context.Background(), harness.Caller, unsafe, views.RetryRequest{})
		}
		if err != nil {
			t.Fatal(err)
		}
		s.DrainWakeups()
		blockers = append(blockers, s.Start("w", "d002"))
		s.DrainWakeups()
		blocked := s.Load(blockers[1]).State == sm.ExecutionScheduled
		if want := verb == "retry"; blocked != want { // the retry has the place that it had
			t.Errorf("%s: the next one is %s", verb, s.Load(blockers[1]).State)
		}
		settle(s)
		for _, id := range blockers {
			s.ExpectState(id, sm.ExecutionCompletedAck)
		}
		if verb == "retry" {
			s.ExpectState(unsafe, sm.ExecutionCompletedAck)
		}
		if n := len(s.Locks()); verb != "unlock" && n != 0 {
			t.Errorf("%s: %d locks are left", verb, n)
		}
	}
}

// Unlocking gives the place back also if the execution keeps no entity. After that there is nothing
// left to unlock.
func TestConcurrency_UnlockGivesThePlaceBack(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", limitedYAML("{limit: 1, onLimit: fail}", "one forever global"))
	s.Script = func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{FailCode: "BROKEN"} }
	unsafe := s.Start("w", "d000")
	settle(s)
	s.ExpectState(unsafe, sm.ExecutionFailedUnsafe)
	if v := viewOf(s, unsafe); v.Waiting == nil || v.Waiting.Reason == nil || !strings.Contains(*v.Waiting.Reason, "keeps its place") {
		t.Errorf("it shows %+v", v.Waiting)
	}
	s.Script = nil
	refused := s.Start("w", "d001")
	settle(s)
	if x := s.ExpectState(refused, sm.ExecutionFailedSafeAck); x.Error.Code != workflow.FailureLimit {
		t.Errorf("before the unlock: %+v", x.Error)
	}
	if _, err := s.Engine.Unlock(context.Background(), harness.Caller, unsafe, "checked"); err != nil {
		t.Fatal(err)
	}
	next := s.Start("w", "d001")
	settle(s)
	s.ExpectState(next, sm.ExecutionCompletedAck)
	s.ExpectState(unsafe, sm.ExecutionFailedUnsafe)
	if _, err := s.Engine.Unlock(context.Background(), harness.Caller, unsafe, "again"); !workflow.Is(err, workflow.CodeIllegalTransition) {
		t.Errorf("a second unlock: %v", err)
	}
}

// The last entity that is unlocked by its name takes the place along.
func TestConcurrency_UnlockOfTheLastEntityGivesThePlaceBack(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", limitedYAML("{limit: 1, onLimit: fail}", "one forever device", "two pure global"))
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "two" {
			return &harness.Outcome{FailCode: "BROKEN"}
		}
		return nil
	}
	unsafe := s.Start("w", harness.DeviceIDs(2)...)
	settle(s)
	s.ExpectState(unsafe, sm.ExecutionFailedUnsafe)
	s.Script = nil
	for i, id := range harness.DeviceIDs(2) {
		if _, err := s.Engine.Unlock(context.Background(), harness.Caller, unsafe, "checked", devices(id)...); err != nil {
			t.Fatal(err)
		}
		next := s.Start("w", id)
		settle(s)
		want, reason := sm.ExecutionFailedSafeAck, ""
		if i == 1 {
			want, reason = sm.ExecutionCompletedAck, "its locks have been released"
		}
		s.ExpectState(next, want)
		if v := viewOf(s, unsafe); v.Waiting == nil || v.Waiting.Reason == nil && reason != "" || v.Waiting.Reason != nil && *v.Waiting.Reason != reason {
			t.Errorf("after %s: waits for %+v", id, v.Waiting)
		}
	}
	if _, err := s.Engine.Unlock(context.Background(), harness.Caller, unsafe, "again"); !workflow.Is(err, workflow.CodeIllegalTransition) {
		t.Errorf("a second unlock: %v", err)
	}
}

// If all live executions wait for a person, an execution that waits for them gives way on what it
// has reserved.
func TestConcurrency_SaysThatAPersonIsNeeded(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", limitedYAML("{limit: 1}", "one forever global"))
	s.Script = func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{FailCode: "BROKEN"} }
	unsafe := s.Start("w", "d000")
	settle(s)
	s.ExpectState(unsafe, sm.ExecutionFailedUnsafe)
	waits := s.Start("w", "d001")
	s.RunFor(2 * time.Minute)
	if x := s.Load(waits); x.State != sm.ExecutionScheduled || x.BlockedBy == nil || !x.BlockedBy.NeedsPerson || x.Epoch > 2 {
		t.Errorf("%s, epoch %d, blocked by %+v", x.State, x.Epoch, x.BlockedBy)
	}
	if v, err := s.Query.Execution(context.Background(), harness.Caller, waits); err != nil || v.Waiting == nil || v.Waiting.Reason == nil || !strings.HasSuffix(*v.Waiting.Reason, "all of them wait to be acknowledged: "+unsafe) {
		t.Errorf("it shows %+v, %v", v.Waiting, err)
	}
	s.Script = nil
	if _, err := s.Engine.Acknowledge(context.Background(), harness.Caller, unsafe, "checked"); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(waits, sm.ExecutionCompletedAck)
}

// Whoever crashes, and whatever is lost or comes twice: no more are live than may be, no place is lost,
// and everybody gets a turn.
func TestConcurrency_HoldsUnderRandomFaults(t *testing.T) {
	waited := 0
	for seed := range uint64(60) {
		s := harness.New(t, seed, harness.Options())
		s.RegisterBlocks()
		s.ImportDevices(harness.DeviceIDs(3)...)
		random := rand.New(rand.NewPCG(seed, 79))
		limit := 1 + random.IntN(3)
		s.Publish("w", limitedYAML(fmt.Sprintf("{limit: %d}", limit), "one again device", "two forever global"))
		checker := invariant.New()
		checker.SlotLimits = map[workflow.EntityKey]int{workflow.SlotKey("p/w", ""): limit}
		s.Observer = checker
		plan := faults.Randomly(random, 30, faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated)
		checker.Skew = 5 * time.Second
		s.Faults = func(c faults.Call) faults.Fault {
			checker.Now = s.Now()
			if n := len(live(s)); n > limit {
				t.Errorf("seed %d: %d are live, and %d may be", seed, n, limit)
			}
			return plan(c)
		}
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			checker.BlockCalled(c)
			switch random.IntN(12) {
			case 0:
				return &harness.Outcome{FailCode: "BROKEN"}
			case 1:
				return &harness.Outcome{Crash: true}
			}
			return nil
		}
		var ids []string
		for range 6 {
			ids = append(ids, s.Start("w", fmt.Sprintf("d%03d", random.IntN(3))))
			if random.IntN(2) == 0 {
				s.DrainWakeups()
			}
		}
		for round := 0; ; round++ {
			settle(s)
			open := 0
			for _, id := range ids {
				x := s.Load(id)
				if x.Conflicts > 0 {
					waited++
				}
				switch {
				case sm.Acknowledged(x.State):
				case !sm.Terminal(x.State):
					t.Errorf("seed %d: %s is %s, blocked by %+v", seed, id, x.State, x.BlockedBy)
				case random.IntN(3) == 0 && round < 3:
					open++
					s.WithoutFaults(func() { _, _ = s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{}) })
				default:
					open++
					s.WithoutFaults(func() { _, _ = s.Engine.Acknowledge(context.Background(), harness.Caller, id, "checked") })
				}
			}
			if v := checker.Violation(); v != nil {
				t.Errorf("seed %d: %s: %s", seed, v.Invariant, v.Text)
			}
			if open == 0 || round > 20 || t.Failed() {
				break
			}
		}
		if t.Failed() {
			return
		}
	}
	if waited < 50 {
		t.Errorf("%d executions had to wait: too few to show anything", waited)
	}
}

// Executions that have all places of a limit, and wait for one that wants a place, wait for ever: the one that wants
// it ends.
func TestConcurrency_DeadlockOverAllPlaces(t *testing.T) {
	s := newHarness(t, 0)
	s.Publish("w", "config: {concurrency: {limit: 2}}\nsteps:\n  - {label: again, workflowReference: {workflow: 'p/w:1', mode: dispatch}}\n")
	id := s.Start("w")
	s.RunFor(10 * time.Minute)
	x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if x.Cause != workflow.CauseChildFailed || len(s.States(harness.Caller.Tenant)) != 3 {
		t.Fatalf("%s %+v, %v", x.Cause, x.Error, s.States(harness.Caller.Tenant))
	}
	deadlocks := 0
	for other := range s.States(harness.Caller.Tenant) {
		if s.Load(other).Cause == workflow.CauseLockDeadlock {
			deadlocks++
		}
	}
	if deadlocks != 1 {
		t.Errorf("%d executions ended for the circle", deadlocks)
	}
}

func viewOf(s *harness.Harness, id string) views.ExecutionView {
	s.Helper()
	v, err := s.Query.Execution(s.Context(), harness.Caller, id)
	if err != nil {
		s.Fatal(err)
	}
	return v
}
