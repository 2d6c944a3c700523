package engine_test

import (
	"fmt"
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

const gather = `steps:
  - label: gather
    parallel:
      branches:
        - label: credit
          steps:
            - {label: score, functionBlock: p/once:1, runOn: global}
            - {label: rate, functionBlock: p/pure:1, runOn: global, parameters: {s: "${score.result.n}"}}
          result: {n: "${score.result.n}", rate: "${rate.result}"}
        - {label: stock, functionBlock: p/pure:1, runOn: global}
        - label: devices
          steps:
            - {label: touch, functionBlock: p/again:1, runOn: device}
            - {label: sum, set: {touched: "${size(touch.results)}"}}
      ALLOW
    outputKey: all.gathered
  - {label: use, functionBlock: p/pure:1, runOn: global, parameters: {all: "${vars.all.gathered}", stock: "${gather.branches.stock}", touched: "${vars.touched}", failed: "${gather.failed.map(f, f.branch)}"}}
`

func gatherScript(fail map[string]string) func(harness.BlockCall) *harness.Outcome {
	return func(c harness.BlockCall) *harness.Outcome {
		if code := fail[c.Step]; code != "" && c.Kind == workflow.JobExecute && (c.Entity == "" || c.Entity == "d001") {
			return &harness.Outcome{FailCode: code}
		}
		return &harness.Outcome{Result: map[string][]byte{
			"score": []byte(`{"n":5}`), "rate": []byte(`"A"`), "stock": []byte(`{"items":[1]}`), "touch": []byte(`1`),
		}[c.Step]}
	}
}

// R29: branches run concurrently, and their results are merged in the order of the file.
func TestParallel_MergesBranches(t *testing.T) {
	s, id, calls := flow(t, strings.Replace(gather, "ALLOW", "merge: {}", 1), "", gatherScript(nil))
	s.ExpectState(id, sm.ExecutionCompletedAck)
	want := `use {"all":{"d000":1,"d001":1,"d002":1,"items":[1],"n":5,"rate":"A"},"failed":[],"stock":{"items":[1]},"touched":3}`
	if len(calls) != 7 || calls[6] != want {
		t.Errorf("%v", strings.Join(calls, "\n"))
	}
	// Nothing of a branch waits for another: all first steps are called before any second one.
	if order := s.CallsOf(id); slices.Index(order, "rate EXECUTE") < slices.Index(order, "stock EXECUTE") {
		t.Errorf("%v", order)
	}
	x := s.Load(id)
	if len(x.Threads) != 0 {
		t.Errorf("threads remain: %+v", x.Threads)
	}
}

// R30: a branch that fails closes the others and fails the step, unless enough others may
// stand alone.
func TestParallel_BranchFails(t *testing.T) {
	s, id, calls := flow(t, strings.Replace(gather, "ALLOW", "allowPartial: false", 1), "", gatherScript(map[string]string{"rate": "NO"}))
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error.Code != "NO" || x.Error.Step != "rate" || !x.RolledBack {
		t.Errorf("%+v, rolled back %v", x.Error, x.RolledBack)
	}
	if slices.Contains(calls, "use") || !s.HasCalled(id, "score ROLLBACK") {
		t.Errorf("%v", s.CallsOf(id))
	}

	s, id, calls = flow(t, strings.Replace(gather, "ALLOW", "allowPartial: true\n      minimum: 2", 1), "", gatherScript(map[string]string{"rate": "NO"}))
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if last := calls[len(calls)-1]; last != `use {"all":{"d000":1,"d001":1,"d002":1,"items":[1]},"failed":["credit"],"stock":{"items":[1]},"touched":3}` {
		t.Errorf("%v", last)
	}
	if outcome := x.Outcome(); outcome != workflow.OutcomePartial {
		t.Errorf("outcome %s", outcome)
	}
	if failed := executionView(t, s, id).FailedSteps; len(failed) != 1 || failed[0].Step != "rate" || failed[0].Because != views.LeftBranch {
		t.Errorf("failed steps %+v", failed)
	}

	s, id, _ = flow(t, strings.Replace(gather, "ALLOW", "allowPartial: true\n      minimum: 2", 1), "", gatherScript(map[string]string{"rate": "NO", "stock": "NEITHER"}))
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error.Code != "NO" && x.Error.Code != "NEITHER" {
		t.Errorf("%+v", x.Error)
	}

	s = newHarness(t, 3) // a branch that hangs does not keep the failure of another back
	s.PoolQueue("nobody")
	s.RegisterBlock(workflow.Block{Name: "stuck", Pure: true, Pool: "nobody"})
	s.Publish("w", strings.NewReplacer("ALLOW", "merge: {}", "label: stock, functionBlock: p/pure", "label: stock, functionBlock: p/stuck").Replace(gather))
	s.Script = gatherScript(map[string]string{"rate": "NO"})
	id = s.Start("w", harness.DeviceIDs(3)...)
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error.Code != "NO" || x.EndedAt.Sub(x.StartedAt) > 5*time.Minute {
		t.Errorf("%+v after %s", x.Error, x.EndedAt.Sub(x.StartedAt))
	}

	// A handler in the branch, and one of the whole step.
	s, id, _ = flow(t, strings.Replace(strings.Replace(gather, "ALLOW", "merge: {}", 1), "parameters: {s: \"${score.result.n}\"}}", "onFailure: [{steps: [{label: instead, functionBlock: p/pure:1, runOn: global}]}]}", 1), "", gatherScript(map[string]string{"rate": "NO"}))
	if x := s.Load(id); x.State != sm.ExecutionFailedSafeAck || x.Error.Code != workflow.FailureParameters { // rate.result has no value
		t.Errorf("%s, %+v", x.State, x.Error)
	}
	s, id, calls = flow(t, strings.Replace(strings.Replace(gather, "ALLOW", "merge: {}", 1), "    outputKey: all.gathered\n", "    onFailure: end\n", 1), "", gatherScript(map[string]string{"stock": "NO"}))
	if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.StepRuns[0].Status != sm.StepCaseHandled || slices.ContainsFunc(calls, func(c string) bool { return strings.HasPrefix(c, "use") }) {
		t.Errorf("%s, %v", x.StepRuns[0].Status, calls)
	}
}

// Branches that hang are closed before the join: nothing of them appears after it.
func TestParallel_HungBranchIsClosed(t *testing.T) {
	for allow, want := range map[string]sm.ExecutionState{"allowPartial: true": sm.ExecutionCompletedAck, "merge: {}": sm.ExecutionFailedSafeAck} {
		s := newHarness(t, 3)
		s.PoolQueue("nobody")
		s.RegisterBlock(workflow.Block{Name: "stuck", Pure: true, Pool: "nobody"})
		s.Publish("w", strings.NewReplacer("ALLOW", allow, "    outputKey", "    stepTimeout: 10m\n    outputKey",
			"label: stock, functionBlock: p/pure", "label: stock, functionBlock: p/stuck", ` stock: "${gather.branches.stock}",`, "").Replace(gather))
		s.Script = gatherScript(nil)
		id := s.Start("w", harness.DeviceIDs(3)...)
		settle(s)
		x := s.ExpectState(id, want)
		if want == sm.ExecutionFailedSafeAck && x.Cause != workflow.CauseTimeout {
			t.Errorf("cause %s, %+v", x.Cause, x.Error)
		}
		if took := x.EndedAt.Sub(x.StartedAt); took < 10*time.Minute || took > 15*time.Minute {
			t.Errorf("%s: it took %s", allow, took)
		}
	}
}

// Two branches that change entities of one type are refused.
func TestParallel_RefusesBranchesOverOneType(t *testing.T) {
	s, id, calls := flow(t, `steps:
  - label: both
    parallel:
      branches:
        - {label: one, functionBlock: p/again:1, runOn: device}
        - {label: two, functionBlock: p/again:1, runOn: device}
`, "", nil)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error.Code != workflow.FailureParallelEntity || len(calls) > 0 {
		t.Errorf("%+v, %v", x.Error, calls)
	}
}

// More branches than may be open concurrently are refused before anything is executed, whichever of
// them would be faster.
func TestParallel_RefusesTooManyBranches(t *testing.T) {
	nested := func(outer, inner int) string {
		var b strings.Builder
		b.WriteString("steps:\n  - label: around\n    workflow:\n      steps:\n        - label: outer\n          parallel:\n            branches:\n")
		for i := range outer {
			fmt.Fprintf(&b, "              - {label: b%d, steps: [{label: s%d, functionBlock: p/pure:1, runOn: global}, {label: in%d, parallel: {branches: [", i, i, i)
			for k := range inner {
				fmt.Fprintf(&b, "{label: x%d_%d, functionBlock: p/pure:1, runOn: global},", i, k)
			}
			b.WriteString("]}}]}\n")
		}
		return b.String()
	}
	s, id, calls := flow(t, nested(3, 10), "", nil)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error.Code != workflow.FailureLimit || x.Error.Step != "outer" || len(calls) > 0 {
		t.Errorf("%+v, %v", x.Error, calls)
	}
	s, id, calls = flow(t, nested(4, 7), "", nil)
	if s.ExpectState(id, sm.ExecutionCompletedAck); len(calls) != 4+28 {
		t.Errorf("%d calls, want 32", len(calls))
	}
}

// Updates that branches ask for are written in the order of the definition, whichever branch was
// quicker.
func TestParallel_UpdatesInTheOrderOfTheDefinition(t *testing.T) {
	for _, slow := range []string{"l", "r"} {
		s, id, _ := flow(t, strings.Replace(`steps:
  - label: both
    parallel:
      branches:
        - {label: left, steps: [{label: l0, functionBlock: p/pure:1, runOn: global}, {label: l, functionBlock: p/pure:1, runOn: device}]}
        - {label: right, steps: [{label: r0, functionBlock: p/pure:1, runOn: global}, {label: r, functionBlock: p/pure:1, runOn: device}]}
`, "{label: "+slow+"0, functionBlock: p/pure:1, runOn: global}, ", "", 1), "", func(c harness.BlockCall) *harness.Outcome {
			if c.Entity != "" {
				return &harness.Outcome{SetAttributes: map[string]any{"by": c.Step}}
			}
			return nil
		})
		s.ExpectState(id, sm.ExecutionCompletedAck)
		d000 := workflow.EntityKey{Type: "device", ID: "d000"}
		entities, err := s.Open().Registry.Entities(t.Context(), harness.Caller.Tenant, []workflow.EntityKey{d000}, true)
		if err != nil || !strings.Contains(string(entities[d000].Attributes), `"by":"r"`) {
			t.Errorf("without %s0: %s, %v", slow, entities[d000].Attributes, err)
		}
	}
}

// A branch with an unknown outcome of a job is not tolerated, whatever the cause.
func TestParallel_DoubtByTimeout(t *testing.T) {
	for name, o := range map[string]harness.Outcome{"crash": {Crash: true}, "timeout": {FailCode: workflow.FailureTimeout}, "failure": {FailCode: "NO"}} {
		for kind, step := range map[string]string{
			"foreach": `{label: f, functionBlock: p/once:1, runOn: item, foreach: {items: "${[1, 2]}", failureTolerance: 100%}, parameters: {n: "${item}"}}`,
			"global":  `{label: f, functionBlock: p/once:1, runOn: global, parameters: {n: 2}}`,
		} {
			s, id, _ := flow(t, `steps:
  - label: all
    parallel:
      allowPartial: true
      branches:
        - {label: a, steps: [`+step+`]}
        - {label: b, steps: [{label: ok, functionBlock: p/pure:1, runOn: global}]}
`, "", func(c harness.BlockCall) *harness.Outcome {
				if c.Step == "f" && strings.Contains(string(c.Parameters), "2") {
					return &o
				}
				return nil
			})
			want := sm.ExecutionFailedUnsafe
			if name == "failure" {
				want = sm.ExecutionCompletedAck
			}
			if x := s.Load(id); x.State != want {
				t.Errorf("%s, %s: %s, %+v", kind, name, x.State, x.Error)
			}
		}
	}
}

// A cancel ends all branches, a retry executes them again, and handlers may crash anywhere.
func TestParallel_CrashesCancelAndRetry(t *testing.T) {
	for n := range 60 {
		s := newHarness(t, 3)
		s.Publish("w", strings.Replace(gather, "ALLOW", "merge: {}", 1))
		fail := map[string]string{}
		s.Script = gatherScript(fail)
		count := 0
		s.Faults = func(faults.Call) faults.Fault {
			if count++; count%60 == n {
				return []faults.Fault{faults.CrashBefore, faults.CrashAfter}[count/60%2]
			}
			return faults.None
		}
		if n%3 == 1 {
			fail["rate"] = "NO"
		}
		id := s.Start("w", harness.DeviceIDs(3)...)
		if n%3 == 2 {
			s.RunFor(time.Second)
			s.WithoutFaults(func() { _, _ = s.Engine.Cancel(t.Context(), harness.Caller, id, views.CancelRequest{Reason: "no"}) })
		}
		settle(s)
		if x := s.Load(id); n%3 == 1 {
			delete(fail, "rate")
			s.Faults = nil
			if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "mended"}); err != nil {
				t.Fatalf("%d: %s: %v", n, x.State, err)
			}
			settle(s)
		}
		x := s.Load(id)
		if n%3 < 2 && x.State != sm.ExecutionCompletedAck || len(x.Threads) > 0 {
			t.Errorf("%d: %s, %+v, %+v", n, x.State, x.Error, x.Threads)
		}
		for _, r := range x.StepRuns {
			if r.Open() {
				t.Errorf("%d: step run %s is open", n, r.Label)
			}
		}
	}
}

