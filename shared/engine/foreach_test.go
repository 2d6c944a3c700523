package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// failItem makes the block of a step fail, or its worker crash, for the item whose parameters
// have the text.
func failItem(step, text string, o harness.Outcome) func(harness.BlockCall) *harness.Outcome {
	return func(c harness.BlockCall) *harness.Outcome {
		if c.Kind == workflow.JobExecute && c.Step == step && strings.Contains(string(c.Parameters), text) {
			return &o
		}
		if c.Kind == workflow.JobExecute && c.Step == step {
			return &harness.Outcome{Result: c.Parameters}
		}
		return nil
	}
}

// A step with foreach calls its block once for each item, in packs, and gives a list of
// results in the order of the items. Items that a condition leaves out give null.
func TestForeach_CallsItsBlockForEachItem(t *testing.T) {
	s, id, calls := flow(t, `steps:
  - {label: begin, set: {sites: "${parameters.sites}"}}
  - label: push
    functionBlock: p/again:1
    runOn: item
    foreach: {items: "${vars.sites}", as: site}
    condition: size(site.ports) > 0
    parameters: {site: "${site.name}", same: "${item.name}", n: "${index}"}
    outputKey: pushed
  - {label: change, set: {sites: []}}
  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {all: "${push.results.map(r, r == null ? 'none' : r.site)}", vars: "${vars.pushed[3].n}", size: "${size(vars.pushed)}", status: "${steps.push.status}"}}
output: {third: "${push.results[2]}"}
`, `{"sites":[{"name":"a","ports":[1],"text":"`+strings.Repeat("x", 200)+`"},{"name":"b","ports":[]},{"name":"c","ports":[2]},{"name":"d","ports":[3]}]}`, failItem("push", "nothing", harness.Outcome{}))
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, calls, `push {"n":0,"same":"a","site":"a"}`, `push {"n":2,"same":"c","site":"c"}`, `push {"n":3,"same":"d","site":"d"}`,
		`after {"all":["a","none","c","d"],"size":4,"status":"COMPLETED","vars":3}`)
	if list := x.StepRuns[1].List; list == nil || list.Stored == nil || list.Inline != nil {
		t.Errorf("the list is %+v", list)
	}
	if r := x.StepRuns[1]; r.Items != 4 || r.Jobs != 3 || r.Skipped != 1 || r.PackSize != 2 || r.Counts.OK != 3 || r.List == nil {
		t.Errorf("%+v", r)
	}
	if got := string(x.Output.Inline); got != `{"third":{"n":2,"same":"c","site":"c"}}` {
		t.Errorf("output %s", got)
	}
	if x.Outcome() != workflow.OutcomeSucceeded || x.Needs() != workflow.SchemaVersion {
		t.Errorf("outcome %s, needs %d", x.Outcome(), x.Needs())
	}
	jobs := map[string]bool{}
	for _, c := range s.BlockCalls {
		jobs[c.Job] = true
	}
	if len(jobs) != 4 {
		t.Errorf("the keys of the jobs are %v", jobs)
	}
}

