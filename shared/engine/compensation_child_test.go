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

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// sagaYAML is an execution whose second step starts another one, and whose third fails if charge does.
const sagaYAML = `config: {rollback: {onFailure: %s}}
steps:
  - {label: flight, functionBlock: p/again:1, runOn: global}
  - {label: hotel, workflowReference: {workflow: p/hotel:1, mode: dispatch, executeOnParameters: {ids: ["d001"]}}, parameters: {who: "${parameters.who}"},
     compensate: {workflow: p/leave:1, parameters: {room: "${hotel.result.output.room}"}}}
  - {label: charge, functionBlock: p/pure:1, runOn: global}
`

const hotelYAML = `steps:
  - {label: book, functionBlock: p/once:1, runOn: device}
output: {room: "${'room of ' + parameters.who}"}
`

const leaveYAML = `parameters: {type: object, required: [room], properties: {room: {type: string}}}
steps:
  - {label: leave, functionBlock: p/again:1, runOn: device, parameters: {room: "${parameters.room}"}}
`

// startSaga plays sagaYAML over device d000, with what the blocks of some steps do.
func startSaga(t *testing.T, s *harness.Harness, onFailure string) string {
	t.Helper()
	s.Publish("hotel", hotelYAML)
	s.Publish("leave", leaveYAML)
	s.Publish("w", fmt.Sprintf(sagaYAML, onFailure))
	req := harness.NewStartRequest("w", "d000")
	req.Parameters = []byte(`{"who":"bob"}`)
	return s.StartWith(req)
}

// fails lets the blocks of some steps fail.
func fails(steps ...string) func(harness.BlockCall) *harness.Outcome {
	return func(c harness.BlockCall) *harness.Outcome {
		if slices.Contains(steps, c.Step) && c.Kind == workflow.JobExecute {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	}
}

// R47: what a completed child has done is undone by an execution of the workflow that the step
// names, over the same entities, with the output of the child.
func TestCompensation_OfAnExecution(t *testing.T) {
	s := newHarness(t, 2)
	s.Script = fails("charge")
	id := startSaga(t, s, "stop")
	settle(s)
	x := s.Load(id)
	if x.State != sm.ExecutionFailedSafeAck || !x.RolledBack {
		t.Fatalf("%s, rolled back %v, %+v", x.State, x.RolledBack, x.Error)
	}
	var order []string
	for _, c := range s.BlockCalls {
		order = append(order, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s", c.Kind, c.Step, c.Entity, c.Parameters)), " "))
	}
	want := []string{"EXECUTE flight {}", "EXECUTE book d001 {}", "EXECUTE charge {}", `EXECUTE leave d001 {"room":"room of bob"}`, "ROLLBACK flight {}"}
	if !slices.Equal(order, want) {
		t.Errorf("%q\nwant %q", order, want)
	}
	wave := x.StepRuns[len(x.StepRuns)-2]
	if wave.Kind != workflow.JobRollback || wave.Child == nil || wave.Child.Workflow.String() != "p/leave:1.0.0" || wave.Status != sm.StepCompleted {
		t.Fatalf("%+v", wave)
	}
	undo := s.Load(wave.Child.ID)
	if undo.State != sm.ExecutionCompletedAck || undo.Parent == nil || undo.Parent.Execution != id {
		t.Errorf("%s %+v", undo.State, undo.Parent)
	}
	if v := executionView(t, s, id); len(v.Children) != 2 {
		t.Errorf("children %v", v.Children)
	}
	if r, err := s.Query.Result(context.Background(), harness.Caller, id); err != nil || !strings.Contains(string(r.Steps["hotel"].Result), "room of bob") {
		t.Errorf("%s, %v", r.Steps["hotel"].Result, err)
	}
}

// If the compensating execution fails, is refused, or wants a lock that its parent holds, changes
// remain, and the parent reports that.
func TestCompensation_OfAnExecutionFails(t *testing.T) {
	for name, c := range map[string]struct{ fail, leave, reason string }{
		"fails":   {"leave", leaveYAML, "ended in FAILED_SAFE_ACK"},
		"refused": {"", strings.Replace(leaveYAML, "{type: string}", "{type: integer}", 1), "room"},
		"empty":   {"", leaveYAML, "compensate: "},
		"held":    {"", strings.Replace(leaveYAML, "steps:\n", "steps:\n  - {label: more, acquire: [{type: device, ids: [\"d000\"]}], functionBlock: p/pure:1, runOn: global}\n", 1), "d000"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, 2)
			s.Script = fails("charge", c.fail)
			s.Publish("hotel", hotelYAML)
			s.Publish("leave", c.leave)
			definition := fmt.Sprintf(sagaYAML, "stop")
			if name == "empty" {
				definition = strings.Replace(definition, "output.room", "room", 1)
			}
			s.Publish("w", definition)
			req := harness.NewStartRequest("w", "d000")
			req.Parameters = []byte(`{"who":"bob"}`)
			id := s.StartWith(req)
			settle(s)
			x := s.Load(id)
			if x.State != sm.ExecutionFailedUnsafe || x.RolledBack || x.Error.Step != "charge" {
				t.Fatalf("%s, rolled back %v", x.State, x.RolledBack)
			}
			wave := x.StepRuns[len(x.StepRuns)-1]
			if undo := wave.Child.ID; name == "held" && s.Load(undo).Cause != workflow.CauseLockDeadlock {
				t.Errorf("it waits for what its parent holds: %s", s.Load(undo).Cause)
			}
			if v := executionView(t, s, id); v.Remains == nil || !strings.Contains(*v.Remains, c.reason) {
				t.Errorf("%v", *v.Remains)
			}
		})
	}
}