// Branches in branches.
func TestParallel_Nested(t *testing.T) {
	s, id, calls := flow(t, `steps:
  - label: outer
    parallel:
      branches:
        - label: left
          steps:
            - {label: mark, set: {left: 1}}
            - label: inner
              parallel:
                branches:
                  - {label: a, functionBlock: p/pure:1, runOn: global}
                  - {label: b, functionBlock: p/pure:1, runOn: global}
            - {label: then, functionBlock: p/pure:1, runOn: global, parameters: {x: "${inner.result}"}}
        - label: right
          steps:
            - {label: one, set: {right.n: 1}}
            - {label: two, switch: [{when: vars.right.n < 3, next: more}, {default: three}]}
            - {label: more, set: {right.n: "${vars.right.n + 1}"}, next: two}
            - {label: three, functionBlock: p/pure:1, runOn: global, parameters: {n: "${vars.right.n}", left: "${has(vars.left)}"}}
  - {label: last, functionBlock: p/pure:1, runOn: global, parameters: {r: "${outer.result}", n: "${vars.right.n}"}}
`, "", func(c harness.BlockCall) *harness.Outcome {
		return &harness.Outcome{Result: []byte(`{"` + c.Step + `":1}`)}
	})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	for _, want := range []string{`then {"x":{"a":1,"b":1}}`, `three {"left":false,"n":3}`, `last {"n":3,"r":{"then":1,"three":1}}`} {
		if !slices.Contains(calls, want) {
			t.Errorf("%s is not called: %v", want, calls)
		}
	}
}

