package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// R31: a loop executes its steps once for each item. The steps in it see the items around them,
// and what the time before has left.
func TestLoop_ExecutesItsStepsForEachItem(t *testing.T) {
	s, id, calls := flow(t, `steps:
  - {label: begin, set: {sum: 0}}
  - label: sites
    loop: {over: "${parameters.sites}", as: site}
    workflow:
      steps:
        - {label: look, functionBlock: p/pure:1, runOn: global, parameters: {site: "${site.name}", n: "${index}", sum: "${vars.sum}"}}
        - label: ports
          loop: {over: "${site.ports}", as: port}
          workflow: {steps: [{label: add, set: {sum: "${vars.sum + port}", last: "${site.name + ':' + string(item) + '@' + string(index)}"}}]}
  - {label: after, functionBlock: p/pure:1, runOn: global, input: {full: true}}
`, `{"sites":[{"name":"a","ports":[1,2]},{"name":"b","ports":[]},{"name":"c","ports":[3,4,5]}]}`, nil)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, calls, `look {"n":0,"site":"a","sum":0}`, `look {"n":1,"site":"b","sum":3}`, `look {"n":2,"site":"c","sum":3}`,
		`after {"last":"c:5@2","sites":[{"name":"a","ports":[1,2]},{"name":"b","ports":[]},{"name":"c","ports":[3,4,5]}],"sum":15}`)
}

// A list is evaluated once, when the loop is entered; a large one is stored apart.
func TestLoop_ListDoesNotChange(t *testing.T) {
	s, id, calls := flow(t, `steps:
  - {label: begin, set: {list: "${parameters.list}"}}
  - label: each
    loop: {over: "${vars.list}"}
    workflow:
      steps:
        - {label: work, functionBlock: p/pure:1, runOn: global, parameters: {item: "${item}", left: "${size(vars.list)}"}}
        - {label: less, set: {list: "${vars.list.filter(x, x != item)}"}}
`, `{"list":["`+strings.Repeat("a", 50)+`","`+strings.Repeat("b", 50)+`","`+strings.Repeat("c", 50)+`"]}`, nil)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if len(calls) != 3 || !strings.Contains(calls[2], `"ccc`) || !strings.HasSuffix(calls[2], `"left":1}`) {
		t.Errorf("%v", calls)
	}
	if v := x.StepRuns[1].List; v == nil || v.Stored == nil {
		t.Errorf("the list is %+v", v)
	}
}

// R32: a condition is evaluated before each time.
func TestLoop_WhileAConditionIsTrue(t *testing.T) {
	s, id, calls := flow(t, `steps:
  - {label: never, loop: {while: "parameters.n > 10"}, workflow: {steps: [{label: idle, functionBlock: p/pure:1, runOn: global}]}}
  - {label: begin, set: {n: 0}}
  - label: until
    loop: {while: "vars.n < parameters.n && index < 5"}
    workflow:
      steps:
        - {label: count, functionBlock: p/pure:1, runOn: global, parameters: {n: "${vars.n}", index: "${index}"}, outputKey: n}
  - {label: polls, loop: {while: "!has(poll.result) || poll.result < 9"}, workflow: {steps: [{label: poll, functionBlock: p/pure:1, runOn: global}]}}
`, `{"n":7}`, func(c harness.BlockCall) *harness.Outcome {
		switch {
		case c.Step == "poll":
			return &harness.Outcome{Result: []byte("9")}
		case strings.Contains(string(c.Parameters), `"n":0`):
			return &harness.Outcome{Result: []byte("3")}
		}
		return &harness.Outcome{Result: []byte("7")}
	})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, calls, `count {"index":0,"n":0}`, `count {"index":1,"n":3}`, "poll {}")
}