// One that has completed for some of its entities only has not undone all.
func TestCompensation_OfAnExecutionInPart(t *testing.T) {
	s := newHarness(t, 3)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "charge" || c.Step == "leave" && c.Entity == "d002" && c.Kind == workflow.JobExecute {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	}
	s.Publish("hotel", hotelYAML)
	s.Publish("leave", "config: {failureTolerance: 50%}\n"+leaveYAML)
	s.Publish("w", fmt.Sprintf(strings.Replace(sagaYAML, `["d001"]`, `["d001", "d002"]`, 1), "stop"))
	req := harness.NewStartRequest("w", "d000")
	req.Parameters = []byte(`{"who":"bob"}`)
	id := s.StartWith(req)
	settle(s)
	x := s.Load(id)
	wave := x.StepRuns[len(x.StepRuns)-1]
	if undo := s.Load(wave.Child.ID); undo.Outcome() != workflow.OutcomePartial || x.State != sm.ExecutionFailedUnsafe || x.RolledBack || wave.Status != sm.StepFailed {
		t.Errorf("%s, rolled back %v; %s %s %+v", x.State, x.RolledBack, undo.State, undo.Outcome(), undo.Error)
	}
}

// An execution that has failed itself, and has left changes, is not undone by another one.
func TestCompensation_OfAnExecutionThatFailed(t *testing.T) {
	s := newHarness(t, 2)
	s.Script = fails("book")
	s.Publish("hotel", strings.Replace(hotelYAML, "p/once", "p/forever", 1))
	s.Publish("leave", leaveYAML)
	s.Publish("w", fmt.Sprintf(sagaYAML, "stop"))
	req := harness.NewStartRequest("w", "d000")
	req.Parameters = []byte(`{"who":"bob"}`)
	id := s.StartWith(req)
	settle(s)
	x := s.Load(id)
	if child := s.Load(x.StepRuns[1].Child.ID); child.State != sm.ExecutionFailedUnsafe || x.State != sm.ExecutionFailedUnsafe || len(x.StepRuns) != 2 {
		t.Errorf("%s, child %s, %d step runs", x.State, child.State, len(x.StepRuns))
	}
}

// A retry after that starts the execution again that was undone.
func TestCompensation_OfAnExecutionAndRetry(t *testing.T) {
	s := newHarness(t, 2)
	s.Script = fails("charge")
	id := startSaga(t, s, "stop")
	settle(s)
	s.Script = nil
	if _, err := s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	x := s.Load(id)
	var started []string
	for i := range x.StepRuns {
		if c := x.StepRuns[i].Child; c != nil {
			started = append(started, c.Workflow.Name+" "+string(s.Load(c.ID).State))
		}
	}
	if want := []string{"hotel COMPLETED_ACK", "leave COMPLETED_ACK", "hotel COMPLETED_ACK"}; x.State != sm.ExecutionCompletedAck || !slices.Equal(started, want) {
		t.Errorf("%s %v", x.State, started)
	}
}

