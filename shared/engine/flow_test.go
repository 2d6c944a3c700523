package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// flow executes a definition with the given parameters, with every handler crashing nowhere,
// and returns the calls of its blocks as "STEP PARAMETERS".
func flow(t *testing.T, definition, parameters string, script func(harness.BlockCall) *harness.Outcome) (s *harness.Harness, id string, calls []string) {
	t.Helper()
	s = newHarness(t, 3)
	s.Publish("w", definition)
	s.Script = script
	req := harness.NewStartRequest("w")
	if strings.Contains(definition, "runOn: device") {
		req = harness.NewStartRequest("w", harness.DeviceIDs(3)...)
	}
	if parameters != "" {
		req.Parameters = []byte(parameters)
	}
	id = s.StartWith(req)
	settle(s)
	return s, id, callsWithParameters(s, id)
}

func callsWithParameters(s *harness.Harness, id string) (calls []string) {
	for _, c := range s.BlockCalls {
		if c.Execution == id {
			calls = append(calls, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", c.Step, c.Entity, c.Parameters)), " "))
		}
	}
	return calls
}

func expectCalls(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("calls:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// R6, R11, R12: variables, outputKey and the six forms of input.
func TestFlow_VariablesReachLaterSteps(t *testing.T) {
	s, id, calls := flow(t, `steps:
  - {label: first, set: {order.total: "${parameters.n * 2}", order.lines: [{sku: a}, {sku: b}], note: "n is ${parameters.n}"}}
  - {label: sum, functionBlock: p/pure:1, runOn: global, input: {path: order}, outputKey: order.sum}
  - {label: second, set: {order.total: "${vars.order.total + 1}", list: "${[vars.order.sum.x]}"}}
  - {label: key, functionBlock: p/pure:1, runOn: global, input: {key: order}}
  - {label: keys, functionBlock: p/pure:1, runOn: global, input: {keys: [note, n]}}
  - {label: path, functionBlock: p/pure:1, runOn: global, input: {path: order.lines.1}}
  - {label: template, functionBlock: p/pure:1, runOn: global, input: {template: {was: "${context.n}", is: "${vars.order.total}"}}}
  - {label: static, functionBlock: p/pure:1, runOn: global, input: {static: {a: "${b}"}}}
  - {label: each, functionBlock: p/pure:1, runOn: device, parameters: {d: "${entity.id}", l: "${vars.list}"}}
  - {label: full, functionBlock: p/pure:1, runOn: global, input: {full: true}}
`, `{"n":5,"note":"hidden"}`, func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "sum" {
			return &harness.Outcome{Result: []byte(`{"x":7}`)}
		}
		return nil
	})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	order := `{"lines":[{"sku":"a"},{"sku":"b"}],"sum":{"x":7},"total":11}`
	expectCalls(t, calls,
		`sum {"lines":[{"sku":"a"},{"sku":"b"}],"total":10}`,
		"key "+order,
		`keys {"n":5,"note":"n is 5"}`,
		`path {"sku":"b"}`,
		`template {"is":11,"was":5}`,
		`static {"a":"${b}"}`,
		`each d000 {"d":"d000","l":[7]}`, `each d001 {"d":"d001","l":[7]}`, `each d002 {"d":"d002","l":[7]}`,
		`full {"list":[7],"n":5,"note":"n is 5","order":`+order+`}`,
	)
}

// R11: input that has no value.
func TestFlow_InputWithoutValueFails(t *testing.T) {
	for _, input := range []string{"{path: order.lines.9}", "{key: nothing}", "{keys: [n, nothing]}", "{key: n}"} {
		s, id, calls := flow(t, `steps:
  - {label: first, set: {order.lines: [{sku: a}]}}
  - {label: a, functionBlock: p/pure:1, runOn: global, input: `+input+"}\n", `{"n":5}`, nil)
		if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); len(calls) > 0 || x.Error.Code != workflow.FailureInput || x.Error.Step != "a" {
			t.Errorf("%s: %v, %+v", input, calls, x.Error)
		}
	}
}

// R8, R15: cases in order, the fourteen operators, the default, and no route.
func TestFlow_SwitchTakesTheFirstTrueCase(t *testing.T) {
	switchOn := func(cases string) string {
		return `steps:
  - {label: route, switch: [` + cases + `]}
  - {label: a, functionBlock: p/pure:1, runOn: global, next: end}
  - {label: b, functionBlock: p/pure:1, runOn: global}
`
	}
	for when, want := range map[string]bool{
		"parameters.n > 4":                               true,
		"parameters.missing > 4":                         false,
		"{path: n, op: eq, value: 5}":                    true,
		"{path: n, op: eq, value: '5'}":                  false,
		"{path: n, op: neq, value: '5'}":                 true,
		"{path: missing, op: neq, value: 1}":             true,
		"{path: n, op: gt, value: 5}":                    false,
		"{path: n, op: gt, value: 4.5}":                  true,
		"{path: s, op: gt, value: 4}":                    false,
		"{path: n, op: gte, value: 5}":                   true,
		"{path: n, op: lt, value: 6}":                    true,
		"{path: n, op: lte, value: 4}":                   false,
		"{path: s, op: in, value: [open, new]}":          true,
		"{path: s, op: nin, value: [open, new]}":         false,
		"{path: missing, op: nin, value: [open]}":        true,
		"{path: s, op: contains, value: pe}":             true,
		"{path: o.l, op: contains, value: 2}":            true,
		"{path: o.l, op: contains, value: 3}":            false,
		"{path: s, op: startsWith, value: op}":           true,
		"{path: n, op: startsWith, value: op}":           false,
		"{path: s, op: endsWith, value: en}":             true,
		"{path: s, op: matches, value: '^o.*n$'}":        true,
		"{path: o.l.1, op: exists}":                      true,
		"{path: o.l.2, op: exists}":                      false,
		"{path: s.x, op: exists}":                        false,
		"{path: o.x.y, op: notExists}":                   true,
		"{path: o, op: notExists}":                       false,
		"{path: o.in, op: eq, value: {a: [1, null]}}":    true,
		"{path: o.in, op: eq, value: {a: [1.0, false]}}": false,
	} {
		s, id, calls := flow(t, switchOn("{when: "+yamlText(when)+", next: a}, {default: b}"), `{"n":5,"s":"open","o":{"l":[1,2],"in":{"a":[1,null]}}}`, nil)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		if step := map[bool]string{true: "a {}", false: "b {}"}[want]; len(calls) != 1 || calls[0] != step {
			t.Errorf("%s: %v, want %s", when, calls, step)
		}
	}
	s, id, calls := flow(t, switchOn(`{when: "false", next: a}, {when: "parameters.x.y == 1", next: b}`), "", nil)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); len(calls) > 0 || x.Error.Code != workflow.FailureNoRoute || !strings.Contains(x.Error.Message, "parameters.x.y") {
		t.Errorf("%v, %+v", calls, x.Error)
	}
	s, id, calls = flow(t, switchOn(`{when: "true", next: b}, {when: "true", next: a}`), "", nil)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, calls, "b {}")
	if passed := countEvents(s, id, "step.passed"); passed != 1 {
		t.Errorf("%d steps are recorded as passed, want a alone", passed)
	}
}