// The output of a branch that ends in branches of its own is their merged output.
func TestParallel_InnerBranchesGiveOneResult(t *testing.T) {
	s, id, calls := flow(t, `steps:
  - label: outer
    parallel:
      branches:
        - label: left
          steps:
            - label: inner
              parallel: {branches: [{label: a, functionBlock: p/pure:1, runOn: global}, {label: b, functionBlock: p/pure:1, runOn: global}]}
  - {label: last, functionBlock: p/pure:1, runOn: global, parameters: {r: "${outer.result}"}}
`, "", func(c harness.BlockCall) *harness.Outcome {
		return &harness.Outcome{Result: []byte(`{"` + c.Step + `":1}`)}
	})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if last := calls[len(calls)-1]; last != `last {"r":{"a":1,"b":1}}` {
		t.Errorf("%v", calls)
	}
}

// A closed branch makes the outcome PARTIAL. Entities on which nothing was executed in it take part
// in later steps, whatever these read.
func TestParallel_ClosedBranchIsTold(t *testing.T) {
	for _, reads := range []string{"", `, parameters: {n: "${size(touch.results)}"}`} {
		s := newHarness(t, 3)
		s.PoolQueue("nobody")
		s.RegisterBlock(workflow.Block{Name: "stuck", Pure: true, Pool: "nobody"})
		s.Publish("w", `steps:
  - label: gather
    stepTimeout: 10m
    parallel:
      allowPartial: true
      branches:
        - {label: quick, functionBlock: p/pure:1, runOn: global}
        - {label: touch, functionBlock: p/stuck:1, runOn: device}
  - {label: later, functionBlock: p/pure:1, runOn: device`+reads+`}
`)
		id := s.Start("w", harness.DeviceIDs(3)...)
		settle(s)
		x := s.ExpectState(id, sm.ExecutionCompletedAck)
		if outcome := x.Outcome(); outcome != workflow.OutcomePartial || len(s.CallsOf(id)) != 4 {
			t.Errorf("%q: outcome %s, %v", reads, outcome, s.CallsOf(id))
		}
	}
}