// An empty list completes. A list that is too long, no list or no value at all fails the step
// before anything is executed. What reads no item is decided before the list.
func TestForeach_Lists(t *testing.T) {
	for fields, want := range map[string]struct {
		calls  int
		code   string
		status sm.StepState
	}{
		`foreach: {items: "${[]}"}`:                                                                 {0, "", sm.StepCompleted},
		`foreach: {items: "${parameters.list}"}`:                                                    {0, workflow.FailureLimit, sm.StepFailed},
		`foreach: {items: "${parameters.n}"}`:                                                       {0, workflow.FailureLoop, sm.StepFailed},
		`foreach: {items: "${parameters.none}"}`:                                                    {0, workflow.FailureLoop, sm.StepFailed},
		`condition: has(parameters.none), foreach: {items: "${parameters.none}"}`:                   {0, "", sm.StepSkipped},
		`condition: index > 5, foreach: {items: "${[1, 2]}"}`:                                       {0, "", sm.StepSkipped},
		`assert: has(parameters.none), foreach: {items: "${[]}"}`:                                   {0, workflow.FailureAssertion, sm.StepFailed},
		`assert: item < 2, foreach: {items: "${[1, 2]}"}`:                                           {0, workflow.FailureAssertion, sm.StepFailed},
		`assert: item < 2, foreach: {items: "${[1, 2]}", failureTolerance: 1}`:                      {1, "", sm.StepCompleted},
		`parameters: {a: "${item.missing}"}, foreach: {items: "${[{}]}", failureTolerance: "100%"}`: {0, workflow.FailureParameters, sm.StepFailed},
	} {
		s, id, calls := flow(t, "steps:\n  - {label: each, functionBlock: p/pure:1, runOn: item, "+fields+"}\n",
			`{"n":5,"list":[`+strings.Repeat("1,", 10_000)+`1]}`, nil)
		x, code := s.Load(id), ""
		if x.Error != nil {
			code = x.Error.Code
		}
		if r := x.StepRuns[0]; len(calls) != want.calls || code != want.code || r.Status != want.status {
			t.Errorf("%s: %d calls, %s, %+v", fields, len(calls), r.Status, x.Error)
		}
	}
}

// Failures within the tolerance are reported, and nothing more: later steps continue with all
// items. Beyond the tolerance the step fails and names an item. An unknown outcome is never
// tolerated.
func TestForeach_ToleratesFailures(t *testing.T) {
	for name, c := range map[string]struct {
		block, tolerance string
		outcome          harness.Outcome
		state            sm.ExecutionState
		ended            workflow.Outcome
		entity, code     string
	}{
		"tolerated":           {"forever", ", failureTolerance: 1", harness.Outcome{FailCode: "NO"}, sm.ExecutionCompletedAck, workflow.OutcomePartial, "", ""},
		"a share":             {"again", ", failureTolerance: 20%", harness.Outcome{FailCode: "NO"}, sm.ExecutionCompletedAck, workflow.OutcomePartial, "", ""},
		"a smaller share":     {"pure", ", failureTolerance: 19%", harness.Outcome{FailCode: "NO"}, sm.ExecutionFailedSafeAck, workflow.OutcomeFailedSafe, "item 3", "NO"},
		"not tolerated":       {"again", "", harness.Outcome{FailCode: "NO"}, sm.ExecutionFailedSafeAck, workflow.OutcomeFailedSafe, "item 3", "NO"},
		"unsafe":              {"forever", "", harness.Outcome{FailCode: "NO"}, sm.ExecutionFailedUnsafe, workflow.OutcomeFailedUnsafe, "item 3", "NO"},
		"a crash":             {"once", ", failureTolerance: 100%", harness.Outcome{Crash: true}, sm.ExecutionFailedUnsafe, workflow.OutcomeFailedUnsafe, "item 3", workflow.FailureWorkerCrash},
		"a crash in vain":     {"again", ", failureTolerance: 100%", harness.Outcome{Crash: true}, sm.ExecutionCompletedAck, workflow.OutcomePartial, "", ""},
		"a timeout":           {"forever", ", failureTolerance: 100%", harness.Outcome{FailCode: workflow.FailureTimeout}, sm.ExecutionFailedUnsafe, workflow.OutcomeFailedUnsafe, "item 3", workflow.FailureTimeout},
		"a harmless timeout":  {"again", ", failureTolerance: 100%", harness.Outcome{FailCode: workflow.FailureTimeout}, sm.ExecutionCompletedAck, workflow.OutcomePartial, "", ""},
		"of the definition's": {"again", "", harness.Outcome{FailCode: "NO"}, sm.ExecutionFailedSafeAck, workflow.OutcomeFailedSafe, "item 3", "NO"},
	} {
		config := "config: {failureTolerance: 50%}\n"
		s, id, calls := flow(t, config+`steps:
  - {label: push, functionBlock: p/`+c.block+`:1, runOn: item, foreach: {items: "${[0, 1, 2, 3, 4]}"`+c.tolerance+`}, parameters: {n: "${item}"}}
  - {label: other, functionBlock: p/pure:1, runOn: item, foreach: {items: "${push.results}"}, parameters: {got: "${item}"}}
  - {label: look, functionBlock: p/pure:1, runOn: device}
`, "", failItem("push", `"n":3`, c.outcome))
		x := s.ExpectState(id, c.state)
		if x.Outcome() != c.ended {
			t.Errorf("%s: outcome %s", name, x.Outcome())
		}
		if c.code != "" {
			if x.Error == nil || x.Error.Code != c.code || x.Error.Entity != c.entity || x.Error.Step != "push" {
				t.Errorf("%s: %+v", name, x.Error)
			}
			continue
		}
		if v := executionView(t, s, id); len(v.FailedSteps) != 1 || v.FailedSteps[0].Step != "push" || v.FailedSteps[0].Jobs == 0 || *v.FailedSteps[0].Failure.Entity != "item 3" && !c.outcome.Crash {
			t.Errorf("%s: failed steps %+v", name, v.FailedSteps)
		}
		last := calls[len(calls)-3:]
		if got := strings.Join(calls[len(calls)-8:len(calls)-3], " "); strings.Count(got, "other") != 5 || !strings.Contains(got, `other {"got":null}`) || last[1] != "look d001 {}" {
			t.Errorf("%s: %v", name, calls)
		}
	}
}