// However handlers crash and messages are lost, the compensating execution runs once, after the
// work that it undoes and before earlier work is undone, and no member of the family continues
// after the end.
func TestCompensation_OfAnExecutionUnderRandomFaults(t *testing.T) {
	ends := map[sm.ExecutionState]int{}
	for seed := range uint64(150) {
		s := harness.New(t, seed, harness.Options())
		s.RegisterBlocks()
		s.ImportDevices(harness.DeviceIDs(2)...)
		watchFamily(s)
		random := rand.New(rand.NewPCG(seed, 12))
		s.Script = fails("charge", []string{"leave", "none", "none"}[seed%3])
		s.Publish("hotel", hotelYAML)
		s.Publish("leave", leaveYAML)
		s.Publish("w", fmt.Sprintf(sagaYAML, "stop"))
		s.Faults = faults.Randomly(random, 40, faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated)
		req := harness.NewStartRequest("w", "d000")
		req.Parameters = []byte(`{"who":"bob"}`)
		faults.CatchCrash(func() { _, _, _ = s.Engine.Start(context.Background(), harness.Caller, req) })
		s.RunFor(6 * time.Hour)
		s.Faults = nil
		settle(s)
		left := 0
		for _, c := range s.BlockCalls {
			if c.Step == "leave" {
				left++
			}
		}
		for _, id := range slices.Sorted(maps.Keys(s.States(harness.Caller.Tenant))) {
			x := s.Load(id)
			if x.Workflow.Name != "w" {
				continue
			}
			ends[x.State]++
			booked := slices.ContainsFunc(x.StepRuns, func(r workflow.StepRun) bool {
				return r.Label == "hotel" && r.Forward() && r.Status == sm.StepCompleted
			})
			if undone := slices.ContainsFunc(x.StepRuns, func(r workflow.StepRun) bool {
				return r.Label == "hotel" && r.Kind == workflow.JobRollback && r.Status == sm.StepCompleted
			}); x.RolledBack && booked && (!undone || left == 0) {
				t.Errorf("seed %d: %s, left %d times", seed, x.State, left)
			}
		}
	}
	if ends[sm.ExecutionFailedSafeAck] < 50 || ends[sm.ExecutionFailedUnsafe] < 20 {
		t.Errorf("%v", ends)
	}
}

// The compensating execution works on the same entities as the child, even if a selector would find
// others by now.
func TestCompensation_OfAnExecutionWorksOnTheSame(t *testing.T) {
	s := newHarness(t, 3)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		switch {
		case c.Step == "charge":
			return &harness.Outcome{FailCode: "NO"}
		case c.Step == "book":
			return &harness.Outcome{SetAttributes: map[string]any{"name": "booked"}}
		}
		return nil
	}
	s.Publish("hotel", hotelYAML)
	s.Publish("leave", leaveYAML)
	s.Publish("w", fmt.Sprintf(strings.Replace(sagaYAML, `{ids: ["d001"]}`, `{query: "entity.name != 'd000' && entity.name != 'booked'"}`, 1), "stop"))
	req := harness.NewStartRequest("w", "d000")
	req.Parameters = []byte(`{"who":"bob"}`)
	id := s.StartWith(req)
	settle(s)
	left := 0
	for _, c := range s.BlockCalls {
		if c.Step == "leave" {
			left++
		}
	}
	if x := s.Load(id); x.State != sm.ExecutionFailedSafeAck || !x.RolledBack || left != 2 {
		t.Errorf("%s, rolled back %v, left %d", x.State, x.RolledBack, left)
	}
}

// One that leaves out what others hold has not undone all.
func TestCompensation_OfAnExecutionLeavesNothingOut(t *testing.T) {
	s := newHarness(t, 3)
	s.Script = fails("charge", "keep")
	s.Publish("hotel", hotelYAML)
	s.Publish("leave", "config: {onLocked: skip}\n"+leaveYAML)
	s.Publish("w", fmt.Sprintf(strings.Replace(sagaYAML, `["d001"]`, `["d001", "d002"]`, 1), "stop"))
	s.Publish("other", "steps:\n  - {label: keep, functionBlock: p/forever:1, runOn: device}\n")
	req := harness.NewStartRequest("w", "d000")
	req.Parameters = []byte(`{"who":"bob"}`)
	id := s.StartWith(req)
	for s.Load(id).State != sm.ExecutionRollback && !sm.Terminal(s.Load(id).State) {
		if x := s.Load(id); len(x.StepRuns) == 3 && len(s.States(harness.Caller.Tenant)) == 2 { // hotel has ended: another execution takes one of its entities
			s.Start("other", "d002")
			s.RunFor(time.Second)
		}
		s.Deliver()
	}
	settle(s)
	if x := s.Load(id); x.State != sm.ExecutionFailedUnsafe || x.RolledBack {
		t.Errorf("%s, rolled back %v", x.State, x.RolledBack)
	}
}