func yamlText(when string) string {
	if strings.HasPrefix(when, "{") {
		return when
	}
	return `"` + when + `"`
}

func countEvents(s *harness.Harness, id, kind string) (n int) {
	for _, e := range s.History(id) {
		if e.Type == kind {
			n++
		}
	}
	return n
}

// Steps of a case are executed in the switch; the other cases are not.
func TestFlow_CaseWithSteps(t *testing.T) {
	definition := `steps:
  - label: route
    switch:
      - {when: "parameters.n == 1", steps: [{label: one, functionBlock: p/again:1, runOn: device}, {label: two, functionBlock: p/pure:1, runOn: global}]}
      - {when: "parameters.n == 2", steps: [{label: three, functionBlock: p/pure:1, runOn: global, next: last}, {label: never, functionBlock: p/pure:1, runOn: global}]}
      - {when: "parameters.n == 3", steps: [{label: inner, switch: [{when: "true", steps: [{label: deep, set: {x: 1}, next: end}]}]}], next: last}
      - {default: true, steps: [{label: other, set: {x: 2}}], }
  - {label: middle, functionBlock: p/pure:1, runOn: global}
  - {label: last, functionBlock: p/pure:1, runOn: global, parameters: {route: "${steps.route.status}"}}
`
	for n, want := range map[string]string{
		"1": "one d000 {}|one d001 {}|one d002 {}|two {}|middle {}|last COMPLETED",
		"2": "three {}|last COMPLETED",
		"3": "",
		"4": "middle {}|last COMPLETED",
	} {
		s, id, calls := flow(t, definition, `{"n":`+n+`}`, nil)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		if got := strings.ReplaceAll(strings.Join(calls, "|"), `{"route":"COMPLETED"}`, "COMPLETED"); got != want {
			t.Errorf("n = %s: %s, want %s", n, got, want)
		}
		for _, r := range s.Load(id).StepRuns {
			if r.Open() {
				t.Errorf("n = %s: step run %s is open", n, r.Label)
			}
		}
	}
}