// A rollback undoes exactly the items that were executed, the last one first, with what they
// have returned.
func TestForeach_Rollback(t *testing.T) {
	s, id, _ := flow(t, `steps:
  - label: push
    functionBlock: p/again:1
    runOn: item
    foreach: {items: "${['a', 'b', 'c', 'd']}", maxInFlight: 1, failureTolerance: 1}
    condition: item != 'b'
    parameters: {name: "${item}"}
  - {label: stop, functionBlock: p/pure:1, runOn: global}
`, "", func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "stop" || c.Kind == workflow.JobExecute && strings.Contains(string(c.Parameters), `"c"`) {
			return &harness.Outcome{FailCode: "NO"}
		}
		return &harness.Outcome{Result: []byte(`"made ` + string(c.Parameters[9]) + `"`)}
	})
	x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
	var undone []string
	for _, c := range s.BlockCalls {
		if c.Kind == workflow.JobRollback {
			undone = append(undone, string(c.Parameters)+string(c.Result))
		}
	}
	if got := strings.Join(undone, " "); got != `{"name":"d"}"made d" {"name":"c"} {"name":"a"}"made a"` || !x.RolledBack {
		t.Errorf("undone: %s", got)
	}
	if x.StepRuns[0].Window != 1 {
		t.Errorf("the window is %d", x.StepRuns[0].Window)
	}
	for _, j := range s.Jobs(id) {
		if j.Entity != nil || (j.Step == "push") != (j.Item != nil) || j.Kind == workflow.JobRollback && *j.Item == 1 {
			t.Errorf("%+v", j)
		}
	}
}