// F48: a loop without end ends at its maximum, or at the limit of step runs. A list that is too
// long fails before anything is executed.
func TestLoop_Limits(t *testing.T) {
	work := "workflow: {steps: [{label: work, functionBlock: p/pure:1, runOn: global}]}}\n"
	for loop, want := range map[string]struct {
		calls int
		code  string
	}{
		`{while: "true", max: 3, onMax: stop}`:                 {3, ""},
		`{while: "true", max: 3, onMax: fail}`:                 {3, workflow.FailureLimit},
		`{while: "true", max: 2}`:                              {2, workflow.FailureLimit},
		`{while: "index < 2", max: 2}`:                         {2, ""},
		`{over: "${[1, 2, 3]}", max: 2}`:                       {0, workflow.FailureLimit},
		`{over: "${[1, 2, 3]}", max: 2, onMax: stop}`:          {2, ""},
		`{over: "${[]}"}`:                                      {0, ""},
		`{over: "${parameters.n}"}`:                            {0, workflow.FailureLoop},
		`{over: "${parameters.nothing}"}`:                      {0, workflow.FailureLoop},
		`{over: "${parameters}"}`:                              {0, workflow.FailureLoop},
		`{while: "parameters.nothing"}`:                        {0, workflow.FailureLoop},
		`{while: "index == 0 || parameters.nothing"}`:          {1, workflow.FailureLoop},
		`{over: "${['` + strings.Repeat("x", 200) + `', 2]}"}`: {2, ""},
	} {
		s, id, calls := flow(t, "steps:\n  - {label: each, loop: "+loop+", "+work, `{"n":5}`, nil)
		code := ""
		x := s.Load(id)
		if x.Error != nil {
			code = x.Error.Code
			if strings.Contains(x.Error.Message, "interface") {
				t.Errorf("%s: %s: names a type of Go", loop, x.Error.Message)
			}
		}
		if len(calls) != want.calls || code != want.code || x.Status() != map[bool]sm.Status{true: sm.StatusCompleted, false: sm.StatusFailed}[code == ""] {
			t.Errorf("%s: %d calls, %+v", loop, len(calls), x.Error)
		}
	}
	s, id, _ := flow(t, "steps:\n  - {label: each, loop: {while: 'true'}, "+work, "", nil)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Cause != workflow.CauseLimit {
		t.Errorf("%s", x.Cause)
	}
}

// A block of a global step that answers BREAK ends the loop after its step.
func TestLoop_BreakEndsIt(t *testing.T) {
	s, id, calls := flow(t, `steps:
  - label: each
    loop: {over: "${[1, 2, 3]}"}
    workflow:
      steps:
        - {label: one, functionBlock: p/pure:1, runOn: global, parameters: {n: "${item}"}}
        - {label: two, functionBlock: p/pure:1, runOn: global}
  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {each: "${steps.each.status}"}}
`, "", func(c harness.BlockCall) *harness.Outcome {
		if strings.Contains(string(c.Parameters), "2") {
			return &harness.Outcome{Break: true}
		}
		return nil
	})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, calls, `one {"n":1}`, "two {}", `one {"n":2}`, `after {"each":"COMPLETED"}`)
}

// A step in a loop jumps, within the loop or out of it.
func TestLoop_JumpsInAndOut(t *testing.T) {
	s, id, calls := flow(t, `steps:
  - label: each
    loop: {over: "${[1, 2, 3]}"}
    workflow:
      steps:
        - {label: which, switch: [{when: item == 1, next: last}, {when: item == 3, next: after}, {default: work}]}
        - {label: work, functionBlock: p/once:1, runOn: global, parameters: {n: "${item}"}, onFailure: [{when: item == 2 && index == 1, next: last}]}
        - {label: last, functionBlock: p/pure:1, runOn: global, parameters: {n: "${item}"}}
  - {label: passed, functionBlock: p/pure:1, runOn: global}
  - {label: after, functionBlock: p/pure:1, runOn: global}
`, "", func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "work" {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, calls, `last {"n":1}`, `work {"n":2}`, `last {"n":2}`, "after {}")
	for _, r := range s.Load(id).StepRuns {
		if r.Open() {
			t.Errorf("step run %s is open", r.Label)
		}
	}
}

// What a loop has executed is undone with the items that it was executed with.
func TestLoop_RollsBackEachTime(t *testing.T) {
	s, id, calls := flow(t, `steps:
  - label: each
    loop: {over: "${parameters.list}", as: thing}
    workflow: {steps: [{label: work, functionBlock: p/again:1, runOn: global, parameters: {n: "${thing}", at: "${index}"}}]}
  - {label: fails, functionBlock: p/pure:1, runOn: global}
`, `{"list":["a","b"]}`, func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "fails" {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	})
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); !x.RolledBack {
		t.Error("not rolled back")
	}
	expectCalls(t, calls, `work {"at":0,"n":"a"}`, `work {"at":1,"n":"b"}`, "fails {}", `work {"at":1,"n":"b"}`, `work {"at":0,"n":"a"}`)
}