// What undoes does not count among the executions that a family may start.
func TestCompensation_OfAnExecutionIsNotCounted(t *testing.T) {
	s := newHarness(t, 2)
	s.Engine.MaxDescendants = 1
	s.Script = fails("charge")
	id := startSaga(t, s, "stop")
	settle(s)
	if x := s.Load(id); x.State != sm.ExecutionFailedSafeAck || !x.RolledBack {
		t.Errorf("%s, rolled back %v, %+v", x.State, x.RolledBack, x.Error)
	}
}

// While the compensating execution runs, its parent waits for it and shows that.
func TestCompensation_OfAnExecutionIsShown(t *testing.T) {
	s := newHarness(t, 2)
	s.Script = fails("charge")
	s.Publish("hotel", hotelYAML)
	s.Publish("leave", "steps: [{label: asks, wait: {input: {title: May it go?}}}]\n")
	s.Publish("w", fmt.Sprintf(sagaYAML, "stop"))
	req := harness.NewStartRequest("w", "d000")
	req.Parameters = []byte(`{"who":"bob"}`)
	id := s.StartWith(req)
	s.RunFor(time.Hour)
	x := s.Load(id)
	v := executionView(t, s, id)
	if undo := x.StepRuns[len(x.StepRuns)-1].Child; x.State != sm.ExecutionRollback || v.Waiting == nil || v.Waiting.Kind != workflow.WaitChild || *v.Waiting.Child != undo.ID {
		t.Errorf("%s, %+v", x.State, v.Waiting)
	}
}

// What a set of executions has done is not undone: the execution ends unsafely, says so, and keeps
// its locks. Executions that a loop starts one after the other are undone, the newest first.
func TestCompensation_OfASetOrOfALoop(t *testing.T) {
	s := newHarness(t, 3)
	s.Script = fails("charge")
	s.Publish("hotel", hotelYAML)
	s.Publish("leave", leaveYAML)
	start := func(steps string) *workflow.Execution {
		s.Publish("w"+fmt.Sprint(len(steps)), "steps:\n"+steps+"  - {label: charge, functionBlock: p/pure:1, runOn: global}\n")
		req := harness.NewStartRequest("w"+fmt.Sprint(len(steps)), "d000")
		id := s.StartWith(req)
		settle(s)
		return s.Load(id)
	}
	child := `workflowReference: {workflow: p/hotel:1, mode: dispatch, executeOnParameters: {ids: ["${item}"]}}, parameters: {who: "${item}"}`
	x := start("  - {label: hotels, foreach: {items: \"${['d001', 'd002']}\"}, " + child + "}\n")
	v := executionView(t, s, x.ID)
	if x.State != sm.ExecutionFailedUnsafe || x.RolledBack || v.Remains == nil || !strings.Contains(*v.Remains, `the changes of the executions that step "hotels" started remain`) {
		t.Errorf("set: %s, %v", x.State, v.Remains)
	}
	s.BlockCalls = nil
	if _, err := s.Engine.Acknowledge(context.Background(), harness.Caller, x.ID, "looked"); err != nil {
		t.Fatal(err)
	}
	x = start("  - label: each\n    loop: {over: \"${['d001', 'd002']}\"}\n    workflow:\n      steps:\n        - {label: hotel, " + child +
		`, compensate: {workflow: p/leave:1, parameters: {room: "${hotel.result.output.room}"}}}` + "\n")
	var order []string
	for _, c := range s.BlockCalls {
		if c.Step == "book" || c.Step == "leave" {
			order = append(order, c.Step+" "+c.Entity)
		}
	}
	if want := []string{"book d001", "book d002", "leave d002", "leave d001"}; x.State != sm.ExecutionFailedSafeAck || !x.RolledBack || !slices.Equal(order, want) {
		t.Errorf("loop: %s, %s, %v, want %v", x.State, x.Reason, order, want)
	}
}