// As long as the list is the same, a retry executes only the items again that did not end OK, and
// the results are those of all.
func TestForeach_Retry(t *testing.T) {
	for name, c := range map[string]struct {
		config, entities string
		second           string // what the first step gives in the second try
		want             []string
	}{
		"failed":        {"config: {rollback: never}\n", "failed", "b", []string{"make {}", `push {"n":2,"name":"b"}`, `after {"all":["made a","made c","made b"]}`}},
		"all":           {"config: {rollback: never}\n", "all", "b", []string{"make {}", `push {"n":0,"name":"a"}`, `push {"n":1,"name":"c"}`, `push {"n":2,"name":"b"}`, `after {"all":["made a","made c","made b"]}`}},
		"rolled back":   {"", "failed", "b", []string{"make {}", `push {"n":0,"name":"a"}`, `push {"n":1,"name":"c"}`, `push {"n":2,"name":"b"}`, `after {"all":["made a","made c","made b"]}`}},
		"another list":  {"config: {rollback: never}\n", "failed", "x", []string{"make {}", `push {"n":0,"name":"a"}`, `push {"n":1,"name":"c"}`, `push {"n":2,"name":"x"}`, `after {"all":["made a","made c","made x"]}`}},
		"in a loop":     {"config: {rollback: never}\n", "failed", "b", nil},
		"of long lists": {"config: {rollback: never}\n", "failed", strings.Repeat("b", 300), nil},
	} {
		broken, last := true, "b"
		if name == "of long lists" {
			last = c.second
		}
		script := func(b harness.BlockCall) *harness.Outcome {
			switch {
			case b.Kind != workflow.JobExecute:
				return nil
			case b.Step == "make":
				return &harness.Outcome{Result: []byte(`["a","c","` + last + `"]`)}
			case broken && b.Step == "push" && strings.Contains(string(b.Parameters), `"n":2`):
				return &harness.Outcome{FailCode: "NO"}
			}
			_, name, _ := strings.Cut(string(b.Parameters), `"name":"`)
			return &harness.Outcome{Result: []byte(`"made ` + strings.TrimSuffix(name, `"}`) + `"`)}
		}
		steps := `  - {label: make, functionBlock: p/pure:1, runOn: global}
  - {label: push, functionBlock: p/again:1, runOn: item, foreach: {items: "${make.result}", maxInFlight: 1}, parameters: {n: "${index}", name: "${item}"}}
  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {all: "${push.results}"}}
`
		if name == "in a loop" {
			steps = "  - label: each\n    loop: {over: '${[1, 2]}'}\n    workflow:\n      steps:\n" + strings.ReplaceAll("\n"+steps, "\n  ", "\n        ")
		}
		s, id, _ := flow(t, c.config+"steps:\n"+steps, "", script)
		first := s.Load(id)
		if first.State != sm.ExecutionFailedUnsafe && first.State != sm.ExecutionFailedSafeAck {
			t.Fatalf("%s: %s", name, first.State)
		}
		broken, last, s.BlockCalls = false, c.second, nil
		if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "mended", From: "make", Entities: views.RetryEntities(c.entities)}); err != nil {
			t.Fatal(name, err)
		}
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		calls := callsWithParameters(s, id)
		if c.want != nil {
			expectCalls(t, calls, c.want...)
			continue
		}
		pushes := 0
		for _, call := range calls {
			if strings.HasPrefix(call, "push") {
				pushes++
			}
		}
		if want := map[string]int{"in a loop": 1 + 3, "of long lists": 1}[name]; pushes != want {
			t.Errorf("%s: %v", name, calls)
		}
		if x := s.Load(id); x.Outcome() != workflow.OutcomeSucceeded {
			t.Errorf("%s: outcome %s", name, x.Outcome())
		}
	}
}

// Tolerated and handled failures stay reported, a retry after a later failure redoes them too, and
// an item never excludes one of another step.
func TestForeach_RetryTwice(t *testing.T) {
	broken := `"n":1`
	s, id, _ := flow(t, `config: {rollback: never}
steps:
  - {label: push, functionBlock: p/forever:1, runOn: item, foreach: {items: "${[0, 1, 2]}"}, parameters: {n: "${item}"}}
  - {label: more, functionBlock: p/forever:1, runOn: item, foreach: {items: "${push.results}"}, parameters: {m: "${item.n}"}}
`, "", func(c harness.BlockCall) *harness.Outcome {
		if broken != "" && strings.Contains(string(c.Parameters), broken) {
			return &harness.Outcome{FailCode: "NO"}
		}
		return &harness.Outcome{Result: c.Parameters}
	})
	all := callsWithParameters(s, id)
	for _, next := range []string{`"m":2`, ""} {
		broken, s.BlockCalls = next, nil
		if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "mended"}); err != nil {
			t.Fatal(err)
		}
		settle(s)
		all = append(all, callsWithParameters(s, id)...)
	}
	s.ExpectState(id, sm.ExecutionCompletedAck)
	slices.Sort(all)
	expectCalls(t, all, `more {"m":0}`, `more {"m":1}`, `more {"m":2}`, `more {"m":2}`, `push {"n":0}`, `push {"n":1}`, `push {"n":1}`, `push {"n":2}`)
}

