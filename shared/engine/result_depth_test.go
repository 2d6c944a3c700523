package engine_test

import (
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// nested is an object that is nested so deep, and takes as many bytes more.
func nested(depth, bytes int) string {
	return strings.Repeat(`{"a":`, depth) + `"` + strings.Repeat("x", bytes) + `"` + strings.Repeat("}", depth)
}

// R53: a result that becomes the value of a variable is as deep as one that is set, wherever it is
// stored. The job has been executed: it is undone.
func TestOutputKey_LimitsTheDepthOfResults(t *testing.T) {
	for name, test := range map[string]struct {
		step  string
		depth int
		bytes int
		fails bool
	}{
		"at the limit":        {"outputKey: v", 14, 0, false},
		"too deep":            {"outputKey: v", 15, 0, true},
		"too deep and stored": {"outputKey: v", 15, 20 << 10, true},
		"stored":              {"outputKey: v", 14, 20 << 10, false},
		"no variable":         {"stepTimeout: 1h", 40, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, id, calls := flow(t, `steps:
  - {label: read, functionBlock: p/once:1, runOn: global, `+test.step+`}
  - {label: behind, functionBlock: p/pure:1, runOn: global}
`, "", func(c harness.BlockCall) *harness.Outcome {
				if c.Step == "read" && c.Kind == workflow.JobExecute {
					return &harness.Outcome{Result: []byte(nested(test.depth, test.bytes))}
				}
				return nil
			})
			x := s.Load(id)
			if !test.fails {
				if s.ExpectState(id, sm.ExecutionCompletedAck); calls[len(calls)-1] != "behind {}" {
					t.Errorf("%v", calls)
				}
				return
			}
			if x.State != sm.ExecutionFailedSafeAck || x.Error == nil || x.Error.Code != workflow.FailureLimitDepth || x.Cause != workflow.CauseLimit || x.Error.Step != "read" || !strings.Contains(x.Error.Message, "more than 14 deep") {
				t.Errorf("%s, %s, %+v", x.State, x.Cause, x.Error)
			}
			if len(calls) != 2 || !strings.HasPrefix(calls[1], "read") {
				t.Errorf("it is not undone: %v", calls)
			}
		})
	}
}

// A retry executes the step again, and a handler sees the limit.
func TestOutputKey_TooDeepResultIsHandledAndRetried(t *testing.T) {
	deep := true
	script := func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "read" && deep {
			return &harness.Outcome{Result: []byte(nested(20, 0))}
		}
		return &harness.Outcome{Result: []byte(`{"a":1}`)}
	}
	s, id, calls := flow(t, `steps:
  - {label: read, functionBlock: p/pure:1, runOn: global, outputKey: v, onFailure: [{steps: [{label: tell, functionBlock: p/pure:1, runOn: global, parameters: {why: "${error.code}"}}], next: end}]}
`, "", script)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, calls, "read {}", `tell {"why":"LIMIT_DEPTH"}`)

	s, id, _ = flow(t, `steps:
  - {label: read, functionBlock: p/pure:1, runOn: global, outputKey: v}
  - {label: show, functionBlock: p/pure:1, runOn: global, parameters: {v: "${vars.v.a}"}}
`, "", script)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	deep = false
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "mended"}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, callsWithParameters(s, id), "read {}", "read {}", `show {"v":1}`)
}

// What branches give together is the value of a variable, too.
func TestOutputKey_LimitsTheDepthOfBranches(t *testing.T) {
	for _, key := range []string{"outputKey: v, ", ""} {
		s, id, _ := flow(t, `steps:
  - {label: all, `+key+`parallel: {branches: [{label: l, steps: [{label: a, functionBlock: "p/pure:1", runOn: global}]}, {label: r, steps: [{label: b, functionBlock: "p/pure:1", runOn: global}]}]}}
`, "", func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{Result: []byte(nested(15, 0))} })
		if x := s.Load(id); key != "" && (x.Error == nil || x.Error.Code != workflow.FailureLimitDepth) || key == "" && x.State != sm.ExecutionCompletedAck {
			t.Errorf("%q: %s, %+v", key, x.State, x.Error)
		}
	}
}

// What comes in from outside may become the value of a variable, too: an answer and a signal are refused when they come,
// and the step goes on waiting.
func TestOutputKey_LimitsTheDepthOfWhatComesIn(t *testing.T) {
	s, id := waiting(t, "steps:\n  - {label: ask, wait: {input: {}}, outputKey: said}\n  - {label: hear, wait: {signal: {name: go}}, outputKey: heard}\n", "", nil)
	if err := answerStep(t, s, id, "ask", nested(15, 0), ""); !workflow.Is(err, workflow.CodeInvalid) || !strings.Contains(err.Error(), "input: it is nested more than 14 deep") {
		t.Errorf("a deep answer: %v", err)
	}
	if err := answerStep(t, s, id, "ask", nested(14, 0), ""); err != nil {
		t.Errorf("an answer at the limit: %v", err)
	}
	if _, err := s.Engine.Signal(t.Context(), harness.Caller, id, "go", []byte(nested(15, 0)), "deep", ""); !workflow.Is(err, workflow.CodeInvalid) {
		t.Errorf("a deep signal: %v", err)
	}
	sendSignal(t, s, id, "go", nested(14, 0), "flat")
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// The output of a child, and those of a set of children together, fail the step.
func TestOutputKey_LimitsTheDepthOfOutputs(t *testing.T) {
	for name, test := range map[string]struct {
		steps string
		depth int
		fails bool
	}{
		"a child at the limit":      {"- {label: down, workflowReference: {workflow: p/low:1, mode: dispatch}, outputKey: v}", 13, false},
		"a child":                   {"- {label: down, workflowReference: {workflow: p/low:1, mode: dispatch}, outputKey: v}", 14, true},
		"a child without outputKey": {"- {label: down, workflowReference: {workflow: p/low:1, mode: dispatch}}", 14, false},
		"children":                  {"- {label: down, foreach: {items: '${[1, 2]}'}, workflowReference: {workflow: p/low:1, mode: dispatch}, outputKey: v}", 13, true},
		"children at the limit":     {"- {label: down, foreach: {items: '${[1, 2]}'}, workflowReference: {workflow: p/low:1, mode: dispatch}, outputKey: v}", 11, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, 1)
			s.Script = func(c harness.BlockCall) *harness.Outcome {
				return &harness.Outcome{Result: []byte(nested(test.depth, 0))}
			}
			s.Publish("low", "steps:\n  - {label: a, functionBlock: p/pure:1, runOn: global}\noutput: {deep: '${a.result}'}\n")
			s.Publish("w", "steps:\n  "+test.steps+"\n")
			id := s.StartWith(harness.NewStartRequest("w"))
			settle(s)
			x := s.Load(id)
			if failed := x.Error != nil && x.Error.Code == workflow.FailureLimitDepth && x.Error.Step == "down" && x.Cause == workflow.CauseLimit; failed != test.fails || !failed && x.State != sm.ExecutionCompletedAck {
				t.Errorf("%s, %s: %+v", x.State, x.Cause, x.Error)
			}
		})
	}
}