// R13: onFailure chooses by the error, its steps and later ones read it.
func TestFlow_OnFailureHandles(t *testing.T) {
	definition := `steps:
  - label: charge
    functionBlock: p/once:1
    runOn: global
    onFailure:
      - {when: error.code == "DECLINED", next: apologise}
      - {when: steps.charge.error.code == "BUSY" && error.details.n == 1, steps: [{label: note, functionBlock: p/pure:1, runOn: global, parameters: {why: "${error.message}"}}]}
  - {label: ship, functionBlock: p/pure:1, runOn: global, parameters: {charged: "${steps.charge.status}"}, next: end}
  - {label: apologise, functionBlock: p/pure:1, runOn: global, parameters: {why: "${steps.charge.error.message}", code: "${error.code}"}}
`
	fail := func(code string) func(harness.BlockCall) *harness.Outcome {
		return func(c harness.BlockCall) *harness.Outcome {
			if c.Step == "charge" && c.Kind == workflow.JobExecute {
				return &harness.Outcome{FailCode: code, FailMessage: "no money"}
			}
			return nil
		}
	}
	s, id, calls := flow(t, definition, "", fail("DECLINED"))
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, calls, "charge {}", `apologise {"code":"DECLINED","why":"no money"}`)
	if outcome := x.Outcome(); outcome != workflow.OutcomeSucceeded || x.StepRuns[0].Status != sm.StepCaseHandled {
		t.Errorf("outcome %s, charge %s", outcome, x.StepRuns[0].Status)
	}
	s, id, calls = flow(t, definition, "", fail("OTHER"))
	x = s.Load(id)
	if expectCalls(t, calls[:1], "charge {}"); x.Error.Code != "OTHER" || x.Error.Step != "charge" {
		t.Errorf("%s, %+v", x.State, x.Error)
	}
	s, id, calls = flow(t, strings.Replace(definition, "error.details.n == 1", "true", 1), "", fail("BUSY"))
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, calls, "charge {}", `note {"why":"no money"}`, `ship {"charged":"CASE_HANDLED"}`)
}

// A surrounding step handles the failure of the one that failed, in a pipeline too.
func TestFlow_OuterStepHandles(t *testing.T) {
	for _, config := range []string{"", "config: {executionStrategy: {parallel: true}}\n"} {
		s, id, calls := flow(t, config+`steps:
  - label: outer
    onFailure: after
    workflow:
      steps:
        - {label: one, functionBlock: p/pure:1, runOn: device}
        - {label: two, functionBlock: p/pure:1, runOn: device}
        - {label: three, functionBlock: p/pure:1, runOn: global}
  - {label: skipped, functionBlock: p/pure:1, runOn: global}
  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {step: "${error.step}", outer: "${steps.outer.status}"}}
`, "", func(c harness.BlockCall) *harness.Outcome {
			if c.Step == "two" && c.Entity == "d001" {
				return &harness.Outcome{FailCode: "NO"}
			}
			return nil
		})
		s.ExpectState(id, sm.ExecutionCompletedAck)
		if last := calls[len(calls)-1]; last != `after {"outer":"CASE_HANDLED","step":"two"}` {
			t.Errorf("%q: %v", config, calls)
		}
		if outcome := s.Load(id).Outcome(); outcome != workflow.OutcomeSucceeded {
			t.Errorf("%q: outcome %s", config, outcome)
		}
	}
}

