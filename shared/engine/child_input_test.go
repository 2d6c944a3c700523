package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// askingYAML asks twice.
const askingYAML = `steps:
  - {label: before, wait: {for: 10m}}
  - {label: first, wait: {input: {title: "Which way?", deadline: 24h}}}
  - {label: between, wait: {for: 10m}}
  - {label: second, wait: {input: {title: "Which way now?", deadline: 24h}}}
`

// publishLevels publishes w1 to wN, each of which starts the next one, and the child.
func publishLevels(s *harness.Harness, n int, child string) {
	s.Publish("child", child)
	for i := range n {
		next := fmt.Sprintf("w%d", i+2)
		if i == n-1 {
			next = "child"
		}
		s.Publish(fmt.Sprintf("w%d", i+1), fmt.Sprintf("steps: [{label: down, workflowReference: {workflow: p/%s:1, mode: dispatch}}]\n", next))
	}
}

// family is an execution and those below it, the topmost first.
func family(s *harness.Harness, id string) (all []string) {
	for id != "" {
		all = append(all, id)
		x := s.Load(id)
		if id = ""; len(x.StepRuns) > 0 && x.StepRuns[0].Child != nil {
			id = x.StepRuns[0].Child.ID
		}
	}
	return all
}

// expectChildWaits checks what all but the last of a family wait for.
func expectChildWaits(s *harness.Harness, all []string, want workflow.WaitKind, reason string) {
	s.Helper()
	for i, id := range all[:len(all)-1] {
		if x := s.Load(id); x.State != sm.ExecutionWaiting || x.Wait.Kind != want || x.Wait.Reason != reason || x.Wait.Child != all[i+1] {
			s.Errorf("level %d is in %s and waits for %+v, want %s %q", i, x.State, x.Wait, want, reason)
		}
	}
}

func answerIn(s *harness.Harness, id, step string) {
	s.Helper()
	if _, err := s.Engine.Answer(context.Background(), person("ann"), id, views.AnswerRequest{Step: step, Input: []byte(`"left"`)}); err != nil {
		s.Fatal(err)
	}
}

// R43: every ancestor shows that a descendant waits for a person, and the question, by messages
// alone, and stops showing it after the answer. There are ten generations.
func TestChildInput_ReachesEveryAncestorAndGoesBack(t *testing.T) {
	s := newHarness(t, 0)
	publishLevels(s, workflow.MaxDepth, askingYAML)
	id := s.Start("w1")
	s.Drain()
	all := family(s, id)
	if len(all) != workflow.MaxDepth+1 {
		t.Fatalf("%d generations", len(all))
	}
	asking := all[len(all)-1]
	expectChildWaits(s, all, workflow.WaitChild, "")
	for _, asked := range []struct{ step, title string }{{"first", "Which way?"}, {"second", "Which way now?"}} {
		s.RunFor(11 * time.Minute)
		s.Drain()
		expectWait(t, s, asking, workflow.WaitInput, asked.step, 24*time.Hour)
		expectChildWaits(s, all, workflow.WaitChildInput, asked.title)
		answerIn(s, asking, asked.step)
		s.Drain()
		if asked.step == "first" {
			expectChildWaits(s, all, workflow.WaitChild, "")
		}
	}
	for _, id := range all {
		s.ExpectState(id, sm.ExecutionCompletedAck)
	}
	if states := s.ExecutionStates(id); slices.Index(states, string(sm.ExecutionWaiting)) < 0 {
		t.Errorf("%v", states)
	}
}

// The message to a parent is lost: its timer finds what its child waits for.
func TestChildInput_TimerHealsALostMessage(t *testing.T) {
	s := newHarness(t, 0)
	publishLevels(s, 2, "steps: [{label: first, wait: {input: {title: Now?, deadline: 24h}}}]\n")
	lose := func(c faults.Call) faults.Fault {
		if c.Name == "sender.send_wakeups" {
			return faults.Throttled
		}
		return faults.None
	}
	s.Faults = lose
	id := s.Start("w1")
	s.Faults = nil
	s.RunFor(20 * time.Minute)
	all := family(s, id)
	expectChildWaits(s, all, workflow.WaitChildInput, "Now?")
	s.Faults = lose
	answerIn(s, all[2], "first")
	s.Faults = nil
	s.RunFor(20 * time.Minute)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// A handler of the parent has read that the child waits for a person, and stalls. Meanwhile the
// child is answered, and another handler finds nothing to change. The first handler checks again
// after its commit, and so does its own parent.
func TestChildInput_ALateHandlerLooksAgain(t *testing.T) {
	s := newHarness(t, 0)
	publishLevels(s, 2, "steps: [{label: first, wait: {input: {title: Now?, deadline: 24h}}}, {label: rest, wait: {for: 24h}}]\n")
	s.Faults = faults.Next("sender.send_wakeups", faults.Throttled)
	id := s.Start("w1")
	for len(family(s, id)) < 3 {
		if !s.Deliver() {
			break
		}
	}
	all := family(s, id)
	s.Faults = nil
	if len(all) != 3 || s.Load(all[1]).Wait == nil || s.Load(all[1]).Wait.Kind != workflow.WaitChild {
		t.Fatalf("%v", all)
	}
	late := s.StartTask("late", func() {
		_ = s.Engine.Advance(context.Background(), workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: all[1]})
	})
	if !late.RunUntil("store.commit") {
		t.Fatal("the parent has nothing to change")
	}
	answerIn(s, all[2], "first")
	s.Drain()
	late.Finish()
	s.Drain()
	expectChildWaits(s, all, workflow.WaitChild, "")
}