// A retry begins with all branches. If that would repeat work that can neither be repeated nor
// undone, the operator has to ask for it. Branches that a completed step left behind are not begun
// again.
func TestParallel_RetryRepeatsNothingUnasked(t *testing.T) {
	fail := map[string]bool{"bad": true, "last": true}
	s, id, _ := flow(t, `steps:
  - label: gather
    parallel: {branches: [{label: good, functionBlock: p/forever:1, runOn: global}, {label: bad, functionBlock: p/pure:1, runOn: global}]}
  - {label: last, functionBlock: p/pure:1, runOn: global}
`, "", func(c harness.BlockCall) *harness.Outcome {
		if fail[c.Step] {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	})
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "all", Entities: views.RetryAll}); err == nil || !strings.Contains(err.Error(), `"good"`) {
		t.Errorf("a retry repeats what was done: %v", err)
	}
	fail["bad"] = false
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "mended"}); err != nil {
		t.Error(err)
	}
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedUnsafe); x.Error.Step != "last" || executed(s, id, "good") != 1 {
		t.Errorf("%+v, %v", x.Error, s.CallsOf(id))
	}
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "checked", From: "gather"}); err != nil {
		t.Error(err)
	}
	settle(s)
	if executed(s, id, "good") != 2 {
		t.Errorf("what somebody asks for is not executed again: %v", s.CallsOf(id))
	}

	fail = map[string]bool{"bad": true, "last": true}
	s, id, _ = flow(t, `steps:
  - label: gather
    parallel: {allowPartial: true, branches: [{label: good, functionBlock: p/forever:1, runOn: global}, {label: bad, functionBlock: p/pure:1, runOn: global}]}
  - {label: last, functionBlock: p/pure:1, runOn: global}
`, "", func(c harness.BlockCall) *harness.Outcome {
		if fail[c.Step] {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	})
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	fail["last"] = false
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "mended"}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if calls := strings.Join(s.CallsOf(id), "|"); strings.Count(calls, "good EXECUTE") != 1 {
		t.Errorf("%s", calls)
	}
}