// R53: going back is bounded by the number of step runs. Variables count in between.
func TestFlow_GoesBack(t *testing.T) {
	definition := `steps:
  - {label: begin, set: {tries: 0}}
  - {label: count, set: {tries: "${vars.tries + 1}"}}
  - {label: work, functionBlock: p/once:1, runOn: device, parameters: {n: "${vars.tries}"}}
  - {label: again, switch: [{when: vars.tries < parameters.max, next: count}, {default: done}]}
  - {label: done, functionBlock: p/pure:1, runOn: global, parameters: {n: "${vars.tries}"}}
`
	s, id, calls := flow(t, definition, `{"max":3}`, nil)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if len(calls) != 10 || calls[0] != `work d000 {"n":1}` || calls[8] != `work d002 {"n":3}` || calls[9] != `done {"n":3}` {
		t.Errorf("%v", calls)
	}
	s, id, _ = flow(t, definition, `{"max":1000}`, nil)
	if x := s.Load(id); x.Cause != workflow.CauseLimit || x.State != sm.ExecutionFailedSafeAck {
		t.Errorf("%s, cause %s", x.State, x.Cause)
	}
}

// A retry after going back begins at the first time that the step was executed, and repeats
// everything from there on.
func TestFlow_RetryAfterGoingBack(t *testing.T) {
	broken := true
	s, id, _ := flow(t, `config: {rollback: never}
steps:
  - {label: begin, set: {tries: 0}}
  - {label: count, set: {tries: "${vars.tries + 1}"}}
  - {label: work, functionBlock: p/again:1, runOn: device, parameters: {n: "${vars.tries}"}}
  - {label: again, switch: [{when: vars.tries < 2, next: count}, {default: done}]}
  - {label: done, functionBlock: p/pure:1, runOn: global, parameters: {n: "${vars.tries}"}}
`, "", func(c harness.BlockCall) *harness.Outcome {
		if broken && c.Entity == "d001" && strings.Contains(string(c.Parameters), "2") {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	})
	if x := s.Load(id); x.Error == nil || x.Error.Step != "work" {
		t.Fatalf("%s, %+v", x.State, x.Error)
	}
	broken, s.BlockCalls = false, nil
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "mended", Entities: "failed"}); err == nil {
		t.Error("a retry of the failed entities is accepted")
	}
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "mended"}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	calls := callsWithParameters(s, id)
	if len(calls) == 0 || calls[len(calls)-1] != `done {"n":2}` {
		t.Errorf("%v", calls)
	}
}

// Values too large for the state item are stored in items of their own, and exceeded limits are
// reported with their codes.
func TestFlow_LargeValues(t *testing.T) {
	s, id, calls := flow(t, `steps:
  - {label: big, set: {list: "${parameters.list.map(x, x + x)}"}}
  - {label: read, functionBlock: p/pure:1, runOn: global, parameters: {n: "${size(vars.list)}", last: "${vars.list[199]}"}}
`, `{"list":[`+strings.Repeat(`"abcdefghij",`, 199)+`"last"]}`, nil)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, calls, `read {"last":"lastlast","n":200}`)
	if v := x.StepRuns[0].Value; v == nil || v.Stored == nil || v.Inline != nil {
		t.Errorf("the value is %+v", v)
	}
	for _, step := range []string{
		`set: {text: "${[1, 2, 3, 4].map(x, parameters.text)}"}`,
		`set: {a: "${[1, 2].map(x, parameters.text)}", b: "${[1, 2].map(x, parameters.text)}"}`,
		`wait: {input: {title: "${parameters.text + parameters.text + parameters.text + parameters.text}"}}`,
		`wait: {input: {show: {a: "${[1, 2].map(x, parameters.text)}", b: "${[1, 2].map(x, parameters.text)}"}}}`,
		`wait: {input: {onTimeout: {answer: {a: "${[1, 2, 3, 4].map(x, parameters.text)}"}}}}`,
	} {
		s, id, _ = flow(t, "steps:\n  - {label: large, "+step+"}\n", fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 300_000)), nil)
		if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error.Code != workflow.FailureLimitValue || x.Cause != workflow.CauseLimit {
			t.Errorf("%s: %s, %+v", step, x.Cause, x.Error)
		}
	}
	deep := strings.Repeat("[", 15) + strings.Repeat("]", 15)
	s, id, _ = flow(t, "steps:\n  - {label: deep, set: {a.b: '${parameters.deep}'}}\n", `{"deep":`+deep+`}`, nil)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error.Code != workflow.FailureLimitDepth || x.Cause != workflow.CauseLimit {
		t.Errorf("%+v", x.Error)
	}
}