// R44: a failure passes through every level, and each can handle it.
func TestChild_FailurePassesEveryLevel(t *testing.T) {
	s := newHarness(t, 0)
	publishLevels(s, 3, "steps: [{label: work, functionBlock: p/pure:1, runOn: global}]\n")
	s.Publish("top", `steps:
  - {label: down, workflowReference: {workflow: p/w1:1, mode: dispatch}, onFailure: sorry, next: end}
  - {label: sorry, functionBlock: p/pure:1, runOn: global, parameters: {code: "${steps.down.error.code}", state: "${down.result.state}"}}
`)
	s.Script = failCalls("work EXECUTE")
	id := s.Start("top")
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	all := family(s, id)
	if len(all) != 5 {
		t.Fatalf("%d generations", len(all))
	}
	for _, id := range all[1:] {
		x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
		if want := workflow.CauseChildFailed; id != all[4] && x.Cause != want {
			t.Errorf("cause %s", x.Cause)
		}
	}
	last := s.BlockCalls[len(s.BlockCalls)-1]
	if string(last.Parameters) != `{"code":"CHILD_FAILED","state":"FAILED_SAFE_ACK"}` {
		t.Errorf("%s", last.Parameters)
	}
}

// A child costs more than an execution started by a request: one write of its own, since it exists
// before it asks its parent; two of its parent, for closing the step and for the child's outcome;
// and one that counts it. A descendant that asks a person costs each ancestor two more writes.
func TestCost_OfAChild(t *testing.T) {
	written := func(name, child string, answered int) float64 {
		s := newHarness(t, 0)
		s.Publish("child", child)
		s.Publish("alone", "steps: [{label: after, functionBlock: p/pure:1, runOn: global}]\n")
		s.Publish("w", parentYAML)
		before := s.Consumed().WriteUnits["executions"]
		id := s.Start(name)
		for range answered {
			s.Drain()
			asking := family(s, id)
			answerIn(s, asking[len(asking)-1], "ask")
		}
		s.RunFor(time.Hour)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		return s.Consumed().WriteUnits["executions"] - before
	}
	const works = "steps: [{label: work, functionBlock: p/pure:1, runOn: global}]\n"
	const asks = "steps: [{label: ask, wait: {input: {title: Now?, deadline: 24h}}}, {label: work, functionBlock: p/pure:1, runOn: global}]\n"
	own, alone := written("child", works, 0), written("alone", works, 0)
	if more := written("w", works, 0) - own - alone; more != 4 {
		t.Errorf("a child costs %v units more than its own %v", more, own)
	}
	asked := written("child", asks, 1)
	if more := written("w", asks, 1) - asked - alone; more != 6 {
		t.Errorf("a child that asks costs %v units more than its own %v", more, asked)
	}
}

// The parent names the executions that it has started: not one that it could not start.
func TestChild_ThatWasRefusedIsNoChild(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("site", "parameters: {type: object}\n"+stepsYAML("one pure device"))
	for ids, want := range map[string]int{"${parameters.list}": 0, "d000": 1} {
		s.Publish("w"+strconv.Itoa(want), "parameters: {type: object}\nsteps:\n  - {label: child, workflowReference: {workflow: 'p/site:1', mode: dispatch, executeOnParameters: {type: device, ids: ['"+ids+"']}}}\n")
		id := s.StartWith(views.StartRequest{Workflow: "p/w" + strconv.Itoa(want), Parameters: json.RawMessage(`{"list":[null]}`)})
		settle(s)
		x := s.Load(id)
		v := viewOf(s, id)
		if failed := x.State == sm.ExecutionFailedSafeAck; failed != (want == 0) || len(v.Children) != want {
			t.Errorf("%s: %s (%v) with children %v, want %d", ids, x.State, x.Error, v.Children, want)
		}
		for _, child := range v.Children {
			s.Load(child)
		}
	}
}