// A retry continues with the round that failed, for the entities that failed in it. Its list is the
// one that the loop began with.
func TestLoop_RetryGoesOnWithTheTimeThatFailed(t *testing.T) {
	broken := true
	s, id, calls := flow(t, `config: {rollback: never}
steps:
  - label: each
    loop: {over: "${parameters.list}", as: thing}
    workflow:
      steps:
        - {label: before, functionBlock: p/pure:1, runOn: global, parameters: {n: "${thing}"}}
        - {label: work, functionBlock: p/again:1, runOn: device, parameters: {n: "${thing}"}}
        - {label: inner, loop: {over: "${[thing]}"}, workflow: {steps: [{label: count, functionBlock: p/pure:1, runOn: device, parameters: {n: "${item}", w: "${work.result}"}}]}}
  - {label: after, functionBlock: p/pure:1, runOn: device, parameters: {w: "${work.result}"}}
`, `{"list":["a","b","`+strings.Repeat("c", 200)+`"]}`, func(c harness.BlockCall) *harness.Outcome {
		if broken && c.Step == "work" && c.Entity == "d001" && strings.Contains(string(c.Parameters), `"b"`) {
			return &harness.Outcome{FailCode: "NO"}
		}
		return &harness.Outcome{Result: []byte(`"` + string(c.Parameters[6]) + `"`)}
	})
	if x := s.Load(id); x.Error == nil || x.Error.Step != "work" || len(calls) != 10 {
		t.Fatalf("%s, %+v, %v", x.State, x.Error, calls)
	}
	broken, s.BlockCalls = false, nil
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "mended"}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if o := x.Outcome(); o != workflow.OutcomeSucceeded {
		t.Errorf("outcome %s", o)
	}
	calls = callsWithParameters(s, id)
	if want := `work d001 {"n":"b"}|work d002 {"n":"b"}|count d000 {"n":"b","w":"b"}|count d001 {"n":"b","w":"b"}|count d002 {"n":"b","w":"b"}|before {"n":"ccc`; !strings.HasPrefix(strings.Join(calls, "|"), want) || len(calls) != 2+3+1+3+3+3 {
		t.Errorf("%d calls: %.400s", len(calls), strings.Join(calls, "|"))
	}
}

// A retry of a round keeps the results of those who were done in it, whatever happened in earlier
// rounds, and entities that failed in those stay failed.
func TestLoop_RetryKeepsWhoWasDone(t *testing.T) {
	broken := true
	s, id, _ := flow(t, `config: {rollback: never, failureTolerance: 1, onEntityFailure: leave}
steps:
  - label: each
    loop: {over: "${[1, 2, 3]}"}
    workflow:
      steps:
        - {label: work, functionBlock: p/again:1, runOn: device, parameters: {n: "${item}"}}
        - {label: check, functionBlock: p/pure:1, runOn: global, parameters: {n: "${item}"}}
`, "", func(c harness.BlockCall) *harness.Outcome {
		if c.Entity == "d001" && strings.Contains(string(c.Parameters), "1") || broken && (c.Step == "work" && c.Entity == "d002" && strings.Contains(string(c.Parameters), "2")) {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	})
	if x := s.Load(id); x.Error == nil || x.Error.Step != "work" {
		t.Fatalf("%s, %+v", x.State, x.Error)
	}
	broken, s.BlockCalls = false, nil
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "mended", Entities: "failed"}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, callsWithParameters(s, id), `work d002 {"n":2}`, `check {"n":2}`, `work d000 {"n":3}`, `work d002 {"n":3}`, `check {"n":3}`)
	if x.Result == nil || x.Result.Count[workflow.EntityLeft] != 1 {
		t.Errorf("%+v", x.Result)
	}
}

// What was rolled back is executed again from the first time on, and an operator may begin
// earlier than the time that failed.
func TestLoop_RetryAfterARollback(t *testing.T) {
	for _, config := range []string{"", "config: {executionStrategy: {parallel: true}}\n"} {
		broken := "2"
		s, id, _ := flow(t, config+`steps:
  - label: each
    loop: {over: "${[1, 2, 3]}"}
    workflow:
      steps:
        - {label: look, functionBlock: p/pure:1, runOn: device, parameters: {n: "${item}"}}
        - {label: work, functionBlock: p/again:1, runOn: device, parameters: {n: "${item}"}}
`, "", func(c harness.BlockCall) *harness.Outcome {
			if broken != "" && c.Kind == workflow.JobExecute && c.Step == "work" && c.Entity == "d001" && strings.Contains(string(c.Parameters), broken) {
				return &harness.Outcome{FailCode: "NO"}
			}
			return nil
		})
		s.ExpectState(id, sm.ExecutionFailedSafeAck)
		for _, c := range []struct{ from, broken, first, last string }{
			{"", "3", `work d000 {"n":1}`, `work d001 {"n":1}`},
			{"look", "", `look d000 {"n":1}`, `work d002 {"n":3}`},
		} {
			broken, s.BlockCalls = c.broken, nil
			if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "mended", From: c.from}); err != nil {
				t.Fatal(err)
			}
			settle(s)
			calls := callsWithParameters(s, id)
			if last := calls[len(calls)-1]; calls[0] != c.first || c.broken == "" && last != c.last {
				t.Errorf("%q, from %q: %v", config, c.from, calls)
			}
		}
		if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.Outcome() != workflow.OutcomeSucceeded {
			t.Errorf("outcome %s", x.Outcome())
		}
	}
}