// A cancel ends the items that have not begun, and undoes the others.
func TestForeach_Cancel(t *testing.T) {
	s := newHarness(t, 0)
	s.Publish("w", `steps:
  - {label: push, functionBlock: p/again:1, runOn: item, foreach: {items: "${[0, 1, 2, 3, 4, 5]}", maxInFlight: 2}, parameters: {n: "${item}"}}
`)
	var id string
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Kind == workflow.JobExecute && strings.Contains(string(c.Parameters), "2") {
			return &harness.Outcome{During: func() {
				if _, err := s.Engine.Cancel(t.Context(), harness.Caller, id, views.CancelRequest{Reason: "stop"}); err != nil {
					t.Error(err)
				}
			}}
		}
		return nil
	}
	id = s.Start("w")
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCancelledAck)
	executed, undone := map[string]bool{}, map[string]bool{}
	for _, c := range s.BlockCalls {
		if c.Kind == workflow.JobRollback {
			undone[string(c.Parameters)] = true
		} else {
			executed[string(c.Parameters)] = true
		}
	}
	if len(executed) < 3 || len(executed) == 6 || fmt.Sprint(executed) != fmt.Sprint(undone) || !x.RolledBack || x.StepRuns[0].Counts.NotExecuted == 0 {
		t.Errorf("executed %v, undone %v, %+v", executed, undone, x.StepRuns[0].Counts)
	}
}

// In a loop, in a branch and in an embedded definition, items are those of the innermost list.
func TestForeach_InOtherSteps(t *testing.T) {
	s, id, calls := flow(t, `steps:
  - label: each
    loop: {over: "${['a', 'b']}", as: letter}
    workflow:
      steps:
        - {label: push, functionBlock: p/again:1, runOn: item, foreach: {items: "${[letter + string(index), item]}"}, parameters: {i: "${item}", l: "${letter}", n: "${index}"}, outputKey: last}
  - {label: last, functionBlock: p/pure:1, runOn: global, parameters: {v: "${vars.last}", r: "${push.results}"}}
  - label: gather
    parallel:
      branches:
        - {label: left, steps: [{label: one, functionBlock: p/once:1, runOn: item, foreach: {items: "${[1, 2]}"}, parameters: {n: "${item}"}}]}
        - {label: right, steps: [{label: two, functionBlock: p/once:1, runOn: item, foreach: {items: "${[3]}"}, parameters: {n: "${item}"}}]}
  - {label: merged, functionBlock: p/pure:1, runOn: global, parameters: {g: "${gather.result}"}}
`, "", failItem("push", "nothing", harness.Outcome{}))
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, calls, `push {"i":"a0","l":"a","n":0}`, `push {"i":"a","l":"a","n":1}`, `push {"i":"b1","l":"b","n":0}`, `push {"i":"b","l":"b","n":1}`,
		`last {"r":[{"i":"b1","l":"b","n":0},{"i":"b","l":"b","n":1}],"v":[{"i":"b1","l":"b","n":0},{"i":"b","l":"b","n":1}]}`,
		`one {"n":1}`, `one {"n":2}`, `two {"n":3}`, `merged {"g":{"left":[{"attempt":1},{"attempt":1}],"right":[{"attempt":1}]}}`)
}