// After the steps of a case of onFailure, and after continueOnError, the execution continues where
// the case says, else where the step says.
func TestFlow_GoesOnAfterAFailure(t *testing.T) {
	const pure = "functionBlock: p/pure:1, runOn: global"
	for _, c := range []struct{ charge, want string }{
		{"onFailure: [{when: 'false', next: never}, {steps: [{label: note, " + pure + "}, {label: save, set: {x: 1}}], next: last}]", "charge note last"},
		{"onFailure: [{steps: [{label: note, " + pure + "}]}], next: last", "charge note last"},
		{"onFailure: [{steps: [{label: note, " + pure + "}]}]", "charge note middle"},
		{"onFailure: [{steps: [{label: note, " + pure + "}], next: charge}]", "charge note charge middle"},
		{"onFailure: [{steps: [{label: outer, workflow: {steps: [{label: note, " + pure + "}]}}], next: last}]", "charge note last"},
		{"onFailure: [{steps: [{label: fails, " + pure + ", onFailure: [{steps: [{label: note, " + pure + "}]}]}], next: last}]", "charge fails note last"},
		{"onFailure: [{steps: [{label: fails, " + pure + ", continueOnError: true}], next: last}]", "charge fails last"},
		{"continueOnError: true, next: last", "charge last"},
		{"continueOnError: true", "charge middle"},
		{"next: last", "charge"},
	} {
		failed := map[string]bool{}
		s, id, calls := flow(t, `steps:
  - {label: before, `+pure+`, condition: "false"}
  - {label: charge, `+pure+`, `+c.charge+`}
  - {label: middle, `+pure+`, next: end}
  - {label: never, `+pure+`}
  - {label: last, `+pure+`}
`, "", func(call harness.BlockCall) *harness.Outcome {
			fails := call.Step == "fails" || call.Step == "charge" && !(failed["charge"] && strings.Contains(c.charge, "next: charge"))
			failed[call.Step] = true
			if fails {
				return &harness.Outcome{FailCode: "A"}
			}
			return nil
		})
		var steps []string
		for _, call := range calls {
			steps = append(steps, strings.Fields(call)[0])
		}
		if got := strings.Join(steps, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.charge, got, c.want)
		}
		for _, r := range s.Load(id).StepRuns {
			if r.Open() {
				t.Errorf("%s: step run %s is open", c.charge, r.Label)
			}
		}
	}
}

// A retry begins with the step that failed, wherever it is: here, among those that handle a
// failure in a case of a switch.
func TestFlow_RetryBeginsInAHandler(t *testing.T) {
	const pure = "functionBlock: p/pure:1, runOn: global"
	broken := true
	s, id, _ := flow(t, `steps:
  - label: route
    switch:
      - {when: "false", steps: [{label: other, `+pure+`}]}
      - default: true
        steps:
          - {label: charge, `+pure+`, onFailure: [{steps: [{label: note, `+pure+`, parameters: {why: "${error.code}"}}]}]}
          - {label: ship, `+pure+`}
        next: last
  - {label: middle, `+pure+`}
  - {label: last, `+pure+`}
`, "", func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "charge" || broken && c.Step == "note" {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	})
	if x := s.Load(id); x.Error == nil || x.Error.Step != "note" {
		t.Fatalf("%s, %+v", x.State, x.Error)
	}
	broken, s.BlockCalls = false, nil
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "mended"}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, callsWithParameters(s, id), `note {"why":"NO"}`, "ship {}", "last {}")
	for _, r := range x.StepRuns {
		if r.Label == "route" && r.Route != 2 {
			t.Errorf("the switch took case %d in try %d, want 2", r.Route, r.Try)
		}
	}
}