// A second retry continues with the round in which the first one failed.
func TestLoop_RetryTwice(t *testing.T) {
	broken := "2"
	s, id, _ := flow(t, `config: {rollback: never, failureTolerance: 1}
steps:
  - label: outer
    loop: {over: "${['a', 'b']}", as: name}
    workflow:
      steps:
        - label: each
          loop: {while: index < 3}
          onFailure: [{when: name == 'c', next: end}]
          workflow: {steps: [{label: work, functionBlock: p/once:1, runOn: global, parameters: {n: "${index + 1}", name: "${name}"}}]}
`, "", func(c harness.BlockCall) *harness.Outcome {
		if strings.Contains(string(c.Parameters), broken) {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	})
	all := callsWithParameters(s, id)
	for _, next := range []string{`3,"name":"b"`, "none"} {
		broken, s.BlockCalls = next, nil
		if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "mended"}); err != nil {
			t.Fatal(err)
		}
		settle(s)
		all = append(all, callsWithParameters(s, id)...)
	}
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, all, `work {"n":1,"name":"a"}`, `work {"n":2,"name":"a"}`, `work {"n":2,"name":"a"}`, `work {"n":3,"name":"a"}`,
		`work {"n":1,"name":"b"}`, `work {"n":2,"name":"b"}`, `work {"n":3,"name":"b"}`, `work {"n":3,"name":"b"}`)
}

// Branches in a loop, and loops in branches: a retry executes the branches of the time that
// failed again that did not end well, with the loops in them.
func TestLoop_WithBranches(t *testing.T) {
	broken := true
	s, id, calls := flow(t, `config: {rollback: never}
steps:
  - label: each
    loop: {over: "${[1, 2]}", as: n}
    workflow:
      steps:
        - label: gather
          parallel:
            branches:
              - label: left
                steps:
                  - label: inner
                    loop: {over: "${['a', 'b']}"}
                    workflow: {steps: [{label: one, functionBlock: p/again:1, runOn: device, parameters: {n: "${n}", i: "${item}"}}]}
              - {label: right, functionBlock: p/pure:1, runOn: global, parameters: {n: "${n}"}}
`, "", func(c harness.BlockCall) *harness.Outcome {
		if broken && c.Entity == "d001" && strings.Contains(string(c.Parameters), `"b","n":2`) {
			return &harness.Outcome{FailCode: "NO"}
		}
		return &harness.Outcome{Break: c.Step == "right"}
	})
	if x := s.Load(id); x.Error == nil || len(calls) < 10 {
		t.Fatalf("%s, %+v, %v", x.State, x.Error, calls)
	}
	broken, s.BlockCalls = false, nil
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "mended"}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	calls = callsWithParameters(s, id)
	slices.Sort(calls)
	expectCalls(t, calls, `one d000 {"i":"a","n":2}`, `one d000 {"i":"b","n":2}`, `one d001 {"i":"a","n":2}`, `one d001 {"i":"b","n":2}`,
		`one d002 {"i":"a","n":2}`, `one d002 {"i":"b","n":2}`) // that on the right has ended well
	if o := x.Outcome(); o != workflow.OutcomeSucceeded {
		t.Errorf("outcome %s", o)
	}
}