// A handled failure keeps the list: the results of the items are there, and what they did can be
// undone. The same holds in a loop.
func TestForeach_HandledFailure(t *testing.T) {
	for _, steps := range []string{
		`  - label: push
    functionBlock: p/again:1
    runOn: item
    foreach: {items: "${['a', 'b', 'c']}"}
    parameters: {name: "${item}"}
    onFailure: [{when: "error.code == 'NO'", next: after}]
  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {r: "${push.results[0]}", e: "${error.entity}"}}
`, `  - label: each
    loop: {over: "${['a', 'b', 'c']}"}
    onFailure: [{next: after}]
    workflow: {steps: [{label: push, functionBlock: p/again:1, runOn: global, parameters: {name: "${item}"}}]}
  - {label: after, functionBlock: p/pure:1, runOn: global}
`,
	} {
		s, id, calls := flow(t, "steps:\n"+steps+"  - {label: stop, functionBlock: p/pure:1, runOn: global}\n", "", func(c harness.BlockCall) *harness.Outcome {
			if c.Step == "stop" || c.Kind == workflow.JobExecute && strings.Contains(string(c.Parameters), `"b"`) {
				return &harness.Outcome{FailCode: "NO"}
			}
			return &harness.Outcome{Result: []byte("7")}
		})
		x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
		if !x.RolledBack || !strings.Contains(strings.Join(calls, "\n"), "after") || !strings.HasSuffix(strings.Join(calls, "\n"), "push {\"name\":\"b\"}\npush {\"name\":\"a\"}") {
			t.Errorf("%+v: %v", x.Error, calls)
		}
		if strings.Contains(steps, "foreach") && !slices.Contains(calls, `after {"e":"item 1","r":7}`) {
			t.Errorf("%v", calls)
		}
	}
}

// BREAK is not up to one item.
func TestForeach_BreakDoesNothing(t *testing.T) {
	s, id, calls := flow(t, `steps:
  - label: each
    loop: {over: "${[1, 2]}"}
    workflow:
      steps:
        - {label: push, functionBlock: p/pure:1, runOn: item, foreach: {items: "${[item]}"}, parameters: {n: "${item}"}}
        - {label: rest, functionBlock: p/pure:1, runOn: global}
`, "", func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "push" {
			return &harness.Outcome{Break: true}
		}
		return nil
	})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, calls, `push {"n":1}`, "rest {}", `push {"n":2}`, "rest {}")
}

// A block that is called for an item names no next step: the job fails.
func TestForeach_NextIsRefused(t *testing.T) {
	for _, items := range []string{"[1]", "[1, 2]"} {
		s, id, _ := flow(t, `steps:
  - {label: push, functionBlock: p/pure:1, runOn: item, foreach: {items: "${`+items+`}"}, parameters: {n: "${item}"}}
  - {label: rest, functionBlock: p/pure:1, runOn: global}
`, "", func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{Next: "end"} })
		if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error.Code != "INVALID" || !strings.Contains(x.Error.Message, "runOn: global") {
			t.Errorf("%s: %+v", items, x.Error)
		}
	}
}

// Ten thousand items cost what ten thousand entities cost, without their locks: 0.3 write units
// an item in packs of ten, and a few commits.
func TestForeach_TenThousandItems(t *testing.T) {
	o := harness.Options()
	o.Policy.PackSize = 10
	s := harness.New(t, 1, o)
	s.RegisterBlocks()
	s.Publish("w", `steps:
  - {label: push, functionBlock: p/again:1, runOn: item, foreach: {items: "${parameters.list}", maxInFlight: 500}, parameters: {n: "${item.n}"}}
  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {n: "${size(push.results)}", last: "${push.results[9999].n}"}}
`)
	s.Script = failItem("push", "nothing", harness.Outcome{})
	list := make([]string, 10_000)
	for i := range list {
		list[i] = fmt.Sprintf(`{"n":%d}`, i)
	}
	req := harness.NewStartRequest("w")
	req.Parameters = []byte(`{"list":[` + strings.Join(list, ",") + `]}`)
	before := s.Consumed()
	id := s.StartWith(req)
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	used := s.Consumed()
	jobs, state := used.WriteUnits["jobs"]-before.WriteUnits["jobs"], used.WriteUnits["executions"]-before.WriteUnits["executions"]
	t.Logf("write units: jobs %v, executions %v; version %d", jobs, state, x.Version)
	if jobs+state > 3500 || x.Version > 60 {
		t.Errorf("write units: jobs %v, executions %v; version %d", jobs, state, x.Version)
	}
	if last := s.BlockCalls[len(s.BlockCalls)-1]; len(s.BlockCalls) != 10_001 || string(last.Parameters) != `{"last":9999,"n":10000}` {
		t.Errorf("%d calls, the last with %s", len(s.BlockCalls), last.Parameters)
	}
}