// R9: the block of a global step chooses where the execution continues. If it names a step that
// cannot be reached, the step fails. A step on entities chooses nothing.
func TestFlow_BlockChoosesNext(t *testing.T) {
	definition := `steps:
  - {label: triage, functionBlock: p/once:1, runOn: global}
  - {label: normal, functionBlock: p/pure:1, runOn: global, next: done}
  - {label: outer, workflow: {steps: [{label: inner, functionBlock: p/pure:1, runOn: global}, {label: after, functionBlock: p/pure:1, runOn: global}]}}
  - {label: done, functionBlock: p/pure:1, runOn: global}
`
	for next, want := range map[string]string{"": "triage|normal|done", "outer": "triage|inner|after|done", "end": "triage", "done": "triage|done"} {
		s, id, _ := flow(t, definition, "", func(c harness.BlockCall) *harness.Outcome {
			if c.Step == "triage" {
				return &harness.Outcome{Next: next}
			}
			return nil
		})
		x := s.ExpectState(id, sm.ExecutionCompletedAck)
		if got := strings.ReplaceAll(strings.Join(s.CallsOf(id), "|"), " EXECUTE", ""); got != want || x.StepRuns[0].Next != next {
			t.Errorf("%q: %s, want %s; next is %q", next, got, want, x.StepRuns[0].Next)
		}
	}
	for _, next := range []string{"inner", "nowhere"} {
		s, id, _ := flow(t, definition, "", func(c harness.BlockCall) *harness.Outcome { return &harness.Outcome{Next: next} })
		if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error.Code != workflow.FailureUnknownStep || !strings.Contains(x.Error.Message, next) || !x.RolledBack {
			t.Errorf("%s: %+v, rolled back %v", next, x.Error, x.RolledBack)
		}
	}
	s, id, _ := flow(t, "steps:\n  - {label: one, functionBlock: p/pure:1, runOn: device}\n", "", func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{Next: "end"} })
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error.Code != "INVALID" {
		t.Errorf("%+v", x.Error)
	}
	again := 0
	s, id, _ = flow(t, definition, "", func(c harness.BlockCall) *harness.Outcome {
		if again++; c.Step == "triage" && again < 3 {
			return &harness.Outcome{Next: "triage"}
		}
		return nil
	})
	if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.WentBack != 1 || len(s.CallsOf(id)) != 5 {
		t.Errorf("went back in try %d, %v", x.WentBack, s.CallsOf(id))
	}
}

// R42: a definition declares the output of its executions. An output without a value fails nothing.
func TestFlow_Output(t *testing.T) {
	for output, want := range map[string]string{
		`{sum: "${vars.sum}", a: "${a.result.x}", all: "${size(b.results)}", n: "${parameters.n}"}`: `{"a":7,"all":3,"n":5,"sum":6}`,
		`{long: "${parameters.long}"}`: `{"long":"` + strings.Repeat("long", 100) + `"}`,
		`{sum: "${vars.nothing}"}`:     "null",
	} {
		s, id, _ := flow(t, `steps:
  - {label: first, set: {sum: "${parameters.n + 1}"}}
  - {label: a, functionBlock: p/pure:1, runOn: global}
  - {label: b, functionBlock: p/pure:1, runOn: device}
output: `+output+"\n", `{"n":5,"long":"`+strings.Repeat("long", 100)+`"}`, func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{Result: []byte(`{"x":7}`)} })
		s.ExpectState(id, sm.ExecutionCompletedAck)
		r, err := s.Query.Result(t.Context(), harness.Caller, id)
		if got := string(r.Output); err != nil || got != want && !(want == "null" && got == "") {
			t.Errorf("%s: %s, %v", output, got, err)
		}
		if x, err := s.Query.Execution(t.Context(), harness.Caller, id); err != nil || string(x.Output) != string(r.Output) {
			t.Errorf("%s: the execution shows %s, %v", output, x.Output, err)
		}
		list, err := s.Query.Executions(t.Context(), harness.Caller, views.ExecutionFilter{}, workflow.Page{})
		if err != nil || len(list.Items) != 1 || string(list.Items[0].Output) != map[bool]string{true: string(r.Output), false: ""}[len(r.Output) <= workflow.MaxInlineValueBytes] {
			t.Errorf("%s: the list shows %s, %v", output, list.Items[0].Output, err)
		}
		if missing := countEvents(s, id, "output.missing"); missing != map[bool]int{true: 1}[want == "null"] {
			t.Errorf("%s: %d events", output, missing)
		}
	}
}