// A branch that may fail may not leave a doubt: a worker that stopped in an irreversible call.
func TestParallel_DoubtIsNotTolerated(t *testing.T) {
	s, id, _ := flow(t, `steps:
  - label: gather
    parallel: {allowPartial: true, branches: [{label: quick, functionBlock: p/pure:1, runOn: global}, {label: pay, functionBlock: p/forever:1, runOn: global}]}
`, "", func(c harness.BlockCall) *harness.Outcome { return &harness.Outcome{Crash: c.Step == "pay"} })
	if x := s.ExpectState(id, sm.ExecutionFailedUnsafe); x.Cause != workflow.CauseWorkerCrash {
		t.Errorf("cause %s, %+v", x.Cause, x.Error)
	}
}

// Whoever fails in a branch takes part in what follows, if a step around the branches handles the
// failure.
func TestParallel_OuterStepHandlesTheFailureOfABranch(t *testing.T) {
	branches := "{label: a, parallel: {branches: [{label: x, steps: [{label: b, functionBlock: p/pure:1, runOn: device}]}, {label: y, steps: [{label: c, functionBlock: p/pure:1, runOn: global}]}]}}"
	for name, test := range map[string]struct{ outer, handler string }{
		"workflow handles":   {"", "onFailure: [{steps: [{label: h, functionBlock: p/again:1, runOn: device}]}]"},
		"loop handles":       {"loop: {over: '${[1]}'}, ", "onFailure: [{steps: [{label: h, functionBlock: p/again:1, runOn: device}]}]"},
		"workflow continues": {"", "continueOnError: true"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, 1)
			s.Script = func(c harness.BlockCall) *harness.Outcome {
				if c.Step == "b" {
					return &harness.Outcome{FailCode: "REFUSED"}
				}
				return nil
			}
			s.Publish("w", fmt.Sprintf("steps:\n  - {label: l, %sworkflow: {steps: [%s]}, %s}\n  - {label: z, functionBlock: p/again:1, runOn: device}\n", test.outer, branches, test.handler))
			id := s.Start("w", "d000")
			s.RunUntilIdle(time.Hour)
			s.ExpectState(id, sm.ExecutionCompletedAck)
			for _, call := range []string{"h EXECUTE d000", "z EXECUTE d000"} {
				if want := call[0] == 'z' || strings.HasPrefix(test.handler, "onFailure"); s.HasCalled(id, call) != want {
					t.Errorf("%s: %t, want %t: %v", call, !want, want, s.CallsOf(id))
				}
			}
			s.CheckInvariants()
		})
	}
}