// An entity that failed in one round takes no part in the next ones, and is undone alone.
func TestLoop_ToleratesFailures(t *testing.T) {
	s, id, calls := flow(t, `config: {failureTolerance: 1}
steps:
  - label: each
    loop: {over: "${[1, 2, 3]}"}
    workflow: {steps: [{label: work, functionBlock: p/again:1, runOn: device, parameters: {n: "${item}"}}]}
`, "", func(c harness.BlockCall) *harness.Outcome {
		if c.Kind == workflow.JobExecute && c.Entity == "d001" && strings.Contains(string(c.Parameters), "2") {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	})
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if x.Result == nil || x.Result.Count[workflow.EntityFailedSafe] != 1 {
		t.Errorf("%+v", x.Result)
	}
	expectCalls(t, calls,
		`work d000 {"n":1}`, `work d001 {"n":1}`, `work d002 {"n":1}`,
		`work d000 {"n":2}`, `work d001 {"n":2}`, `work d002 {"n":2}`,
		`work d000 {"n":3}`, `work d002 {"n":3}`,
		`work d001 {"n":2}`, `work d001 {"n":1}`)
}

// An embedded definition in a loop gets its parameters anew in each round, and does not see the
// items of the surrounding loop.
func TestLoop_EmbedsADefinition(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("inner", "parameters: {type: object}\nsteps:\n  - {label: call, functionBlock: p/pure:1, runOn: global, parameters: {n: '${parameters.n}', i: '${has(vars.i) ? vars.i : 0}'}}\n")
	s.Publish("w", "steps:\n  - {label: each, loop: {over: '${[1, 2]}'}, workflow: {steps: [{label: call, workflowReference: {workflow: p/inner}, parameters: {n: '${item}'}}]}}\n")
	id := s.StartWith(harness.NewStartRequest("w"))
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, callsWithParameters(s, id), `call.call {"i":0,"n":1}`, `call.call {"i":0,"n":2}`)
}

// What a time reads and writes does not grow with the times before it, but for the state item
// itself.
func TestLoop_CostGrowsLinearly(t *testing.T) {
	type units struct{ reads, writes, state float64 }
	cost := map[int]units{}
	for _, n := range []int{10, 30} {
		s := newHarness(t, 2)
		s.Script = func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{Result: []byte(`"r"`)} }
		s.Publish("w", `steps:
  - {label: begin, set: {n: 0}}
  - label: each
    loop: {over: "${parameters.list}"}
    workflow:
      steps:
        - {label: one, functionBlock: p/pure:1, runOn: global, parameters: {n: "${item}", was: "${vars.n}"}}
        - {label: two, functionBlock: p/pure:1, runOn: device, parameters: {n: "${one.result}"}}
        - {label: count, set: {n: "${vars.n + 1}"}}
`)
		req := harness.NewStartRequest("w", harness.DeviceIDs(2)...)
		req.Parameters = []byte(`{"list":[` + strings.Repeat("1,", n-1) + `1]}`)
		before := s.Consumed()
		id := s.StartWith(req)
		settle(s)
		x := s.ExpectState(id, sm.ExecutionCompletedAck)
		used := s.Consumed()
		cost[n] = units{used.ReadUnits["jobs"] - before.ReadUnits["jobs"], used.WriteUnits["jobs"] - before.WriteUnits["jobs"], float64(x.Version)}
	}
	t.Logf("10 times: %+v, 30 times: %+v", cost[10], cost[30])
	for name, c := range map[string][2]float64{"reads": {cost[10].reads, cost[30].reads}, "writes": {cost[10].writes, cost[30].writes}, "commits": {cost[10].state, cost[30].state}} {
		if c[0] == 0 || c[1] > 3.1*c[0] {
			t.Errorf("%s: 10 times %v, 30 times %v", name, c[0], c[1])
		}
	}
}

// A failure that the onFailure of a loop handles leaves its items what they were: what was
// executed in it can be planned again, to undo it.
func TestLoop_HandledFailureLeavesTheItems(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", `steps:
  - label: each
    loop: {over: "${[1, 2]}"}
    workflow: {steps: [{label: change, functionBlock: p/again:1, runOn: device, parameters: {n: "${item}"}}]}
    onFailure: [{steps: [{label: tell, functionBlock: p/pure:1, runOn: global, parameters: {why: "${error.code}"}}]}]
  - {label: last, functionBlock: p/pure:1, runOn: device}
`)
	changes := 0
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Kind == workflow.JobExecute && c.Step == "change" {
			changes++
		}
		if c.Kind == workflow.JobExecute && (c.Step == "change" && changes == 2 || c.Step == "last") {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	id := s.Start("w", "d000")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	var calls []string
	for _, c := range s.BlockCalls {
		calls = append(calls, string(c.Kind)+" "+c.Step+" "+string(c.Parameters))
	}
	want := []string{`EXECUTE change {"n":1}`, `EXECUTE change {"n":2}`, `EXECUTE tell {"why":"REFUSED"}`, `EXECUTE last {}`, `ROLLBACK change {"n":2}`, `ROLLBACK change {"n":1}`}
	if !slices.Equal(calls, want) {
		t.Errorf("called\n  %s\nwant\n  %s", strings.Join(calls, "\n  "), strings.Join(want, "\n  "))
	}
}