// An execution whose definition has no output gives an empty object, to its parent, too. One that has
// not completed, and a probe, give nothing.
func TestFlow_OutputOfADefinitionWithoutOne(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.Publish("quiet", "steps: [{label: one, functionBlock: p/pure:1, runOn: global}]")
	s.Publish("missing", "steps: [{label: one, functionBlock: p/pure:1, runOn: global}]\noutput: {x: '${vars.nothing}'}")
	s.Publish("parent", `steps:
  - {label: c, workflowReference: {workflow: "p/quiet:1", mode: dispatch}}
  - {label: m, workflowReference: {workflow: "p/missing:1", mode: dispatch}}
  - {label: all, foreach: {items: "${[1]}", as: i}, workflowReference: {workflow: "p/quiet:1", mode: dispatch}}
output: {c: "${c.result.output}", m: "${m.result.output}", all: "${all.results[0].output}"}
`)
	shown := func(id string) views.ExecutionView {
		x, err := s.Query.Execution(t.Context(), harness.Caller, id)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	id := s.Start("parent")
	if x := shown(id); x.Output != nil {
		t.Errorf("at its start: %s", x.Output)
	}
	settle(s)
	if x := shown(id); string(x.Output) != `{"all":{},"c":{},"m":null}` {
		t.Errorf("%s: %s, %+v", x.State, x.Output, x.Error)
	}
	children, err := s.Query.Children(t.Context(), harness.Caller, id, "", workflow.Page{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range children.Items {
		want := map[string]string{"c": "{}", "m": "null", "all": "{}"}[c.Step]
		if x := shown(c.ID); string(c.Output) != want || string(x.Output) != want {
			t.Errorf("%s gives %s, the child %s, want %s", c.Step, c.Output, x.Output, want)
		}
	}
	req := harness.NewStartRequest("quiet")
	req.Mode = views.ModeProbe
	probe := s.StartWith(req)
	settle(s)
	if x := shown(probe); x.Output != nil || len(children.Items) != 3 {
		t.Errorf("a probe gives %s; %d children", x.Output, len(children.Items))
	}
}

// A surrounding step handles a failure whose text is stored separately.
func TestFlow_OuterStepHandlesLongFailure(t *testing.T) {
	long := strings.Repeat("no money ", 40)
	s, id, calls := flow(t, `steps:
  - label: box
    onFailure: [{steps: [{label: hand, functionBlock: p/pure:1, runOn: global, parameters: {why: "${error.message}", same: "${steps.box.error.message}"}}]}]
    workflow: {steps: [{label: charge, functionBlock: p/pure:1, runOn: global}]}
`, "", func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "charge" {
			return &harness.Outcome{FailCode: "NO", FailMessage: long}
		}
		return nil
	})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if last := calls[len(calls)-1]; last != `hand {"same":"`+strings.TrimSpace(long)+` ","why":"`+strings.TrimSpace(long)+` "}` {
		t.Errorf("%s", last)
	}
}

// A failure that the tolerance allows is not handled by onFailure: the entity is out of the
// execution, as without it.
func TestFlow_ToleratedFailureIsNotHandled(t *testing.T) {
	for _, handler := range []string{"", ", onFailure: [{when: 'error.code == \"OTHER\"', next: end}]", ", onFailure: [{next: end}]"} {
		s, id, _ := flow(t, strings.ReplaceAll(`config: {failureTolerance: 1}
steps:
  - {label: one, functionBlock: p/once:1, runOn: device`+handler+`}
  - {label: two, functionBlock: p/again:1, runOn: device}
`, `\"`, `"`), "", func(c harness.BlockCall) *harness.Outcome {
			if c.Step == "one" && c.Entity == "d001" && c.Kind == workflow.JobExecute {
				return &harness.Outcome{FailCode: "NO"}
			}
			return nil
		})
		x := s.ExpectState(id, sm.ExecutionCompletedAck)
		if x.Outcome() != workflow.OutcomePartial || s.HasCalled(id, "two EXECUTE d001") || !s.HasCalled(id, "one ROLLBACK d001") {
			t.Errorf("%q: outcome %s, %v", handler, x.Outcome(), s.CallsOf(id))
		}
	}
}

// An assertion that is false in a pipeline is handled like any other failure.
func TestFlow_AssertionInPipelineIsHandled(t *testing.T) {
	for _, config := range []string{"", "config: {executionStrategy: {parallel: true}}\n"} {
		s, id, calls := flow(t, config+`steps:
  - label: box
    onFailure: [{next: last}]
    workflow:
      steps:
        - {label: one, functionBlock: p/pure:1, runOn: device}
        - {label: two, functionBlock: p/pure:1, runOn: device, assert: "entity.id != 'd001'"}
  - {label: never, functionBlock: p/pure:1, runOn: global}
  - {label: last, functionBlock: p/pure:1, runOn: global, parameters: {code: "${error.code}"}}
`, "", nil)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		if last := calls[len(calls)-1]; last != `last {"code":"ASSERTION"}` {
			t.Errorf("%q: %v", config, calls)
		}
	}
}

// error is the last failure that was handled: that of a surrounding step comes after those in it,
// and branches count in the order of the definition.
func TestFlow_NewestIsWhatEndedLast(t *testing.T) {
	const pure = "functionBlock: p/pure:1, runOn: global"
	s, id, calls := flow(t, `steps:
  - label: outer
    onFailure: last
    workflow: {steps: [{label: one, `+pure+`, onFailure: two}, {label: two, `+pure+`}]}
  - {label: last, `+pure+`, parameters: {why: "${error.code}", step: "${error.step}"}}
`, "", func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "last" {
			return nil
		}
		return &harness.Outcome{FailCode: "NO_" + c.Step}
	})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, calls, "one {}", "two {}", `last {"step":"two","why":"NO_two"}`)

	s, id, calls = flow(t, `steps:
  - label: both
    outputKey: all
    parallel:
      branches:
        - {label: left, steps: [{label: a, `+pure+`}, {label: b, `+pure+`}, {label: c, `+pure+`, onFailure: [{steps: [{label: save, set: {all: 1}}]}]}]}
        - {label: right, steps: [{label: d, `+pure+`, onFailure: [{steps: [{label: keep, set: {x: 1}}]}]}], result: {given: right}}
  - {label: last, `+pure+`, parameters: {all: "${vars.all.given}", step: "${error.step}"}}
`, "", func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "c" || c.Step == "d" {
			return &harness.Outcome{FailCode: "NO"}
		}
		return &harness.Outcome{Result: []byte(`{"n":1}`)}
	})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if last := calls[len(calls)-1]; last != `last {"all":"right","step":"d"}` {
		t.Errorf("%s", last)
	}
}

// A step that failed, was handled, and is entered again: in it, error is that failure, and the
// variables are as it left them.
func TestFlow_ErrorIsWhatWasHandledLast(t *testing.T) {
	s, id, calls := flow(t, `steps:
  - label: first
    functionBlock: p/pure:1
    runOn: global
    onFailure:
      - steps:
          - label: around
            workflow:
              steps:
                - {label: tell, functionBlock: "p/pure:1", runOn: global, parameters: {why: "${error.code}"}}
                - {label: fails, functionBlock: "p/pure:1", runOn: global}
            onFailure:
              - {when: {path: again, op: notExists}, steps: [{label: note, set: {again: "${error.code}"}}], next: around}
              - {steps: [{label: last, functionBlock: "p/pure:1", runOn: global, parameters: {why: "${error.step}"}}], next: end}
`, "", func(c harness.BlockCall) *harness.Outcome {
		if code := map[string]string{"first": "A", "fails": "B"}[c.Step]; code != "" {
			return &harness.Outcome{FailCode: code}
		}
		return nil
	})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, calls, "first {}", `tell {"why":"A"}`, "fails {}", `tell {"why":"B"}`, "fails {}", `last {"why":"fails"}`)
}
